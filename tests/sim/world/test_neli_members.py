"""What NELE promises of a single failure, by real members whose partitions a broker shares out, at settings it is made for."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import pytest

from pares.sim.engine import MS, SECOND
from pares.sim.members.neli.broker import BEATS, BrokerLedger
from pares.sim.members.neli.plan import draw
from pares.sim.members.neli.stage import NeleStage
from pares.sim.members.neli.users import NeliUser
from pares.sim.members.sight import Seat
from pares.sim.world.logs.link import Weather

SESSION_MS, T_MS, HEARTBEAT_MS = 1000, 1500, 1000 / BEATS
QUICK = Weather(send=(MS // 2, MS), ack=(MS // 2, MS), read=(0, MS), timeout=500 * MS)
RATES = [(1.0, 1.0, 1.0), (0.9, 1.1, 1.0), (1.1, 0.9, 0.9)]


@contextmanager
def at_rest(rates: tuple[float, ...], after_ms: int) -> Generator[tuple[NeleStage, NeliUser, Seat]]:
    """Three members, each of which leads one role; one of them, and what it leads."""
    bias = {"members": 3, "partitions": 3, "roles": 3, "numbers": True, "native": True, "session_ms": SESSION_MS}
    bias |= {"threshold_ms": T_MS, "interval_ms": 100, "drift": 0.1, "rates": rates, "weathers": (QUICK,) * 3}
    bias |= {
        "sessions": (SESSION_MS,) * 3,
        "faults": {},
        "acts": {},
        "starts": (False,) * 3,
        "barrier": -1.0,
        "starving": 0.0,
    }
    bias |= {"next_door": 0, "connect": ("now",) * 3, "styles": ("wait",) * 3, "bells": True, "step_ms": 50.0}
    stage = NeleStage(draw("nele", 1, bias))
    users = [stage.add() for _ in range(3)]
    with stage.world.playing() as world:
        for user in users:
            user.start()
        world.run(4 * SECOND + after_ms * MS)
        running = [user.process for user in users if user.process is not None]
        held = [[held.seat for held in stage.sight.of_process(process) if held.believing()] for process in running]
        assert [len(seats) for seats in held] == [1, 1, 1]
        yield stage, users[0], held[0][0]


@pytest.mark.parametrize("rates", RATES)
@pytest.mark.parametrize("after_ms", [0, 70, 140])
def test_an_owner_that_is_cut_off_overlaps_its_successor_for_t_less_the_session(
    rates: tuple[float, ...], after_ms: int
) -> None:
    """By its own stopwatch, which may be slow, and from its last heartbeat, which is not the last beacon that it read."""
    with at_rest(rates, after_ms) as (stage, user, seat):
        world, ledger = stage.world, user.ledger
        assert isinstance(ledger, BrokerLedger)
        ledger.cut()
        ledger.group_cut = ledger.oblivious = True
        began, both = world.now, 0
        leaders: list[str] = []
        while world.now < began + 3 * SECOND:
            world.run(world.now + MS)
            leaders = [held.process.name for held in stage.sight.believers(seat)]
            assert leaders, "there is a leader at every instant"
            both += len(leaders) > 1
        assert leaders != [user.name]
        assert 0 < both <= T_MS / min(rates) - SESSION_MS + HEARTBEAT_MS + 20


@pytest.mark.parametrize("rates", RATES)
def test_somebody_leads_within_t_of_a_crash(rates: tuple[float, ...]) -> None:
    with at_rest(rates, 30) as (stage, user, seat):
        assert user.process is not None
        stage.world.kill(user.process)
        stage.world.run(stage.world.now + T_MS * MS)
        assert stage.sight.believers(seat)
