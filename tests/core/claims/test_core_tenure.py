"""What a member may believe, and how it gives a term up (R4, R5): each phase, and that none is ever gone back to."""

from __future__ import annotations

from core_authors import Plain, began, token
from hypothesis import given
from hypothesis import strategies as st

from pares.core.claims.tenure import Phase, Tenure, Tenures
from pares.core.events import Barrier, Effect, Extend, Follow, Lead
from pares.core.lease import Sent

LEASE = 800
ME = "a~1"


class Member:
    """Terms of `a~1`, with a log that the test writes. What it reads back was handed over when the test says."""

    def __init__(self, *, barrier: int = 300) -> None:
        self.paper, (self.a, self.b) = began(ME, "b~1", roles=("A", "B"))
        self.plain = Plain()
        self.sent = Sent()
        self.tenures = Tenures(ME, LEASE, barrier)
        self.read(0, sent_at=None)

    def read(self, now: int, *, sent_at: int | None) -> list[Effect]:
        """Reads everything; the newest own record among it was handed over at `sent_at`."""
        if sent_at is not None:
            self.sent.counted = sent_at
        before = len(self.plain.changes)
        done = len(self.plain.counted)
        self.plain.read_all([e for e in self.paper.entries if e[0] > self.at])
        self.at = self.paper.end - 1
        assert len(self.plain.counted) >= done
        return self.tenures.update(self.plain.world, self.sent, self.plain.changes[before:], now)

    at = -1

    def leading(self, now: int = 10) -> Tenure:
        """Begins a term of A at `now`, sent just before."""
        self.held = self.a.claim("A")
        self.read(now, sent_at=now - 1)
        return self.tenures.by_seat["A", 0]


def kinds(effects: list[Effect]) -> list[type]:
    return [type(effect) for effect in effects]


# Beginning -----------------------------------------------------------------------------------------------------------


def test_r4_a_term_begins_when_the_log_says_so_and_the_lease_is_good() -> None:
    member = Member()
    held = member.a.claim("A")
    (lead,) = member.read(10, sent_at=5)
    assert lead == Lead(("A", 0), token(held), 5 + LEASE, "free")
    assert member.tenures.until == 5 + LEASE


def test_r16_without_a_good_lease_it_waits_for_a_record_that_has_one() -> None:
    member = Member()
    member.b.transfer("A", token(member.b.claim("A")), ME)
    assert member.read(1000, sent_at=5) == []
    assert member.tenures.by_seat["A", 0].phase is Phase.WAITING
    (lead,) = member.read(1100, sent_at=1050)
    assert isinstance(lead, Lead)
    assert lead.until == 1050 + LEASE


def test_r4_the_last_instant_of_a_lease_is_not_part_of_it() -> None:
    member = Member()
    member.leading(6)
    assert member.tenures.expire(5 + LEASE - 1) == []
    assert kinds(member.tenures.expire(5 + LEASE)) == [Follow]


def test_r16_a_term_does_not_begin_on_the_last_quarter_of_a_lease() -> None:
    """It would end, for good, before its holder could have beaten."""
    member = Member()
    member.a.claim("A")
    assert member.read(5 + 3 * LEASE // 4, sent_at=5) == []
    assert kinds(member.read(5 + 3 * LEASE // 4 + 1, sent_at=50)) == [Lead]
    member = Member()
    member.a.claim("A")
    assert kinds(member.read(5 + 3 * LEASE // 4 - 1, sent_at=5)) == [Lead]


def test_r4_a_lease_is_renewed_from_when_the_newest_record_was_sent_and_never_shortened() -> None:
    member = Member()
    member.leading()
    assert member.read(100, sent_at=50) == [Extend(50 + LEASE)]
    assert member.read(110, sent_at=40) == []
    assert member.tenures.until == 50 + LEASE


# Ending by itself ----------------------------------------------------------------------------------------------------


def test_r4_when_the_lease_runs_out_every_term_is_fenced_for_good() -> None:
    member = Member()
    term = member.leading()
    (follow,) = member.tenures.expire(2000)
    assert isinstance(follow, Follow)
    assert (follow.fenced, follow.why, follow.at) == (True, "lease ran out", member.tenures.until)
    assert member.tenures.expire(2001) == []
    assert member.read(2100, sent_at=2050) == [], "a fresh lease does not bring the old term back"
    assert [t.token for t in member.tenures.ready_to_give()] == [term.token]
    assert (term.why, term.release_only) == ("fenced", True)


def test_r4_what_the_log_takes_away_is_over_at_once() -> None:
    member = Member()
    member.leading()
    member.b.claim("A", over=(ME, member.held))
    (follow,) = member.read(50, sent_at=9)
    assert isinstance(follow, Follow)
    assert (follow.fenced, follow.why) == (True, "claim by b~1")
    assert member.tenures.by_seat == {}


def test_r4_another_token_is_another_term() -> None:
    """Lost and won again within one read: the first term ends, and the second is one of its own."""
    member = Member()
    first = member.leading()
    lost = member.b.claim("A", over=(ME, member.held))
    member.b.transfer("A", token(lost), ME)
    follow, lead = member.read(50, sent_at=9)
    assert isinstance(follow, Follow)
    assert follow.token == first.token
    assert isinstance(lead, Lead)
    assert lead.token > first.token


def test_r12_all_beliefs_are_dropped_at_once() -> None:
    member = Member()
    member.leading()
    member.b.transfer("B", token(member.b.claim("B")), ME)
    member.read(20, sent_at=15)
    assert len(member.tenures.leading()) == 2
    dropped = member.tenures.drop_all("another log", 30)
    assert kinds(dropped) == [Follow, Follow]
    assert all(isinstance(f, Follow) and f.fenced for f in dropped)
    assert member.tenures.by_seat == {}


# Giving up by plan ---------------------------------------------------------------------------------------------------


def test_r5_the_belief_ends_then_the_barrier_then_the_record() -> None:
    member = Member()
    term = member.leading()
    effects = member.tenures.stop(term, "closed", 20)
    assert kinds(effects) == [Follow, Barrier]
    assert isinstance(effects[0], Follow)
    assert not effects[0].fenced
    assert member.tenures.leading() == []
    assert member.tenures.ready_to_give() == []
    member.tenures.barrier_returned(term.seat, term.token)
    assert member.tenures.ready_to_give() == [term]


def test_r5_a_barriers_return_does_nothing_for_another_term() -> None:
    member = Member()
    term = member.leading()
    member.tenures.barrier_returned(term.seat, term.token)
    member.tenures.stop(term, "closed", 20)
    member.tenures.barrier_returned(term.seat, term.token + 1)
    member.tenures.barrier_returned(term.seat, term.token - 1)
    assert member.tenures.ready_to_give() == []


def test_r5_a_barrier_that_is_too_slow_is_fenced_then_released() -> None:
    member = Member(barrier=300)
    term = member.leading()
    member.tenures.stop(term, "handed over", 20, to="b~1", pin=True)
    assert member.tenures.overdue_barriers(319) == []
    (follow,) = member.tenures.overdue_barriers(320)
    assert isinstance(follow, Follow)
    assert (follow.fenced, follow.why) == (True, "barrier timed out")
    assert member.tenures.ready_to_give() == [term]
    assert term.release_only, "nobody in particular gets it now"


def test_r5_fenced_reaches_a_barrier_that_still_runs() -> None:
    member = Member()
    term = member.leading()
    member.tenures.stop(term, "closed", 20)
    assert kinds(member.tenures.expire(2000)) == [Follow]
    member = Member()
    term = member.leading()
    member.tenures.stop(term, "closed", 20)
    member.b.claim("A", over=(ME, member.held))
    (follow,) = member.read(50, sent_at=9)
    assert isinstance(follow, Follow)
    assert follow.fenced


def test_r4_a_term_that_never_began_is_given_up_without_a_barrier() -> None:
    member = Member()
    member.b.transfer("A", token(member.b.claim("A")), ME)
    member.read(1000, sent_at=5)
    assert member.tenures.stop(member.tenures.by_seat["A", 0], "paused", 1010) == []
    assert len(member.tenures.ready_to_give()) == 1
    assert member.read(1100, sent_at=1050) == [], "and never begins after that"


def test_r4_giving_up_is_final_whatever_became_of_the_append() -> None:
    member = Member()
    term = member.leading()
    member.tenures.stop(term, "closed", 20)
    member.tenures.barrier_returned(term.seat, term.token)
    assert member.tenures.ready_to_give() == [term]
    term.sent_to = 7
    assert member.tenures.ready_to_give() == []
    member.tenures.failed(8)
    assert member.tenures.ready_to_give() == [], "another append's failure"
    member.tenures.failed(7)
    assert member.tenures.ready_to_give() == [term], "written again, with the same token"
    assert member.read(30, sent_at=25) == []
    assert member.tenures.until == 25 + LEASE, "the lease is good, and the term is over all the same"
    assert member.tenures.leading() == []


def test_r5_a_release_that_stands_in_the_log_and_did_nothing_is_written_again() -> None:
    member = Member()
    term = member.leading()
    member.tenures.stop(term, "closed", 20)
    member.tenures.barrier_returned(term.seat, term.token)
    member.tenures.ready_to_give()
    term.sent_to = 7
    member.tenures.acked(7, 40)
    member.tenures.still_here(40)
    assert member.tenures.ready_to_give() == [], "not read so far yet"
    member.tenures.still_here(41)
    assert member.tenures.ready_to_give() == [term]


def test_r2_given_up_by_plan_and_not_in_the_log_when_the_lease_ends_is_only_released() -> None:
    member = Member()
    term = member.leading()
    member.tenures.stop(term, "balance", 20, to="b~1")
    member.tenures.barrier_returned(term.seat, term.token)
    member.tenures.ready_to_give()
    term.sent_to = 7
    member.tenures.failed(7)
    member.tenures.expire(5000)
    assert (term.release_only, term.why) == (True, "fenced")


def test_r4_after_a_leave_nothing_begins() -> None:
    member = Member()
    member.tenures.left = True
    member.a.claim("A")
    assert member.read(10, sent_at=9) == []


def test_r17_beginnings_and_ends_are_told_once_each() -> None:
    member = Member()
    term = member.leading()
    member.tenures.stop(term, "closed", 20)
    member.tenures.expire(5000)
    told = [(what, at) for _, _, what, at, _ in member.tenures.history]
    assert told == [("lead", 10), ("stop", 20)]


# Any order of everything ---------------------------------------------------------------------------------------------

RANK = {Phase.WAITING: 0, Phase.LEADING: 1, Phase.STOPPING: 2, Phase.GIVEN: 3}
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "claim",
                "lose",
                "read",
                "read",
                "read_old",
                "stop",
                "barrier",
                "expire",
                "overdue",
                "give",
                "fail",
                "ack",
                "still",
                "handed",
            ]
        ),
        st.integers(1, 400),
    ),
    max_size=40,
)


@given(STEPS)
def test_r4_no_term_ever_goes_back_and_no_belief_outlives_its_lease(steps: list[tuple[str, int]]) -> None:
    """In whatever order: phases only go forward, a belief is only there below `until`, every Lead has its end."""
    member = Member()
    tenures, now, ticket = member.tenures, 0, 0
    phases: dict[int, Phase] = {}
    open_terms: set[int] = set()

    def see(effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Lead):
                assert effect.token not in phases or phases[effect.token] is Phase.WAITING
                assert effect.token not in open_terms
                assert now < effect.until
                open_terms.add(effect.token)
            elif isinstance(effect, Follow):
                open_terms.discard(effect.token)

    for what, number in steps:
        now += number
        see(tenures.expire(now))
        mine = tenures.by_seat.get(("A", 0))
        if what == "claim":
            member.a.claim("A")
        elif what == "lose":
            state = member.plain.world.members[ME]
            member.b.claim("A", over=(ME, state.offset))
        elif what == "handed":
            seat = member.plain.world.seats["A", 0]
            if seat.holder == "b~1":
                member.b.transfer("A", seat.token, ME)
        elif what == "read":
            member.a.beat()
            see(member.read(now, sent_at=now - number // 2))
        elif what == "read_old":
            see(member.read(now, sent_at=member.sent.counted))
        elif what == "stop" and mine is not None:
            see(tenures.stop(mine, "closed", now))
        elif what == "barrier" and mine is not None:
            tenures.barrier_returned(mine.seat, mine.token)
        elif what == "overdue":
            see(tenures.overdue_barriers(now))
        elif what == "give":
            for term in tenures.ready_to_give():
                ticket += 1
                term.sent_to = ticket
        elif what == "fail":
            tenures.failed(ticket)
        elif what == "ack":
            tenures.acked(ticket, member.paper.end)
        elif what == "still":
            tenures.still_here(member.paper.end)
        for term in tenures.by_seat.values():
            before = phases.get(term.token, Phase.WAITING)
            assert RANK[term.phase] >= RANK[before], f"{term.token} went back from {before} to {term.phase}"
            phases[term.token] = term.phase
        leading = {term.token for term in tenures.leading()}
        assert leading == open_terms, "every Lead has its Follow, and none without one"
        assert not leading or now < tenures.until
