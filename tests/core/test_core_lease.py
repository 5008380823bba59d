"""Why there are never two leaders, as arithmetic (R3, R4): for all clocks within drift the belief ends before the claim."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pares.core.lease import MAX_MARGIN, MS, Sent, challenge_ns, lease_ns, margin_ns
from pares.core.wire.records import MAX_SESSION_MS, MIN_SESSION_MS

SESSIONS = [20, 21, 37, 100, 300, 1000, 9_999, 60_000]
DRIFTS = [0.0, 0.001, 0.01, 0.083, 0.1, 0.25, 1 / 3, 0.499, 0.5]


def belief_ends(session_ms: int, drift: float, rate: Fraction, overlap_ms: int = 0) -> Fraction:
    """The true time, after the record was handed over, at which the holder's own stopwatch has run for L."""
    return Fraction(lease_ns(session_ms, drift, overlap_ms)) / rate


def claim_sent(session_ms: int, holder_drift: float, own_drift: float, rate: Fraction) -> Fraction:
    """The true time, after the challenger has read that record, at which it claims; it read it after it was handed over."""
    return Fraction(challenge_ns(session_ms, holder_drift, own_drift)) / rate


def extremes(drift: float) -> list[Fraction]:
    exact = Fraction(drift)
    return [1 - exact, Fraction(1), 1 + exact]


def test_r3_r4_the_belief_ends_before_the_claim_is_sent_at_every_extreme() -> None:
    for session in SESSIONS:
        for holder in DRIFTS:
            for challenger in DRIFTS:
                latest = max(belief_ends(session, holder, rate) for rate in extremes(holder))
                earliest = min(claim_sent(session, holder, challenger, rate) for rate in extremes(challenger))
                assert latest < earliest, (session, holder, challenger)


@given(
    st.integers(MIN_SESSION_MS, MAX_SESSION_MS),
    st.floats(0, 0.5),
    st.floats(0, 0.5),
    st.floats(-1, 1),
    st.floats(-1, 1),
)
@example(1000, 0.1, 0.1, -1.0, 1.0)
@example(20, 0.5, 0.5, -1.0, 1.0)
@example(60_000, 0.0, 0.5, 0.0, 1.0)
def test_r3_r4_the_belief_ends_before_the_claim_is_sent_for_any_clocks(
    session: int, holder: float, challenger: float, slow: float, fast: float
) -> None:
    ends = belief_ends(session, holder, 1 + Fraction(holder) * Fraction(slow))
    sent = claim_sent(session, holder, challenger, 1 + Fraction(challenger) * Fraction(fast))
    assert ends < sent


def test_the_arithmetic_would_not_hold_without_any_of_its_parts() -> None:
    """What the property is worth: leave one factor out, and some clocks break it."""
    session, drift = 1000, Fraction(1, 10)
    slow, fast = 1 - drift, 1 + drift
    claim = Fraction(session) / fast
    assert Fraction(session) / slow > claim  # a lease of a whole session
    assert Fraction(session) * (1 - drift) / slow > claim  # allowing for one clock only
    assert Fraction(session) / (1 + drift) / slow > claim
    assert Fraction(session) * (1 - drift) / (1 + drift) / slow == claim
    half = Fraction(1, 2)  # a challenger that grants itself more than the holder knows of, and waits no longer for it
    assert Fraction(session) * (1 - drift) / (1 + drift) / slow > Fraction(session) / (1 + half)


@given(st.integers(MIN_SESSION_MS, MAX_SESSION_MS), st.floats(0, 0.5))
def test_r16_a_holder_can_keep_its_lease_by_beating_every_quarter_of_its_session(session: int, drift: float) -> None:
    lease = lease_ns(session, drift)
    assert 0 < lease < session * MS
    assert lease > session * MS // 4, "the next beat would always come too late"


@given(st.integers(MIN_SESSION_MS, MAX_SESSION_MS), st.floats(0, 0.5), st.integers(0, 10**6))
def test_r4_overlap_prolongs_the_lease_by_just_that(session: int, drift: float, overlap: int) -> None:
    assert lease_ns(session, drift, overlap) - lease_ns(session, drift) == overlap * MS


@given(st.integers(MIN_SESSION_MS, MAX_SESSION_MS))
def test_r4_there_is_always_a_margin_for_acting_on_a_reading(session: int) -> None:
    assert 0 < margin_ns(session) <= min(MAX_MARGIN, session * MS // 20)


@given(st.integers(MIN_SESSION_MS, MAX_SESSION_MS), st.floats(0, 0.5), st.floats(0, 0.5))
def test_r3_a_challenger_waits_at_least_a_session(session: int, holder: float, own: float) -> None:
    assert challenge_ns(session, holder, own) > session * MS
    if own <= holder:
        assert challenge_ns(session, holder, own) == session * MS + 1


# What was sent, and what has come back -------------------------------------------------------------------------------


def test_r4_counted_from_when_the_newest_record_read_back_was_first_handed_over() -> None:
    sent = Sent()
    for at in (100, 200, 300):
        sent.hand_over(sent.next_number(), b"%d" % at, at)
    assert sent.counted is None
    assert sent.read_back(1, b"100")
    assert sent.counted == 100
    assert sent.read_back(3, b"300")
    assert sent.counted == 300


def test_r8_a_number_or_a_content_that_was_not_sent_is_somebody_elses() -> None:
    sent = Sent()
    sent.hand_over(sent.next_number(), b"mine", 100)
    assert not sent.read_back(1, b"not mine")
    assert not sent.read_back(2, b"mine")
    assert sent.counted is None
    assert sent.read_back(1, b"mine")


def test_r4_records_that_can_no_longer_count_are_dropped() -> None:
    sent = Sent()
    for at in range(1000):
        sent.hand_over(sent.next_number(), b"%d" % at, at)
    assert sent.read_back(999, b"998")
    known = [n for n in range(1, 1001) if sent.read_back(n, b"%d" % (n - 1))]
    assert known == [999, 1000], "a number below one that has counted can not count"


def test_r4_numbers_only_rise() -> None:
    sent = Sent()
    assert [sent.next_number() for _ in range(3)] == [1, 2, 3]
    sent.forget_after(1)
    assert sent.next_number() == 4


def test_r4_what_is_known_not_to_be_in_the_log_is_forgotten_and_the_rest_is_not() -> None:
    sent = Sent()
    for at in (100, 200, 300):
        sent.hand_over(sent.next_number(), b"%d" % at, at)
    sent.forget_after(1)
    assert sent.read_back(1, b"100")
    assert not sent.read_back(2, b"200")


@pytest.mark.parametrize("reads", [[1, 2, 3], [3], [2, 3], [1, 3]])
def test_r4_whatever_part_comes_back_the_newest_counts(reads: list[int]) -> None:
    sent = Sent()
    for at in (100, 200, 300):
        sent.hand_over(sent.next_number(), b"%d" % at, at)
    for n in reads:
        assert sent.read_back(n, b"%d" % (n * 100))
    assert sent.counted == 300
