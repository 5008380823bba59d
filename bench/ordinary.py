"""`python -m bench.ordinary`: what ordinary trouble costs, in virtual time: real members on a simulated log.

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

from pares.core.wire.fold import at_place, fold
from pares.core.wire.records import MAX_MEMBERS, READS, Beat, Genesis, Join, Leave
from pares.core.wire.world import World as Folded
from pares.runtime.member import Member
from pares.sim.engine import MS, Stopwatch
from pares.sim.members.claims.judge import Judge
from pares.sim.members.sight import Sight
from pares.sim.world.logs.ledger import SimLedger
from pares.sim.world.logs.link import Weather
from pares.sim.world.process import Process
from pares.sim.world.simulation import World

SESSION: Final = 1000
"""Milliseconds."""
QUICK: Final = Weather(send=(MS // 2, 2 * MS), ack=(MS // 2, 2 * MS), read=(MS // 2, 2 * MS), timeout=3000 * MS)
NAME: Final = "ordinary"
SEAT: Final = ("A", 0)
LIVING: Final = 3
STEP: Final = 5 * MS
"""How often it is looked who leads."""


class Person:
    """One process with a member. `settings` are its member's, from its start on."""

    def __init__(self, group: Group, name: str, rate: float, settings: dict[str, Any]) -> None:
        self.group = group
        self.name = name
        self.settings = settings
        self.ready = True
        self.weather = QUICK
        self.member: Member | None = None
        self.ledger: SimLedger | None = None
        self.process: Process | None = None
        self._stopwatch = Stopwatch(group.rng.randint(0, 10**12), rate)

    def start(self) -> None:
        self.process = self.group.world.start(self.name, self._main, stopwatch=self._stopwatch)

    def _main(self, process: Process) -> None:
        process.host.provable = False
        self.ledger = self.group.world.ledger(process, self.group.log, self.weather)
        given = {"group": NAME, "roles": "A", "name": self.name, "session": SESSION / 1000, "ready": lambda: self.ready}
        self.member = Member(self.ledger, **given, **self.settings)
        process.host.flag().wait()

    def kill(self) -> None:
        if self.process is not None:
            self.group.world.kill(self.process)

    @property
    def state(self) -> str:
        if self.member is None:
            return "waiting"
        with self.group.world.looking():
            return self.member.state

    def slow(self, trip_ms: tuple[int, int]) -> None:
        """Its appends take so long from now on, and land halfway."""
        low, high = trip_ms[0] * MS // 2, trip_ms[1] * MS // 2
        self.weather = Weather(send=(low, high), ack=(low, high), read=QUICK.read, timeout=10 * SESSION * MS)
        if self.ledger is not None:
            self.ledger.weather = self.weather


class Group:
    """Members of one role, in virtual time, while the context lasts."""

    def __init__(self, seed: int, members: int, *, drift: float = 0.0, **settings: Any) -> None:
        self.world = World(seed)
        self.log = self.world.log("log")
        self.judge = Judge(self.world, self.log, NAME)
        self.sight = Sight(self.world)
        self.rng = Random(f"{seed}/ordinary")
        self._playing = self.world.playing()
        self.members = [
            Person(self, f"m{place}", 1 + self.rng.uniform(-drift, drift), dict(settings)) for place in range(members)
        ]

    def __enter__(self) -> Group:
        self._playing.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._playing.__exit__(None, None, None)

    def start(self) -> None:
        for person in self.members:
            self.world.at(self.rng.randint(0, SESSION * MS), person.start)

    def run(self, seconds: float) -> None:
        self.world.run_for(seconds)

    def leader(self) -> Person | None:
        believers = {held.process for held in self.sight.believers((NAME, *SEAT))}
        return next((person for person in self.members if person.process in believers), None)

    def samples(self, seconds: float) -> list[Person | None]:
        found: list[Person | None] = []
        for _ in range(int(seconds * 1e9 / STEP)):
            self.world.run(self.world.now + STEP)
            found.append(self.leader())
        return found

    def led_again(self, limit: float = 20.0) -> float:
        """Seconds until somebody leads."""
        began = self.world.now
        while self.leader() is None and self.world.now < began + int(limit * 1e9):
            self.world.run(self.world.now + MS)
        return (self.world.now - began) / 1e9

    def records(self) -> int:
        return self.log.partitions[0].end


def half_dies(members: int, dying: int, rounds: int) -> list[float]:
    """Seconds without a leader, when that many die in one instant and the leader is among them."""
    found: list[float] = []
    for seed in range(rounds):
        with Group(seed, members, drift=0.001) as group:
            group.start()
            group.run(5 + group.rng.random())
            leader = group.leader()
            assert leader is not None
            others = [person for person in group.members if person is not leader]
            for person in [leader, *group.rng.sample(others, dying - 1)]:
                person.kill()
            found.append(group.led_again())
    return found


def not_ready(seed: int = 0, seconds: int = 30) -> tuple[float, int, float]:
    """The better rank is not ready from its start on: the part of samples in which the other leads, in how many the one that is
    not ready believes, and how many records a second are written meanwhile."""
    with Group(seed, 2) as group:
        better, other = group.members
        better.settings["rank"], other.settings["rank"] = 0, 1
        better.ready = False
        group.start()
        group.run(2)
        before = group.records()
        found = group.samples(seconds)
        led = sum(person is other for person in found) / len(found)
        wrong = sum(person is better for person in found)
        rate = (group.records() - before) / seconds
        better.ready = True
        group.run(3)
        assert group.leader() is better, "ready again, it gets what its rank gives it"
        return led, wrong, rate


def one_slow(trip_ms: tuple[int, int], seed: int = 0, seconds: int = 100) -> tuple[float, float, float]:
    """The better rank leads, and then its appends take so long: sessions until a healthy one leads, the part of the time that
    is led from then on, and how often the role changes hands in ten sessions."""
    with Group(seed, 2) as group:
        sick, healthy = group.members
        healthy.settings["rank"] = 1
        group.start()
        group.run(4)
        assert group.leader() is sick
        sick.slow(trip_ms)
        began = group.world.now
        while group.leader() is not healthy and group.world.now < began + 60 * SESSION * MS:
            group.world.run(group.world.now + STEP)
        until = (group.world.now - began) / (SESSION * MS)
        token, changes, led, found = 0, 0, 0, 0
        for _ in range(int(seconds * 1e9 / STEP)):
            group.world.run(group.world.now + STEP)
            leader, found = group.leader(), found + 1
            led += leader is not None
            now = group.judge.judge.world.seats[SEAT].token
            changes += token not in (0, now)
            token = now
        return until, led / found, changes / (seconds / 10)


def all_slow(trip_ms: tuple[int, int], seed: int = 0, sessions: int = 200) -> float:
    """Everybody is slow: handovers in ten sessions."""
    with Group(seed, 3) as group:
        for person in group.members:
            person.slow(trip_ms)
        group.start()
        group.run(5)
        tokens: set[int] = set()
        for _ in range(sessions * 10):
            group.world.run(group.world.now + SESSION * MS // 10)
            seat = group.judge.judge.world.seats.get(SEAT)
            if seat is not None and seat.holder is not None:
                tokens.add(seat.token)
        return max(0, len(tokens) - 1) / (sessions / 10)


def crash_loop(starts: int, between: int, living: int = LIVING, *, name: str = "looping") -> tuple[int, int, int]:
    """A process dies right after it has joined, so often, with so many records of the group to each start: how many joins were
    refused, and how many members, and ids of the gone, the world has at most. `name` "*": under a new name each time."""
    world, offset, numbers = Folded(), 0, dict.fromkeys((f"m{i}~1" for i in range(living)), 0)
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
    refused, most = 0, 0
    with Group(0, living) as group:
        group.start()
        group.run(5)
        for start in range(starts):
            before = group.records()
            person = Person(group, f"x{start}", 1.0, {})
            person.start()
            while person.state in ("waiting", "joining"):
                group.run(0.002)
            refused += person.state != "live"
            person.kill()
            while group.records() < before + between:
                group.run(0.02)
            most = max(most, len(group.judge.judge.world.members))
    return refused, most


def full_group(joins: int) -> float:
    """Microseconds that a reader needs for each join into a group that is full, and lets nobody in."""
    world = Folded()
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
