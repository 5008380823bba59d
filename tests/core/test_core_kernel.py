"""The simulated world itself: time, clocks, the log, and what happens to appends."""

import random

import pytest
from kernel.trace import Line, Story
from kernel.wire import Flight, Owner, Weather, Wire

from pares.sim.engine import MS, SECOND, Engine, Stopwatch, WallClock
from pares.sim.log import SimLog


def test_things_happen_in_the_order_of_their_time() -> None:
    engine, seen = Engine(), list[tuple[str, int]]()
    engine.at(20, lambda: seen.append(("late", engine.now)))
    engine.at(10, lambda: seen.append(("early", engine.now)))
    engine.at(10, lambda: seen.append(("second", engine.now)))
    engine.run(15)
    assert seen == [("early", 10), ("second", 10)]
    engine.run(100)
    assert seen[-1] == ("late", 20)
    assert engine.now == 100


def test_what_is_past_happens_now() -> None:
    engine, seen = Engine(), list[int]()
    engine.run(50)
    engine.at(10, lambda: seen.append(engine.now))
    engine.run(60)
    assert seen == [50]


@pytest.mark.parametrize("rate", [0.8, 0.9, 1.0, 1.1, 1.3])
def test_a_stopwatch_knows_when_it_will_show_a_reading(rate: float) -> None:
    watch = Stopwatch(7 * SECOND, rate)
    for at in (0, 1, 12345, 3 * SECOND + 1):
        reading = watch.read(at)
        when = watch.when(reading)
        assert watch.read(when) >= reading
        assert when == 0 or watch.read(when - 1) < reading


def test_a_wall_clock_may_be_set() -> None:
    wall = WallClock()
    before = wall.read_us(SECOND)
    wall.offset_us -= 5_000_000
    assert wall.read_us(SECOND) == before - 5_000_000


def test_a_log_reads_in_order_and_only_what_has_landed() -> None:
    log = SimLog()
    assert log.append([b"a", b"b"], 10) == 1
    assert log.append([b"c"], 20, hole=3) == 5
    assert log.read(0, 15, 10) == [(0, 0, b"a"), (1, 0, b"b")]
    assert [e[0] for e in log.read(1, 20, 10)] == [1, 5]
    assert log.read(0, 20, 1) == [(0, 0, b"a")]
    assert log.arrived(2) == 20
    assert log.arrived(6) is None


def test_a_log_loses_its_beginning_and_nothing_else() -> None:
    log = SimLog(100)
    for at in range(5):
        log.append([b"x"], at)
    assert log.older_than(2) == 103
    log.trim(103)
    assert (log.start, log.end) == (103, 105)
    assert log.at(102) is None
    assert log.at(103) is not None
    log.trim(50)
    assert log.start == 103
    log.replace()
    assert (log.start, log.end, log.entries(), log.identity) == (0, 0, [], "log-1")


class Ear(Owner):
    def __init__(self) -> None:
        self.heard: list[tuple[str, int, int]] = []

    def acked(self, flight: Flight) -> None:
        self.heard.append(("acked", flight.ticket, flight.landed))

    def failed(self, flight: Flight) -> None:
        self.heard.append(("failed", flight.ticket, flight.unknown))


def wired(weather: Weather) -> tuple[Engine, SimLog, Ear, Wire]:
    engine, log, ear = Engine(), SimLog(), Ear()
    return engine, log, ear, Wire(engine, log, random.Random(1), weather, ear)


FATES = [
    ("", 1, [("acked", 1, 0)], 0),
    ("lost", 0, [("failed", 1, True)], 0),
    ("unknown", 0, [("failed", 1, True)], 1),
    ("silent", 1, [("failed", 1, True)], 1),
    ("doubled", 2, [("acked", 1, 0)], 2),
]


@pytest.mark.parametrize(("fate", "soon", "heard", "late"), FATES, ids=[fate[0] or "good" for fate in FATES])
def test_the_fates_of_an_append(fate: str, soon: int, heard: list[tuple[str, int, int]], late: int) -> None:
    engine, log, ear, wire = wired(Weather(timeout=100 * MS, late_by=(50 * MS, 60 * MS)))
    wire.fate = fate
    wire.send(object(), 1, (b"x",))
    engine.run(20 * MS)
    assert len(log.entries()) == soon
    engine.run(SECOND)
    assert ear.heard == heard
    assert len(log.entries()) == max(soon, late)


def test_cuts_are_what_they_say() -> None:
    engine, log, ear, wire = wired(Weather(timeout=100 * MS))
    wire.acks_cut = True
    wire.send(object(), 1, (b"x",))
    engine.run(SECOND)
    assert (len(log.entries()), ear.heard) == (1, [("failed", 1, True)])
    wire.acks_cut, wire.writes_cut = False, True
    wire.send(object(), 2, (b"x",))
    engine.run(2 * SECOND)
    assert len(log.entries()) == 1
    assert ear.heard[1][:2] == ("failed", 2)


def test_another_log_is_noticed() -> None:
    _, log, _, wire = wired(Weather())
    for _ in range(5):
        log.append([b"x"], 0)
    assert wire.attach() == (0, 5)
    assert wire.jumped(5, (4, b"x")) == ""
    assert wire.jumped(6, None) != ""
    log.trim(2)
    assert wire.jumped(1, None) != ""
    wire.suspect = True
    assert wire.jumped(5, (4, b"y")) != ""
    log.replace()
    assert "replaced" in wire.jumped(0, None)


def test_a_line_of_the_story_is_readable() -> None:
    line = Line(1_234_500_000, "a~1", "leads", "mail/0", "#7", "free")
    assert str(line) == "    1.2345  a~1        leads            mail/0   #7     free"
    story = Story(told=True)
    story.base(1000)
    story.base(5000)
    assert (story.token(1007), story.token(5001)) == ("#7", "#1")
