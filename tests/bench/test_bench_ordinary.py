"""What ordinary trouble costs, in virtual time: the figures that were asked for (R18 to R20)."""

from __future__ import annotations

import statistics

import pytest

from bench import ordinary


def test_r19_the_better_rank_not_ready_for_30_s_costs_nothing() -> None:
    other, wrong, rate = ordinary.not_ready()
    assert other >= 0.99
    assert wrong == 0
    assert rate <= 6, "a holder beats four times a session, a standby once"


@pytest.mark.parametrize("trip", [(900, 900), (620, 620), (620, 1400), (1400, 1400)])
@pytest.mark.parametrize("seed", [0, 1])
def test_r18_a_leader_that_can_not_lead_lets_go(trip: tuple[int, int], seed: int) -> None:
    until, led, changes = ordinary.one_slow(trip, seed, seconds=60)
    assert until <= 4
    assert led >= 0.99
    assert changes <= 1


@pytest.mark.parametrize("trip", [(620, 900), (900, 1400)])
def test_r18_where_nobody_can_lead_the_role_is_not_handed_round(trip: tuple[int, int]) -> None:
    assert ordinary.all_slow(trip, sessions=100) <= 1


@pytest.mark.parametrize(("members", "dying"), [(3, 2), (10, 5), (20, 10)])
def test_r20_half_of_a_group_dies_in_one_instant(members: int, dying: int) -> None:
    found = ordinary.half_dies(members, dying, rounds=20)
    assert statistics.median(found) <= 1.1
    assert max(found) <= 1.3


def test_the_command_prints_one_table(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["ordinary", "--rounds", "1", "--starts", "300"])
    monkeypatch.setattr(ordinary, "measured", lambda rounds, starts: [("a", "b", "c")])
    ordinary.main()
    assert "| a | b | c |" in capsys.readouterr().out
