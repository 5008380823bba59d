"""`python -m bench.ordinary`: what ordinary trouble costs, in virtual time: the real core on a simulated log.

One table: a member that is not ready for half a minute (R19), a member whose round trips are too long (R18), half of a
group that dies in one instant (R20), a process that dies at each start (R20), joins into a full group (R20). Times are
simulated, all but the last, so the figures are the same on any machine."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterable
from random import Random
from time import perf_counter
from typing import Any, Final

from pares.core.claims.protocol import RoleSpec
from pares.core.events import Ready
from pares.core.wire.fold import at_place, fold
from pares.core.wire.records import MAX_MEMBERS, READS, Beat, Genesis, Join, Leave
from pares.core.wire.world import World
from pares.sim.engine import MS, Stopwatch
from pares.sim.process import Process
from pares.sim.scene import Scene
from pares.sim.wire import Weather

SESSION: Final = 1000
"""Milliseconds."""
QUICK: Final = Weather(
    send=(MS // 2, 2 * MS), ack=(MS // 2, 2 * MS), lag=(MS // 4, MS), timeout=3000 * MS, blocking=True
)
SEAT: Final = ("A", 0)
LIVING: Final = 3
STEP: Final = 5 * MS
"""How often it is looked who leads."""


class Group:
    """Members of one role, in virtual time."""

    def __init__(self, seed: int, members: int, *, drift: float = 0.0, **settings: Any) -> None:
        self.scene = Scene(seed, weather=QUICK)
        self.rng = Random(f"{seed}/ordinary")
        self.members: list[Process] = []
        for i in range(members):
            given = {"roles": (RoleSpec("A"),), "session_ms": SESSION, "eligible": None, **settings}
            watch = Stopwatch(self.rng.randint(0, 10**12), 1 + self.rng.uniform(-drift, drift))
            process = self.scene.add(f"m{i}", given, stopwatch=watch)
            process.poll = 250 * MS
            self.members.append(process)

    def start(self) -> None:
        for process in self.members:
            self.scene.engine.at(self.rng.randint(0, SESSION * MS), process.start)

    def run(self, seconds: float) -> None:
        self.scene.engine.run(self.scene.engine.now + int(seconds * 1e9))

    def leader(self) -> Process | None:
        return next((p for p in self.members if p.believes(SEAT)), None)

    def samples(self, seconds: float) -> list[Process | None]:
        found: list[Process | None] = []
        for _ in range(int(seconds * 1e9 / STEP)):
            self.scene.engine.run(self.scene.engine.now + STEP)
            found.append(self.leader())
        return found

    def led_again(self, limit: float = 20.0) -> float:
        """Seconds until somebody leads."""
        began = self.scene.engine.now
        while self.leader() is None and self.scene.engine.now < began + int(limit * 1e9):
            self.scene.engine.run(self.scene.engine.now + MS)
        return (self.scene.engine.now - began) / 1e9

    def records(self) -> int:
        return self.scene.log.end


def slow(process: Process, trip_ms: tuple[int, int]) -> None:
    """Appends of that process take so long, and land halfway."""
    low, high = trip_ms[0] * MS // 2, trip_ms[1] * MS // 2
    process.wire.weather = Weather(
        send=(low, high), ack=(low, high), lag=QUICK.lag, timeout=10 * SESSION * MS, blocking=True
    )


def half_dies(members: int, dying: int, rounds: int) -> list[float]:
    """Seconds without a leader, when that many die in one instant and the leader is among them."""
    found: list[float] = []
    for seed in range(rounds):
        group = Group(seed, members, drift=0.001)
        group.start()
        group.run(5 + group.rng.random())
        leader = group.leader()
        assert leader is not None
        others = [p for p in group.members if p is not leader]
        for process in [leader, *group.rng.sample(others, dying - 1)]:
            group.scene.kill(process)
        found.append(group.led_again())
    return found


def not_ready(seed: int = 0, seconds: int = 30) -> tuple[float, int, float]:
    """The better rank is not ready from its start on: the part of samples in which the other leads, in how many the one that is
    not ready believes, and how many records a second are written meanwhile."""
    group = Group(seed, 2)
    group.members[0].settings |= {"rank": 0, "ready": False}
    group.members[1].settings |= {"rank": 1}
    group.start()
    group.run(2)
    before = group.records()
    found = group.samples(seconds)
    other = sum(p is group.members[1] for p in found) / len(found)
    wrong = sum(p is group.members[0] for p in found)
    rate = (group.records() - before) / seconds
    group.members[0].request(Ready(True))
    group.run(3)
    assert group.leader() is group.members[0], "ready again, it gets what its rank gives it"
    assert group.members[0].incarnations == 1
    return other, wrong, rate


def one_slow(trip_ms: tuple[int, int], seed: int = 0, seconds: int = 100) -> tuple[float, float, float]:
    """The better rank leads, and then its appends take so long: sessions until somebody healthy leads, the part of the time
    that
    is led from then on, and how often the role changes hands in ten sessions."""
    group = Group(seed, 2)
    group.members[1].settings |= {"rank": 1}
    group.start()
    group.run(4)
    sick, healthy = group.members
    assert group.leader() is sick
    slow(sick, trip_ms)
    began = group.scene.engine.now
    while group.leader() is not healthy and group.scene.engine.now < began + 60 * SESSION * MS:
        group.scene.engine.run(group.scene.engine.now + STEP)
    until = (group.scene.engine.now - began) / (SESSION * MS)
    token, changes, led = 0, 0, 0
    found = 0
    for _ in range(int(seconds * 1e9 / STEP)):
        group.scene.engine.run(group.scene.engine.now + STEP)
        leader, found = group.leader(), found + 1
        led += leader is not None
        now = group.scene.judge.world.seats[SEAT].token
        changes += token not in (0, now)
        token = now
    return until, led / found, changes / (seconds / 10)


def all_slow(trip_ms: tuple[int, int], seed: int = 0, sessions: int = 200) -> float:
    """Everybody is slow: handovers in ten sessions."""
    group = Group(seed, 3)
    for process in group.members:
        slow(process, trip_ms)
    group.start()
    group.run(5)
    tokens: set[int] = set()
    for _ in range(sessions * 10):
        group.scene.engine.run(group.scene.engine.now + SESSION * MS // 10)
        seat = group.scene.judge.world.seats.get(SEAT)
        if seat is not None and seat.holder is not None:
            tokens.add(seat.token)
    return max(0, len(tokens) - 1) / (sessions / 10)


def crash_loop(starts: int, between: int, living: int = LIVING, *, name: str = "looping") -> tuple[int, int, int]:
    """A process dies right after it has joined, so often, with so many records of the group to each start: how many joins were
    refused, and how many members, and ids of the gone, the world has at most. `name` "*": under a new name each time."""
    world, offset, numbers = World(), 0, dict.fromkeys((f"m{i}~1" for i in range(living)), 0)
    envelope: dict[str, Any] = {"v": 1, "g": "g", "b": 1000, "s": 500}

    def put(kind: type[Any], member: str, **fields: Any) -> bool:
        nonlocal offset
        numbers[member] = numbers.get(member, 0) + 1
        record = kind(**{**envelope, "m": member, "n": numbers[member], **fields})
        counted = fold(world, offset, record, [])
        if counted:
            at_place(world, offset, record, [])
        offset += 1
        return counted

    put(Genesis, "founder", base=1000)
    crew = [f"m{i}~1" for i in range(living)]
    for id in crew:
        assert put(Join, id, name=id, session=SESSION, reads=READS)
    for id in crew:
        put(Beat, id, v=2)
    refused, most, gone, turn = 0, 0, 0, 0
    for start in range(starts):
        id = f"{name}~{start}"
        refused += not put(Join, id, name=id if name == "*" else name, session=SESSION, reads=READS)
        del numbers[id]
        for _ in range(between - 1):
            put(Beat, crew[turn % living], v=2)
            turn += 1
        most, gone = max(most, len(world.members)), max(gone, len(world.gone))
    assert put(Leave, crew[0], v=2)
    return refused, most, gone


def new_names(starts: int, between: int, living: int = LIVING) -> tuple[int, int]:
    """A process starts and dies so often, under a new name each time, with so many records of the group to each start: how many
    joins were refused, and how many members the world has at most."""
    group = Group(0, living)
    group.start()
    group.run(5)
    scene, refused, most = group.scene, 0, 0
    for start in range(starts):
        before = group.records()
        given = {"roles": (RoleSpec("A"),), "session_ms": SESSION, "eligible": None}
        process = scene.add(f"x{start}", given, stopwatch=Stopwatch(0, 1.0))
        process.poll = 250 * MS
        process.start()
        while process.running and not process.live and process.over is None:
            group.run(0.002)
        refused += not process.live
        scene.kill(process)
        del scene.processes[process.name]
        while group.records() < before + between:
            group.run(0.02)
        most = max(most, len(scene.judge.world.members))
    return refused, most


def full_group(joins: int) -> float:
    """Microseconds that a reader needs for each join into a group that is full, and lets nobody in."""
    world = World()
    envelope: dict[str, Any] = {"v": 1, "g": "g", "b": 1000, "s": 500}
    fold(world, 0, Genesis(**{**envelope, "m": "founder", "n": 1, "base": 1000}), [])
    join: dict[str, Any] = {"n": 1, "session": SESSION, "reads": READS}
    for i in range(MAX_MEMBERS):
        assert fold(world, i + 1, Join(**{**envelope, **join, "m": f"m{i}~1", "name": f"m{i}"}), [])
    fold(world, MAX_MEMBERS + 1, Beat(**{**envelope, "m": "m0~1", "n": 2, "v": 2}), [])
    refused = [Join(**{**envelope, **join, "m": f"x{i}~1", "name": "x"}) for i in range(joins)]
    began = perf_counter()
    for i, record in enumerate(refused):
        assert not fold(world, MAX_MEMBERS + 2 + i, record, [])
    return 1e6 * (perf_counter() - began) / joins


def table(rows: Iterable[tuple[str, str, str]]) -> str:
    return "\n".join(["| what | found | asked for |", "|---|---|---|", *(f"| {a} | {b} | {c} |" for a, b, c in rows)])


def measured(rounds: int, starts: int) -> Iterable[tuple[str, str, str]]:
    other, wrong, rate = not_ready()
    found = f"the other leads in {100 * other:.1f} % of samples, it in {wrong}; {rate:.1f} records a second"
    yield "the better rank is not ready for 30 s", found, ">= 99 %, 0, beats only"
    for low, high in ((900, 900), (620, 620), (620, 900), (620, 1400), (950, 1400), (1400, 1400)):
        until, led, changes = one_slow((low, high))
        found = (
            f"a healthy one leads after {until:.2f} sessions, then {100 * led:.1f} %; {changes:.1f} handovers in ten"
        )
        yield f"a leader whose appends take {low} to {high} ms", found, "4 sessions, >= 99 %, <= 1"
    for trip in ((620, 900), (900, 1400)):
        yield (
            f"everybody's appends take {trip[0]} to {trip[1]} ms",
            f"{all_slow(trip):.2f} handovers in ten sessions",
            "<= 1",
        )
    for members, dying in ((3, 2), (10, 5), (20, 10), (100, 50)):
        found = half_dies(members, dying, rounds)
        text = f"led again after p50 {statistics.median(found):.3f} s, worst {max(found):.3f} s"
        yield f"{dying} of {members} die in one instant, the leader among them", text, "p50 <= 1.1 s, worst <= 1.3 s"
    for between in (4, 20, 60):
        refused, most, gone = crash_loop(starts, between)
        text = f"{refused} joins refused; at most {most} members in the world, {gone} ids of the gone"
        yield f"{starts} starts, {between} group records each", text, "0, <= 3 living + 64"
    for between in (4, 20, 60):
        count = max(100, starts // 50)
        refused, most = new_names(count, between)
        text = f"{refused} joins refused; at most {most} members in the world"
        yield f"{count} starts, each under a new name, {between} group records each", text, "0, <= 3 living + 64"
    text = f"{full_group(2000):.2f} us a join and reader"
    yield f"joins into a full group of {MAX_MEMBERS} (real time)", text, "no look at each member"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.ordinary", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="deaths of half a group (default: 20)")
    parser.add_argument(
        "--starts", type=int, default=100_000, help="of a process that dies at each start (default: 100000)"
    )
    options = parser.parse_args()
    print(table(measured(options.rounds, options.starts)))


if __name__ == "__main__":
    main()
