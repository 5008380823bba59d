"""Ways to break one rule of ALLCALL each, in the real core: what `mutants` is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from pares.core import events as ev
from pares.core.allcall import election as allcall_election
from pares.core.allcall.config import Settings
from pares.core.allcall.election import Election, Known
from pares.core.allcall.freshness import Hearing, Sender
from pares.core.allcall.messages import Call, Claim, decode, token
from pares.core.allcall.peers import Company
from pares.core.allcall.protocol import AllCall
from pares.core.allcall.timing import Turns
from pares.core.events import Effect, Lead
from pares.core.lease import MS
from pares.runtime.allcall.binding import AllCallBinding
from pares.sim.mutant import Patch

# pyright: reportPrivateUsage=false


def followers_stamp() -> list[Patch]:
    """Everybody starts the winner's lease, by its own clock, as in the text."""
    usual = AllCall._claim

    def claim(self: AllCall, role: str, election: Election, now: int, effects: list[Effect]) -> None:
        better = self._company.better(role)
        if (
            better is not None
            and election.best(now) is None
            and election.mine is None
            and self._turns.may_elect(role, now)
        ):
            lease = self._settings.lease_ms
            rank = self._company.peers[better].rank
            stamp = Claim(role, better, rank, election.highest + 1, 1, lease, self._wall_ms(now) + lease)
            election.hear(stamp, now)
        usual(self, role, election, now, effects)

    return [(AllCall, "_claim", claim)]


def over_live_claims() -> list[Patch]:
    usual = AllCall._claim

    def claim(self: AllCall, role: str, election: Election, now: int, effects: list[Effect]) -> None:
        kept, election._claims = election._claims, {}
        usual(self, role, election, now, effects)
        election._claims = kept

    return [(AllCall, "_claim", claim)]


def absolute() -> list[Patch]:
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


def no_skew() -> list[Patch]:
    def lives(self: Election, claim: Known, now: int) -> bool:
        return not claim.released and now < claim.deadline

    return [(Election, "lives", lives)]


def longer_than_told() -> list[Patch]:
    """The holder believes for longer than its claim says."""
    usual = Known.passed_on

    def passed_on(self: Known, role: str, now: int) -> Claim:
        claim = usual(self, role, now)
        return msgspec.structs.replace(claim, ttl=max(min(claim.ttl, 1), claim.ttl // 2))

    return [(Known, "passed_on", passed_on)]


def rounds_down() -> list[Patch]:
    """Whole milliseconds, and each relay loses the rest."""
    return [(Known, "left_ms", lambda self, now: max(0, self.deadline - now) // MS)]  # pyright: ignore[reportUnknownLambdaType, reportUnknownMemberType]


def no_loopback() -> list[Patch]:
    return [(Company, "loops", lambda self, now: True)]  # pyright: ignore[reportUnknownLambdaType]


def deaf_offers() -> list[Patch]:
    """A member that can't lead says that it may be waited for."""

    def offers(self: AllCall, role: str, now: int) -> bool:
        return not self._declines(role) and self._turns.may_elect(role, now)

    return [(AllCall, "_offers", offers)]


def last_beat_only() -> list[Patch]:
    """The role is given up at the last beat before the end, and not at one that is up to half a beat earlier."""
    usual = AllCall._renew

    def renew(self: AllCall, role: str, election: Election, now: int, effects: list[Effect]) -> Lead | None:
        mine = election.mine
        if mine is not None and self._company.better(role) is not None and mine.deadline > now + self._beat:
            return None
        return usual(self, role, election, now, effects)

    return [(AllCall, "_renew", renew)]


def no_release() -> list[Patch]:
    """A holder that must not renew lets its term end, and says nothing."""
    usual, give_up = AllCall._renew, AllCall._give_up

    def renew(self: AllCall, role: str, election: Election, now: int, effects: list[Effect]) -> Lead | None:
        return usual(self, role, election, now, effects) if self._company.better(role) is None else None

    def silently(self: AllCall, role: str, why: str, now: int, effects: list[Effect], *, fenced: bool) -> None:
        give_up(self, role, why, now, effects, fenced=fenced)
        self._farewells, self._unsaid = {}, False

    return [(AllCall, "_renew", renew), (AllCall, "_give_up", silently)]


def monotone() -> list[Patch]:
    """A claim is taken only if it ends later than what is known, as in the text."""
    usual = Election.hear

    def hear(self: Election, claim: Claim, now: int) -> bool:
        known = self._claims.get(claim.holder)
        if known is not None and now + claim.ttl * MS < known.deadline:
            return False
        return usual(self, claim, now)

    return [(Election, "hear", hear)]


def by_what_is_left() -> list[Patch]:
    """Which of two claims counts is decided by what is left of them, as each measures it; until one is over, oneself."""

    def left(claim: Known) -> tuple[int, int, str]:
        return (-(claim.deadline // MS), 0, "")

    return [(allcall_election.ORDERS, "lease", left)]


def ties() -> list[Patch]:
    """Two claims may be equal, and then whichever is looked at first counts."""

    def tied(claim: Known) -> tuple[int]:
        return (claim.rank,)

    return [(allcall_election.ORDERS, "rank", tied)]


def name_is_enough() -> list[Patch]:
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


def init_electable() -> list[Patch]:
    """A member that keeps silence says that it may be elected."""
    return [
        (Turns, "phase", lambda self, now: "ping"),  # pyright: ignore[reportUnknownLambdaType]
        (AllCall, "_offers", lambda self, role, now: True),  # pyright: ignore[reportUnknownLambdaType]
    ]


def no_silence() -> list[Patch]:
    usual = AllCall.__init__

    def init(self: AllCall, settings: Settings, now: int, wall_us: int) -> None:
        usual(self, msgspec.structs.replace(settings, init_ms=0), now, wall_us)

    return [(AllCall, "__init__", init)]


def bar_lifted_for_all() -> list[Patch]:
    """A live claim to one role lets a newcomer lead any."""

    def may_elect(self: Turns, role: str, now: int) -> bool:
        return bool(self._unbarred) or now >= self._barred_until

    return [(Turns, "may_elect", may_elect)]


def eager() -> list[Patch]:
    """Every call is answered at once."""
    usual = AllCall._hear

    def hear(self: AllCall, payload: bytes, now: int, effects: list[Effect]) -> None:
        usual(self, payload, now, effects)
        call = decode(payload)
        phase = self._turns.phase(now)
        if isinstance(call, Call) and call.k == "ping" and call.m != self._settings.id and phase == "ping":
            self._publish("reply", phase, now, effects)

    return [(AllCall, "_hear", hear)]


def leads_alone() -> list[Patch]:
    """`when_isolated="step_down"` is not heeded."""
    return [(AllCall, "_leave_if_alone", lambda *_: None)]


def never_alone() -> list[Patch]:
    """`when_isolated="lead"` is not heeded."""
    return [(AllCall, "_can_lead", lambda self, now: self._company.loops(now))]  # pyright: ignore[reportUnknownLambdaType, reportUnknownMemberType]


def old_counts() -> list[Patch]:
    return [(Hearing, "_too_old", lambda *_: False)]


def copies_count() -> list[Patch]:
    """Calls need not come in order, or once."""

    def news(self: Hearing, call: Call, now: int, wall_ms: int) -> bool:
        late = now // MS - call.s
        known = self._senders.setdefault(call.m, Sender(0, now, late, now, now))
        return not self._too_old(call, known, late, now, wall_ms)

    return [(Hearing, "news", news)]


def clocks_divide() -> list[Patch]:
    """Only the wall clocks say how old a call is."""

    def too_old(self: Hearing, call: Call, known: Sender, late: int, now: int, wall_ms: int) -> bool:
        return (wall_ms - call.s) * MS > self._lease

    return [(Hearing, "_too_old", too_old)]


def flag() -> list[Patch]:
    """That one leads is a flag; when the lease is over nobody looks."""
    return [(AllCall, "_end_leases", lambda *_: None)]


def standstill() -> list[Patch]:
    """A member that stood still goes on as if it had listened."""
    return [(AllCall, "_notice_standstill", lambda *_: None)]


def unread() -> list[Patch]:
    """Silence is judged by the stopwatch alone, whatever waits to be read or is on its way."""
    usual, noticed = AllCallBinding.step, AllCall._notice_standstill

    def step(self: AllCallBinding, event: ev.Event, now: int) -> Sequence[Any]:
        self.calls.heard = now
        return usual(self, event, now)

    def notice(self: AllCall, now: int) -> None:
        noticed(self, now)
        self._heard, self._late = now, None

    return [(AllCallBinding, "step", step), (AllCall, "_notice_standstill", notice)]


def forgetful() -> list[Patch]:
    """Terms begin from the wall clock alone."""
    usual = Election.claim

    def claim(self: Election, now: int, wall_ms: int, lease: int, floor: int) -> Known:
        self.highest = 0
        return usual(self, now, wall_ms, lease, floor)

    return [(Election, "claim", claim)]


def not_outbid() -> list[Patch]:
    """A leader that stays after a split keeps its token, however low."""
    return [(Election, "outbid", lambda self: None)]  # pyright: ignore[reportUnknownLambdaType]


def barrier_not_awaited() -> list[Patch]:
    """What is given up is released before the barrier has returned."""
    usual = AllCall._give_up

    def give_up(self: AllCall, role: str, why: str, now: int, effects: list[Effect], *, fenced: bool) -> None:
        usual(self, role, why, now, effects, fenced=fenced)
        if self._elections[role].giving is not None:
            self._release(role, now)

    return [(AllCall, "_give_up", give_up)]


def not_ready_leads() -> list[Patch]:
    """A member that is not ready says that it could lead, and others wait for it."""
    usual = AllCall._offers

    def offers(self: AllCall, role: str, now: int) -> bool:
        away, self._away = self._away, False
        answer = usual(self, role, now)
        self._away = away
        return answer

    return [(AllCall, "_offers", offers)]


def both_go_on() -> list[Patch]:
    return [(AllCall, "_yield_to_better", lambda *_: None)]


def declined_for_ever() -> list[Patch]:
    """A role that was stepped down from is not taken back while nobody has led it."""
    return [(Company, "could_lead", lambda self, role: True)]  # pyright: ignore[reportUnknownLambdaType]


def latest_end() -> list[Patch]:
    """Of copies of one claim, the one that ends last counts: each relay adds its delay."""
    return [(allcall_election, "sooner", max)]
