"""What the rules have in common: their tables, what they allow, and the form of their answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row: TypeAlias = dict[str, Any]
Tables: TypeAlias = Mapping[str, Sequence[Row]]

APPEND_MS: Final = 250
"""What a takeover may take beyond the session for an append and its read-back. The log can't tell how long they took, so
this is an assumption, and the verdict names it."""
RESOLUTION_MS: Final = 1
"""Readings are whole milliseconds: two of them can be this much too near or too far."""
SLACK_MS: Final = 20
"""What an overlap may exceed the one asked for, in non-exclusive groups: timers and schedulers are not exact."""
KNOWN_FAULTS: Final = ("crash", "freeze", "thaw", "cut", "join", "drain", "leave")


@dataclass(frozen=True, slots=True)
class Allowed:
    """What is held against nobody, in milliseconds. Shown with each audit."""

    error_ms: int = 0
    """How far members' clocks may be off."""
    slack_ms: int = SLACK_MS
    resolution_ms: int = RESOLUTION_MS
    append_ms: int = APPEND_MS

    def literals(self) -> dict[str, Any]:
        """For the SQL."""
        return {name.removesuffix("_ms"): value for name, value in asdict(self).items()}


@cache
def text(name: str) -> str:
    """The SQL of a rule (`queries/late`, `sink/late`) or a view (`views/pauses`)."""
    return resources.files("pares.spark.rules").joinpath(f"{name}.sql").read_text(encoding="utf-8")


def view(spark: SparkSession, sql: str, frames: Mapping[str, DataFrame], **literals: Any) -> DataFrame:
    """The frame that `sql` makes of those of `frames` and `literals` that it names."""
    named: dict[str, Any] = {name: frames[name] for name in frames if name not in literals and f"{{{name}}}" in sql}
    return spark.sql(sql, **named, **{name: value for name, value in literals.items() if f"{{{name}}}" in sql})


def violation(
    row: Row,
    verdict: bool | str,
    *,
    tokens: tuple[Any, Any] = (None, None),
    members: tuple[Any, Any] = (None, None),
    span: tuple[Any, Any],
    offsets: Iterable[Any] = (),
    evidence: str,
    seat: bool = True,
) -> Row:
    """A violation as the oracles say it."""
    return {
        "g": row["g"],
        "verdict": verdict if isinstance(verdict, str) else "certain" if verdict else "possible",
        "role": row["role"] if seat else None,
        "seat": row["seat"] if seat else None,
        "token_a": tokens[0],
        "token_b": tokens[1],
        "member_a": members[0],
        "member_b": members[1],
        "from_ms": span[0],
        "to_ms": span[1],
        "offsets": list(offsets),
        "evidence": evidence,
    }


def by(rows: Iterable[Row], *names: str) -> dict[Any, list[Row]]:
    """The rows by the values of these columns."""
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in names), []).append(row)
    return found


def least(*values: int | None) -> int | None:
    """As SQL has it: of those that are known."""
    return min((value for value in values if value is not None), default=None)


def greatest(*values: int | None) -> int | None:
    """As SQL has it: of those that are known."""
    return max((value for value in values if value is not None), default=None)
