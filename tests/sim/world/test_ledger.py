"""The log in virtual time: what a ledger promises, what may befall an append or a read, and what a process is told of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from world_tools import alone

from pares.core.errors import ClosedError, ConfigError, LedgerGap, LedgerRewound, LedgerUnavailable
from pares.ledger import Log
from pares.sim.engine import MS, SECOND
from pares.sim.world.faults import Strike
from pares.sim.world.logs.ledger import SimLedger
from pares.sim.world.logs.link import CALM, FATES, Weather, fair
from pares.sim.world.process import Process
from pares.sim.world.simulation import World

LATE = Weather(timeout=100 * MS, late_by=(200 * MS, 300 * MS))


def opened(process: Process, weather: Weather = CALM, **more: Any) -> SimLedger:
    return process.world.ledger(process, process.world.log(**more), weather)


def payloads(ledger: SimLedger) -> list[bytes]:
    return [entry.payload for entry in ledger.read(ledger.start())]


def test_it_is_a_log_to_everything_above_it() -> None:
    def main(process: Process) -> None:
        ledger = opened(process, partitions=2)
        assert isinstance(ledger, Log)
        assert ledger.append(b"a") == 0
        assert ledger.append_many([b"b", b"c"]) == [1, 2]
        assert ledger.append_many([]) == []
        assert (ledger.start(), ledger.end(), ledger.end(1)) == (0, 3, 0)
        assert payloads(ledger) == [b"a", b"b", b"c"]
        assert [e.payload for e in ledger.read(1, max_records=1)] == [b"b"]
        ledger.trim(2)
        assert (ledger.start(), payloads(ledger)) == (2, [b"c"])
        with pytest.raises(LedgerGap):
            ledger.read(1)
        for call in (lambda: ledger.read(4), lambda: ledger.trim(4)):
            with pytest.raises(LedgerRewound):
                call()
        for call in (lambda: ledger.append(b"", 2), lambda: ledger.append("text")):  # type: ignore[arg-type]
            with pytest.raises(ConfigError):
                call()
        before = process.host.now()
        assert ledger.read(3, timeout=0.5) == []
        assert process.host.now() - before >= SECOND // 2
        ledger.close()
        ledger.close()
        with pytest.raises(ClosedError):
            ledger.end()

    alone(main)


def test_a_call_takes_the_time_that_the_weather_gives_it() -> None:
    weather = Weather(send=(10 * MS, 10 * MS), ack=(20 * MS, 20 * MS), read=(8 * MS, 8 * MS))

    def main(process: Process) -> None:
        ledger, now = opened(process, weather), process.host.now
        before = now()
        ledger.append(b"a")
        assert 30 * MS <= now() - before < 31 * MS
        before = now()
        ledger.read(0)
        assert 8 * MS <= now() - before < 9 * MS

    alone(main)


def test_a_reader_sees_what_stood_there_while_its_request_did() -> None:
    """Whatever holds it up on the way back makes what it read old."""
    seen: list[int] = []

    def main(process: Process) -> None:
        ledger = opened(process)
        ledger.append(b"a")

        def writer() -> None:
            process.host.sleep(0.1)
            ledger.append(b"b")

        process.host.spawn(writer, "writer")
        process.arm(Strike("starve", 1, "read:fetched", length=SECOND))
        seen.append(len(ledger.read(0)))
        seen.append(len(ledger.read(0)))

    alone(main)
    assert seen == [1, 2]


def told(fate: str, wait: float = 1.0) -> tuple[str, list[bytes]]:
    """What an append of three records with that fate was told, and what stands in the log in the end."""
    outcome: list[str] = []
    log: list[list[bytes]] = []

    def main(process: Process) -> None:
        ledger = opened(process, LATE)
        ledger.links[0].fate = fate
        try:
            ledger.append_many([b"1", b"2", b"3"])
            outcome.append("done")
        except LedgerUnavailable as error:
            outcome.append("unknown" if error.unknown else "failed")
        process.host.sleep(wait)
        log.append(payloads(ledger))

    alone(main)
    return outcome[0], log[0]


ALL = [b"1", b"2", b"3"]


@pytest.mark.parametrize(
    ("fate", "answer", "there"),
    [
        ("", "done", ALL),
        ("unknown", "unknown", ALL),
        ("lost", "unknown", []),
        ("silent", "unknown", ALL),
        ("doubled", "done", ALL + ALL),
        ("split", "done", ALL),
    ],
)
def test_each_fate_of_an_append(fate: str, answer: str, there: list[bytes]) -> None:
    assert told(fate) == (answer, there)


def test_a_torn_batch_leaves_its_first_records() -> None:
    answer, there = told("torn")
    assert answer == "unknown"
    assert len(there) < 3
    assert there == ALL[: len(there)]


def test_every_fate_has_a_chance_in_the_weather_and_fair_weather_has_none() -> None:
    rough = Weather(**dict.fromkeys(FATES, 0.1), slow=0.1, copied=0.1, part=0.1, unreadable=0.1)
    calmed = fair(rough)
    assert {getattr(calmed, fate) for fate in FATES} == {0.0}
    assert (calmed.slow, calmed.copied, calmed.part, calmed.unreadable) == (0.0, 0.0, 0.0, 0.0)
    assert calmed.send == rough.send


def test_records_of_others_come_in_between_those_of_a_split_batch() -> None:
    """Somewhere: with two that write at once, in some seed."""
    mixed = 0
    for seed in range(5):
        with World(seed).playing() as world:

            def main(process: Process, world: World = world) -> None:
                ledger = opened(process, Weather(split=1.0))
                ledger.append_many([process.name.encode()] * 5)

            world.start("a", main)
            world.start("b", main)
            world.run(SECOND)
            names = [entry[2] for entry in world.log().entries()]
        assert sorted(names) == [b"a"] * 5 + [b"b"] * 5
        mixed += names not in ([b"a"] * 5 + [b"b"] * 5, [b"b"] * 5 + [b"a"] * 5)
    assert mixed


def cut_off(cut: Callable[[SimLedger], None]) -> tuple[str, str, int]:
    found: list[Any] = []

    def main(process: Process) -> None:
        ledger = opened(process, LATE)
        cut(ledger)
        for call in (lambda: ledger.append(b"a"), lambda: ledger.read(0)):
            try:
                call()
                found.append("done")
            except LedgerUnavailable:
                found.append("unavailable")
        ledger.heal()
        process.host.sleep(1)
        found.append(ledger.end())

    alone(main)
    return found[0], found[1], found[2]


def test_what_is_cut_does_not_pass() -> None:
    assert cut_off(lambda ledger: ledger.cut()) == ("unavailable", "unavailable", 0)
    assert cut_off(lambda ledger: ledger.cut(writes=False, acks=False)) == ("done", "unavailable", 1)
    assert cut_off(lambda ledger: ledger.cut(reads=False, writes=False)) == ("unavailable", "done", 1)


def test_each_process_has_a_weather_of_its_own() -> None:
    took: dict[str, int] = {}
    with World(1).playing() as world:
        for name, ms in (("a", 1), ("b", 100)):

            def main(process: Process, ms: int = ms) -> None:
                ledger, before = opened(process, Weather(send=(ms * MS, ms * MS), ack=(0, 0))), process.host.now()
                ledger.append(b"")
                took[process.name] = process.host.now() - before

            world.start(name, main)
        world.run(SECOND)
    assert took["a"] < 3 * MS < 100 * MS <= took["b"]


def test_a_log_may_be_replaced_or_lose_its_tail() -> None:
    def main(process: Process) -> None:
        ledger = opened(process)
        log = ledger.log
        ledger.append_many([b"a", b"b", b"c"])
        before = ledger.identity()
        log.lose_tail(2)
        assert (ledger.end(), payloads(ledger), ledger.identity()) == (1, [b"a"], before)
        with pytest.raises(LedgerRewound):
            ledger.read(3)
        assert ledger.append(b"d") == 1, "its offset is given out again"
        log.replace()
        assert (ledger.end(), payloads(ledger)) == (0, [])
        assert ledger.identity() != before

    alone(main)


def test_what_a_process_sent_lands_though_it_was_killed() -> None:
    with World(1).playing() as world:

        def main(process: Process) -> None:
            opened(process, Weather(send=(10 * MS, 10 * MS))).append(b"last words")

        process = world.start("a", main)
        world.at(5 * MS, world.kill, process)
        world.run(SECOND)
        assert [entry[2] for entry in world.log().entries()] == [b"last words"]


@pytest.mark.parametrize("bell", [True, False])
def test_bells_ring_for_appends_of_others(bell: bool) -> None:
    waited: list[int] = []
    with World(1).playing() as world:
        log = world.log()

        def reader(process: Process) -> None:
            ledger = world.ledger(process, log, has_bell=bell)
            bells, before = process.host.bells(ledger), process.host.now()  # type: ignore[arg-type]
            bells.wait(30)
            waited.append(process.host.now() - before)
            bells.wait(0.2)  # silent again
            waited.append(process.host.now() - before)

        def writer(process: Process) -> None:
            process.host.sleep(1)
            world.ledger(process, log).append(b"")

        world.start("reader", reader)
        world.start("writer", writer)
        world.run(60 * SECOND)
    if bell:
        assert SECOND <= waited[0] < SECOND + 10 * MS
        assert waited[1] - waited[0] >= 200 * MS
    else:
        assert waited[0] >= 30 * SECOND


def test_a_log_that_lags_rings_for_each_append_once_it_can_be_read() -> None:
    """An entry that lands while an earlier one's bell is not heard yet, and that the next read does not bring."""
    seen: list[tuple[int, list[bytes]]] = []
    with World(1).playing() as world:
        log = world.log()
        for at in (1000, 1040):
            world.at(at * MS, log.partitions[0].append, [b"x"], at * MS)

        def reader(process: Process) -> None:
            ledger = world.ledger(process, log, Weather(lag=30 * MS))
            bells = process.host.bells(ledger)  # type: ignore[arg-type]
            process.host.sleep(1.05)  # the first one's has rung
            for seconds in (0, 10):
                bells.wait(seconds)
                seen.append((process.world.now // MS, [entry.payload for entry in ledger.read(0)]))

        world.start("reader", reader)
        world.run(60 * SECOND)
    assert [payloads for _, payloads in seen] == [[b"x"], [b"x", b"x"]]
    assert seen[1][0] < 1080


def test_a_ring_ends_a_wait_or_the_next_one() -> None:
    def main(process: Process) -> None:
        host = process.host
        bells = host.bells(opened(process))  # type: ignore[arg-type]
        bells.ring()
        before = host.now()
        bells.wait(10)
        assert host.now() - before < MS
        bells.sound()
        bells.rest(0.1)
        assert host.now() - before >= 100 * MS, "rest waits for ring alone"
        bells.wait(10)
        assert host.now() - before < 200 * MS, "and leaves other bells to ring"

    alone(main)
