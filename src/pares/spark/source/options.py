"""What a read of the source `pares` is told: its options, checked once, in one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, get_args

from pares.core.errors import ConfigError

Table: TypeAlias = Literal["entries", "records", "facts"]
OnLoss: TypeAlias = Literal["error", "mark"]

TABLES: Final = get_args(Table)
_CLIENT: Final = "kafka."
_KNOWN: Final = (
    *("url", "path", "table", "partition", "partitions", "groups", "start", "end", "splits", "envelope", "pushdown"),
    *("identity", "onloss", "maxrecordspertrigger", "state", "ends", "clockerrorms"),
)


@dataclass(frozen=True)
class Options:
    """See `LedgerSource`."""

    url: str
    client: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    table: Table = "entries"
    envelope: bool = True
    partitions: tuple[int, ...] | None = None
    """None: the default of the table."""
    everywhere: bool = False
    """All partitions, also those that come to be later."""
    groups: frozenset[str] | None = None
    start: tuple[int, ...] = ()
    end: tuple[int, ...] = ()
    splits: int = 1
    identity: str | None = None
    on_loss: OnLoss = "error"
    pushdown: bool = False
    most: int | None = None
    state: str | None = None
    ends: bool = True
    error_ms: int = 0

    @property
    def marks(self) -> bool:
        """Whether what is lost becomes rows."""
        return self.on_loss == "mark"

    def numbers(self, partitions: int, named: int) -> list[int]:
        """The partitions to be read, of a log that has so many, by a URL that names one."""
        if self.everywhere:
            return list(range(partitions))
        return [named] if self.partitions is None else list(self.partitions)

    def bound(self, bounds: tuple[int, ...], place: int) -> int | None:
        """The offset that was given for the partition at that place: one for all, or each its own."""
        return bounds[min(place, len(bounds) - 1)] if bounds else None


def options(given: Mapping[str, str], *, pushdown: bool = False) -> Options:
    """The options of a read. `pushdown`: what holds if they don't say. Raises `ConfigError`."""
    told = {name.lower(): text for name, text in given.items()}
    url = told.get("url") or told.get("path")
    if not url:
        raise ConfigError("the source pares needs the ledger's URL: .option('url', 'sqlite:///work.db')")
    strange = [name for name in told if name not in _KNOWN and not name.startswith(_CLIENT)]
    if strange:
        raise ConfigError(f"the source pares has no option {', '.join(sorted(strange))}: it has {', '.join(_KNOWN)}")
    table: Table = _one_of(told, "table", TABLES)  # type: ignore[assignment]
    everywhere, partitions = _partitions(told, table)
    groups = [name for name in told.get("groups", "").split(",") if name]
    made = Options(
        url=url,
        client={name.removeprefix(_CLIENT): text for name, text in told.items() if name.startswith(_CLIENT)},
        table=table,
        envelope=_flag(told, "envelope", default=True),
        partitions=partitions,
        everywhere=everywhere,
        groups=frozenset(groups) if groups else None,
        start=_numbers(told, "start"),
        end=_numbers(told, "end"),
        splits=_number(told, "splits") or 1,
        identity=told.get("identity"),
        on_loss=_one_of(told, "onloss", get_args(OnLoss)),  # type: ignore[arg-type]
        pushdown=_flag(told, "pushdown", default=pushdown),
        most=_number(told, "maxrecordspertrigger"),
        state=told.get("state"),
        ends=_flag(told, "ends", default=True),
        error_ms=_number(told, "clockerrorms") or 0,
    )
    if table == "facts" and made.splits > 1:
        raise ConfigError(f"splits={made.splits} with table=facts: a fold goes through a log partition in order")
    if made.most == 0:
        raise ConfigError("maxRecordsPerTrigger=0 would never read anything: give 1 or more, or leave it out")
    return made


def _partitions(told: Mapping[str, str], table: Table) -> tuple[bool, tuple[int, ...] | None]:
    text = told.get("partitions", told.get("partition"))
    if text is None:
        # Entries are those of the partition that the URL names; a table is of all.
        return table != "entries", None
    if text == "all":
        return True, None
    return False, tuple(_number({"partitions": one}, "partitions") or 0 for one in text.split(","))


def _one_of(told: Mapping[str, str], name: str, known: tuple[str, ...]) -> str:
    value = told.get(name, known[0])
    if value not in known:
        raise ConfigError(f"{name}={value!r}: give one of {', '.join(known)}")
    return value


def _flag(told: Mapping[str, str], name: str, *, default: bool) -> bool:
    return told.get(name, str(default)).lower() == "true"


def _numbers(told: Mapping[str, str], name: str) -> tuple[int, ...]:
    return tuple(_number({name: text}, name) or 0 for text in told[name].split(",")) if name in told else ()


def _number(told: Mapping[str, str], name: str) -> int | None:
    value = told.get(name)
    if value is None:
        return None
    if not value.isdigit():
        raise ConfigError(f"{name}={value!r} is no offset or number: give a whole number of 0 or more")
    return int(value)
