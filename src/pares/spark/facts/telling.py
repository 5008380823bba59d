"""What the changes that records make are told as: who holds what, who is there, what members say of their beliefs.

A row tells more than the change does: when a lost holder was heard last, on which sign of life a belief can have rested. That
is remembered here, of each member as much as it takes, and it is in no world and no snapshot.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from typing import Final

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
from pares.core.wire.reader import Reader
from pares.core.wire.states import MemberState
from pares.spark.facts.base import ADMINISTRATOR, Fact

PAST: Final = 1000
"""Of so many members that are gone it is remembered when they were heard last, and what they have said."""


class Telling:
    """The facts of one group as they come about; what it remembers is set by the fold (`claims.History`)."""

    reader: Reader
    _error_ms: int
    _facts: list[Fact]
    _signs: dict[str, tuple[int, int]]
    """Of each member the offset of its last counted record, and the latest stamp of any."""
    _lately: dict[str, deque[int]]
    """Of each member the stamps of its last counted records."""
    _dids: dict[str, deque[int]]
    """Of each member the numbers of what it has said last of its beliefs."""
    _past: deque[str]
    _open: dict[str, set[int]]
    """The seats that each role has."""

    # What is remembered of members beside the world; a fold that begins in the middle of a log knows less (`ranged`).

    def _new(self, member: str, number: int) -> bool:
        """Whether the member has not said this of its beliefs lately."""
        return number not in self._dids.get(member, ())

    def _sign_of(self, member: str) -> tuple[int, int] | None:
        """The offset of its last counted record, and the latest stamp of any."""
        return self._signs.get(member)

    def _sign_before(self, member: str, least_ms: int) -> int | None:
        """The latest stamp below `least_ms` of its last records."""
        return max((at for at in self._lately.get(member, ()) if at < least_ms), default=None)

    def _drop(self, member: str) -> None:
        """Nothing is remembered any more of a member that has long left."""
        self._lately.pop(member, None)
        self._dids.pop(member, None)

    def _note(self, changes: Sequence[Change], at_ms: int, sender: str = "") -> None:
        for change in changes:
            self._change(change, at_ms, sender)
        for member in sorted([change.member for change in changes if isinstance(change, MemberLeft)]):
            self._departed(member)  # sorted, as a world that a snapshot has brought has its members in another order

    def _departed(self, member: str) -> None:
        """Its last sign of life is known now. What it said may still arrive late, so a little more is remembered of the last
        ones that left. [the state of a fold that goes on for years would grow by every member that there ever was]"""
        sign = self._sign_of(member)
        self._signs.pop(member, None)
        if sign is not None:
            self._facts.append(Fact("seen", sign[0], member=member, clock_ms=sign[1]))
        self._past.append(member)
        if len(self._past) > PAST:
            self._drop(self._past.popleft())

    def _change(self, change: Change, at_ms: int, sender: str) -> None:
        add = self._facts.append
        match change:
            case SeatChanged():
                self._seat(change, at_ms, sender)
            case DidChanged():
                self._told(change, at_ms)
            case MemberJoined():
                self._joined(self.reader.world.members[change.member], at_ms)
            case MemberLeft():
                add(Fact("gone", change.offset, at_ms, member=change.member, name=change.name, cause=change.cause))
            case RoleChanged():
                self._role(change.role, change.offset, at_ms)
            case PauseChanged():
                add(Fact("paused" if change.on else "resumed", change.offset, at_ms, change.scope, other=change.by))
            case Began():
                for role in sorted(self._open):
                    self._role(role, change.offset, at_ms)

    def _told(self, change: DidChanged, at_ms: int, cause: str | None = None) -> None:
        if change.what not in ("lead", "stop"):
            return
        role, seat = change.seat
        sign = None
        if change.what == "stop":
            sign = self._sign_before(change.member, change.at + 2 * self._error_ms)
        fact = Fact(
            change.what, change.offset, at_ms, role, seat, change.token, change.member, change.member, change.at
        )
        self._facts.append(fact._replace(cause=cause, why=change.why, sign_ms=sign))

    def _seat(self, change: SeatChanged, at_ms: int, sender: str) -> None:
        role, seat = change.seat
        if change.before is not None:
            # What a holder gives up itself is its last sign of life; the record is not yet in `_signs`.
            sign = at_ms if change.before == sender else (self._sign_of(change.before) or (0, None))[1]
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
                eligible=None if member.eligible is None else json.dumps(member.eligible),
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
