"""Where a reader of a log may begin, and what it does when the log is not what it was (R10, R11, R12).

A world is the fold of *all* records, so a reader may begin only where it knows everything that came before:

* at offset 0, or
* at a snapshot's `upto`: a place (fixed by a rule of the fold) at which every reader keeps a hash of its world. The reader
  folds from `upto` on, the snapshot record itself included, for that record was written later than the state it carries.
  [A snapshot used from its own place would lose what came between.] Or
* at a genesis, for which it can see that no record of the group stands between the record that it names and itself.

A log whose start is not its origin, with no snapshot in it, lets nobody in: such a reader is *adrift*. It folds nothing,
and waits for a snapshot or a genesis.

The reader is fed entries (offset, timestamp, payload) in order, from `position` on; it never asks for the timestamp. A
record that can't be read is counted and shown, and stops nobody (R11).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final

from msgspec import Struct

from pares.core.wire import fold as _fold
from pares.core.wire import records
from pares.core.wire.changes import Change
from pares.core.wire.said import EntryLike, Illegible, Said, said
from pares.core.wire.snapshots import Parts, Taken, Whole, begin_at
from pares.core.wire.tidy import tidy
from pares.core.wire.world import World

WINDOW: Final = 4096
"""How many entries before the end a joiner searches first for a snapshot; four times as many each next time."""
KEPT_PLACES: Final = 256
KEPT_BAD: Final = 20
KEPT_REFUSED: Final = 1000
KEPT_UNJUDGED: Final = 2
"""Snapshots that wait to be compared, at most."""
NO_PLACE: Final = "no place"
"""What stands for the hash of a reader's world where it kept none, since to it that is no place."""

KEEP: Final = frozenset(
    (
        *(records.Claim, records.Release, records.Transfer, records.Take, records.Done, records.Ahead, records.Range),
        *(records.Did, records.Role, records.Ask, records.Asked, records.Pause, records.Resume, records.Rewind),
    )
)
"""Kinds that change neither who is in the world, nor its base, nor where its next place is, unless by their version."""


class State(Enum):
    SEARCHING = "searching"
    FOLDING = "folding"
    ADRIFT = "adrift"


class Bad(Struct, frozen=True):
    """A sample of the records that could not be read: where, why, and the beginning of what stood there."""

    offset: int
    reason: str
    payload: bytes


class Defect(Struct, frozen=True):
    """Two readers of one prefix differ: a defect of pares, of its disk, or of a log that lost what it had acknowledged (A1).
    Both worlds are kept as evidence (R10)."""

    offset: int
    author: str
    upto: int
    mine: str
    theirs: str


class Reader:
    """Follows one group in one partition. Feed it what stands from `position` on; read `world`."""

    def __init__(self, group: str, member: str = "", reads: int = records.READS, *, lasting: bool = False) -> None:
        self.group = group
        self.member = member
        """The member whose own counted records are collected in `mine`."""
        self.reads = reads
        """The newest format version that this reader understands."""
        self.lasting = lasting
        """Whether its state may be kept and gone on from in another process: the hashes of its worlds are the same there."""
        self.world = World(lasting=lasting)
        self.state = State.SEARCHING
        self.position = 0
        self.start = 0
        self.end = 0
        """Where the log ended at the last attach: before that, this reader is not up to date."""
        self.anchor: tuple[int, bytes] | None = None
        """The last entry read: each attach begins by reading it again (R12)."""
        self.mine: list[tuple[int, int, bytes]] = []
        """(offset, n, payload) of `member`'s records that counted in the last feed."""
        self.unknown: list[tuple[int, bytes]] = []
        """(offset, payload) of the group's records of unknown kinds, of senders that are no members, in the last feed."""
        self.bad: Counter[str] = Counter()
        self.bad_samples: list[Bad] = []
        self.uncounted = 0
        self.places: dict[int, str] = {}
        self.wanted = False
        """Set to have the world at the next place kept in `taken`."""
        self.taken: Taken | None = None
        self.verified = -1
        """`upto` of the newest snapshot in the log that agrees with this reader's own world."""
        self.patient = False
        """Set to have snapshots compared when `judge` is called, and not when they are read."""
        self.unjudged: list[Whole] = []
        self.defects: list[Defect] = []
        self.last_seen = -1
        """Adrift: the offset of the group's last record, or of the entry before the log's start."""
        self.longest_ms = 0
        """Adrift: the longest session that any sender still in the log may have, by its join, or by what its records say."""
        self.stranded = False
        """The log goes on in a world that does not follow from this reader's: it must begin again (R12)."""
        self.largest = 0
        """The largest base + offset that any record of the group let this reader see: a new base must be above it."""
        self.newest_base = 0
        """Adrift: the base that the group's last record was written under."""
        self.unreadable = 0
        """Adrift: the newest format version of a snapshot that this reader can't read, and so can't begin with."""
        self._greatest_base = 0
        self._parts = Parts()
        self._refused: set[tuple[str, str]] = set()
        self._entered: Whole | None = None
        self._seen_parts = 0
        self._found: Whole | None = None
        self._low = 0
        self._dry = False
        self._sessions: dict[str, int] = {}
        """Adrift: how long the session of each sender is at most, by the record that says the least: it never changes."""

    # Beginning -------------------------------------------------------------------------------------------------------

    def attach(self, start: int, end: int) -> None:
        """Begins (again) with nothing known, on a log that now has the entries from `start` to before `end`."""
        self.start, self.end, self._dry = start, end, False
        self.world, self.places, self.taken, self.anchor = World(lasting=self.lasting), {}, None, None
        self.unjudged = []
        self._parts, self._found, self._entered = Parts(), None, None
        if start == 0 and end <= WINDOW:
            self.state, self.position = State.FOLDING, 0
        else:
            self._search(max(start, end - WINDOW))

    @property
    def entered(self) -> bool:
        """Whether the world is one to act upon: begun somewhere sound, and read up to where the log ended at attach."""
        return self.state is State.FOLDING and self.up_to_date and self._entered is None

    @property
    def up_to_date(self) -> bool:
        """Whether everything that stood in the log at the attach has been read. A log may end in a hole: then there is nothing
        to read below its end. Taken for read too early (a slow ledger), it makes a joiner act on an old world, which the
        others' worlds refuse; never on a wrong one."""
        return self.position >= self.end or self._dry

    @property
    def too_new(self) -> bool:
        """Whether the group writes records that this version can't read (R11): upgrade before joining."""
        return self.world.highest > self.reads

    @property
    def upgrade(self) -> str:
        """What to tell a reader of a group that is `too_new`."""
        return (
            f"group {self.group!r} writes format {max(self.world.highest, self.unreadable)} and this version of pares reads "
            f"up to {self.reads}: "
            "upgrade pares here first"
        )

    def tidied(self) -> Reader:
        """A reader that goes on exactly as this one would, which has `entered` and is used no more. It has nothing of what only
        counts what was read, so it is the same however this one came here."""
        found = Reader(self.group, self.member, self.reads, lasting=self.lasting)
        found.world, found.state, found.position = self.world, self.state, self.position
        found.start, found.end, found._parts = self.start, self.end, self._parts
        found.places, found.verified, found.defects = self.places, self.verified, self.defects
        tidy(found.world)
        return found

    def _search(self, low: int) -> None:
        self.state, self.position, self._low, self._dry = State.SEARCHING, low, low, False
        self._parts, self._found = Parts(), None

    def _searched(self) -> None:
        """The window up to the end has been read: begin with what was found, or look further back."""
        if self._found is not None and self._begin(self._found):
            return
        if self._low > self.start:
            self._search(max(self.start, self.end - 4 * (self.end - self._low)))
        elif self.start == 0:
            self.state, self.position, self._parts = State.FOLDING, 0, Parts()
        else:
            self.state, self.position, self._parts = State.ADRIFT, self.start, Parts()
            self.last_seen, self.longest_ms, self.newest_base, self._greatest_base = self.start - 1, 0, 0, 0
            self.unreadable = 0
            self._sessions = {}

    def _begin(self, snapshot: Whole) -> bool:
        try:
            world = World.load(snapshot.text, lasting=self.lasting)
            if world.last != snapshot.upto - 1 or world.placed != world.count:
                raise ValueError("no place")  # which nobody else could compare with a world of its own
        except ValueError:
            self._refuse(snapshot)
            return False
        self.world, self.position, self.state = world, begin_at(snapshot), State.FOLDING
        self.places = {snapshot.upto: world.digest()}
        self._entered, self._seen_parts, self._parts, self.anchor = snapshot, 0, Parts(), None
        return True

    def _refuse(self, snapshot: Whole) -> None:
        if len(self._refused) < KEPT_REFUSED:
            self._refused.add((snapshot.author, snapshot.id))

    def _check_entry(self) -> None:
        """A snapshot whose own records do not count in the world that it carries is nobody's to begin with."""
        entered = self._entered
        if entered is None or self.position <= entered.last:
            return
        self._entered = None
        if self._seen_parts < entered.parts:
            self._refuse(entered)
            self.attach(self.start, self.end)

    # Reading ---------------------------------------------------------------------------------------------------------

    def feed(self, entries: Iterable[EntryLike], known: Sequence[Said] | None = None) -> list[Change]:
        """Takes the entries that follow `position`, in order. Returns what they changed in the world. `known`: what they say,
        if that was decoded already."""
        changes: list[Change] = []
        entries = entries if isinstance(entries, list) else list(entries)
        if entries and entries[0][0] < self.position:
            raise ValueError(f"entry {entries[0][0]} was fed again: the reader is at {self.position}")
        self._dry = not entries
        self.mine, self.unknown = [], []
        if self.state is State.FOLDING:
            if entries:
                self._fold(entries, said(entries) if known is None else known, changes)
            self._check_entry()
        elif self.state is State.SEARCHING:
            for offset, _, payload in entries:
                self._look(offset, payload)
        else:
            self._drift(entries, changes)
        if self.state is State.SEARCHING and self.up_to_date:
            self._searched()
        return changes

    def _fold(self, entries: Sequence[EntryLike], known: Sequence[Said], changes: list[Change]) -> None:
        world, group, member, beat, fold = self.world, self.group, self.member, records.Beat, _fold.fold
        members, base, newest, me, due = world.quick_view(member)
        offset, payload = -1, b""
        count, last = world.count, world.last
        told: list[records.Beat] = []
        for (offset, _, payload), record in zip(entries, known, strict=True):
            if type(record) is beat and record.b == base and record.v <= newest and record.g == group:
                # Nineteen of twenty records are beats: what `sender` and `fold` do for them, without the detour. What the
                # world has of them is written when something else looks at it.
                state = members.get(record.m)
                n = record.n
                if state is None or n <= state.n:
                    self.uncounted += 1
                    continue
                count += 1
                last = state.offset = offset
                state.n, state.due_ms, state.count = n, record.s, count
                if record.marks:
                    told.append(record)
                if state is me:
                    self.mine.append((offset, n, payload))
                if count < due:
                    continue
                _catch_up(world, count, last, told)
            elif type(record) is Illegible:
                self._note_bad(offset, record.reason, payload)
                continue
            elif record.g != group:
                continue
            else:
                _catch_up(world, count, last, told)
                if type(record) is records.Unknown and records.misshapen(record):
                    self._note_bad(offset, "bad field", payload)
                if not fold(world, offset, record, changes):
                    self.uncounted += 1
                    if type(record) is records.Unknown:
                        self.unknown.append((offset, payload))
                    if type(record) is records.Genesis and self.entered:
                        self._stranger(offset, record)
                    continue
                count, last = world.count, world.last
                if record.m == member:
                    self.mine.append((offset, record.n, payload))
                if type(record) not in KEEP or record.v > newest:
                    self._counted(offset, record)
                    members, base, newest, me, due = world.quick_view(member)
                if count < due and type(record) is not records.Join:
                    continue
            self._place(offset, record, changes)
            members, base, newest, me, due = world.quick_view(member)
        _catch_up(world, count, last, told)
        if offset >= 0:
            self.position, self.anchor = offset + 1, (offset, bytes(payload))

    def _stranger(self, offset: int, record: records.Genesis) -> None:
        """A genesis over everything that this reader knows, under a base that is not greater: its writer knew nothing of this
        world, which is gone from the log. So this reader lives in another world than those who come now (R12)."""
        over = -1 if record.over is None else record.over
        if record.v == 1 and record.base <= self.world.base and self.world.last <= over < offset:
            self.stranded = True

    def _counted(self, offset: int, record: records.AnyRecord | records.Unknown) -> None:
        if type(record) is records.Genesis:
            self.places, self._parts, self.verified, self.taken, self.unjudged = {}, Parts(), -1, None, []
        elif type(record) is records.Snapshot:
            if self._entered is not None and (record.m, record.id) == (self._entered.author, self._entered.id):
                self._seen_parts += 1
            whole = self._parts.add(offset, record)
            if whole is not None:
                self.unjudged.append(whole)
                if not self.patient or len(self.unjudged) > KEPT_UNJUDGED:
                    self.judge()

    def judge(self) -> None:
        """Compares the snapshots that were read since it was last called."""
        unjudged, self.unjudged = self.unjudged, []
        for whole in unjudged:
            self._compare(whole)

    def _place(self, offset: int, record: records.AnyRecord | records.Unknown, changes: list[Change]) -> None:
        if not _fold.at_place(self.world, offset, record, changes):
            return
        self.places[offset + 1] = self.world.digest()
        if len(self.places) > KEPT_PLACES:
            del self.places[next(iter(self.places))]
        asked = type(record) is records.Join and record.adrift
        if self.wanted or asked:
            self.taken = Taken(offset + 1, self.world.dump(), asked)
            self.wanted = False

    def _compare(self, whole: Whole) -> None:
        """Anybody's snapshot against this reader's own world at the same place. One from before all places kept is not judged.
        One of no place is of another world: where places come follows from the world too. [a reader that missed a record counts
        to other places than the rest, and neither side ever finds anything to compare]"""
        if whole.upto < next(iter(self.places), whole.upto + 1):
            return
        mine = self.places.get(whole.upto, NO_PLACE)
        try:
            theirs = World.load(whole.text, lasting=self.lasting, like=self.world).digest()
        except ValueError as error:
            theirs = str(error)
        if theirs == mine:
            self.verified = max(self.verified, whole.upto)
        elif len(self.defects) < KEPT_BAD:
            self.defects.append(Defect(whole.last, whole.author, whole.upto, mine, whole.text))

    def _look(self, offset: int, payload: bytes) -> None:
        """Searching: nothing is folded, only snapshots are collected; the newest whole one is kept."""
        self.position = offset + 1
        record = self._of_group(offset, payload)
        if type(record) is records.Snapshot and (record.m, record.id) not in self._refused:
            whole = self._parts.add(offset, record)
            if whole is not None and whole.upto >= self.start:
                self._found = whole

    def _drift(self, entries: Iterable[EntryLike], changes: list[Change]) -> None:
        entries = iter(entries)
        for offset, timestamp, payload in entries:
            self.position, self.anchor = offset + 1, (offset, bytes(payload))
            record = self._of_group(offset, payload)
            if record is None:
                continue
            if type(record) is records.Genesis and self._begins(record):
                self.state, self.world = State.FOLDING, World(lasting=self.lasting)
                rest = [(offset, timestamp, payload), *entries]
                self._fold(rest, said(rest), changes)
                return
            self.last_seen, self.newest_base = offset, record.b
            self._greatest_base = max(self._greatest_base, record.b)
            if record.v > self.reads and (
                type(record) is records.Snapshot or (type(record) is records.Unknown and record.k == "snapshot")
            ):
                self.unreadable = max(self.unreadable, record.v)
            if type(record) is not records.Genesis:
                known = self._sessions.get(record.m, records.MAX_SESSION_MS)
                self._sessions[record.m] = min(known, _session_at_most(record))
            if type(record) is records.Snapshot and (record.m, record.id) not in self._refused:
                whole = self._parts.add(offset, record)
                if whole is not None and whole.upto >= self.start and self._begin(whole):
                    self.end = max(self.end, offset + 1)
                    return
        self.longest_ms = max(self._sessions.values(), default=0)

    def _begins(self, genesis: records.Genesis) -> bool:
        """Adrift: whether this genesis counts for everybody, also for those who know what counted before."""
        over = -1 if genesis.over is None else genesis.over
        return genesis.v == 1 and over == self.last_seen and genesis.base > self._greatest_base

    def _of_group(self, offset: int, payload: bytes) -> records.AnyRecord | records.Unknown | None:
        try:
            record = records.decode(payload)
        except records.BadRecord:
            return None
        if record.g != self.group:
            return None
        self.largest = max(self.largest, record.b + offset)
        if type(record) is records.Unknown:
            self.unknown.append((offset, payload))
        return record

    def _note_bad(self, offset: int, reason: str, payload: bytes) -> None:
        self.bad[reason] += 1
        if len(self.bad_samples) < KEPT_BAD:
            self.bad_samples.append(Bad(offset, reason, bytes(payload[:200])))


def _catch_up(world: World, count: int, last: int, told: list[records.Beat]) -> None:
    """What a loop over beats has kept from its world, before something else looks at it or changes it."""
    world.count, world.last = count, last
    if told:
        world.raise_marks(told)
        told.clear()


def _session_at_most(record: records.AnyRecord | records.Unknown) -> int:
    """The longest session that the sender of a record may have, in milliseconds, by this record alone (R12).

    A join says it. Any other record says in how many milliseconds its sender's next one is due: a holder's, a quarter of its
    session; a standby's, its session or more (R16). So no session is longer than four times that, rounded up. What says that it
    is due at once tells nothing, nor does a record of a version that this reader does not know: the longest there is.
    """
    if type(record) is records.Join:
        return record.session
    if type(record) is records.Unknown or record.v > records.READS or record.s <= records.AT_ONCE:
        return records.MAX_SESSION_MS
    return min(4 * (record.s + 1), records.MAX_SESSION_MS)
