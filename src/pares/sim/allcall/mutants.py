"""Rules of ALLCALL broken on purpose, one at a time, to see that the simulation would notice.

A mutant patches the real core for as long as a simulation runs. `bias` makes it likely that the damage shows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from pares.core import allcall_election
from pares.core.allcall import AllCall
from pares.core.allcall_election import Election, Known
from pares.core.allcall_hearing import Hearing, Sender
from pares.core.allcall_protocol import Effect, Settings
from pares.core.allcall_wire import Call, Claim, decode, token
from pares.core.lease import MS
from pares.core.protocol import Lead
from pares.sim.mutants.base import Mutant, Patch

# pyright: reportPrivateUsage=false


def _followers_stamp() -> list[Patch]:
    """Everybody starts the winner's lease, by its own clock, as in the text."""
    usual = AllCall._claim

    def claim(self: AllCall, role: str, election: Election, now: int, effects: list[Effect]) -> None:
        better = self._better(role, now)
        if better is not None and election.best(now) is None and election.mine is None and self._may_elect(role, now):
            lease = self._settings.lease_ms
            rank = self._peers[better].rank
            stamp = Claim(role, better, rank, election.highest + 1, 1, lease, self._wall_ms(now) + lease)
            election.hear(stamp, now)
        usual(self, role, election, now, effects)

    return [(AllCall, "_claim", claim)]


def _over_live_claims() -> list[Patch]:
    usual = AllCall._claim

    def claim(self: AllCall, role: str, election: Election, now: int, effects: list[Effect]) -> None:
        kept, election._claims = election._claims, {}
        usual(self, role, election, now, effects)
        election._claims = kept

    return [(AllCall, "_claim", claim)]


def _absolute() -> list[Patch]:
    """The end that the holder wrote is compared with one's own clock."""
    usual = AllCall._hear

    def hear(self: AllCall, payload: bytes, now: int, effects: list[Effect]) -> None:
        usual(self, payload, now, effects)
        call = decode(payload)
        for claim in call.c if isinstance(call, Call) else ():
            election = self._elections.get(claim.role)
            known = election._claims.get(claim.holder) if election is not None else None
            if known is not None and not known.released:
                known.deadline = now + (claim.expires - self._wall_ms(now)) * MS

    return [(AllCall, "_hear", hear)]


def _no_skew() -> list[Patch]:
    def lives(self: Election, claim: Known, now: int) -> bool:
        return not claim.released and now < claim.deadline

    return [(Election, "lives", lives)]


def _longer_than_told() -> list[Patch]:
    """The holder believes for longer than its claim says."""
    usual = Known.passed_on

    def passed_on(self: Known, role: str, now: int) -> Claim:
        claim = usual(self, role, now)
        return msgspec.structs.replace(claim, ttl=max(min(claim.ttl, 1), claim.ttl // 2))

    return [(Known, "passed_on", passed_on)]


def _rounds_down() -> list[Patch]:
    """Whole milliseconds, and each relay loses the rest."""
    return [(Known, "left_ms", lambda self, now: max(0, self.deadline - now) // MS)]  # pyright: ignore[reportUnknownLambdaType, reportUnknownMemberType]


def _no_loopback() -> list[Patch]:
    return [(AllCall, "_loops", lambda self, now: True)]  # pyright: ignore[reportUnknownLambdaType]


def _deaf_offers() -> list[Patch]:
    """Who can't lead says that it may be waited for."""

    def offers(self: AllCall, role: str, now: int) -> bool:
        return role not in self._declined and self._may_elect(role, now)

    return [(AllCall, "_offers", offers)]


def _no_release() -> list[Patch]:
    """Who must not renew lets its term end, and says nothing."""
    usual, give_up = AllCall._renew, AllCall._give_up

    def renew(self: AllCall, role: str, election: Election, now: int, effects: list[Effect]) -> Lead | None:
        return usual(self, role, election, now, effects) if self._better(role, now) is None else None

    def silently(self: AllCall, role: str, why: str, now: int, effects: list[Effect], *, fenced: bool) -> None:
        give_up(self, role, why, now, effects, fenced=fenced)
        self._farewells, self._unsaid = {}, False

    return [(AllCall, "_renew", renew), (AllCall, "_give_up", silently)]


def _monotone() -> list[Patch]:
    """A claim is taken only if it ends later than what is known, as in the text."""
    usual = Election.hear

    def hear(self: Election, claim: Claim, now: int) -> bool:
        known = self._claims.get(claim.holder)
        if known is not None and now + claim.ttl * MS < known.deadline:
            return False
        return usual(self, claim, now)

    return [(Election, "hear", hear)]


def _by_what_is_left() -> list[Patch]:
    """Which of two claims counts is decided by what is left of them, as each measures it; until one is over, oneself."""

    def left(claim: Known) -> tuple[int, int, str]:
        return (-(claim.deadline // MS), 0, "")

    return [(allcall_election.ORDERS, "lease", left)]


def _ties() -> list[Patch]:
    """Two claims may be equal, and then whichever is looked at first counts."""

    def tied(claim: Known) -> tuple[int]:
        return (claim.rank,)

    return [(allcall_election.ORDERS, "rank", tied)]


def _name_is_enough() -> list[Patch]:
    """What an earlier life claimed is one's own."""
    usual = AllCall._hear

    def hear(self: AllCall, payload: bytes, now: int, effects: list[Effect]) -> None:
        usual(self, payload, now, effects)
        me = self._settings.id
        for role, election in self._elections.items():
            for holder in [h for h in election._claims if h != me and h.partition("~")[0] == me.partition("~")[0]]:
                old = election._claims.pop(holder)
                if election.mine is None and now < old.deadline and not old.released:
                    election.mine = Known(me, self._settings.rank, old.term, old.seq, old.expires, old.deadline)
                    effects.append(Lead((role, 0), token(old.term, holder), old.deadline, "resumed"))

    return [(AllCall, "_hear", hear)]


def _init_electable() -> list[Patch]:
    """Who keeps silence says that it may be elected."""
    return [
        (AllCall, "_phase", lambda self, now: "ping"),  # pyright: ignore[reportUnknownLambdaType]
        (AllCall, "_offers", lambda self, role, now: True),  # pyright: ignore[reportUnknownLambdaType]
    ]


def _no_silence() -> list[Patch]:
    usual = AllCall.__init__

    def init(self: AllCall, settings: Settings, now: int, wall_us: int) -> None:
        usual(self, msgspec.structs.replace(settings, init_ms=0), now, wall_us)

    return [(AllCall, "__init__", init)]


def _bar_lifted_for_all() -> list[Patch]:
    """A live claim to one role lets a newcomer lead any."""

    def may_elect(self: AllCall, role: str, now: int) -> bool:
        return bool(self._unbarred) or now >= self._barred_until

    return [(AllCall, "_may_elect", may_elect)]


def _eager() -> list[Patch]:
    """Every call is answered at once."""
    usual = AllCall._hear

    def hear(self: AllCall, payload: bytes, now: int, effects: list[Effect]) -> None:
        usual(self, payload, now, effects)
        call = decode(payload)
        if isinstance(call, Call) and call.k == "ping" and call.m != self._settings.id and self._first_ping is not None:
            self._publish("reply", self._phase(now), now, effects)

    return [(AllCall, "_hear", hear)]


def _leads_alone() -> list[Patch]:
    """`when_isolated="step_down"` is not heeded."""
    return [(AllCall, "_leave_if_alone", lambda *_: None)]


def _never_alone() -> list[Patch]:
    """`when_isolated="lead"` is not heeded."""
    return [(AllCall, "_can_lead", AllCall._loops)]


def _old_counts() -> list[Patch]:
    return [(Hearing, "_too_old", lambda *_: False)]


def _copies_count() -> list[Patch]:
    """Calls need not come in order, or once."""

    def news(self: Hearing, call: Call, now: int, wall_ms: int) -> bool:
        late = now // MS - call.s
        known = self._senders.setdefault(call.m, Sender(0, now, late, now, now))
        return not self._too_old(call, known, late, now, wall_ms)

    return [(Hearing, "news", news)]


def _clocks_divide() -> list[Patch]:
    """Only the wall clocks say how old a call is."""

    def too_old(self: Hearing, call: Call, known: Sender, late: int, now: int, wall_ms: int) -> bool:
        return (wall_ms - call.s) * MS > self._lease

    return [(Hearing, "_too_old", too_old)]


def _flag() -> list[Patch]:
    """That one leads is a flag; when the lease is over nobody looks."""
    return [(AllCall, "_end_leases", lambda *_: None)]


def _standstill() -> list[Patch]:
    """Who stood still goes on as if it had listened."""
    return [(AllCall, "_notice_standstill", lambda *_: None)]


def _forgetful() -> list[Patch]:
    """Terms begin from the wall clock alone."""
    usual = Election.claim

    def claim(self: Election, now: int, wall_ms: int, lease: int, floor: int) -> Known:
        self.highest = 0
        return usual(self, now, wall_ms, lease, floor)

    return [(Election, "claim", claim)]


def _not_outbid() -> list[Patch]:
    """Who leads on after a split keeps its token, however low."""
    return [(Election, "outbid", lambda self: None)]  # pyright: ignore[reportUnknownLambdaType]


def _barrier_not_awaited() -> list[Patch]:
    """What is given up is released before the barrier has returned."""
    usual = AllCall._give_up

    def give_up(self: AllCall, role: str, why: str, now: int, effects: list[Effect], *, fenced: bool) -> None:
        usual(self, role, why, now, effects, fenced=fenced)
        if self._elections[role].giving is not None:
            self._release(role, now)

    return [(AllCall, "_give_up", give_up)]


def _not_ready_leads() -> list[Patch]:
    """Who is not ready says that it could lead, and others wait for it."""
    usual = AllCall._offers

    def offers(self: AllCall, role: str, now: int) -> bool:
        away, self._away = self._away, False
        answer = usual(self, role, now)
        self._away = away
        return answer

    return [(AllCall, "_offers", offers)]


def _both_go_on() -> list[Patch]:
    return [(AllCall, "_yield_to_better", lambda *_: None)]


def _declined_for_ever() -> list[Patch]:
    """A role that was stepped down from is not taken back while nobody has led it, whoever is there."""
    return [(AllCall, "_others_can", lambda self, role: True)]  # pyright: ignore[reportUnknownLambdaType]


def _made(name: str, rule: str, what: str, patches: Callable[[], list[Patch]], **bias: Any) -> Mutant:
    return Mutant(name, rule, what, patches, bias)


_FAIR: dict[str, Any] = {"loss": 0.0, "late": 0.0, "doubled": 0.0}
_SPLITS: dict[str, Any] = {"faults": {"split": 1.0}, "probes": ("split", "split"), "members": 4, "weather": _FAIR}
_SLOW: dict[str, Any] = {"weather": _FAIR | {"delay": (30 * MS, 40 * MS)}, "beat_ms": 100, "lease_ms": 300}
_CUTS: dict[str, Any] = {"reach": 3.0, "pace": 0.2, "weather": _FAIR, "wall_s": 0.0}

MUTANTS: dict[str, Mutant] = {
    mutant.name: mutant
    for mutant in (
        _made("followers-stamp", "H1", "everybody starts the winner's lease", _followers_stamp),
        _made("over-live-claims", "H2", "who is best claims, whatever claim lives", _over_live_claims),
        _made("absolute-expiry", "H3", "the holder's end is compared with one's own clock", _absolute),
        _made("no-skew", "H3", "a claim is over without the skew", _no_skew, extreme=True, pace=0.0),
        _made("longer-than-told", "H3", "a holder believes for longer than it says", _longer_than_told),
        _made(
            "relay-maximum",
            "H4",
            "of copies of a claim the latest end counts",
            lambda: [(allcall_election, "sooner", max)],
        ),
        _made(
            "relays-round-down",
            "H4",
            "each relay of a claim loses part of a millisecond",
            _rounds_down,
            members=8,
            beat_ms=20,
            lease_ms=200,
            drift=0.0,
            wall_s=0.0,
            pace=0.0,
        ),
        _made(
            "no-loopback",
            "H5",
            "a holder renews though its calls don't come back",
            _no_loopback,
            **_CUTS | {"faults": {"mute": 1.0}},
        ),
        _made(
            "deaf-is-waited-for",
            "H5",
            "who can't lead says that it could",
            _deaf_offers,
            **_CUTS | {"faults": {"deaf": 1.0}, "isolated": ("step_down",)},
        ),
        _made("no-release", "H6", "terms end without a word", _no_release, probes=("join", "close")),
        _made(
            "monotone", "H7", "a release that ends a longer claim is refused", _monotone, probes=("close", "step_down")
        ),
        _made("both-go-on", "H8", "two that lead wait for the end of their terms", _both_go_on, **_SPLITS),
        _made(
            "by-what-is-left",
            "H9",
            "claims are ordered by what each measures",
            _by_what_is_left,
            **_SPLITS,
            order="lease",
        ),
        _made("ties", "H10", "two claims may be equal", _ties, **_SPLITS, ranks=(0, 0, 0, 0), order="rank"),
        _made(
            "name-is-enough",
            "H11",
            "an earlier life's claim is one's own",
            _name_is_enough,
            probes=("restart", "restart"),
        ),
        _made("init-electable", "H12", "who keeps silence may be elected", _init_electable, dawn=1.0),
        _made("no-silence", "H13", "a newcomer leads as soon as it can", _no_silence),
        _made(
            "bar-lifted-for-all",
            "H12",
            "one role's live claim lets a newcomer lead any",
            _bar_lifted_for_all,
            roles=2,
            picky=True,
            members=3,
            beat_ms=100,
            lease_ms=300,
            faults={"crash": 2.0, "restart": 1.0},
        ),
        _made("eager-answers", "H14", "every call is answered", _eager, members=8),
        _made(
            "leads-on-its-own",
            "H15",
            "who is alone leads, though it should step down",
            _leads_alone,
            **_CUTS | {"faults": {"disconnect": 1.0}, "isolated": ("step_down",)},
        ),
        _made(
            "never-on-its-own",
            "H15",
            "who is alone does not lead, though it should",
            _never_alone,
            **_CUTS | {"faults": {"disconnect": 1.0}, "isolated": ("lead",)},
        ),
        _made(
            "old-calls-count", "H16", "what was said long ago counts", _old_counts, faults={"replay": 3.0, "crash": 1.0}
        ),
        _made("copies-count", "H16", "a late copy is a sign of life", _copies_count, weather={"doubled": 0.3}),
        _made(
            "clocks-divide", "H16", "wall clocks alone say how old a call is", _clocks_divide, wall_s=60.0, extreme=True
        ),
        _made("leads-by-a-flag", "H17", "nobody looks whether a lease is over", _flag, faults={"freeze": 1.0}),
        _made("standstill-unnoticed", "H17", "who stood still takes all for lost", _standstill, faults={"freeze": 1.0}),
        _made("not-outbid", "H18", "who leads on after a split keeps a lower token", _not_outbid, **_SPLITS),
        _made(
            "barrier-not-awaited",
            "R5",
            "a release does not wait",
            _barrier_not_awaited,
            barrier=0.7,
            drift=0.0,
            wall_s=0.0,
        ),
        _made(
            "not-ready-is-waited-for",
            "R13",
            "who is not ready says that it could lead",
            _not_ready_leads,
            **_CUTS | {"faults": {"ready": 1.0}},
        ),
        _made("terms-from-the-clock", "H18", "a term may be below what was heard of", _forgetful),
        _made(
            "declined-for-ever",
            "R13",
            "what was stepped down from is not taken back",
            _declined_for_ever,
            faults={"step_down": 1.0, "crash": 1.0},
            members=2,
        ),
    )
}
"""All of them, by name."""
