"""What some member must do for the group, and who it is: proof of death, snapshots, ends of pauses, beats.

Each of these is harmless when done twice, so nobody is elected to do it: the first in a fixed order does it, and the
next in line a little later.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Final

from pares.core.lease import MS
from pares.core.wire.hashes import stable_hash
from pares.core.wire.records import Lock
from pares.core.wire.world import World

STANDBY_BUDGET: Final = 200
"""Beats a second that all standbys of a group together stay within (R16)."""
EAGER: Final = 16
"""Members up to which beats wake readers, on a ledger that does not stamp them, and up to which each notices at once that
another is overdue (R21)."""
GATHER_US: Final = 100
"""Microseconds for each member alive for which a member of a larger group rests after a round, so that one round reads what
many write at once (R21)."""
JUDGED_US: Final = 100
"""Ten times what it takes to load a snapshot and to hash it, for each member and each seat in it."""
JUDGED_MS: Final = 150_000
"""A quarter of the time from one snapshot to the next (`snapshot_every_ns`)."""
UNLED_US: Final = 20
"""Microseconds for each member alive, and each seat that nobody has led, over which a larger group spreads its first claims."""
BALANCE_MS: Final = 20
"""Milliseconds for each member alive over which a larger group spreads what it moves for balance (R13)."""
WATCHERS: Final = 2
"""How many members watch one holder's lock (R7)."""
SNAPSHOT_TEXT: Final = 200_000
"""Characters of a world in one part of a snapshot: with escapes well below a record's limit."""
PART_TEXT: Final = 32_000
"""The same in a large group, where all read one part before the next is written: a fraction of a millisecond for each."""


def beat_ms(world: World, me: str, session_ms: int, alive: frozenset[str], *, hurry: bool = False) -> int:
    """How long until this member's next record is due: a quarter of a session for holders; for standbys a session, or more
    when so many of them are `alive` that their beats would exceed the budget (R16). [the dead slow the living down] `hurry`:
    a standby that is needed, and waits for a beat that comes back in time, writes as often as the budget lets it (R18)."""
    if world.held.get(me):
        return max(1, session_ms // 4)
    held = world.held
    standbys = len([id for id in alive if not held.get(id)])  # a list in place of a sum: this is asked at every tick
    return standby_ms(max(1, session_ms // 4) if hurry else session_ms, standbys)


def gather_ns(alive: int, session_ms: int, worked: int = 0, *, late: bool = False) -> int:
    """For how long after a round a member lets others write before it reads again: nothing in a small group; else in proportion
    to the group, and a fortieth of its session at the most. [hundreds start, or die, and each record wakes all of them]

    Or for as long as all that are alive would take, one after the other, for a round like its last one, of `worked`
    nanoseconds, and a quarter of its session at the most; a session, if it is `late` (R18). So all of them together keep one
    processor busy, were they on one machine, and its others are free for what they do as leaders; and a machine that is too
    slow for its members has no more rounds to serve than their beats make necessary, each of which reads more. [all are
    late, since each wakes for every few records that the others have written; and stay late, since four rounds a session of
    each are all that their machine can do]"""
    if alive <= EAGER:
        return 0
    most = session_ms * MS // (1 if late else 4)
    return max(min(alive * GATHER_US * 1000, session_ms * MS // 40), min(alive * worked, most))


def spread_ns(me: str, members: int, session_ms: int) -> int:
    """For how long a joiner of a group that has so many members already lets others go first: a part of a millisecond for each,
    which part its id says, and of a quarter of its session at the most. [hundreds start at once, and each join is read, and
    placed for, by all the others by itself]"""
    return part(me, 0 if members <= EAGER else min(members * MS, session_ms * MS // 4))


def judge_ns(world: World, me: str) -> int:
    """For how long a member leaves a snapshot that it has read as it is, before it compares it with its own world: not at all
    in a small group; else a part, which its id says, of what all members together take for that, and as much again. [a hundred
    members load the world at the same moment, and their leases run out meanwhile]"""
    members = len(world.members)
    together = members * (members + len(world.seats)) * JUDGED_US * 1000
    return part(me, 0 if members <= EAGER else min(together, JUDGED_MS * MS))


def first_ns(me: str, alive: int, unled: int, session_ms: int) -> tuple[int, int]:
    """For how long a member of a group that has come together lets others claim first what nobody has led, and for how long all
    of them do: nothing in a small group; else `UNLED_US` for each member and each such seat, which part of that its id says,
    and two of its sessions at the most. Each claims its whole share at once then. [each claims a little, again and again, and
    all have to read that, and to look what is left]"""
    most = 0 if alive <= EAGER else min(alive * unled * UNLED_US * 1000, 2 * session_ms * MS)
    return part(me, most), most


def turn_ns(me: str, alive: int, session_ms: int) -> int:
    """For how long a member of a large group lets others move for balance first: `BALANCE_MS` for each, which part of that its
    id says, and two of its sessions at the most. [a hundred hand over at the same moment what each has too much, and what all
    of them have to read then costs them their leases]"""
    return part(me, 0 if alive <= EAGER else min(alive * BALANCE_MS * MS, 2 * session_ms * MS))


def part(me: str, most: int) -> int:
    """The part of that time that an id says: members' parts are spread evenly over it."""
    return most * stable_hash(me) >> 64


def standby_ms(least: int, standbys: int) -> int:
    """How far apart the records of each of so many standbys are at least, so that all of them stay within the budget (R16)."""
    return max(least, standbys * 1000 // STANDBY_BUDGET)


def to_watch(world: World, me: str, alive: frozenset[str], witness: str = "") -> dict[str, Lock]:
    """Whose locks this member watches: the holders right before it in a ring of those on its host, and its own namesakes. A
    witness of that boot watches all of its host, and is in nobody's ring, as it states no lock (R22)."""
    if witness:
        return {id: m.lock for id, m in world.members.items() if m.lock is not None and m.lock.boot == witness}
    mine = world.members[me].lock
    if mine is None:
        return {}
    ring = Ring(world, mine.boot)
    found = {id: world.members[id].lock for id in _namesakes_before(world, me)}
    if me in alive:
        found |= {id: world.members[id].lock for id in ring.right_before(me, alive) if world.held[id]}
    return {id: lock for id, lock in sorted(found.items()) if lock is not None and lock.boot == mine.boot}


class Ring:
    """The members on one host, in the order in which they watch one another: by their ids; where they are many, by what has
    nothing to do with their names. [those that are named one after the other were started together, and die together: nobody is
    left that would prove more than the last two of them dead]"""

    def __init__(self, world: World, boot: str) -> None:
        ids = [id for id, m in world.members.items() if m.lock is not None and m.lock.boot == boot]
        self._mixed = len(ids) > EAGER
        self._order = sorted(map(self._key, ids))

    def _key(self, id: str) -> tuple[int, str]:
        return stable_hash(id) if self._mixed else 0, id

    def behind(self, id: str) -> Iterator[str]:
        """Once round it, from the one behind this member on."""
        order, place = self._order, bisect_left(self._order, self._key(id)) + 1
        size = len(order)
        return (order[at % size][1] for at in range(place, place + size - 1))

    def right_before(self, me: str, alive: frozenset[str]) -> Iterator[str]:
        """Those whose watchers this member is one of, if they hold anything."""
        place, size, between = bisect_left(self._order, self._key(me)), len(self._order), 0
        for back in range(1, size):
            if between == WATCHERS:
                return
            id = self._order[(place - back) % size][1]
            yield id
            between += id in alive


class Rings:
    """Each host's ring, put in order once (R23). [each of half of a group that dies is looked up in a ring made for it]"""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rings: dict[str, Ring] = {}

    def of(self, lock: Lock) -> Ring:
        ring = self._rings.get(lock.boot)
        if ring is None:
            ring = self._rings[lock.boot] = Ring(self._world, lock.boot)
        return ring


def watchers(world: World, id: str, alive: frozenset[str], rings: Rings | None = None) -> list[str]:
    """The members that watch this holder's lock, in order; without those that watch it as namesakes. `rings`: if they are made
    already."""
    lock = world.members[id].lock
    if lock is None:
        return []
    ring = (rings or Rings(world)).of(lock)
    return list(islice((other for other in ring.behind(id) if other in alive), WATCHERS))


def turn(
    world: World,
    id: str,
    me: str,
    alive: frozenset[str],
    heirs: Collection[str | None],
    *,
    witness: bool,
    rings: Rings | None = None,
) -> int:
    """This member's place in the line of those that write an obituary: an heir comes first, for it claims in the same append;
    then a witness, which may see a death that no other member of the host is there to see; each next one a little later."""
    line = sorted(watchers(world, id, alive, rings), key=lambda other: other not in heirs)
    if witness:
        return int(bool(line) and line[0] in heirs)
    return line.index(me) if me in line else len(line)


def _namesakes_before(world: World, me: str) -> list[str]:
    mine = world.members[me]
    return [id for id in world.names[mine.name] if world.members[id].joined < mine.joined]


def snapshot_writer(world: World, alive: frozenset[str]) -> str:
    """The member that writes the next snapshot: the first holder that is not overdue; without holders, the first member
    (R10)."""
    holders = [id for id in alive if world.held[id]]
    return min(holders or alive)


def snapshot_every_ns(world: World, retention_ns: int | None) -> int:
    """How often: so that retention, at least ten of the longest sessions, always holds one (R10)."""
    longest = max((m.session_ms for m in world.members.values()), default=1000) * MS
    if retention_ns is None:
        return max(4 * longest, 60_000 * MS)
    return min(max(2 * longest, retention_ns // 4), 600_000 * MS)
