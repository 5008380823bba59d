"""How a record changes the world. Order decides (R1): the fold sees a record's kind, fields and offset, and nothing else.

Two questions are asked of every record, and they are kept apart:

* Does it *count* (R2)? Its sender is in the world, its number is above every counted number of that sender, its base is the
  one in force, its version is one that all members can read. What does not count changes nothing at all. What counts is a
  sign of life of its sender, also when its effect is refused. `sender` answers this for the fold; the sender itself asks the
  fold (its own last counted number) and nobody else, so the two can't differ (R4).
* Does its effect stand? The table at the end of this file has one function a kind. A claim stands iff what it supersedes is
  still so at its place in the log (R3). A seat is freed, or changes hands, only by its holder's release, transfer or leave,
  by a successful claim, or by proof of death (R3a): so `_free` and `_seize` are called from those and from nowhere else.

What version 2 of the format adds has effects only where it is in force (`World.in_force`): there is nobody then who reads less.

Without the first question late and doubled copies would act a second time. Without the second, two challengers, or a
challenger and a late heartbeat, would both be right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import UNSET

from pares.core.wire import records
from pares.core.wire.ahead import state_of
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
from pares.core.wire.divided.divisions import barred
from pares.core.wire.divided.ranges import allot, may_rewind, rewind
from pares.core.wire.forgetting import dismiss, forget, has_room, make_room, supersede
from pares.core.wire.records import AnyRecord, Seat, Unknown
from pares.core.wire.states import MemberState, PauseState, RoleState, SeatState, member_state
from pares.core.wire.world import World


def sender(world: World, record: AnyRecord | Unknown) -> MemberState | None:
    """The member whose record this is, if the record counts (R2); None if it does not. Genesis and join aside."""
    member = world.members.get(record.m)
    if member is not None and record.n > member.n and record.b == world.base and record.v <= world.reads:
        return member
    return None


def join_counts(world: World, join: records.Join) -> bool:
    """A join needs a log that has begun, an id never seen to go, and a version that all can read; and it must be able to read
    all that has counted so far (R2, R8, R11). [Its sender looked before it joined, and something newer has counted since: it
    would live in a world of its own] A join of a form that readers of version 1 do not know counts only where version 2 is in
    force already: they must be able to see, by records of members that they know, that the group has moved on."""
    return (
        join.b == world.base != 0
        and join.m not in world.members
        and join.m not in world.gone
        and join.v <= min(world.reads, join.reads)
        and join.reads >= world.highest
        and (join.ready is UNSET or (join.v >= 2 and world.in_force))
        and has_room(world)
    )


def _unknown_to_the_first(world: World, join: records.Join) -> bool:
    """Whether a reader of version 1 takes this join for an unknown kind, which counts if its sender is a member already, and so
    brings version 2 into force. No member writes one here; but all readers must judge alike up to that place (R11)."""
    return not world.in_force and join.v >= 2 and join.ready is not UNSET


def genesis_counts(world: World, offset: int, genesis: records.Genesis) -> bool:
    """A log begins anew only under a greater base, and only if nothing has counted after the record it names (R9).

    Compared by "nothing since", as in R3, and not by equality: who begins a log of which it can't tell what counts names
    the last record that it saw at all. The form of a genesis never changes, so neither does its version.
    """
    over = -1 if genesis.over is None else genesis.over
    return genesis.v == 1 and genesis.base > world.base and world.last <= over < offset


def fold(world: World, offset: int, record: AnyRecord | Unknown, changes: list[Change]) -> bool:
    """Folds one record of the group, at its place in the log, into the world. Returns whether it counted."""
    kind = type(record)
    if kind is records.Genesis:
        return _genesis(world, offset, record, changes)  # type: ignore[arg-type]
    if kind is records.Join:
        if join_counts(world, record):  # type: ignore[arg-type]
            _join(world, offset, record, changes)  # type: ignore[arg-type]
        elif not (_unknown_to_the_first(world, record) and _sign_of_life(world, offset, record)):  # type: ignore[arg-type]
            return False
    else:
        member = _sign_of_life(world, offset, record)
        if member is None:
            return False
        effect = EFFECTS.get(kind)
        if effect is not None:
            effect(world, offset, member, record, changes)
    world.count += 1
    world.last = offset
    if record.v > world.highest:
        world.raise_version(record.v)
    return True


def at_place(world: World, offset: int, record: AnyRecord | Unknown, changes: list[Change]) -> bool:
    """Whether the place right after this counted record is one for snapshots (R10); if so the world notes it.

    A join that found no way in makes a place of its own, so that it can be answered at once.
    """
    if world.count < world.next_place() and not (type(record) is records.Join and record.adrift):
        return False
    world.placed = world.count
    forget(world, offset, changes)
    world.place()
    return True


def _sign_of_life(world: World, offset: int, record: AnyRecord | Unknown) -> MemberState | None:
    """Notes the record as its sender's last one, if it counts (R2). Returns the sender then."""
    member = sender(world, record)
    if member is not None:
        member.n, member.offset, member.due_ms, member.count = record.n, offset, record.s, world.count + 1
    return member


# What the effects share -------------------------------------------------------------------------------------------------


def _seize(
    world: World, offset: int, seat: SeatState, to: MemberState, record: AnyRecord, changes: list[Change], why: str = ""
) -> None:
    """The record at `offset` makes `to` the holder: token = base + offset (R9), which is above every earlier one."""
    before, before_token = seat.holder, seat.token
    if before is not None:
        world.let_go(before, seat.seat)
    world.held[to.id].add(seat.seat)
    if seat.avoid != to.id:
        seat.avoid = None
    seat.holder, seat.token = to.id, world.base + offset
    seat.pinned, seat.asked, seat.last = False, None, None
    world.changed(("seats", seat.seat))
    cause = type(record).__name__.lower()
    changes.append(
        SeatChanged(offset, seat.seat, to.id, seat.token, before, before_token if before else 0, cause, why, record.m)
    )


def _free(world: World, offset: int, seat: SeatState, record: AnyRecord, changes: list[Change], why: str = "") -> None:
    """Nobody holds the seat any more; a removed role, or one with fewer seats now, loses it here (R3a)."""
    before = seat.holder
    if before is None:
        return
    world.let_go(before, seat.seat)
    # The member that lost it without giving it up comes first when it comes back under its name (R8).
    seat.last = world.members[before].name if isinstance(record, records.Obituary | records.Claim) else None
    seat.holder, seat.pinned, seat.asked = None, False, None
    world.changed(("seats", seat.seat))
    cause = type(record).__name__.lower()
    changes.append(SeatChanged(offset, seat.seat, None, 0, before, seat.token, cause, why, record.m))
    role = world.roles[seat.role]
    if role.removed or seat.index >= role.seats:
        _shrink(world, offset, role, changes)


def _shrink(world: World, offset: int, role: RoleState, changes: list[Change]) -> None:
    """Free seats that their role no longer has disappear; so does a removed role with its last seat."""
    left = 0
    for index in range(world.widths[role.name]):
        seat = world.seats.get((role.name, index))
        if seat is None:
            continue
        if seat.holder is None and (role.removed or index >= role.seats):
            world.drop(seat.seat)
        else:
            left += 1
    if left == 0:
        del world.roles[role.name], world.widths[role.name]
        changes.append(RoleChanged(offset, role.name, "removed"))
    world.changed(("roles", role.name))


def _held_by(world: World, member: MemberState, seat: Seat, token: int) -> SeatState | None:
    """The seat, if the member holds it by this very term: records of another term have no effect (R5)."""
    state = world.seats.get(seat)
    return state if state is not None and state.holder == member.id and state.token == token else None


def _raise_mark(world: World, seat: SeatState, mark: int | None) -> None:
    """Marks only rise (R15)."""
    if mark is not None and mark > seat.mark:
        seat.mark = mark
        world.marked(seat.seat)


def _remove_member(
    world: World, offset: int, member: MemberState, record: AnyRecord, cause: str, changes: list[Change]
) -> None:
    """All its seats are free, and its id never returns."""
    for key in sorted(world.held[member.id]):
        _free(world, offset, world.seats[key], record, changes, cause)
    world.remove(member)
    world.gone[member.id] = world.count + 1
    world.changed(("gone", member.id))
    changes.append(MemberLeft(offset, member.id, member.name, cause))


# The effects, one a kind ------------------------------------------------------------------------------------------------


def _genesis(world: World, offset: int, record: records.Genesis, changes: list[Change]) -> bool:
    if not genesis_counts(world, offset, record):
        return False
    for member in list(world.members.values()):
        for key in sorted(world.held[member.id]):
            _free(world, offset, world.seats[key], record, changes)
        changes.append(MemberLeft(offset, member.id, member.name, "reset"))
    world.begin_anew(record.base, offset, record.v)
    changes.append(Began(offset, record.base))
    return True


def _join(world: World, offset: int, record: records.Join, changes: list[Change]) -> None:
    if world.in_force:
        make_room(world, offset, changes)
    world.add(member_state(record, offset, world.count + 1))
    if record.ready is False:
        _not_ready(world, record.m, "")
    changes.append(MemberJoined(offset, record.m, record.name, record.host))
    if world.in_force:
        supersede(world, offset, record.name, changes)


def _not_ready(world: World, member: str, why: str) -> None:
    world.unready[member] = why
    world.changed(("unready", member))


def _ready(world: World, offset: int, member: MemberState, record: records.Ready, changes: list[Change]) -> None:
    """R19: what it says holds from here on; what it holds it keeps, until it gives it up itself (R3a)."""
    if record.v < 2:
        return  # to a reader of version 1 this is a kind that it does not know
    if not record.ready:
        _not_ready(world, member.id, record.why)
    elif world.unready.pop(member.id, None) is not None:
        world.changed(("unready", member.id))


def _beat(world: World, offset: int, member: MemberState, record: records.Beat, changes: list[Change]) -> None:
    world.raise_marks((record,))


def _leave(world: World, offset: int, member: MemberState, record: records.Leave, changes: list[Change]) -> None:
    world.raise_marks((record,))
    _remove_member(world, offset, member, record, "left", changes)


def claim_stands(world: World, seat: SeatState, over: tuple[str, int] | None) -> bool:
    """Compare (R3): the seat is free and the claim names nobody, or its holder has written nothing that counts since."""
    if seat.holder is None or over is None:
        return seat.holder is None and over is None
    return over == (seat.holder, world.members[seat.holder].offset)


def _claim(world: World, offset: int, member: MemberState, record: records.Claim, changes: list[Change]) -> None:
    seat = world.seats.get(record.seat)
    if seat is None or not claim_stands(world, seat, record.over):
        return
    if record.free:
        _free(world, offset, seat, record, changes, "silent")
    elif may_take(world, member, record.seat):
        _seize(world, offset, seat, member, record, changes, "free" if seat.holder is None else "silent")


def may_take(world: World, member: MemberState, seat: Seat) -> bool:
    """Whether the member may hold it at all: eligible, ready, not draining, no second seat of one role, none under a
    pause (R3, R13, R19), none of a partition that is divided in another way (C12)."""
    return (
        (world.open(seat) and not world.paused(seat[0]) and not member.draining)
        and member.id not in world.unready
        and world.may_hold(member, seat[0])
        and not world.holds_in_role(member.id, seat[0])
        and not (world.seats[seat].holder is None and barred(world, seat[0]))
    )


def _release(world: World, offset: int, member: MemberState, record: records.Release, changes: list[Change]) -> None:
    seat = _held_by(world, member, record.seat, record.token)
    if seat is None:
        return
    _raise_mark(world, seat, record.mark)
    if record.down:
        seat.avoid = member.id
    _free(world, offset, seat, record, changes, record.why)


def _transfer(world: World, offset: int, member: MemberState, record: records.Transfer, changes: list[Change]) -> None:
    seat = _held_by(world, member, record.seat, record.token)
    if seat is None:
        return
    _raise_mark(world, seat, record.mark)
    to = world.members.get(record.to)
    if to is not None and may_take(world, to, record.seat):
        _seize(world, offset, seat, to, record, changes, record.why)
        seat.pinned = record.pin
    else:
        if record.down:
            seat.avoid = member.id
        _free(world, offset, seat, record, changes, record.why)


def _obituary(world: World, offset: int, member: MemberState, record: records.Obituary, changes: list[Change]) -> None:
    dead = world.members.get(record.of)
    if dead is not None and dead.lock is not None and dead.id != member.id:
        _remove_member(world, offset, dead, record, "died", changes)


def _forget(world: World, offset: int, member: MemberState, record: records.Forget, changes: list[Change]) -> None:
    """R20, compared as a claim is (R3): it holds nothing, and nothing of it has counted since."""
    silent = world.members.get(record.of)
    if record.v >= 2 and silent is not None and silent.offset == record.over and not world.held[silent.id]:
        dismiss(world, offset, silent, changes)


def _ask(world: World, offset: int, member: MemberState, record: records.Ask, changes: list[Change]) -> None:
    if record.drain is not None:
        target = world.members.get(record.drain)
        if target is not None and not target.draining:
            target.draining = True
            world.changed(("members", target.id))
    if record.seat is not None:
        seat = world.seats.get(record.seat)
        if seat is not None and seat.holder is not None:
            seat.asked = (record.to, offset)
            world.changed(("seats", seat.seat))


def _role(world: World, offset: int, member: MemberState, record: records.Role, changes: list[Change]) -> None:
    role = world.roles.get(record.name)
    if record.removed:
        if role is not None and not role.removed:
            role.removed = True
            changes.append(RoleChanged(offset, record.name, "removing"))
            _shrink(world, offset, role, changes)
        return
    if role is None:
        if len(world.roles) >= records.MAX_ROLES:
            return
        role = world.roles[record.name] = RoleState(record.name, record.seats, record.weight, record.spread, False)
        changes.append(RoleChanged(offset, record.name, "added"))
    else:
        role.seats, role.weight, role.spread, role.removed = record.seats, record.weight, record.spread, False
        changes.append(RoleChanged(offset, record.name, "changed"))
    for index in range(record.seats):
        world.add_seat(record.name, index)
    _shrink(world, offset, role, changes)


def _pause(world: World, offset: int, member: MemberState, record: records.Pause, changes: list[Change]) -> None:
    if len(world.pauses) >= records.MAX_PAUSES:
        return
    world.pauses[offset] = PauseState(offset, record.scope, record.ms, member.id)
    world.changed(("pauses", offset))
    changes.append(PauseChanged(offset, record.scope, True, member.id))


def _resume(world: World, offset: int, member: MemberState, record: records.Resume, changes: list[Change]) -> None:
    pause = world.pauses.pop(record.pause, None)
    if pause is not None:
        world.changed(("pauses", record.pause))
        changes.append(PauseChanged(offset, pause.scope, False, member.id))


def _take(world: World, offset: int, member: MemberState, record: records.Take, changes: list[Change]) -> None:
    seat = _held_by(world, member, record.seat, record.token)
    if seat is not None and seat.taken <= record.first <= record.last:
        seat.taken = record.last + 1
        world.marked(seat.seat)


def _done(world: World, offset: int, member: MemberState, record: records.Done, changes: list[Change]) -> None:
    seat = _held_by(world, member, record.seat, record.token)
    if seat is not None and record.first <= record.last:
        _raise_mark(world, seat, record.last + 1)


def _ahead(world: World, offset: int, member: MemberState, record: records.Ahead, changes: list[Change]) -> None:
    seat = _held_by(world, member, record.seat, record.token)
    if seat is not None and record.v >= 2:
        _raise_mark(world, seat, record.mark)
        world.keep(seat.seat, state_of(record))


def _range(world: World, offset: int, member: MemberState, record: records.Range, changes: list[Change]) -> None:
    seat = _held_by(world, member, record.seat, record.token)
    if seat is not None and record.v >= 2:
        allot(world, seat, record)


def _rewind(world: World, offset: int, member: MemberState, record: records.Rewind, changes: list[Change]) -> None:
    if not member.administrator:
        return
    for role, index, mark in record.marks:
        seat = world.seats.get((role, index))
        if seat is not None and seat.holder is None and may_rewind(world, seat):
            rewind(world, seat, mark)


def _did(world: World, offset: int, member: MemberState, record: records.Did, changes: list[Change]) -> None:
    changes.append(DidChanged(offset, member.id, record.seat, record.token, record.what, record.at, record.why))


Effect = Callable[[World, int, MemberState, Any, list[Change]], None]

EFFECTS: Final[dict[type, Effect]] = {
    records.Beat: _beat,
    records.Leave: _leave,
    records.Claim: _claim,
    records.Release: _release,
    records.Transfer: _transfer,
    records.Obituary: _obituary,
    records.Ask: _ask,
    records.Role: _role,
    records.Pause: _pause,
    records.Resume: _resume,
    records.Take: _take,
    records.Done: _done,
    records.Rewind: _rewind,
    records.Did: _did,
    records.Ready: _ready,
    records.Forget: _forget,
    records.Ahead: _ahead,
    records.Range: _range,
}
"""One effect a kind; a kind that is not here (`Unknown`, and snapshots: readers compare them, or begin with one) has none."""
