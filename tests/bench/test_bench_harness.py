"""What the harness says, held against a contender whose truth is known: leases of a server in this process."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bench.peers.contenders import CONTENDERS, Contender
from bench.peers.measure import Cast, Rounds, Yes, crash, handover, measure
from tests.bench.toy_lock import Truth

from pares.runtime.clock import stopwatch

SESSION = 0.4
LONG = 2.0
"""For where no lease may run out by itself, on however busy a machine."""

pytestmark = pytest.mark.processes


def toy(truth: Truth, session: float = SESSION) -> Contender:
    return replace(
        CONTENDERS["redis-1"],
        key="toy",
        session=session,
        stage=truth.serve,
        module="tests.bench.toy_lock",
        forms={"deadline": "deadline", "flag": "flag"},
    )


def test_times_are_those_at_which_the_lease_changed_hands() -> None:
    truth = Truth(LONG)
    contender = toy(truth, LONG)
    with contender.stage() as address, Cast(contender, address) as cast:
        for round, fault in enumerate((crash, handover, crash, handover), start=1):
            before = cast.settled()
            assert truth.history[-1][0] == before
            ms = fault(cast)
            assert len(truth.history) == round + 1
            assert truth.history[-1][0] != before
            assert ms > 0
        killed = cast.lose(cast.settled())
        heir, at = cast.until("lead", killed)
        name, given = truth.history[-1]
        assert heir == name
        assert killed < given <= at


def test_a_successor_that_is_heard_before_the_leader_gives_up_is_heard_all_the_same() -> None:
    """They are two processes, and each has a thread here that hears it."""
    contender = toy(Truth(LONG), LONG)
    with contender.stage() as address, Cast(contender, address) as cast:
        leader = cast.settled()
        asked = stopwatch()
        heir = next(name for name in cast.players if name != leader)
        for line in ([heir, "lead", "r", str(asked + 2)], [leader, "handing", "r", str(asked + 1)]):
            cast.lines.put(line)
        _, began = cast.until("handing", asked)
        assert cast.until("lead", began, but=leader) == (heir, asked + 2)


def test_a_leader_that_is_wrong_is_found_out_and_one_that_is_right_is_not() -> None:
    result = measure(toy(Truth(SESSION)), Rounds(kills=0, hands=0, thaws=2, idle=0.1, look=0.3), print)
    assert result.yes["deadline"] == [Yes(0, 0.0)] * 2
    assert len(result.yes["flag"]) == 2
    for said in result.yes["flag"]:
        assert said.count > 0
        assert said.ms is None


def test_a_form_of_asking_that_no_process_answers_is_no_silent_zero() -> None:
    contender = replace(toy(Truth(SESSION)), forms={"deadline": "deadline", "other": "another"})
    with pytest.raises(ValueError, match="did not say how other answered"):
        measure(contender, Rounds(kills=0, hands=0, thaws=1, idle=0.1, look=0.1), print)


def test_who_never_leads_is_an_error_and_not_a_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.peers.measure.PATIENCE", 1.0)
    truth = Truth(SESSION)
    monkeypatch.setattr(truth, "answer", lambda word, name: False)
    with pytest.raises(TimeoutError, match="toy: no calm in 2 s"):
        measure(toy(truth), Rounds(kills=1, hands=0, thaws=0, idle=0.1), print)
