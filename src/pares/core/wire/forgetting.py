"""Whom the group forgets (R13, R20): rules of the fold, so all readers forget the same members at the same place.

* A member without seats that has been silent for `World.memory` counted records is forgotten, at the next place (R13).
* **R20** A dead member adds nothing to how long the group remembers. `World.memory` grows with the *elders*, members that have
  been there, and written, for `FORGET` records, and a process that dies again and again never lives for so long. [the more dead
  there are, the longer each is remembered: nobody is ever forgotten]
* **R20** An incarnation is forgotten when its successor, of the same name, has joined, its own seats are free, and nothing
  of it has counted in the records after that (`GRACE`). A living namesake writes when it reads of its successor, so it stays.
  [a crash loop fills the group until nobody can join]
* **R20** The bound on members counts the living: a join into a full group makes room, by forgetting members without seats that
  have been silent for half of the memory. A living member writes when a quarter has passed.
* **R20** Under names of its own each time, a crash loop leaves members without successors. Of members without seats that are
  silent a group keeps `KEPT`. When there are more, a member that has out-waited those that have been silent for longest writes
  `forget(of, over)` for each, and names its last record. That stands only if the silent one still holds nothing and has
  written nothing since, as a claim does (R3). How long to wait is no matter of the fold: `Stopwatches.silent`. [only the bound
  on members ends a crash loop whose process has another name at each start]

None of this can hurt the living or the seats. A forgotten member held nothing: what it still writes does not count, it reads
that the group no longer knows it, drops what it believes (nothing), and begins anew. Nor does it bring back the dead (R2): a
member that is forgotten for its successor's sake, to make room, or for its silence, stands in `World.gone` like one that has
left, for as long as the memory lasts, so neither its join nor anything else of it counts again. A copy of a join that lands
later still than that, after at least `FORGET` records of the group, makes a member that nobody drives: it is no heir, since it
never says a word that shows that it reads (`silence`), and the silence of whatever copies let it claim is out-waited like any
other (R3), so it leads nothing at any time; and it is forgotten in its turn. With fewer than `FORGET` records in between no
late copy of a join ever counts.

The rules of R20 need version 2 of the format to be in force (R11); before, a world is folded as release 0.1 folds it.
"""

from __future__ import annotations

from typing import Final

from pares.core.wire.changes import Change, MemberLeft
from pares.core.wire.records import MAX_MEMBERS
from pares.core.wire.states import MemberState
from pares.core.wire.world import World

GRACE: Final = 16
"""Records of the group, after its successor's join, within which an incarnation must write; and four more for each name in the
group, which is what so many holders write in a session. [in a busy group a living namesake is forgotten before it can read of
its successor] Names, and not members: those of a crash loop add nothing."""


KEPT: Final = 32
"""Silent members without seats that a group keeps, before anybody writes that they are to be forgotten. A standby that stood
still for a while is among them, so it goes on as who it was."""


def dismiss(world: World, offset: int, member: MemberState, changes: list[Change]) -> None:
    """Somebody has out-waited it, and it has not written since (R20)."""
    _drop(world, offset, member, changes, gone=True)


def forget(world: World, offset: int, changes: list[Change]) -> None:
    """At a place: members that have been silent for so long, and ids of members that are gone for so long."""
    if world.in_force:
        # The oldest first, in whatever order a reader has met the names: all readers tell the same changes in the same order.
        several = [ids for ids in world.names.values() if len(ids) > 1]
        for name in [
            world.members[ids[0]].name for ids in sorted(several, key=lambda ids: world.members[ids[0]].joined)
        ]:
            supersede(world, offset, name, changes)
    horizon = world.count - world.memory()
    if horizon <= 0:
        return
    silent = [m for m in world.members.values() if m.count < horizon and not world.held[m.id]]
    for member in silent:
        _drop(world, offset, member, changes)
    for id in [id for id, count in world.gone.items() if count < horizon]:
        del world.gone[id]
        world.changed(("gone", id))


def supersede(world: World, offset: int, name: str, changes: list[Change]) -> None:
    """Incarnations of that name that have a successor, and have not answered its join in time (R20)."""
    ids = world.names[name]
    successor = world.members[ids[-1]].joined
    horizon = world.count - GRACE - 4 * len(world.names)
    for id in ids[:-1]:
        member, followed = world.members[id], world.followed.get(id)
        if followed is None or member.offset > followed[1]:
            if member.offset < successor:
                world.followed[id] = (world.count, successor)
                world.changed(("followed", id))
        elif followed[0] <= horizon and not world.held[id]:
            _drop(world, offset, member, changes, gone=True)


def has_room(world: World) -> bool:
    """Whether one more member may join."""
    if len(world.members) < MAX_MEMBERS:
        return True
    return world.in_force and _long_silent(world) is not None


def make_room(world: World, offset: int, changes: list[Change]) -> None:
    """In a full group, for a join that counts."""
    if len(world.members) >= MAX_MEMBERS:
        while (member := _long_silent(world)) is not None:
            _drop(world, offset, member, changes, gone=True)


def superseded(world: World, member: MemberState) -> bool:
    """Whether a namesake has joined since anything of that member counted: if it lives, it had better say so."""
    return world.in_force and member.offset < world.members[world.names[member.name][-1]].joined


def _long_silent(world: World) -> MemberState | None:
    """A member without seats that has been silent for half of the memory."""
    member = world.longest_silent()
    return member if member is not None and member.count < world.count - world.memory() // 2 else None


def _drop(world: World, offset: int, member: MemberState, changes: list[Change], *, gone: bool = False) -> None:
    world.remove(member)
    if gone:
        world.gone[member.id] = world.count
        world.changed(("gone", member.id))
    changes.append(MemberLeft(offset, member.id, member.name, "forgotten"))
