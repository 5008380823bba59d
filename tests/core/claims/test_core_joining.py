"""How a member gets into a group (R8, R9, R11, R12): an empty log, a log in the middle, one that it can't enter."""

from __future__ import annotations

from typing import Any

import pytest
from core_authors import BASE, Paper, Pen, began
from core_driver import WALL_US, A, Solo, once

from pares.core.claims.chores.duties import EAGER
from pares.core.claims.protocol import Stage
from pares.core.errors import ConfigError
from pares.core.events import Follow, Lead, Live, Restart, Stop
from pares.core.lease import MS, challenge_ns
from pares.core.wire import forgetting
from pares.core.wire import records as R


def test_r9_an_empty_log_is_begun_joined_and_led() -> None:
    solo = Solo("A")
    written = solo.kinds(solo.run(0.1))
    assert written == ["Genesis", "Join", "Role", "Claim", "Did"]
    assert solo.world.base == pytest.approx(WALL_US, abs=10**6)
    assert len(solo.of(Live)) == 1
    (lead,) = solo.of(Lead)
    assert (lead.seat, lead.token) == (A, solo.world.seats[A].token)


def test_r9_a_new_log_begins_above_every_token_that_the_process_has_seen() -> None:
    solo = Solo("A", seen=3_000_000_000_000_000)
    solo.run(0.1)
    assert solo.world.base > 3_000_000_000_000_000
    assert solo.claims.largest_token >= solo.world.seats[A].token


@pytest.mark.parametrize("base", [R.MAX_BASE - 1, R.MAX_BASE - 100])
def test_r9_a_log_above_which_nothing_can_begin_is_said_to_be_so(base: int) -> None:
    paper = Paper(10)
    stranger = Pen(paper, "x~1")
    stranger.base = base
    stranger.beat()
    solo = Solo("A", paper=paper, start=10)
    solo.run(200, every=0.5)
    assert solo.claims.stage in (Stage.OVER, Stage.LIVE)


@pytest.mark.parametrize("fate", ["fails", "lost"])
def test_r9_failures_while_joining_are_no_refusals(fate: str) -> None:
    """A ledger that is away for a while must not end a member that has just started."""
    solo = Solo("A")
    solo.fate = lambda records: fate
    solo.run(30)
    assert solo.ending is None
    solo.fate = lambda records: "lands"
    solo.run(2)
    assert solo.world.seats[A].holder == solo.me


def test_a_group_that_has_no_room_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forgetting, "MAX_MEMBERS", 2)
    monkeypatch.setattr(R, "MAX_MEMBERS", 2)
    paper, _ = began("b~1", "c~1")
    solo = Solo("A", paper=paper)
    solo.run(5)
    assert isinstance(solo.ending, Stop)
    assert solo.ending.kind == "refused"
    assert "no more fit" in solo.ending.text


def test_r11_a_group_that_writes_a_newer_format_is_not_joined() -> None:
    paper, (a,) = began("new~1", reads=3)
    a.beat(v=3)
    solo = Solo("A", paper=paper)
    written = solo.run(0.5)
    assert isinstance(solo.ending, Stop)
    assert (solo.ending.kind, written) == ("newer-format", [])
    assert "upgrade" in solo.ending.text


def test_what_does_not_fit_into_a_join_is_said_before_anything_is_read() -> None:
    with pytest.raises(ConfigError, match="too large"):
        Solo(eligible=tuple(f"{n:0>100}" for n in range(700)))


def test_r12_adrift_it_asks_for_a_snapshot_waits_the_longest_session_and_begins_anew() -> None:
    paper = Paper(10)
    old = Pen(paper, "old~1", session=3000).join()
    solo = Solo("A", paper=paper, start=10)
    written = solo.run(1)
    assert solo.kinds(written) == ["Join"]
    assert written[0].adrift
    wait = challenge_ns(3000, 0.0, 0.1) / 1e9
    assert solo.run(wait - 1.2) == [], "not before the longest session has passed since it read the last record"
    old.beat()
    assert solo.run(wait - 0.2) == [], "and anything written meanwhile begins the wait anew"
    written = solo.run(0.5)
    assert solo.kinds(written)[:2] == ["Genesis", "Join"]
    assert written[0].over == paper.entries[2][0]
    assert written[0].base > BASE
    assert solo.world.seats[A].holder == solo.me


def test_r12_a_log_with_nothing_of_the_group_is_begun_after_a_session_of_ones_own() -> None:
    solo = Solo("A", paper=Paper(7), start=7, session_ms=400)
    assert solo.run(0.39) == []
    assert solo.kinds(solo.run(0.3))[:2] == ["Genesis", "Join"]
    assert solo.world.seats[A].holder == solo.me


def test_r12_an_adrift_join_that_was_lost_is_written_again() -> None:
    paper = Paper(10)
    Pen(paper, "old~1", session=60_000).join()
    solo = Solo("A", paper=paper, start=10)
    solo.fate = once("Join")
    assert solo.kinds(solo.run(2)) == ["Join", "Join"]


def joined_after(others: int, **config: Any) -> list[int]:
    """After how many milliseconds each of twenty newcomers, who know nothing of each other, writes its join."""
    paper, _ = began(*(f"m{n:03}~1" for n in range(others)), roles=())
    found: list[int] = []
    for number in range(20):
        solo = Solo(paper=Paper(), id=f"new~{number}", **config)
        solo.paper.entries, solo.paper.end = list(paper.entries), paper.end
        while not solo.of(Live):
            solo.run(0.001, every=0.001)
        found.append(solo.now // MS)
    return found


def test_newcomers_of_a_large_group_come_one_after_the_other() -> None:
    assert set(joined_after(EAGER)) == {2}
    assert len(set(joined_after(40))) > 10
    assert max(joined_after(40)) <= 42
    assert 100 < max(joined_after(200)) <= 202
    assert max(joined_after(300)) <= 252, "a quarter of a session at the most"
    assert set(joined_after(200, eligible=())) == {2}, "an administrator is not kept waiting"


def test_r20_who_is_forgotten_before_it_has_read_its_own_join_begins_anew() -> None:
    """On a machine that is too slow. Nobody has refused it."""
    paper, (other,) = began("b~1", reads=2)
    other.beat(v=2)
    solo = Solo("A", paper=paper)
    solo.fate = once("Join", "deaf")
    solo.run(0.2)
    assert solo.claims.stage is Stage.JOINING
    other.write(R.Forget, of=solo.me, over=paper.end - 1, v=2)
    solo.reading = True
    solo.run(0.2)
    assert isinstance(solo.ending, Restart)
    assert "no longer knows" in solo.ending.why


def test_r12_a_member_begins_anew_in_a_log_that_somebody_has_begun_who_knew_nothing_of_its_world() -> None:
    """Else it would live in a world in which nobody else is."""
    solo = Solo("A")
    solo.run(0.5)
    assert solo.of(Lead)
    base, last = solo.world.base, solo.world.last
    solo.paper.genesis(base=base + 1, over=last - 1)
    solo.tick()
    assert solo.ending is None, "it knew of an earlier state of this world: the members refuse it"
    solo.paper.genesis(base=base, over=solo.paper.end - 1)
    solo.tick()
    assert isinstance(solo.ending, Restart)
    assert "knew nothing" in solo.ending.why
    assert [follow.seat for follow in solo.of(Follow)] == [("A", 0)]
