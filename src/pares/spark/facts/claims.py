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

from collections import deque
from collections.abc import Iterable, Sequence
from typing import ClassVar, Final

from pares.core.wire.changes import DidChanged
from pares.core.wire.reader import Reader, State
from pares.core.wire.records import AnyRecord, BadRecord, Beat, Did, Unknown, decode
from pares.spark.facts.base import COPIES, SIGNS, EntryLike, Fact
from pares.spark.facts.raw import raw
from pares.spark.facts.rows import Beats
from pares.spark.facts.telling import Telling

KEPT_PAYLOAD: Final = 200
"""How much of a record that can't be read is kept, in bytes."""
WAITING: Final = 50_000
"""Entries of the group that are kept while a log without a beginning is searched for its first snapshot: a reader goes back to
where the snapshot was taken, and never much further than its group writes between two."""
UNCOUNTED: Final = "uncounted"
STEP_MS: Final = 100
"""From this on a stamp that goes back is told of by itself; by how much stamps went back is known in any case."""
STEPS: Final = 1000
"""As many steps are told of one by one."""


class History(Telling):
    """Turns the entries of one partition into the facts of one group. A function of the entries alone.

    `feed` takes them in order, in portions of any size; `finish` says what is known only at the end.
    """

    reads: ClassVar[type[Reader]] = Reader

    def __init__(self, group: str, start: int = 0, error_ms: int = 0) -> None:
        self.reader = self.reads(group, lasting=True)
        self._group = group
        self._start = start
        self._error_ms = error_ms
        """How far members' clocks may be off the log's."""
        self._begin()
        self._settled = start == 0
        self._waiting: list[EntryLike] = []
        self._cut = -1
        """The newest entry that was waiting and is kept no longer."""
        self._bad: dict[int, Fact] = {}
        self._top: int | None = None
        self._dropped, self._steps = 0, 0

    def _begin(self) -> None:
        # With nothing in the log yet, a reader neither searches for the newest snapshot nor skips anything.
        self.reader.attach(self._start, self._start)
        self.reader.feed([])
        self._forget()

    def _forget(self) -> None:
        self._facts = []
        self._signs, self._lately, self._dids = {}, {}, {}
        self._past, self._open = deque(), {}
        self._first: tuple[int, int] | None = None
        self._last: tuple[int, int] | None = None
        self._floor = 0

    @property
    def settled(self) -> bool:
        """Whether the fold stands on sound ground: on the log's origin, or on a snapshot that has proven right."""
        return self._settled

    @property
    def steps(self) -> int:
        """Of how many stamps that went back it has told."""
        return self._steps

    def feed(self, entries: Iterable[EntryLike]) -> list[Fact]:
        """The facts that follow from `entries`, which come right after those fed before."""
        known = [(entry, record) for entry in entries if (record := self._ours(entry)) is not None]
        return self.take([entry for entry, _ in known], [record for _, record in known])

    def take(
        self, entries: list[EntryLike], records: Sequence[AnyRecord | Unknown], beats: Beats | None = None
    ) -> list[Fact]:
        """The same of entries that are the group's, with what they say. `beats`: what takes the rows of beats, of which there
        are more than of all else, instead of the facts."""
        if self._settled:
            self._fold(entries, records, beats)
        else:
            self._enter(entries)
            if not self._settled:
                return []
        return self._drain()

    def finish(self) -> list[Fact]:
        """What can be said only at the end of the log, as it is now. Once it is `settled`, feeding may go on afterwards."""
        if self.reader.state is not State.FOLDING:
            return [*self._bad.values(), Fact("adrift", self._start)]
        for member, (offset, at_ms) in self._signs.items():
            self._facts.append(Fact("seen", offset, member=member, clock_ms=at_ms))
        if self._first is not None and self._last is not None:
            self._facts.append(Fact("first", *self._first, token=self._floor))
            self._facts.append(Fact("last", *self._last, sign_ms=self._dropped))
        self._facts.extend(Fact("defect", d.offset, other=d.author) for d in self.reader.defects)
        if self.reader.too_new:
            self._facts.append(Fact("newer", self.reader.position, cause=self.reader.upgrade))
        return self._drain()

    def tidy(self) -> None:
        """Brings its state to one form, however it was folded: from the log's beginning or from a snapshot, at once or in
        ranges. What it tells from here on stays the same."""
        if self._settled and self.reader.entered:
            self.reader = self.reader.tidied()
            self._open = {role: seats for role, seats in sorted(self._open.items()) if seats}

    def _drain(self) -> list[Fact]:
        facts = [*self._bad.values(), *self._facts]
        self._bad, self._facts = {}, []
        return facts

    # Entering a log that does not begin at its origin ----------------------------------------------------------------

    def _enter(self, entries: list[EntryLike]) -> None:
        """Feeds one entry at a time until the reader stands on sound ground: it may go back, to where a snapshot ends."""
        reader = self.reader
        if len(self._waiting) > WAITING:
            self._cut = self._waiting[-WAITING - 1][0]
            del self._waiting[:-WAITING]
        at = len(self._waiting)
        self._waiting.extend(entries)
        while at < len(self._waiting):
            entry = self._waiting[at]
            record = self._ours(entry)
            assert record is not None
            was = reader.state
            self._note(reader.feed([entry]), entry[1], record.m)
            if reader.position > entry[0]:
                at += 1
                if reader.state is State.FOLDING:
                    self._passed(entry, record)
            elif reader.state is State.FOLDING:
                if self._cut >= reader.position:
                    # It was taken before all that is kept: a later one will do.
                    reader.attach(entry[0] + 1, entry[0] + 1)
                    reader.feed([])
                    at += 1
                    continue
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
                self._fold(rest, [record for entry in rest if (record := self._ours(entry)) is not None])
                return

    def _ours(self, entry: EntryLike) -> AnyRecord | Unknown | None:
        record = self._read(entry)
        return record if record is not None and record.g == self._group else None

    def _passed(self, entry: EntryLike, record: AnyRecord | Unknown) -> None:
        """What was folded by itself on the way in."""
        state = self.reader.world.members.get(record.m)
        counted = self.reader.world.last == entry[0] or (state is not None and state.offset == entry[0])
        self._stamped([entry])
        self._facts.append(raw(*entry, record, counted))
        if isinstance(record, Did):
            self._did(entry, record, counted)
        if counted:
            self._signs_of([entry], [record])

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

    def _fold(
        self, entries: Sequence[EntryLike], records: Sequence[AnyRecord | Unknown], beats: Beats | None = None
    ) -> None:
        """Beats change no seat, so a run of them is fed at once; every other record by itself, to know who did what."""
        if not entries:
            return
        stamps, begin = [entry[1] for entry in entries], 0
        even = (self._top is None or self._top <= stamps[0]) and stamps == sorted(stamps)
        others = [at for at, record in enumerate(records) if type(record) is not Beat]
        for at in (*others, len(entries)):
            if not even:
                self._stamped(entries[begin : at + 1])
            self._fold_beats(entries[begin:at], records[begin:at], beats)
            if at < len(entries):
                self._fold_other(entries[at], records[at])
            begin = at + 1
        if even:
            self._top = stamps[-1]

    def _fold_other(self, entry: EntryLike, record: AnyRecord | Unknown) -> None:
        before = self.reader.uncounted
        self._note(self.reader.feed([entry], [record]), entry[1], record.m)
        counted = self.reader.uncounted == before
        self._facts.append(raw(*entry, record, counted))
        if isinstance(record, Did):
            self._did(entry, record, counted)
        if counted:
            self._signs_of([entry], [record])

    def _fold_beats(
        self, entries: Sequence[EntryLike], records: Sequence[AnyRecord | Unknown], beats: Beats | None
    ) -> None:
        """Up to the next place at once. What happens at a place (members are forgotten) is told with the time of the beat
        there. [told with the time of a run's last beat, it would follow from how the log was cut into portions]"""
        begin = 0
        while begin < len(entries):
            world = self.reader.world
            end = begin + max(1, world.next_place() - world.count)
            self._fold_part(entries[begin:end], records[begin:end], beats)
            begin = end

    def _fold_part(
        self, entries: Sequence[EntryLike], records: Sequence[AnyRecord | Unknown], beats: Beats | None
    ) -> None:
        reader, world = self.reader, self.reader.world
        members, base, reads, before = world.members, world.base, world.reads, reader.uncounted
        if len(members) <= len(records):
            numbers = {id: member.n for id, member in members.items()}
        else:
            numbers = {beat.m: members[beat.m].n for beat in records if beat.m in members}
        self._note(reader.feed(entries, records), entries[-1][1])
        counts: list[bool | None] = [True] * len(entries)
        if reader.uncounted != before:
            for at, beat in enumerate(records):
                counts[at] = numbers.get(beat.m, beat.n) < beat.n and beat.b == base and beat.v <= reads
                if counts[at]:
                    numbers[beat.m] = beat.n
            if counts.count(False) != reader.uncounted - before:
                counts = [None] * len(entries)  # the fold was stricter with one of them, and does not say with which
        if beats is not None:
            beats.add_beats(self._group, entries, records, counts)
        else:
            self._facts += [raw(*e, beat, counted) for e, beat, counted in zip(entries, records, counts, strict=True)]
        if reader.uncounted == before:
            self._signs_of(entries, records)
            return
        for entry, beat, counted in zip(entries, records, counts, strict=True):
            state = world.members.get(beat.m)
            if counted or (counted is None and state is not None and state.offset == entry[0]):
                self._signs_of([entry], [beat])

    def _stamped(self, entries: Sequence[EntryLike]) -> None:
        """Notes the stamps that go back."""
        for entry in entries:
            if self._top is None or entry[1] > self._top:
                self._top = entry[1]
            elif entry[1] < self._top:
                self._back(entry, self._top)

    def _did(self, entry: EntryLike, record: Did, counted: bool) -> None:
        """What a member says of its belief is evidence also where it doesn't count (it may have been declared dead, or live in
        another world), but for late copies of what it has said before."""
        if not counted and record.what in ("lead", "stop") and self._new(record.m, record.n):
            told = DidChanged(entry[0], record.m, record.seat, record.token, record.what, record.at, record.why)
            self._told(told, entry[1], UNCOUNTED)
        self._dids.setdefault(record.m, deque(maxlen=COPIES)).append(record.n)

    def _back(self, entry: EntryLike, top: int) -> None:
        """Notes by how much stamps go back. What rests on stamps is known no better than that."""
        self._dropped = max(self._dropped, top - entry[1])
        if top - entry[1] >= STEP_MS and self._steps < STEPS:
            self._steps += 1
            self._facts.append(Fact("step", entry[0], entry[1], clock_ms=top))

    def _signs_of(self, entries: Sequence[EntryLike], records: Sequence[AnyRecord | Unknown]) -> None:
        """Remembers the senders' last signs of life, and where the group's records begin and end."""
        members, signs, lately = self.reader.world.members, self._signs, self._lately
        low = high = entries[0][1]
        for (offset, at_ms, _), record in zip(entries, records, strict=True):
            sender = record.m
            if at_ms > high:
                high = at_ms
            elif at_ms < low:
                low = at_ms
            if sender in members:
                before = signs.get(sender)
                signs[sender] = (offset, at_ms if before is None or before[1] < at_ms else before[1])
                stamps = lately.get(sender)
                if stamps is None:
                    stamps = lately[sender] = deque(maxlen=SIGNS)
                stamps.append(at_ms)
        first, last = self._first or (entries[0][0], low), self._last or (0, high)
        self._first = (first[0], min(first[1], low))
        self._last = (entries[-1][0], max(last[1], high))

    def _read(self, entry: EntryLike) -> AnyRecord | Unknown | None:
        try:
            return decode(entry[2])
        except BadRecord as bad:
            payload = bytes(entry[2][:KEPT_PAYLOAD])
            self._bad[entry[0]] = Fact("bad", entry[0], entry[1], cause=bad.reason, payload=payload)
            return None


def history(group: str, entries: Iterable[EntryLike], start: int = 0) -> list[Fact]:
    """All facts of `entries`, which begin at `start`, in plain Python: what Spark runs, without Spark."""
    folding = History(group, start)
    return [*folding.feed(entries), *folding.finish()]
