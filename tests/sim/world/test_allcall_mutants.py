"""Every rule of ALLCALL that is broken on purpose is noticed: by the seed that stands here, or soon after."""

from __future__ import annotations

import pytest

from pares.sim.engine import SECOND
from pares.sim.members.plan import Plan
from pares.sim.members.play import UNSTOPPABLE, Play, perform
from pares.sim.members.protocols import PROTOCOLS
from pares.sim.mutant import applied
from pares.sim.outcome import Outcome

MUTANTS = PROTOCOLS["allcall"].mutants
TRIES = 6
"""Seeds that are played before a mutant counts as not noticed: what members share may change, and with it every history."""
CAUGHT: dict[str, tuple[int, str]] = {
    "followers-stamp": (0, "claims are honoured"),
    "over-live-claims": (0, "claims are honoured"),
    "absolute-expiry": (2, "all agree in the end"),
    "no-skew": (0, "claims are honoured"),
    "longer-than-told": (0, "claims are honoured"),
    "relay-maximum": (0, "it comes right in time"),
    "relays-round-down": (2, "claims are honoured"),
    "no-loopback": (1, "a member that is not heard does not lead"),
    "deaf-is-waited-for": (4, "a leader emerges on every side"),
    "last-beat-only": (2, "what ends by plan is no fence"),
    "no-release": (0, "what ends by plan is no fence"),
    "monotone": (0, "no gap"),
    "both-go-on": (0, "claims are honoured"),
    "by-what-is-left": (0, "claims are ordered alike"),
    "ties": (1, "it comes right in time"),
    "name-is-enough": (0, "terms have tokens of their own"),
    "init-electable": (6, "it comes right in time"),
    "no-silence": (0, "newcomers keep silent"),
    "bar-lifted-for-all": (4, "newcomers keep silent"),
    "eager-answers": (0, "a few messages a beat"),
    "leads-on-its-own": (0, "a member that is not heard does not lead"),
    "never-on-its-own": (4, "a leader emerges on every side"),
    "old-calls-count": (3, "membership events are true"),
    "copies-count": (1, "membership events are true"),
    "clocks-divide": (0, "one leader among those who hear each other"),
    "leads-by-a-flag": (0, "claims are honoured"),
    "standstill-unnoticed": (0, "membership events are true"),
    "silent-while-unread": (345, "membership events are true"),
    "not-outbid": (0, "terms have tokens of their own"),
    "barrier-not-awaited": (0, "work belongs to its term"),
    "not-ready-is-waited-for": (12, "a leader emerges on every side"),
    "terms-from-the-clock": (1, "terms have tokens of their own"),
    "declined-for-ever": (8, "a leader emerges on every side"),
    "led-before-it-is-said": (0, "claims are honoured"),
    "renewals-dropped": (0, "a leader emerges on every side"),
    "fences-dropped": (0, "claims are honoured"),
    "closes-at-once": (0, "no gap"),
    "asked-by-another-session": (0, "the check is asked in time"),
}


class Enough(Exception):
    """What is played has been played for as long as was asked."""


def test_every_mutant_has_its_seed() -> None:
    assert set(CAUGHT) == set(MUTANTS)


def test_every_rule_has_a_mutant() -> None:
    """H1 to H18: each is broken by at least one. (H13 is accepted; what is broken there is that newcomers wait.)"""
    assert {mutant.rule for mutant in MUTANTS.values()} >= {f"H{number}" for number in range(1, 19)}


def played_for(plan: Plan, seconds: float) -> Outcome:
    """So much of it, or all of it."""
    whole = Play(plan)

    def enough() -> None:
        raise Enough

    whole.stage.world.at(int(seconds * SECOND) + 1, enough)
    return whole.play()


@pytest.mark.parametrize("name", CAUGHT)
def test_the_mutant_is_caught_and_without_it_the_seed_is_clean_until_then(name: str) -> None:
    mutant = MUTANTS[name]
    first, promise = CAUGHT[name]
    found: list[str] = []
    for seed in range(first, first + TRIES):
        with applied(mutant):
            broken = perform(seed, mutant.bias, protocol="allcall")
        if not broken.broken:
            continue
        clean = played_for(broken.knobs, broken.at)
        assert clean.broken == "" or (clean.broken == UNSTOPPABLE and clean.what.startswith("Enough")), clean.what
        found.append(broken.broken)
        if broken.broken == promise:
            return
    pytest.fail(f"{name} breaks {found or 'nothing'} in seeds {first} to {first + TRIES - 1}, and not {promise!r}")
