"""What stands in the log and no member of this release has written: garbage, forgeries, what later versions say; and what
holders of seats write of their work (R15)."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, Final

from pares.core.claims.chores import duties
from pares.core.claims.protocol import Stage
from pares.core.wire import records
from pares.core.wire.records import MAX_INT, Seat
from pares.core.wire.world import World
from pares.sim.world.scheduler import NEVER

if TYPE_CHECKING:
    from pares.sim.members.claims.ground import Ground
    from pares.sim.members.striking import Striking
    from pares.sim.members.users import User
    from pares.sim.world.process import Process

BROKEN: Final = (
    b"",
    b"null",
    b"{",
    b"\xff\xfe\x00",
    b"[" * 100_000,
    b'{"a":' * 200,
    b"NaN",
    b'{"k":"beat","v":1,"g":"stage","m":"x~1","n":NaN,"b":1,"s":1}',
    b'{"k":"beat","v":1,"g":"stage","m":"x~1","n":1e308,"b":1,"s":1}',
    b'{"k":"beat","v":1,"g":"stage","m":"x~1","n":-1,"b":1,"s":1}',
    b'{"k":"beat","v":1,"g":"stage","m":"x~1","n":1' + b"0" * 400 + b',"b":1,"s":1}',
    b'{"k":"beat","v":1,"g":"stage","m":"x~1","n":1,"b":1,"s":1,"marks":{}}',
    b'{"k":"claim","v":1,"g":"stage","m":"x~1","n":1,"b":1,"s":1,"seat":["r0",-1]}',
    b'{"k":"join","v":1,"g":"stage","m":"x~1","n":1,"b":1,"s":1,"name":"x","session":86400000}',
    b'{"k":"join","v":1,"g":"stage","m":"x~1","n":1,"b":1,"s":1,"name":"x\\u0000","session":1000}',
    b'{"k":"wave","v":1,"g":"stage","m":"x~1","n":1,"b":1,"s":1,"x":' + b"[" * 80 + b"]" * 80 + b"}",
    b'{"k":"genesis","v":1,"g":"stage","m":"x~1","n":1,"b":1,"s":1,"base":9007199254740992}',
    b'{"k":"beat","k":"leave","v":1,"g":"stage","m":"x~1","n":1,"b":1,"s":1}',
    b"x" * 70_000,
)
"""Not records, in as many ways as the format forbids."""


def garbage(rng: Random, stage: Ground) -> list[bytes]:
    """Bytes that are no records, records of nobody, and records of this group that can't count."""
    found: list[bytes] = [rng.choice(BROKEN) for _ in range(rng.randint(1, 3))]
    for _ in range(rng.randint(0, 3)):
        found.append(records.encode(_stranger(rng, stage)))
    return found


def _stranger(rng: Random, stage: Ground) -> records.AnyRecord:
    """A record that must not count: from somebody unknown, or under another base, or a genesis over somebody alive."""
    world = stage.judge.judge.world
    seats = sorted(world.seats) or [("r0", 0)]
    members = sorted(world.members) or ["x~1"]
    seat = rng.choice(seats)
    who = rng.choice(("x~1", *members))
    known = who in world.members
    base = world.base - rng.randint(1, 9) if known and world.base > 9 else world.base
    envelope: dict[str, Any] = {"v": 1, "g": stage.group, "m": who, "n": rng.choice((1, 10**6)), "b": base, "s": 100}
    made = rng.randrange(7)
    if made == 0:
        return records.Claim(**envelope, seat=seat)
    if made == 1:
        return records.Release(**envelope, seat=seat, token=world.base + max(0, world.last))
    if made == 2:
        return records.Obituary(**envelope, of=rng.choice(members))
    if made == 3:
        # Over a record that is not the last one of the group: somebody has written since.
        over = rng.choice((None, max(0, world.last - rng.randint(1, 20))))
        if world.last < 0 or (over is not None and over >= world.last):
            return records.Beat(**envelope)
        return records.Genesis(**{**envelope, "b": world.base + 10**6}, base=world.base + 10**6, over=over)
    if made == 4:
        return records.Snapshot(
            **envelope, upto=rng.choice((0, world.last + 1, 10**9)), id="x", part=rng.randint(0, 2), parts=1, world="{}"
        )
    if made == 5:
        return records.Pause(**envelope, ms=10**6)
    return records.Leave(**envelope)


def false_snapshot(rng: Random, stage: Ground) -> bytes | None:
    """A snapshot of the world as it is, but for one seat or one member; by a stranger."""
    if not stage.judge.judge.world.base:
        return None
    world = World.load(stage.judge.judge.world.dump())
    world.placed = world.count  # as if this were a place
    if world.seats and rng.random() < 0.7:
        seat = world.seats[rng.choice(sorted(world.seats))]
        seat.holder, seat.mark = None, seat.mark + 1
    elif world.members:
        id = rng.choice(sorted(world.members))
        del world.members[id]
        for seat in world.seats.values():
            seat.holder = None if seat.holder == id else seat.holder
    text = world.dump()
    if len(text) > duties.SNAPSHOT_TEXT:
        return None
    envelope: dict[str, Any] = {"v": 1, "g": stage.group, "m": "x~1", "n": 1, "b": world.base, "s": 100}
    return records.encode(records.Snapshot(**envelope, upto=world.last + 1, id="x", part=0, parts=1, world=text))


def forgery(rng: Random, stage: Ground) -> bytes | None:
    """A beat of a live member, with a number that it has not used: it must find that it was cloned, and stop."""
    members = [m for m in stage.judge.judge.world.members.values() if m.n < MAX_INT // 2]
    if not members:
        return None
    member = rng.choice(sorted(members, key=lambda m: m.id))
    n = member.n + rng.choice((1, 50, 10**6))
    return records.encode(
        records.Beat(v=1, g=stage.group, m=member.id, n=n, b=stage.judge.judge.world.base, s=rng.choice((1, 100, 1000)))
    )


class Future:
    """A member written by a later version: eligible for nothing, it beats, and speaks of things that nobody here knows."""

    def __init__(self, stage: Ground, rng: Random, number: int) -> None:
        self.stage, self.rng = stage, rng
        self.unit = stage.plan.unit
        self.left = rng.randint(5, 30)
        self.id = f"future{number}~1"
        self.n = 0
        self.base = stage.judge.judge.world.base

    def begin(self) -> None:
        self._write(self._record("join", f',"name":"{self.id}","session":{self._session()},"eligible":[],"reads":3'))
        self.stage.world.after(self.unit // 4, self._go_on)

    def _session(self) -> int:
        return max(20, self.unit // 1_000_000)

    def _record(self, kind: str, more: str = "", v: int = 1) -> bytes:
        self.n += 1
        text = f'"k":"{kind}","v":{v},"g":"{self.stage.group}","m":"{self.id}","n":{self.n},"b":{self.base},"s":100'
        return ("{" + text + more + "}").encode()

    def _write(self, payload: bytes) -> None:
        self.stage.write(payload)

    def _go_on(self) -> None:
        self.left -= 1
        if self.left < 0 or self.base != self.stage.judge.judge.world.base:
            return
        kind = self.rng.randrange(5)
        if kind == 0:
            self._write(self._record("wave", ',"to":["everybody",{"x":1}]'))
        elif kind == 1:
            self._write(self._record("beat", ',"mood":"good"', v=2))
        elif kind == 2:
            self._write(self._record("dissolve", v=3))
        else:
            self._write(self._record("beat"))
        self.stage.world.after(int(self.unit * self.rng.uniform(0.1, 0.5)), self._go_on)


class Intruders:
    """Faults of that kind, one method each."""

    def __init__(self, storm: Striking) -> None:
        self._storm = storm
        self._stage = storm.stage
        self._strangers = 0
        self._work: dict[Process, list[tuple[type[records.Record], dict[str, Any]]]] = {}
        self._terms: list[tuple[User, Seat, int]] = []
        """The user that has led each seat, and by which token: of those that wrote of their work."""

    @property
    def _rng(self) -> Random:
        """Of what happens now."""
        return self._storm.rng

    def garbage(self) -> None:
        for payload in garbage(self._rng, self._stage):
            self._stage.write(payload)

    def false_snapshot(self) -> None:
        """Whole, at a place, and of a world that is not so: its writer is no member of it."""
        payload = false_snapshot(self._rng, self._stage)
        if payload is not None:
            self._stage.write(payload)

    def forge(self) -> None:
        """A record in the name of a live member which that one never wrote, as of a cloned process: the member stops."""
        payload = forgery(self._rng, self._stage)
        if payload is not None:
            self._stage.write(payload)
            victim = self._stage.by_id(records.decode(payload).m)
            if victim is not None:
                victim.process.well_since = NEVER  # what it writes counts no more, and it stops when it finds that out
            for user in self._stage.own:
                self._storm.world.after(self._storm.span(1, 5), user.replace_stopped)

    def future(self) -> None:
        """A member of a later version: it writes kinds that nobody here knows, and records above what they can read."""
        self._strangers += 1
        Future(self._stage, self._rng, self._strangers).begin()

    def consume(self) -> None:
        """Somebody writes, of a seat that it holds or has held, what it takes or has done: by any token that it ever had there,
        and of any range near where the seat stands."""
        user = self._storm.someone(holder=True)
        if user is None or user.process is None:
            return
        for held in self._stage.sight.of_process(user.process):
            if held.member is user.member:
                self._terms.append((user, (held.seat[1], held.seat[2]), held.token))
        mine = [(seat, token) for one, seat, token in self._terms if one is user]
        anybodys = [(seat, token) for _, seat, token in self._terms]
        if not mine:
            return
        for _ in range(self._rng.randint(1, 4)):
            seat, token = self._rng.choice(mine if self._rng.random() < 0.7 else anybodys)
            state = self._stage.judge.judge.world.seats.get(seat)
            near = max(0, self._rng.randint(-4, 4) + (0 if state is None else state.taken))
            kind = self._rng.choice((records.Take, records.Take, records.Done))
            fields = {"seat": seat, "token": token, "first": near, "last": near + self._rng.randint(0, 3)}
            self._writes(user, user.process, kind, fields)

    def _writes(self, user: User, process: Process, kind: type[records.Record], fields: dict[str, Any]) -> None:
        """Its member's loop writes that, as soon as nothing else is under way."""
        if process not in self._work:
            self._work[process] = []
            _hook(user.member, self._work[process])
        self._work[process].append((kind, fields))


def _hook(member: Any, work: list[tuple[type[records.Record], dict[str, Any]]]) -> None:
    loop = member._loop
    before: Callable[[], object] | None = loop.each_round

    def each_round() -> None:
        if before is not None:
            before()
        core = loop.binding.core
        box = core.outbox
        if not work or loop.over is not None or core.stage is not Stage.LIVE or box.in_flight is not None:
            return
        if box.quiet and not core.tenures.left:
            (kind, fields), now = work.pop(0), loop.now()
            box.write(core.reader.world, kind, now, **fields)
            loop._append([box.flush(now)])

    loop.each_round = each_round
