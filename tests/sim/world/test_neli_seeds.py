"""Seeds of NELI, Fast NELI and NELE by real members keep every promise, whoever shares the partitions out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pares.core.neli.protocols import MODES
from pares.sim.members.crowds import Crowds
from pares.sim.members.neli.plan import ACTS, BY_BROKER, BY_CLAIMS, FAULTS, RARE, STEERING, draw
from pares.sim.members.neli.storm import NeliActs, NeliStorm
from pares.sim.members.play import perform
from pares.sim.world.logs.many import ManySimLedger

CLEAN = range(4)


@pytest.mark.parametrize("protocol", MODES)
def test_clean_seeds_keep_every_promise(protocol: str) -> None:
    outcomes = [perform(seed, protocol=protocol) for seed in CLEAN]
    assert [(outcome.seed, outcome.what) for outcome in outcomes if outcome.broken] == []
    assert sum(outcome.records for outcome in outcomes) > 100 * len(CLEAN), "nothing happened in these seeds"


@pytest.mark.parametrize(
    ("protocol", "seed"),
    [
        ("fast-neli", 1028),  # a member that was put out, and another one that did not wait for its barrier
        ("fast-neli", 1244),  # a topic that grew to more partitions than one member can announce itself in, in time
        ("fast-neli", 1518),  # as 1155
        ("neli", 922),  # the log with the numbers of roles forgot everything
        ("neli", 1147),  # a barrier of the storm did not return in the calm either
        ("neli", 1155),  # a log that lost its tail shows an announcement whose work still runs
        ("neli", 1452),  # roles came to their numbers when their partition was led already
        ("nele", 256),  # a frozen leader that ends when the one who superseded it has been superseded, by one that died
        ("nele", 334),  # a log that was begun anew gives smaller tokens than the one before it
        ("nele", 1077),  # two outages one after the other: a member hears late of those that wrote meanwhile
        ("nele", 1297),  # what was to befall an announcement of the storm befell one of the calm
        ("nele", 1446),  # the only member that runs has been refused, and can lead nothing
    ],
)
def test_seeds_that_once_broke_a_promise_keep_it(protocol: str, seed: int) -> None:
    outcome = perform(seed, protocol=protocol)
    assert not outcome.broken, outcome.what


def test_partitions_are_shared_out_both_ways() -> None:
    plans = [draw(protocol, seed) for protocol in MODES for seed in CLEAN]
    assert {plan.native for plan in plans} == {True, False}


def test_logs_lose_what_they_have_acknowledged_and_some_do_many_things_at_once() -> None:
    """By chances of their own: a plan that was asked for a trouble has no other."""
    plans = [draw(protocol, seed) for protocol in MODES for seed in range(200)]
    assert 60 < sum("lose_tail" in plan.faults for plan in plans) < 120
    assert 60 < sum(plan.many_at_once for plan in plans) < 180
    assert not any(plan.many_at_once and plan.native for plan in plans)
    asked = [draw("neli", seed, {"faults": {"crash": 1.0}, "native": False}) for seed in range(50)]
    assert not any("lose_tail" in plan.faults or plan.many_at_once for plan in asked)


@pytest.mark.parametrize("protocol", MODES)
def test_members_append_to_many_partitions_in_one_call(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = next(seed for seed in range(100) if (plan := draw(protocol, seed)).many_at_once and plan.partitions > 2)
    calls: list[int] = []
    append_each = ManySimLedger.append_each

    def counted(self: ManySimLedger, payloads: Sequence[tuple[int, bytes]], *, urgent: bool = True) -> list[int]:
        calls.append(len(payloads))
        return append_each(self, payloads, urgent=urgent)

    monkeypatch.setattr(ManySimLedger, "append_each", counted)
    outcome = perform(seed, protocol=protocol)
    assert not outcome.broken, outcome.what
    assert calls
    assert min(calls) > 1


@pytest.mark.parametrize("protocol", MODES)
def test_a_lost_tail_is_told_and_breaks_no_promise(protocol: str) -> None:
    seeds = [seed for seed in range(100) if "lose_tail" in draw(protocol, seed).faults]
    outcomes = (perform(seed, protocol=protocol, told=True) for seed in seeds)
    outcome = next(outcome for outcome in outcomes if any("has lost its tail" in line for line in outcome.trace))
    assert not outcome.broken, outcome.what


def test_one_seed_is_one_history() -> None:
    one, two = perform(3, protocol="fast-neli", told=True), perform(3, protocol="fast-neli", told=True)
    assert one.trace == two.trace
    assert len(one.trace) > 50


def test_every_fault_and_every_act_can_be_carried_out() -> None:
    there = {name.removeprefix("_") for name in (*dir(NeliStorm), *dir(Crowds))}
    assert {*FAULTS, *BY_BROKER, *BY_CLAIMS, *RARE} <= there
    assert all(hasattr(NeliActs, f"_{kind}") for kind in (*ACTS, *STEERING))
