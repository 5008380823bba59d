"""How a tenure ends that nobody reads the end of at once: what its yield says, and what its owner does next."""

from __future__ import annotations

from typing import Any

import pytest
from neli_bench import MS, fast, leading, neli, of
from neli_bench import config as settings

from pares.core import events as ev
from pares.core.wire.neli_records import Announce, Pulse, Yield, decode


def test_a_yield_says_when_the_belief_ended_and_not_when_the_group_took_the_partition() -> None:
    """Fenced, and superseded since: a later end would overlap with what the other one says of itself."""
    bench = leading(fast(settings()))
    token, until = bench.leading()["0"], bench.until()
    bench.wait(400)
    (follow,) = of(bench.step(ev.Tick(bench.wall_us)), ev.Follow)
    assert (follow.fenced, follow.at) == (True, until)
    other = token + 10 + bench.write(Announce, "new~1", b=token + 10)
    bench.wait(400)
    bench.write(Pulse, "new~1", term=other, lead=True)
    bench.read()
    bench.wait(400)
    bench.step(ev.Revoked((0,)))
    ended = bench.wall_us // 1000 - (bench.now - until) // MS
    bench.go()
    record = decode(bench.logs[0][-1][2])
    assert isinstance(record, Yield)
    assert record.led
    assert abs(record.ended - ended) <= 1


def test_a_log_replaced_while_the_barrier_of_a_given_partition_runs_is_announced_in() -> None:
    """Given back and given again before the barrier had returned: nobody else will lead there."""
    bench = leading(fast(settings()))
    bench.step(ev.Revoked((0,)))
    bench.step(ev.Assigned((0,)))
    assert of(bench.step(ev.Jumped("replaced")), ev.Follow)[0].fenced
    bench.logs, bench.ends = [[]], [0]
    bench.step(ev.Attached(0, 0))
    for _ in range(40):
        bench.wait(20)
        bench.go()
    assert bench.leading()


def test_a_log_that_lost_its_tail_is_led_anew_though_a_members_own_records_stand_in_it_still() -> None:
    """They are read a second time; that is no sign that this process was cloned."""
    bench = leading(fast(settings()))
    bench.wait(60)
    bench.go()
    token = bench.leading()["0"]
    bench.step(ev.Jumped("it lost its tail"))
    bench.logs[0].pop()
    bench.ends[0] -= 1
    bench.step(ev.Attached(0, bench.ends[0]))
    for _ in range(40):
        bench.wait(20)
        bench.go()
    assert not of(bench.effects, ev.Stop)
    assert bench.leading()["0"] > token


def test_an_announcement_made_for_a_log_that_is_no_more_begins_no_tenure_in_the_next() -> None:
    """Its token is of the old log's base: by it the next term would have a lesser one than the term before."""
    bench = leading(fast(settings()))
    token = bench.leading()["0"]
    bench.step(ev.Revoked((0,)))
    bench.step(ev.WorkOver(("0", 0), token))
    bench.go()
    bench.step(ev.Assigned((0,)))
    bench.read()
    bench.read()
    (put,) = (put for put in bench.tick() if isinstance(decode(put.payloads[0]), Announce))
    bench.step(ev.Jumped("replaced"))
    bench.logs, bench.ends = [[]], [0]
    bench.step(ev.Attached(0, 0))
    bench.put(put)
    for _ in range(40):
        bench.wait(20)
        bench.go()
    assert bench.leading()["0"] > token


@pytest.mark.parametrize("restate_ms", [0, 1000])
def test_roles_that_take_many_records_cost_nobody_its_belief(restate_ms: int) -> None:
    """Beats go between them; they come as seldom here as the lease bears."""
    bench = leading(fast(settings(threshold_ms=300, interval_ms=120, restate_ms=restate_ms)))
    bench.step(ev.ChangeRoles(add=tuple(f"role {number:04}" for number in range(64 * 30))))
    for _ in range(300):
        bench.wait(20)  # which is what each append takes
        bench.read()
        for put in bench.tick():
            bench.put(put)
    assert not [follow for follow in of(bench.effects, ev.Follow) if follow.fenced]
    assert len(bench.leading()) == 64 * 30 + 1


@pytest.mark.parametrize("kind", [fast, neli])
def test_a_yield_that_waits_ends_no_tenure_that_has_begun_since(kind: Any) -> None:
    """It is owed for the one before. [a successor that read it waited for nobody, and led beside an owner that believed]"""
    bench = leading(kind(settings()))
    bench.wait(400)
    bench.read()
    (announce,) = (put for put in bench.tick() if isinstance(decode(put.payloads[0]), Announce))
    bench.step(ev.Revoked((0,)))
    bench.step(ev.Assigned((0,)))
    bench.put(announce)
    bench.read()
    bench.go()
    assert bench.leading()
    assert bench.kinds()[-1] != "Yield"
