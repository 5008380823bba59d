"""What the log decided, as rows: the kernel's own fold, run over one partition of the log in order.

Rule: there is one fold. Whether a record counts, and whether its effect stands, depends on records before it, so this part
of the audit can't be a query; and a second implementation would sooner or later judge the kernel by rules of its own. So
the audit feeds the kernel's `Reader` and writes down what comes out, once, as rows that carry seat and token. Everything
after that is SQL, where a term is a plain GROUP BY (role, seat, token).

Order decides (R1): the rows of one log partition must reach the fold in the order of their offsets. One log partition is
one Spark partition here, and nothing between reading and folding shuffles. [a repartition would fold another history]

Timestamps do not take part in the fold. They go along for the second verdict: where a term was lost without a word of its
holder, the time of that holder's last counted record (its last sign of life) bounds how long it can have believed.

A log whose start is not its origin is entered through its *oldest* usable snapshot, because an audit wants all history that
is left; a member, which only wants the present, looks for the newest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from pares.core.wire.changes import (
    Began,
    Change,
    DidChanged,
    MemberJoined,
    MemberLeft,
    PauseChanged,
    RoleChanged,
    SeatChanged,
)
from pares.core.wire.reader import Reader, State
from pares.core.wire.records import AnyRecord, BadRecord, Beat, Unknown, decode
from pares.core.wire.states import MemberState
from pares.spark.facts.base import ADMINISTRATOR, SCHEMA, Fact, batches

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

KEPT_PAYLOAD: Final = 200
"""How much of a record that can't be read is kept, in bytes."""
EntryLike = tuple[int, int, bytes]


class History:
    """Turns the entries of one partition into the facts of one group. A function of the entries alone.

    `feed` takes them in order, in portions of any size; `finish` says what is known only at the end.
    """

    def __init__(self, group: str, start: int = 0) -> None:
        self.reader = Reader(group)
        self._group = group
        self._start = start
        self._begin()
        self._settled = start == 0
        self._waiting: list[EntryLike] = []
        self._bad: dict[int, Fact] = {}

    def _begin(self) -> None:
        # With nothing in the log yet, a reader neither searches for the newest snapshot nor skips anything.
        self.reader.attach(self._start, self._start)
        self.reader.feed([])
        self._forget()

    def _forget(self) -> None:
        self._facts: list[Fact] = []
        self._signs: dict[str, tuple[int, int]] = {}
        self._open: dict[str, set[int]] = {}
        self._first: tuple[int, int] | None = None
        self._last: tuple[int, int] | None = None
        self._floor = 0

    def feed(self, entries: Iterable[EntryLike]) -> list[Fact]:
        """The facts that follow from `entries`, which come right after those fed before."""
        entries = list(entries)
        if self._settled:
            self._fold(entries)
        else:
            self._enter(entries)
            if not self._settled:
                return []
        return self._drain()

    def finish(self) -> list[Fact]:
        """What can be said only at the end of the log; nothing is fed afterwards."""
        if self.reader.state is not State.FOLDING:
            return [*self._bad.values(), Fact("adrift", self._start)]
        for member, (offset, at_ms) in self._signs.items():
            self._facts.append(Fact("seen", offset, member=member, clock_ms=at_ms))
        if self._first is not None and self._last is not None:
            self._facts.append(Fact("first", *self._first, token=self._floor))
            self._facts.append(Fact("last", *self._last))
        self._facts.extend(Fact("defect", d.offset, other=d.author) for d in self.reader.defects)
        if self.reader.too_new:
            self._facts.append(Fact("newer", self.reader.position, cause=self.reader.upgrade))
        return self._drain()

    def _drain(self) -> list[Fact]:
        facts = [*self._bad.values(), *self._facts]
        self._bad, self._facts = {}, []
        return facts

    # Entering a log that does not begin at its origin ----------------------------------------------------------------

    def _enter(self, entries: list[EntryLike]) -> None:
        """Feeds one entry at a time until the reader stands on sound ground: it may go back, to where a snapshot ends."""
        reader, at = self.reader, len(self._waiting)
        self._waiting.extend(entries)
        while at < len(self._waiting):
            entry = self._waiting[at]
            record = self._read(entry)
            if record is None or record.g != self._group:
                at += 1
                continue
            was = reader.state
            self._note(reader.feed([entry]), entry[1], record.m)
            if reader.position > entry[0]:
                at += 1
                self._sign(entry, record.m)
            elif reader.state is State.FOLDING:
                self._loaded()
                at = self._index(reader.position)
            else:
                if was is State.FOLDING:
                    # The snapshot by which it had entered turned out to be nobody's.
                    self._forget()
                at = self._index(reader.position)
            if reader.entered:
                self._settled = True
                rest, self._waiting = self._waiting[at:], []
                self._fold(rest)
                return

    def _index(self, offset: int) -> int:
        return next((i for i, entry in enumerate(self._waiting) if entry[0] >= offset), len(self._waiting))

    def _loaded(self) -> None:
        """The facts that a snapshot stands for: who was there, and who held what since when."""
        world = self.reader.world
        times = {offset: at_ms for offset, at_ms, _ in self._waiting}
        self._forget()
        self._floor = world.base + self.reader.position
        for member in world.members.values():
            self._joined(member, times.get(member.joined))
            at_ms = times.get(member.offset)
            if at_ms is not None:
                self._signs[member.id] = (member.offset, at_ms)
        for seat in world.seats.values():
            self._open.setdefault(seat.role, set()).add(seat.index)
            self._facts.append(Fact("opened", role=seat.role, seat=seat.index))
            if seat.holder is not None:
                offset = seat.token - world.base
                self._facts.append(
                    Fact(
                        "gained",
                        offset,
                        times.get(offset),
                        seat.role,
                        seat.index,
                        seat.token,
                        seat.holder,
                        seat.holder,
                        cause="snapshot",
                    )
                )

    # Folding ---------------------------------------------------------------------------------------------------------

    def _fold(self, entries: Sequence[EntryLike]) -> None:
        """Beats change no seat, so a run of them is fed at once; every other record by itself, to know who did what."""
        reader, run = self.reader, list[tuple[EntryLike, str]]()
        for entry in entries:
            record = self._read(entry)
            if record is None or record.g != self._group:
                continue
            if type(record) is Beat:
                run.append((entry, record.m))
                continue
            self._fold_beats(run)
            run.clear()
            self._note(reader.feed([entry]), entry[1], record.m)
            self._sign(entry, record.m)
        self._fold_beats(run)

    def _fold_beats(self, run: list[tuple[EntryLike, str]]) -> None:
        if not run:
            return
        self._note(self.reader.feed([entry for entry, _ in run]), run[-1][0][1])
        for entry, member in run:
            self._sign(entry, member)

    def _sign(self, entry: EntryLike, sender: str) -> None:
        """Remembers the sender's last sign of life, and where the group's records begin and end."""
        world = self.reader.world
        state = world.members.get(sender)
        if state is not None and state.offset == entry[0]:
            self._signs[sender] = (entry[0], entry[1])
        if world.last == entry[0] or (state is not None and state.offset == entry[0]):
            self._first = self._first or (entry[0], entry[1])
            self._last = (entry[0], entry[1])

    def _read(self, entry: EntryLike) -> AnyRecord | Unknown | None:
        try:
            return decode(entry[2])
        except BadRecord as bad:
            payload = bytes(entry[2][:KEPT_PAYLOAD])
            self._bad[entry[0]] = Fact("bad", entry[0], entry[1], cause=bad.reason, payload=payload)
            return None

    def _note(self, changes: Iterable[Change], at_ms: int, sender: str = "") -> None:
        for change in changes:
            self._change(change, at_ms, sender)

    def _change(self, change: Change, at_ms: int, sender: str) -> None:
        add = self._facts.append
        match change:
            case SeatChanged():
                self._seat(change, at_ms, sender)
            case DidChanged(offset=offset, seat=(role, seat)):
                if change.what in ("lead", "stop"):
                    add(
                        Fact(
                            change.what,
                            offset,
                            at_ms,
                            role,
                            seat,
                            change.token,
                            change.member,
                            change.member,
                            change.at,
                            why=change.why,
                        )
                    )
            case MemberJoined():
                self._joined(self.reader.world.members[change.member], at_ms)
            case MemberLeft():
                add(Fact("gone", change.offset, at_ms, member=change.member, name=change.name, cause=change.cause))
            case RoleChanged():
                self._role(change.role, change.offset, at_ms)
            case PauseChanged():
                add(Fact("paused" if change.on else "resumed", change.offset, at_ms, change.scope, other=change.by))
            case Began():
                for role in list(self._open):
                    self._role(role, change.offset, at_ms)

    def _seat(self, change: SeatChanged, at_ms: int, sender: str) -> None:
        role, seat = change.seat
        if change.before is not None:
            # What a holder gives up itself is its last sign of life; the record is not yet in `_signs`.
            sign = at_ms if change.before == sender else self._signs.get(change.before, (0, None))[1]
            self._facts.append(
                Fact(
                    "lost",
                    change.offset,
                    at_ms,
                    role,
                    seat,
                    change.before_token,
                    change.before,
                    change.by,
                    sign,
                    change.cause,
                    change.why,
                    name=change.holder,
                )
            )
        if change.holder is not None:
            self._facts.append(
                Fact(
                    "gained",
                    change.offset,
                    at_ms,
                    role,
                    seat,
                    change.token,
                    change.holder,
                    change.by,
                    cause=change.cause,
                    why=change.why,
                )
            )
        if change.seat not in self.reader.world.seats:
            self._role(role, change.offset, at_ms)

    def _joined(self, member: MemberState, at_ms: int | None) -> None:
        self._facts.append(
            Fact(
                "member",
                member.joined,
                at_ms,
                member=member.id,
                name=member.name,
                host=member.host,
                session_ms=member.session_ms,
                drift=member.drift,
                overlap_ms=member.overlap_ms,
                cause=ADMINISTRATOR if member.administrator else None,
            )
        )

    def _role(self, role: str, offset: int, at_ms: int) -> None:
        """Which seats the role has now, against those it had."""
        world = self.reader.world
        known = self._open.setdefault(role, set())
        state = world.roles.get(role)
        reach = range(max(state.seats if state is not None else 0, max(known, default=-1) + 1))
        now = {index for index in reach if (role, index) in world.seats}
        for index in sorted(now - known):
            self._facts.append(Fact("opened", offset, at_ms, role, index))
        for index in sorted(known - now):
            self._facts.append(Fact("shut", offset, at_ms, role, index))
        self._open[role] = now


def history(group: str, entries: Iterable[EntryLike], start: int = 0) -> list[Fact]:
    """All facts of `entries`, which begin at `start`, in plain Python: what Spark runs, without Spark."""
    folding = History(group, start)
    return [*folding.feed(entries), *folding.finish()]


def facts(log: DataFrame, group: str, start: int) -> DataFrame:
    """The facts of one group, from the rows (offset, timestamp_ms, payload) of *one* log partition in order.

    `log` must be one Spark partition, as the source `pares` makes it unless told to split. Runs where the data is, without
    a shuffle, with one world in memory.
    """

    def run(entries: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        folding = History(group, start)
        for batch in entries:
            columns = [batch.column(i).to_pylist() for i in range(3)]
            yield from batches(folding.feed(zip(*columns, strict=True)))
        yield from batches(folding.finish())

    return log.select("offset", "timestamp_ms", "payload").mapInArrow(run, SCHEMA)  # type: ignore[arg-type]
