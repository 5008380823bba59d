"""Follows one group's log and tells every change of hands as one move, with its cause.

The fold (the kernel's own) says what each record changed. A seat often changes hands in two records, a release and a
claim, and a person wants to read that as one event: so what freed a seat is kept until somebody holds it again.

It begins as far back as the log allows. A member begins at the newest snapshot, because it wants to act soon; a
story needs its beginning. Times are those of the ledger's entries: wall clock, good for people, and nothing is decided
by them (R1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pares.core.errors import LedgerGap, LedgerRewound
from pares.core.reasons import FENCED, SUPERSEDED
from pares.core.wire.changes import Change, DidChanged, PauseChanged, SeatChanged
from pares.core.wire.reader import WINDOW, Reader, State
from pares.core.wire.records import BadRecord, Seat, decode
from pares.core.wire.world import World
from pares.ledger.address import without_readonly

if TYPE_CHECKING:
    from pares.ledger.base import Entry, Log

BATCH: Final = 2000
KEPT: Final = 100_000
"""Moves kept, so that following a busy group for weeks fits into memory."""
KEPT_GROUPS: Final = 1000


def name_of(member: str | None) -> str:
    """The name in a member id (`name~incarnation`); a dash for nobody."""
    if member is None:
        return "-"
    return member.rpartition("~")[0] or member


def url_of(log: Log) -> str:
    """The ledger's URL for people: without the option that only says how this command has opened it."""
    return without_readonly(log.url)


@dataclass(frozen=True, slots=True)
class Move:
    """A seat went from `before` to `to`; None for either means that nobody held it."""

    offset: int
    at_ms: int
    """When the new holder's record (or, for a seat that is still free, the freeing one) entered the log."""
    seat: Seat
    before: str | None
    to: str | None
    token: int
    cause: str
    """first, handover, released, left, silent, died or reset."""
    why: str
    free_ms: int
    """How long the log had no holder for the seat. The time for which nobody *believed* is the audit's to find out."""

    @property
    def role(self) -> str:
        return self.seat[0]

    def reason(self) -> str:
        """The cause in words."""
        said = f": {self.why}" if self.why else ""
        before = name_of(self.before)
        if self.cause == "released" and self.why == FENCED:
            return f"{before}'s lease had run out"
        if self.cause == "handover" and self.why == SUPERSEDED:
            return f"the group gave it to {name_of(self.to)}"  # nobody was asked: `before` may be dead, or lead on
        return {
            "first": "nobody had held it",
            "handover": f"{before} handed it over{said}",
            "released": f"{before} released it{said}",
            "left": f"{before} left",
            "silent": f"{before} was silent for its whole session",
            "died": f"{before} died, which its lock proved",
            "reset": "the log was begun anew",
        }[self.cause]


_FREED: Final = {"release": "released", "leave": "left", "obituary": "died", "claim": "silent", "genesis": "reset"}
"""By the kind of the record that freed a seat."""


class Story:
    """One group, told from the beginning of its log. Not for several threads at once."""

    steered_here = True
    """Pauses and drains stand in this group's own log."""

    def __init__(self, log: Log, group: str, *, partition: int = 0) -> None:
        self.log, self.group, self.partition = log, group, partition
        self.moves: list[Move] = []
        self.dids: list[tuple[DidChanged, int]] = []
        """What members told of their own beliefs, with the time of its entry."""
        self.since: dict[Seat, int] = {}
        """When each seat's present holder became it."""
        self.heard: dict[str, int] = {}
        """When each member's last counted record entered the log."""
        self.paused: dict[int, int] = {}
        """When each pause, by its offset, entered the log."""
        self.records = 0
        """Entries read, of whatever group."""
        self.groups: set[str] = set()
        """Names of groups that share the partition, as far as was looked: all, as long as nothing is known of ours."""
        self.jumps: list[str] = []
        """What happened when the log was not what it had been (R12)."""
        self._freed: dict[Seat, Move] = {}
        self.reader = Reader(group)
        self._attach()

    def shared_out(self) -> list[tuple[int, list[str], str | None]]:
        """The partitions that the group shares out, with their roles and leaders: none, where it runs the claims protocol."""
        return []

    @property
    def url(self) -> str:
        """The ledger's, for people."""
        return url_of(self.log)

    @property
    def world(self) -> World:
        return self.reader.world

    @property
    def unheard(self) -> bool:
        """Whether the log that was read has no record of this group that counts."""
        return self.world.base == 0

    @property
    def adrift(self) -> bool:
        """The log's beginning is gone and it holds no snapshot of the group: nobody can know who holds what."""
        return self.reader.state is State.ADRIFT

    def _attach(self) -> None:
        start, end = self.log.start(self.partition), self.log.end(self.partition)
        # From its origin a log is folded whole; otherwise from the earliest snapshot, which the reader looks for in a
        # first stretch, and then takes as it comes.
        self.reader.attach(start, 0 if start == 0 else min(end, start + WINDOW))

    def catch_up(self) -> list[Move]:
        """Reads up to where the log ends now, and returns the moves on the way."""
        moves: list[Move] = []
        end = self.log.end(self.partition)
        while self.reader.position < end:
            entries = self._read()
            if not entries:
                break
            moves += self._take(entries)
        return moves

    def poll(self, timeout: float = 0.0) -> list[Move]:
        """Reads what has come since, waiting up to `timeout` seconds for the first entry."""
        entries = self._read(timeout)
        return self._take(entries) if entries else []

    def history(self) -> list[Move]:
        """All moves, and the seats that nobody holds, in order."""
        return sorted([*self.moves, *self.free()], key=lambda move: move.offset)

    def free(self) -> list[Move]:
        """The seats that nobody has held since they were freed."""
        return sorted(self._freed.values(), key=lambda move: move.offset)

    def _read(self, timeout: float = 0.0) -> list[Entry]:
        try:
            return self.log.read(self.reader.position, self.partition, BATCH, timeout)
        except (LedgerGap, LedgerRewound) as jump:
            self.jumps.append(str(jump))
            self._freed.clear()
            self.reader = Reader(self.group)
            self._attach()
            return []

    def _take(self, entries: list[Entry]) -> list[Move]:
        self.records += len(entries)
        if self.unheard:
            self._note_groups(entries)
        changes = self.reader.feed(entries)
        times = {entry.offset: entry.timestamp_ms for entry in entries}
        for member in self.world.members.values():
            if member.offset in times:
                self.heard[member.id] = times[member.offset]
        moves: list[Move] = []
        for change in changes:
            self._note(change, times.get(change.offset, 0), moves)
        self.moves += moves
        del self.moves[:-KEPT], self.dids[:-KEPT]
        return moves

    def _note(self, change: Change, at_ms: int, moves: list[Move]) -> None:
        if isinstance(change, SeatChanged):
            self._changed(change, at_ms, moves)
        elif isinstance(change, DidChanged):
            self.dids.append((change, at_ms))
        elif isinstance(change, PauseChanged) and change.on:
            self.paused[change.offset] = at_ms

    def _note_groups(self, entries: list[Entry]) -> None:
        for entry in entries:
            try:
                group = decode(entry.payload).g
            except BadRecord:
                continue
            if len(self.groups) < KEPT_GROUPS:
                self.groups.add(group)

    def _changed(self, change: SeatChanged, at_ms: int, moves: list[Move]) -> None:
        seat = change.seat
        if change.holder is None:
            cause = _FREED.get(change.cause, "released")
            self.since.pop(seat, None)
            self._freed[seat] = Move(
                change.offset, at_ms, seat, change.before, None, change.before_token, cause, change.why, 0
            )
            return
        self.since[seat] = at_ms
        freed = self._freed.pop(seat, None)
        if change.before is not None:
            cause = "handover" if change.cause == "transfer" else "silent"
            why = change.why if cause == "handover" else ""
            move = Move(change.offset, at_ms, seat, change.before, change.holder, change.token, cause, why, 0)
        elif freed is not None:
            waited = max(0, at_ms - freed.at_ms)
            move = Move(
                change.offset,
                at_ms,
                seat,
                freed.before,
                change.holder,
                change.token,
                freed.cause,
                freed.why if freed.cause == "released" else "",
                waited,
            )
        else:
            move = Move(change.offset, at_ms, seat, None, change.holder, change.token, "first", "", 0)
        moves.append(move)
