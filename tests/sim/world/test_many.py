"""The log in virtual time that does in one call what otherwise takes one for each partition, as SQLite's does."""

from __future__ import annotations

from typing import Any

import pytest
from world_tools import alone

from pares.core.errors import ConfigError, LedgerUnavailable
from pares.ledger import ManyAtOnce
from pares.sim.engine import MS
from pares.sim.world.logs.ledger import SimLedger
from pares.sim.world.logs.link import CALM, Weather
from pares.sim.world.logs.many import ManySimLedger
from pares.sim.world.process import Process

PUTS = [(0, b"a"), (2, b"b"), (2, b"c")]
ALL = [[b"a"], [], [b"b", b"c"]]
NONE: list[list[bytes]] = [[], [], []]


def opened(process: Process, weather: Weather = CALM) -> ManySimLedger:
    ledger: Any = process.world.ledger(process, process.world.log(partitions=3), weather, many_at_once=True)
    return ledger


def stands(ledger: SimLedger) -> list[list[bytes]]:
    return [[entry[2] for entry in partition.entries()] for partition in ledger.log.partitions]


def test_it_can_do_many_things_at_once_and_others_cannot() -> None:
    def main(process: Process) -> None:
        ledger = opened(process)
        assert isinstance(ledger, ManyAtOnce)
        assert not isinstance(process.world.ledger(process, ledger.log), ManyAtOnce)
        assert ledger.append_each([]) == []
        assert ledger.append_each(PUTS) == [0, 0, 1]
        assert ledger.append_each([(1, b"d"), (0, b"e")]) == [0, 1]
        assert stands(ledger) == [[b"a", b"e"], [b"d"], [b"b", b"c"]]
        for bad in ([(0, b"x"), (3, b"x")], [(0, b"x"), (1, "text")]):
            with pytest.raises(ConfigError):
                ledger.append_each(bad)  # type: ignore[arg-type]
        assert stands(ledger)[0] == [b"a", b"e"]

    alone(main)


@pytest.mark.parametrize("fate", ["lost", "silent", "unknown", "doubled"])
@pytest.mark.parametrize("asked", [0, 2])
def test_a_fate_befalls_the_whole_call(fate: str, asked: int) -> None:
    found: list[list[list[bytes]]] = []

    def main(process: Process) -> None:
        ledger = opened(process, Weather(timeout=100 * MS, late_by=(200 * MS, 300 * MS)))
        ledger.links[asked].fates[b""] = fate
        if fate == "doubled":
            ledger.append_each(PUTS)
        else:
            with pytest.raises(LedgerUnavailable) as told:
                ledger.append_each(PUTS)
            assert told.value.unknown
        process.host.sleep(1)
        found.append(stands(ledger))

    alone(main)
    assert found == [{"lost": NONE, "doubled": [2 * ALL[0], [], 2 * ALL[2]]}.get(fate, ALL)]


@pytest.mark.parametrize("weather", [Weather(torn=1.0), Weather(split=1.0), Weather(copied=1.0)])
def test_a_transaction_is_whole(weather: Weather) -> None:
    """In all partitions at one instant, and once."""

    def main(process: Process) -> None:
        ledger, world = opened(process, weather), process.world
        times: list[int] = []
        for partition in ledger.log.partitions:
            partition.listeners.append(lambda _: times.append(world.now))
        ledger.append_each(PUTS)
        process.host.sleep(10)
        assert stands(ledger) == ALL
        assert len(set(times)) == 1

    alone(main)


def test_it_is_cut_where_one_of_its_partitions_is() -> None:
    def main(process: Process) -> None:
        ledger = opened(process, Weather(timeout=100 * MS))
        ledger.cut(only=2, reads=False)
        with pytest.raises(LedgerUnavailable):
            ledger.append_each(PUTS)
        assert stands(ledger) == NONE
        assert ledger.append_each([(0, b"a"), (1, b"b")]) == [0, 0]
        ledger.heal()
        ledger.cut(only=2, reads=False, writes=False)
        with pytest.raises(LedgerUnavailable):
            ledger.append_each(PUTS)
        assert stands(ledger) == [[b"a", b"a"], [b"b"], [b"b", b"c"]], "the answer alone was lost"

    alone(main)


def test_it_says_where_a_read_would_bring_something_or_raise() -> None:
    def main(process: Process) -> None:
        ledger = opened(process)
        ledger.append_each(PUTS)
        assert ledger.changed([0, 0, 0]) == [0, 2]
        assert ledger.changed([1, 0, 1]) == [2]
        assert ledger.changed([1, 0]) == []
        assert ledger.changed([2, 0, 2]) == [0], "a read of the first one raises"
        ledger.cut(only=1, writes=False, acks=False)
        assert ledger.changed([1, 0, 2]) == [1], "it can't be reached"
        ledger.cut()
        with pytest.raises(LedgerUnavailable):
            ledger.changed([1, 0, 2])

    alone(main)
