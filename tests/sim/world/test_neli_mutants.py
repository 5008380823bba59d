"""Every rule of NELI, Fast NELI and NELE that is broken on purpose is noticed, by the seed that stands here."""

from __future__ import annotations

import pytest

from pares.sim.members.neli.mutants import MUTANTS
from pares.sim.members.play import perform
from pares.sim.mutant import applied

CAUGHT: dict[str, dict[str, tuple[int, str]]] = {
    "fast-neli": {
        "any-beat-re-arms": (0, "exclusive belief"),
        "beat-from-reading": (25, "exclusive belief"),
        "no-announcement": (0, "exclusive belief"),
        "no-wait": (1, "exclusive belief"),
        "same-term-resumes": (1, "giving up is final"),
        "late-announcement-counts": (22, "tokens grow"),
        "width-ignored": (17, "exclusive belief"),
        "budget-ignored": (0, "the budget is shared"),
        "budget-before-deadline": (0, "the budget is shared"),
        "barrier-not-awaited": (0, "work belongs to its term"),
        "old-log-not-awaited": (0, "exclusive belief"),
        "blindness-not-awaited": (58, "exclusive belief"),
        "beats-wait": (0, "the budget is shared"),
        "own-records-are-a-clones": (26, "nothing ends a member"),
    },
    "neli": {
        "no-grace": (1, "exclusive belief"),
        "local-time": (4, "exclusive belief"),
        "looks-apart": (24, "exclusive belief"),
        "any-beacon-re-arms": (1, "exclusive belief"),
        "no-clock-error": (1, "exclusive belief"),
        "threshold-above-session": (4, "a leader emerges"),
        "settled-numbers-unseen": (78, "a leader emerges"),
        "leader-alone-answers": (3, "exclusive belief"),
    },
    "nele": {
        "stop-at-once": (0, "no gap"),
        "rival-ignored": (50, "bounded overlap"),
        "history-counts": (7, "bounded overlap"),
    },
}
REFUSED = "threshold-above-session"
"""Its settings are refused as long as the rule is in force."""
EACH = [(protocol, name) for protocol, found in CAUGHT.items() for name in found]


def test_every_mutant_has_its_seed() -> None:
    assert {protocol: set(found) for protocol, found in CAUGHT.items()} == {
        protocol: set(found) for protocol, found in MUTANTS.items()
    }


@pytest.mark.parametrize(("protocol", "name"), EACH, ids=[name for _, name in EACH])
def test_the_mutant_is_caught_and_without_it_the_seed_is_clean(protocol: str, name: str) -> None:
    mutant = MUTANTS[protocol][name]
    seed, promise = CAUGHT[protocol][name]
    with applied(mutant):
        broken = perform(seed, mutant.bias, protocol=protocol)
    assert broken.broken == promise, broken.what
    if name != REFUSED:
        assert perform(seed, mutant.bias, protocol=protocol).what == ""
