"""Non-exclusive mode: with `overlap` a leader goes on believing for a while after its lease, so that no absence is a gap."""

from __future__ import annotations

import time

from runtime_tools import PATIENCE, Crew, Faulty, until

import pares
from pares.core.lease import lease_ns
from pares.runtime.clock import stopwatch


def test_a_leader_that_is_cut_off_goes_on_for_the_overlap(crew: Crew, faulty: Faulty) -> None:
    session, overlap = 0.4, 3.0
    cut_off = pares.Member(faulty, group="g", roles=["A"], name="a", session=session, overlap=overlap, settle=0.05)
    term = cut_off.wait("A", PATIENCE)
    assert term is not None
    other = crew.standby("b", session=session, overlap=overlap)
    faulty.away()
    successor = other.wait("A", PATIENCE)
    assert successor is not None
    assert term, "both believe: no gap"
    assert successor.token > term.token
    assert cut_off.holds("A")
    assert term.wait_lost(PATIENCE)
    assert term.why == "lease ran out"
    assert successor
    faulty.back()
    until(lambda: (holder := cut_off.leader("A")) is not None and holder.token == successor.token, "it has read on")
    cut_off.close()


def test_the_belief_lasts_as_long_as_it_is_said_to(faulty: Faulty) -> None:
    session, overlap = 0.4, 3.0
    me = pares.Member(faulty, group="g", roles=["A"], name="a", session=session, overlap=overlap)
    term = me.wait("A", PATIENCE)
    assert term is not None
    faulty.away()
    until(lambda: me.health().unreachable, "no beat is under way that would prolong it")
    cut_at, left = stopwatch(), term.remaining()
    assert term.wait_lost(PATIENCE)
    lasted = (stopwatch() - cut_at) / 1e9
    assert lasted >= left
    assert lasted < left + PATIENCE / 2
    assert lease_ns(400, 0.1) / 1e9 < left <= lease_ns(400, 0.1, 3000) / 1e9, (
        "a lease and the overlap, less the age of its last beat"
    )
    faulty.back()
    me.close()


def test_a_planned_handover_has_no_overlap(crew: Crew) -> None:
    """What is given up by plan is given up: the overlap is for silence only."""
    me, other = crew.leader("a", overlap=60.0), crew.standby("b", overlap=60.0)
    term = me.term("A")
    assert term is not None
    me.hand_over("A", to="b")
    assert other.wait("A", PATIENCE)
    assert not term
    time.sleep(0.05)
    assert not me.holds("A")


def test_exclusive_mode_has_a_gap_where_overlap_has_none(crew: Crew, faulty: Faulty) -> None:
    session = 0.5
    cut_off = pares.Member(faulty, group="g", roles=["A"], name="a", session=session, settle=0.05)
    term = cut_off.wait("A", PATIENCE)
    assert term is not None
    other = crew.standby("b", session=session)
    faulty.away()
    assert term.wait_lost(PATIENCE)
    ended = stopwatch()
    successor = other.wait("A", PATIENCE)
    assert successor is not None
    assert stopwatch() > ended
    assert not term
    faulty.back()
    cut_off.close()
