"""One role's claims, as one member knows them, and which of them counts.

H1   Only the holder writes its claim. The best ranked of the members heard lately claims; no member claims for another.
H3   A claim lives by the receiver's stopwatch, from receipt, for `ttl`; members other than the holder add `skew`. No clocks are
     compared.
H4   Of copies of one claim that members pass on, the one that ends soonest counts; only a later claim of the holder prolongs
     it. [each relay adds its delay: if the latest end counted, a dead leader's lease would last for ever; if relays rounded
     down, members would take a living leader's lease for over too early]
H7   A later claim of the same holder replaces an earlier one, also if it ends sooner, as a release does.
H9   A split or a lost message may leave two live claims. Which is better follows from numbers that all members read alike: the
     order is `expires`, then rank, then id; or rank, then id. It never follows from what is left of a claim, as each receiver
     measures that differently.
H10  Ids are compared whole, so no two claims are equal. Each incarnation has an id of its own.
H18  A term is above every term that its claimer has heard of, and stays so: a leader that hears of a later term goes on under a
     new one above it. [after a split the leader that remains may have the lower token, and fences that have seen the other
     token refuse it for ever]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from pares.core.allcall.messages import Claim, token
from pares.core.lease import MS

Order: TypeAlias = Literal["lease", "rank"]
_FORGET: Final = 100
"""Ended claims that are kept, so that late copies of them are known for what they are."""


class Known(Struct, gc=False):
    """One holder's newest claim."""

    holder: str
    rank: int
    term: int
    seq: int
    expires: int
    deadline: int
    """When it ends, on this member's stopwatch; in the past if it was released."""
    released: bool = False
    heard: int = 0
    """When this member last heard the claim from its holder, by its stopwatch; until then, when it first heard it from another
    member."""

    def left_ms(self, now: int) -> int:
        """What is left of it, rounded up: rounded down, it would lose up to a millisecond each time it is passed on (H4)."""
        return -(-max(0, self.deadline - now) // MS)

    def passed_on(self, role: str, now: int) -> Claim:
        """The claim as a call passes it on."""
        ttl = 0 if self.released else self.left_ms(now)
        return Claim(role, self.holder, self.rank, self.term, self.seq, ttl, self.expires)


def by_lease(claim: Known) -> tuple[int, int, str]:
    return (-claim.expires, claim.rank, claim.holder)


def by_rank(claim: Known) -> tuple[int, str, int]:
    return (claim.rank, claim.holder, -claim.expires)


ORDERS: Final[dict[Order, Callable[[Known], tuple[int | str, ...]]]] = {"lease": by_lease, "rank": by_rank}


def sooner(one: int, other: int) -> int:
    """The end that counts, of two ends heard for one claim (H4)."""
    return min(one, other)


class Election:
    """The claims to one role."""

    def __init__(self, role: str, me: str, rank: int, order: Order, skew: int) -> None:
        self.role = role
        self.highest = 0
        """The highest term that this member has heard of, or claimed (H18)."""
        self.top = 0
        """The highest token of another member that it has heard of."""
        self.mine: Known | None = None
        """The claim by which this member leads."""
        self.giving: Known | None = None
        """The claim of a role that it is giving up: it no longer believes, but releases the role only when its barrier has
        returned."""
        self._me, self._rank, self._skew = me, rank, skew
        self._key = ORDERS[order]
        self._claims: dict[str, Known] = {}
        self.last_sign: int | None = None
        """When the holder before this member's own term was last heard, if that holder went silent; else None."""
        self.told: tuple[str | None, int] = (None, 0)
        """The leader and the term that this member's user was told of last."""

    def hear(self, claim: Claim, now: int) -> bool:
        """Takes in a claim, from its holder or passed on. Returns whether it is new."""
        self.highest = max(self.highest, claim.term)
        if claim.holder == self._me:
            return False
        if claim.term == self.highest:  # a lower term has a lower token
            self.top = max(self.top, token(claim.term, claim.holder))
        deadline = now + claim.ttl * MS
        known = self._claims.get(claim.holder)
        if known is None or (known.term, known.seq) < (claim.term, claim.seq):
            self._claims[claim.holder] = Known(
                claim.holder, claim.rank, claim.term, claim.seq, claim.expires, deadline, claim.ttl == 0, now
            )
            self._forget(now)
            return True
        if (known.term, known.seq) == (claim.term, claim.seq):
            known.deadline = sooner(known.deadline, deadline)
            known.released = known.released or claim.ttl == 0
        return False

    def heard_from(self, holder: str, now: int) -> None:
        """The holder itself has said its claim just now."""
        if holder in self._claims:
            self._claims[holder].heard = now

    def lives(self, claim: Known, now: int) -> bool:
        """Whether the claim still keeps other members from claiming (H3)."""
        return not claim.released and now < claim.deadline + self._skew

    def others(self, now: int) -> list[Known]:
        """Live claims of others."""
        return [claim for claim in [*self._claims.values()] if self.lives(claim, now)]

    def best(self, now: int) -> Known | None:
        """The live claim that counts, one's own included (H9)."""
        claims = self.others(now)
        claims += [own for own in (self.mine, self.giving) if own is not None and now < own.deadline]
        return min(claims, key=self._key, default=None)

    def gone_silent(self) -> str | None:
        """The holder of the newest term, if that ended without a release. Asked when no claim lives."""
        last = max(self._claims.values(), key=lambda claim: (claim.term, claim.seq), default=None)
        if last is None or last.released or last.term < self.highest:
            self.last_sign = None
            return None
        self.last_sign = last.heard
        return last.holder

    def ends_at(self, now: int) -> int | None:
        """When the last of others' live claims ends; None if there is none."""
        return max((claim.deadline + self._skew for claim in self.others(now)), default=None)

    def claim(self, now: int, wall_ms: int, lease: int, floor: int) -> Known:
        """Begins a term. `floor`: the lowest term to begin with."""
        term = max(self.highest + 1, floor)
        self.highest = term
        self.mine = Known(self._me, self._rank, term, 1, wall_ms + lease // MS, now + lease)
        return self.mine

    def renew(self, now: int, wall_ms: int, lease: int) -> Known:
        """Prolongs this member's claim. `now` was read before anything is stamped or sent."""
        old = self.mine or self.giving
        assert old is not None
        # A wall clock that is set back must not make the renewed claim the worse one.
        expires = max(old.expires + 1, wall_ms + lease // MS)
        renewed = Known(self._me, self._rank, old.term, old.seq + 1, expires, now + lease)
        if self.mine is not None:
            self.mine = renewed
        else:
            self.giving = renewed
        return renewed

    def outbid(self) -> Known | None:
        """A leader's new claim, if it has heard a token above its own; it lasts no longer than the old one. Else None."""
        old = self.mine
        if old is None or token(old.term, old.holder) > self.top:
            return None
        self.highest += 1
        self.mine = Known(self._me, self._rank, self.highest, 1, old.expires, old.deadline)
        return self.mine

    def stop_believing(self) -> None:
        """This member's term is over; its claim still keeps others from claiming."""
        self.giving, self.mine = self.mine, None

    def give_up(self) -> Claim:
        """Ends this member's claim. Returns the release that says so."""
        old = self.mine or self.giving
        assert old is not None
        self.mine = self.giving = None
        return Claim(self.role, self._me, self._rank, old.term, old.seq + 1, 0, old.expires)

    def _forget(self, now: int) -> None:
        if len(self._claims) > _FORGET:
            ended = [claim for claim in self._claims.values() if not self.lives(claim, now)]
            for claim in sorted(ended, key=lambda claim: claim.deadline)[: len(self._claims) - _FORGET]:
                del self._claims[claim.holder]
