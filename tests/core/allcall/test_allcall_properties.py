"""Whatever is heard, in whatever order: all choose alike (H9, H10), relays prolong no claim (H4), a release stays one (H7)."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from pares.core.allcall.election import Election, Order
from pares.core.allcall.messages import Claim
from pares.core.lease import MS

TTL = 10_000
HOLDERS = st.sampled_from(["a~1", "a~2", "b~1", "c~1"])
CLAIMS = st.builds(
    Claim,
    role=st.just("x"),
    holder=HOLDERS,
    rank=st.integers(-1, 1),
    term=st.integers(1, 3),
    seq=st.integers(1, 3),
    ttl=st.sampled_from([0, TTL]),
    expires=st.integers(100, 103),
)


def one_word(claims: list[Claim]) -> list[Claim]:
    """A holder has one rank, and says one thing under one number."""
    said: dict[tuple[str, int, int], Claim] = {}
    ranks = {claim.holder: claim.rank for claim in claims}
    for claim in claims:
        fields = {f: getattr(claim, f) for f in ("role", "holder", "term", "seq", "ttl", "expires")}
        said.setdefault((claim.holder, claim.term, claim.seq), Claim(rank=ranks[claim.holder], **fields))
    return list(said.values())


@given(
    claims=st.lists(CLAIMS, max_size=12).map(one_word), order=st.sampled_from(["lease", "rank"]), seed=st.integers(0, 9)
)
@settings(max_examples=150, deadline=None)
def test_all_who_have_heard_the_same_choose_alike(claims: list[Claim], order: Order, seed: int) -> None:
    chosen: list[str | None] = []
    for number in range(3):
        election = Election("x", f"me{number}~1", 0, order, MS)
        rng = Random(f"{seed}/{number}")
        now = 0
        for claim in rng.sample(claims, len(claims)) + rng.choices(claims, k=3 if claims else 0):
            now += rng.randrange(100 * MS)
            election.hear(claim, now)
        best = election.best(now)
        chosen.append(None if best is None else best.holder)
    assert len(set(chosen)) == 1


@given(
    hops=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 400), st.integers(0, 900)), max_size=60
    )
)
@settings(max_examples=100, deadline=None)
def test_no_relay_prolongs_a_claim(hops: list[tuple[int, int, int, int]]) -> None:
    """Four members hear it from its holder at different times, and tell it each other, late: for each it ends when it heard
    that it would, or sooner, and not sooner than for whoever heard it first."""
    elections = [Election("x", f"m{number}~1", 1, "lease", 0) for number in range(4)]
    ends: list[int] = []
    for number, election in enumerate(elections):
        heard = number * 200 * MS
        election.hear(Claim("x", "a~1", 0, 5, 1, TTL, 10**9), heard)
        ends.append(heard + TTL * MS)
    now = 600 * MS
    for source, target, pause, delay in hops:
        now += pause * MS // 7
        claim = elections[source].best(now)
        if claim is not None and claim.deadline > now:
            elections[target].hear(claim.passed_on("x", now), now + delay * MS)
    for election, end in zip(elections, ends, strict=True):
        claim = election.best(600 * MS)
        assert claim is not None
        assert min(ends) <= claim.deadline <= end


@given(claims=st.lists(CLAIMS, max_size=12).map(one_word), copies=st.integers(1, 20))
@settings(max_examples=100, deadline=None)
def test_a_release_stays_one_whatever_comes_late(claims: list[Claim], copies: int) -> None:
    election = Election("x", "me~1", 0, "lease", MS)
    election.hear(Claim("x", "a~1", 0, 4, 1, 0, 1), 0)  # above all that comes after it
    rng = Random(copies)
    for claim in rng.choices(claims, k=copies) if claims else []:
        election.hear(claim, 1)
    best = election.best(1)
    assert best is None or best.holder != "a~1"
