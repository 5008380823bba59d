"""goNELI's unit tests of one node, as Fast NELI's core has them: assigned, revoked, and what that says of leadership."""

from __future__ import annotations

from neli_bench import Bench, config, fast, of

from pares.core.events import Assigned, Barrier, Follow, Lead, Lost, Revoked, WorkOver, Yielded


def three() -> Bench:
    bench = Bench(fast(config(partitions=3)))
    bench.step(Assigned((0, 1, 2)))
    bench.read()
    bench.go()
    return bench


def test_assigning_leads_and_only_the_own_partition_takes_it_away() -> None:
    """BasicLeaderElectionAndRevocation: the role is partition 0's."""
    bench = three()
    token = bench.leading()["0"]
    assert len(of(bench.effects, Lead)) == 1, "acquired once"
    before = len(bench.effects)
    bench.step(Revoked((1,)))
    bench.go()
    assert bench.leading() == {"0": token}
    assert of(bench.effects[before:], Follow) == [], "no event for a partition without roles"
    assert [e.partition for e in of(bench.effects[before:], Yielded)] == [1]
    before = len(bench.effects)
    bench.step(Revoked((0, 2)))
    assert bench.leading() == {}
    (end,) = of(bench.effects[before:], Follow)
    assert not end.fenced
    assert len(of(bench.effects[before:], Barrier)) == 1
    assert 0 not in [e.partition for e in of(bench.effects[before:], Yielded)], (
        "held back until the barrier has returned"
    )
    bench.step(WorkOver(("0", 0), token))
    bench.go()
    assert sorted(e.partition for e in of(bench.effects[before:], Yielded)) == [0, 2]
    before = len(bench.effects)
    bench.step(Assigned((1,)))
    bench.read()
    bench.go()
    assert bench.leading() == {}
    assert of(bench.effects[before:], Lead) == []


def test_assigned_again_is_acquired_again_under_another_token() -> None:
    bench = three()
    token = bench.leading()["0"]
    bench.step(Revoked((0,)))
    bench.step(WorkOver(("0", 0), token))
    bench.go()
    bench.step(Assigned((0,)))
    bench.read()
    bench.go()
    assert bench.leading()["0"] > token


def test_a_deadline_that_passes_fences_and_what_comes_later_acquires_anew() -> None:
    """LeaderElectionAndRevocation_timeoutAndReconnect: there any message resumed the old leadership; here a tenure begins."""
    bench = three()
    token = bench.leading()["0"]
    before = len(bench.effects)
    bench.wait(10_000)
    bench.tick()
    (end,) = of(bench.effects[before:], Follow)
    assert end.fenced
    assert bench.leading() == {}
    bench.read()
    bench.go()
    assert bench.leading()["0"] > token


def test_fenced_and_then_lost_is_told_once() -> None:
    """goNELI told its users of Fenced and then of Revoked, for one tenure."""
    bench = three()
    before = len(bench.effects)
    bench.wait(10_000)
    bench.tick()
    bench.step(Lost((0, 1, 2)))
    bench.go()
    assert len(of(bench.effects[before:], Follow)) == 1
