"""The fold of a range of a log that begins in the middle, from a snapshot, and how its facts are proven to be right.

What the state of a fold is at an offset (the *cut*) and where a range has it from:

* The world: from a snapshot that stands before the cut. The range folds what follows in silence (the *lead-in*), so it comes
  to the cut with a world of its own. It is right if and only if it is the world of the range before at its end: their hashes
  are compared.
* What the audit remembers beside the world (`telling`): when each member was heard last, what it said lately. It is in no
  snapshot, and what is older than the lead-in is not known. So a range writes down on what it has relied: each answer out of
  that memory that could have been another one, had it known more (`Relied`). The range before knows more, and checks them.
* What ranges add to (the first and last record, how much stamps went back) is added up.

A range whose world is another one began with a snapshot that is wrong, or the one before it did: a `defect`. A range that has
relied on what is not so had too short a lead-in: no defect. Either is folded again, from the end of the one before. So the
facts are those of one fold over the whole log, whatever snapshots say and however short lead-ins are; both cost time alone.

How long a lead-in has to be follows from what is asked of the memory. A living member writes in each of its sessions, and a
silent one without seats is forgotten after `World.memory` counted records. So behind a lead-in of that many records hardly any
member is left of which nothing was heard; who holds a seat and is silent for longer, with nobody to claim it, is one.

Groups of NELI's family have no snapshots, and neither has a bus: they are folded in sequence.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct, field

from pares.core.wire.changes import Change, MemberJoined
from pares.core.wire.reader import KEPT_BAD, KEPT_PLACES, Reader
from pares.core.wire.records import AnyRecord, Genesis, Snapshot, Unknown
from pares.core.wire.snapshots import KEPT_SETS, KEPT_TEXT, Whole
from pares.spark.facts.base import COPIES, SIGNS, Fact
from pares.spark.facts.claims import STEPS, EntryLike, History
from pares.spark.facts.rows import Beats
from pares.spark.facts.telling import PAST

Sign = tuple[int, int]
Waiting = dict[tuple[str, str], list[int]]


class Relied(Struct):
    """What a range has taken for granted of the members that were there before its lead-in."""

    heard: dict[str, int | None] = field(default_factory=dict[str, int | None])
    """No stamp of the member was later than this; None: it had not been heard at all."""
    stops: list[tuple[str, int, int | None]] = field(default_factory=list[tuple[str, int, int | None]])
    """(member, limit, stamp): of its stamps below the limit none was later than that."""
    new: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    """The member had said nothing under this number."""

    def members(self) -> set[str]:
        return {*self.heard, *(stop[0] for stop in self.stops), *(new[0] for new in self.new)}


class Cut(Struct):
    """What a range knew when it came to its first offset."""

    world: str
    """The hash of its world."""
    top: int | None
    open: dict[str, set[int]]
    signs: dict[str, Sign]
    lately: dict[str, deque[int]]
    dids: dict[str, deque[int]]
    whole: dict[str, tuple[Sign | None, list[int], list[int]]]
    """Of the members that joined in the lead-in: all that there is to know of them."""


class RangeReader(Reader):
    """Notes what it could not judge, because it knows too few places."""

    def __init__(self, group: str, *, lasting: bool = False) -> None:
        super().__init__(group, lasting=lasting)
        self.stale: list[int] = []
        """Places of snapshots, before all that it has kept a hash of."""
        self.anew = self.parted = False
        """Whether a genesis has counted since the cut; whether a part of a snapshot has."""
        self.then: Waiting = {}
        """Which parts of which snapshots it had read at the cut."""

    @property
    def begun_with(self) -> Whole | None:
        """The snapshot, as long as its own records have not been read."""
        return self._entered

    def mark(self) -> None:
        """The cut: the range before has found what was found so far, too."""
        self.stale, self.defects, self.anew, self.parted = [], [], False, False
        self.then = self._parts.waiting()

    def _counted(self, offset: int, record: AnyRecord | Unknown) -> None:
        super()._counted(offset, record)
        self.anew |= type(record) is Genesis
        self.parted |= type(record) is Snapshot and record.parts > 1

    def _compare(self, whole: Whole) -> None:
        if not self.anew and whole.upto < next(iter(self.places), whole.upto + 1):
            self.stale.append(whole.upto)
        super()._compare(whole)

    def behind(self, before: Reader) -> Reader | None:
        """The reader that has read both ranges; None if it might have found what this one could not."""
        first, known = next(iter(before.places), None), before._parts.waiting()
        if first is not None and any(upto >= first for upto in self.stale):
            return None
        same = self.anew or known == self.then
        # A set more may push an old one out.
        if not same and (self.parted or len(known) >= KEPT_SETS or before._parts.size > KEPT_TEXT // 2):
            return None
        reader = plain(self)
        if not same:
            reader._parts = before._parts
        if not self.anew:
            reader.places = dict([*(before.places | self.places).items()][-KEPT_PLACES:])
            reader.verified = max(before.verified, self.verified)
        reader.start, reader.end = before.start, before.end
        reader.defects = [*before.defects, *self.defects][:KEPT_BAD]
        return reader


def plain(reader: RangeReader) -> Reader:
    """The same without its notes."""
    found = Reader(reader.group, lasting=reader.lasting)
    vars(found).update({name: value for name, value in vars(reader).items() if name in vars(found)})
    return found


class RangeHistory(History):
    """The facts of one group from the cut on: what is fed before `mark` is the lead-in, whose facts are the range before's.

    A group of which nothing stands in the lead-in is begun as a new one, and has no cut.
    """

    reads: ClassVar[type[Reader]] = RangeReader
    reader: RangeReader

    def __init__(self, group: str, start: int = 0, error_ms: int = 0) -> None:
        self.mark: Cut | None = None
        self.relied = Relied()
        self.used = False
        """Whether anything of the group stands behind the cut."""
        self.begun_with: tuple[int, str] | None = None
        """The end and the author of the snapshot that it began with."""
        self._since = 0
        self._whole: set[str] = set()
        """Members that joined since the beginning of the lead-in: nothing is unknown of them."""
        self._joined_since: set[str] = set()
        self._left: list[str] = []
        self._dropped_members: set[str] = set()
        super().__init__(group, start, error_ms)

    def cut(self) -> None:
        """The lead-in is over, and has led somewhere (`settled`)."""
        world = self.reader.world
        self._drain()
        self.reader.mark()
        self._whole = {member.id for member in world.members.values() if member.joined >= self._since}
        whole = {
            id: (self._signs.get(id), [*self._lately.get(id, ())], [*self._dids.get(id, ())]) for id in self._whole
        }
        self.mark = Cut(world.digest(), self._top, self._open, self._signs, self._lately, self._dids, whole)
        self._open = {role: set(seats) for role, seats in self._open.items()}
        self._signs, self._lately, self._dids, self._past = {}, {}, {}, deque()
        self._first = self._last = None
        self._dropped = self._steps = 0

    def take(
        self, entries: list[EntryLike], records: Sequence[AnyRecord | Unknown], beats: Beats | None = None
    ) -> list[Fact]:
        self.used |= self.mark is not None
        return super().take(entries, records, beats)

    def _loaded(self) -> None:
        self._since, snapshot = self.reader.position, self.reader.begun_with
        self.begun_with = None if snapshot is None else (snapshot.last, snapshot.author)
        super()._loaded()

    # What is remembered: of the lead-in and of the range; and on what an answer relies that is made of that.

    def _new(self, member: str, number: int) -> bool:
        if self.mark is None:
            return super()._new(member, number)
        known = [*self.mark.dids.get(member, ()), *self._dids.get(member, ())][-COPIES:]
        if number in known:
            return False
        if len(known) < COPIES and member not in self._whole:
            self.relied.new.append((member, number))
        return True

    def _sign_of(self, member: str) -> Sign | None:
        if self.mark is None:
            return super()._sign_of(member)
        earlier, found = self.mark.signs.get(member), self._signs.get(member)
        if earlier is not None:
            found = earlier if found is None else (found[0], max(found[1], earlier[1]))
        if member not in self._whole:
            latest = None if found is None else found[1]
            least = self.relied.heard.setdefault(member, latest)
            if least is not None and (latest is None or latest < least):
                self.relied.heard[member] = latest
        return found

    def _sign_before(self, member: str, least_ms: int) -> int | None:
        if self.mark is None:
            return super()._sign_before(member, least_ms)
        known = [*self.mark.lately.get(member, ()), *self._lately.get(member, ())][-SIGNS:]
        found = max((at for at in known if at < least_ms), default=None)
        if len(known) < SIGNS and member not in self._whole:
            self.relied.stops.append((member, least_ms, found))
        return found

    def _drop(self, member: str) -> None:
        super()._drop(member)
        if self.mark is not None:
            self._dropped_members.add(member)
            self.mark.lately.pop(member, None)
            self.mark.dids.pop(member, None)

    def _departed(self, member: str) -> None:
        super()._departed(member)
        if self.mark is not None:
            self._left.append(member)
            self.mark.signs.pop(member, None)

    def _change(self, change: Change, at_ms: int, sender: str) -> None:
        if type(change) is MemberJoined:
            self._whole.add(change.member)
            if self.mark is not None:
                self._joined_since.add(change.member)
        super()._change(change, at_ms, sender)

    # What the range before says of it ---------------------------------------------------------------------------------

    def differs(self, before: History) -> bool:
        """Whether the world at the cut is another one than at the end of the range before. One of the two began wrong."""
        return self.mark is not None and before.settled and before.reader.world.digest() != self.mark.world

    def behind(self, before: History) -> bool:
        """Makes of `before` the fold over both ranges. False, with nothing done, if the facts of this one may not be what that
        fold would have said."""
        if not self._agrees(before) or self._forgotten(before) is None:
            return False
        reader = self.reader.behind(before.reader)
        if reader is None:
            return False
        for member in self._forgotten(before) or ():
            before._drop(member)
        before.reader = reader
        before._open, before._top = self._open, self._top
        before._dropped = max(before._dropped, self._dropped)
        before._steps = min(STEPS, before._steps + self._steps)
        if self._first is not None and self._last is not None:
            first, last = before._first or self._first, before._last or self._last
            before._first = (first[0], min(first[1], self._first[1]))
            before._last = (self._last[0], max(last[1], self._last[1]))
        self._remember(before)
        return True

    def alone(self, start: int) -> History:
        """The fold of a group that the log tells of from this range on."""
        found = History(self.reader.group, start, self._error_ms)
        vars(found).update({name: value for name, value in vars(self).items() if name in vars(found)})
        found.reader = plain(self.reader)
        return found

    def _agrees(self, before: History) -> bool:
        mark = self.mark
        if mark is None or not before.settled or self.differs(before) or before._top != mark.top:
            return False
        if {role: seats for role, seats in before._open.items() if seats} != {r: s for r, s in mark.open.items() if s}:
            return False
        for member, known in mark.whole.items():
            signs, lately, dids = (
                before._signs.get(member),
                before._lately.get(member, ()),
                before._dids.get(member, ()),
            )
            if known != (signs, [*lately], [*dids]):
                return False  # it has lived before, under the same id
        if any(member in before._lately or member in before._dids for member in self._joined_since):
            return False
        for member, latest in self.relied.heard.items():
            sign = before._signs.get(member)
            if sign is not None and (latest is None or sign[1] > latest):
                return False
        for member, limit, latest in self.relied.stops:
            if any(at < limit and (latest is None or at > latest) for at in before._lately.get(member, ())):
                return False
        return not any(number in before._dids.get(member, ()) for member, number in self.relied.new)

    def _forgotten(self, before: History) -> set[str] | None:
        """Of which members that left before the cut nothing is remembered any more, as so many have left since; None if this
        range has asked or told of one of them."""
        past = [*before._past]
        gone = past[: max(0, len(past) + len(self._left) - PAST)]
        kept = {*past[len(gone) :], *self._left, *self.reader.world.members}
        asked = {*self._lately, *self._dids, *self.relied.members()}
        return None if (kept | asked).intersection(gone) else set(gone)

    def _remember(self, before: History) -> None:
        for member in self._left:
            before._signs.pop(member, None)
        for member, (offset, at_ms) in self._signs.items():
            before._signs[member] = offset, max(at_ms, before._signs.get(member, (0, at_ms))[1])
        for member in self._dropped_members:
            before._drop(member)
        for mine, all_, most in ((self._lately, before._lately, SIGNS), (self._dids, before._dids, COPIES)):
            for member, values in mine.items():
                all_.setdefault(member, deque(maxlen=most)).extend(values)
        before._past = deque([*before._past, *self._left][-PAST:])
