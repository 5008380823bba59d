"""Reading along with a group that runs NELI or Fast NELI, as a `World`: the form in which observers know every group.

The world of the claims protocol is what its fold makes of one partition. Here it is put together from the logs of all
partitions (`core.neli.history`): a seat's holder is the member that came to lead its partition last, unless its end is written.
No member decides anything by this world; it is for people, and for `Observer`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pares.core.neli.history import Came, Chronicle, Known, Led, Over, Sender, Went
from pares.core.neli.role_mapping import partition_of_number, role_number
from pares.core.reasons import CLOSED, SUPERSEDED
from pares.core.wire.changes import Change, DidChanged, MemberJoined, MemberLeft, RoleChanged, SeatChanged
from pares.core.wire.records import READS
from pares.core.wire.states import MemberState, RoleState, new_seat
from pares.core.wire.world import World
from pares.ledger import Entry, Log
from pares.runtime.host import Host

CHUNK: Final = 1000
LOOK: Final = 0.02
"""Seconds between two looks at all partitions, while something is waited for."""
FORGOTTEN: Final = 10
"""A member that leads nothing is no longer shown after so many sessions of silence, counted from when its next record was
due."""


class Tenures:
    """Follows one group in all partitions of a log. Not for several threads at once."""

    def __init__(self, log: Log, group: str, host: Host) -> None:
        self._host = host
        self.log, self.group = log, group
        self.records = 0
        """Entries read, of whatever group."""
        self.attach()

    def attach(self) -> None:
        """Begins anew, with the log as it is now. Raises `LedgerUnavailable`."""
        self.world = World()
        self.heard: dict[str, int] = {}
        """By member: the stamp of its last record."""
        self.newest_ms = 0
        self._joined = 0
        self._chronicles: list[Chronicle] = []
        self._positions: list[int] = []
        self._identity = self.log.identity()
        self._widen()

    def _widen(self) -> None:
        for number in range(len(self._chronicles), self.log.partitions):
            start = self.log.start(number)
            self._chronicles.append(Chronicle(self.group, number, start))
            self._positions.append(start)

    @property
    def seats(self) -> int:
        """By how many members each role is led."""
        return max((chronicle.seats_of_a_role for chronicle in self._chronicles), default=1)

    @property
    def partitions(self) -> int:
        """M, as members have written it; the log's own number before one has."""
        return max((chronicle.track.width for chronicle in self._chronicles), default=0) or len(self._chronicles)

    @property
    def numbered(self) -> bool:
        """Whether roles go by the numbers that the log gives (`core.neli.role_mapping`), not by their names' hashes."""
        return not any(chronicle.track.hashed for chronicle in self._chronicles)

    @property
    def numbers(self) -> Mapping[str, int]:
        """The numbers that the log has given to names."""
        return self._chronicles[0].track.numbering.of if self.numbered else {}

    def number(self, role: str) -> int | None:
        """The j of a role; None while the log has yet to give it one."""
        numbering = self._chronicles[0].track.numbering
        return numbering.number(role) if self.numbered else role_number(role)

    def partition(self, role: str, seat: int = 0) -> int:
        """The partition of a seat of `role`: by its number, and by the hash of its name while it has none."""
        number = self.number(role)
        number = role_number(role) if number is None else number
        return partition_of_number(number, self.partitions, self.seats, seat)

    def shared_out(self) -> list[tuple[int, list[str], str | None]]:
        """Each partition that the group shares out, the empty ones too: its number, its roles, and its leader (None: none)."""
        found: list[tuple[int, list[str], str | None]] = []
        for chronicle in self._chronicles[: self.partitions]:
            leader = chronicle.track.leader()
            roles = sorted(role for role, _ in chronicle.seats())
            found.append((chronicle.partition, roles, None if leader is None else leader.member))
        return found

    @property
    def uncounted(self) -> int:
        return sum(chronicle.track.uncounted for chronicle in self._chronicles)

    @property
    def replaced(self) -> bool:
        """Whether it is another log now than the one that was attached to (R12)."""
        return self.log.identity() != self._identity

    def read(self, timeout: float = 0.0) -> list[tuple[Change, int]]:
        """The changes since the last call, up to the end of each partition, with their times in the log and in that order.

        Waits up to `timeout` seconds for the first. Raises what a ledger's `read` raises; after `LedgerGap` or
        `LedgerRewound`: `attach`.
        """
        deadline = self._host.now() + int(timeout * 1e9)
        while True:
            found = self._read()
            left = (deadline - self._host.now()) / 1e9
            if found or left <= 0:
                return found
            self._host.sleep(min(LOOK, left))

    def _read(self) -> list[tuple[Change, int]]:
        found: list[tuple[Change, int]] = []
        self._widen()
        for number in range(len(self._chronicles)):
            while entries := self.log.read(self._positions[number], number, CHUNK):
                self._positions[number] = entries[-1].offset + 1
                found += self._feed(number, entries)
        found += self._forget()
        found.sort(key=lambda one: one[1])
        return found

    def _feed(self, number: int, entries: Sequence[Entry]) -> list[tuple[Change, int]]:
        chronicle, found = self._chronicles[number], list[tuple[Change, int]]()
        self.records += len(entries)
        for entry in entries:
            before = chronicle.track.position
            for happening in chronicle.feed(entry):
                changes: list[Change] = []
                self._take(chronicle, happening, entry.offset, changes)
                found += [(change, entry.timestamp_ms) for change in changes]
            if chronicle.last is not None and chronicle.last[0] >= before:
                self._heard(chronicle, entry)
        return found

    def _heard(self, chronicle: Chronicle, entry: Entry) -> None:
        """A member of the group has written."""
        self.world.base = self.world.base or 1  # a base above 0 says that the log has records of the group
        self.newest_ms = max(self.newest_ms, entry.timestamp_ms)
        sender = chronicle.sender
        if sender is None:
            return
        self.heard[sender.id] = max(self.heard.get(sender.id, 0), sender.last_ms)
        state = self.world.members.get(sender.id)
        if state is None:
            self._know(sender, [])
        elif state.due_ms >= sender.due_ms or not self.world.held.get(sender.id):
            state.due_ms = sender.due_ms

    # What it means for the world -----------------------------------------------------------------------------------------

    def _take(self, chronicle: Chronicle, happening: object, offset: int, changes: list[Change]) -> None:
        match happening:
            case Known(sender):
                self._know(sender, changes)
            case Came((role, index)):
                seats = self.world.roles[role].seats if role in self.world.roles else 0
                self.world.roles[role] = RoleState(role, max(seats, index + 1), 1.0, "host", False)
                self.world.seats.setdefault((role, index), new_seat(role, index))
                changes.append(RoleChanged(offset, role, "changed" if seats else "added"))
            case Went((role, index) as key):
                seat = self.world.seats.pop(key, None)
                if seat is not None and seat.holder is not None:
                    self.world.held.get(seat.holder, set()).discard(key)
                if not any(other == role for other, _ in self.world.seats):
                    self.world.roles.pop(role, None)
                    changes.append(RoleChanged(offset, role, "removed"))
            case Led():
                self._led(happening, offset, changes)
            case Over():
                self._over(happening, offset, changes)
            case _:
                pass

    def _know(self, sender: Sender, changes: list[Change]) -> None:
        known = self.world.members.get(sender.id)
        if known is None:
            self._joined += 1
            changes.append(MemberJoined(sender.first, sender.id, sender.name, sender.host))
        session = sender.session_ms or (known.session_ms if known is not None else 1000)
        overlap = max(sender.overlap_ms, 0 if known is None else known.overlap_ms)
        host = sender.host or ("" if known is None else known.host)
        protocol = sender.protocol or ("" if known is None else known.protocol)
        self.world.members[sender.id] = MemberState(
            id=sender.id,
            name=sender.name,
            host=host,
            zone="",
            labels={},
            rank=0,
            weight=1.0,
            eligible=None,
            session_ms=session,
            drift=sender.drift,
            overlap_ms=overlap,
            protocol=protocol,
            reads=READS,
            lock=None,
            joined=self._joined if known is None else known.joined,
            draining=False,
            offset=sender.last,
            n=0,
            due_ms=sender.due_ms,
            count=0,
        )

    def _led(self, led: Led, offset: int, changes: list[Change]) -> None:
        world, tenancy = self.world, led.tenancy
        seat = world.seats.setdefault(led.seat, new_seat(*led.seat))
        before, token = seat.holder, seat.token
        if before is not None:
            world.held.get(before, set()).discard(led.seat)
        seat.holder, seat.token = tenancy.member, tenancy.token
        world.held.setdefault(tenancy.member, set()).add(led.seat)
        cause, why = "claim", ""
        if before is not None and not tenancy.exclusive and self._lived(before, led.stamp_ms):
            cause, why = "transfer", SUPERSEDED  # the owner before goes on until it reads that another member leads
        me = tenancy.member
        changes.append(SeatChanged(offset, led.seat, me, tenancy.token, before, token, cause, why, me))
        if led.at_ms is not None:
            changes.append(DidChanged(offset, me, led.seat, tenancy.token, "lead", led.at_ms, ""))

    def _lived(self, member: str, at_ms: int) -> bool:
        state = self.world.members.get(member)
        return state is not None and self.heard.get(member, 0) + state.session_ms >= at_ms

    def _over(self, over: Over, offset: int, changes: list[Change]) -> None:
        world, tenancy = self.world, over.tenancy
        seat, me = world.seats.get(over.seat), tenancy.member
        if seat is not None and seat.holder == me and seat.token == tenancy.token:
            world.held.get(me, set()).discard(over.seat)
            seat.holder = None
            cause = "leave" if over.why == CLOSED else "release"
            changes.append(SeatChanged(offset, over.seat, None, 0, me, tenancy.token, cause, over.why, over.by))
        if over.ended_ms is not None:
            changes.append(DidChanged(offset, me, over.seat, tenancy.token, "stop", over.ended_ms, over.why))

    def _forget(self) -> list[tuple[Change, int]]:
        """The members that have been silent for long, by the log's own times, and lead nothing."""
        found: list[tuple[Change, int]] = []
        for id, member in list(self.world.members.items()):
            quiet = self.newest_ms - self.heard.get(id, 0) - member.due_ms
            if quiet > FORGOTTEN * member.session_ms and not self.world.held.get(id):
                del self.world.members[id]
                found.append((MemberLeft(member.offset, id, member.name, "forgotten"), self.newest_ms))
        return found
