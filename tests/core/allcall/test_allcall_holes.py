"""Every hole of ALLCALL's text, H1 to H18: a scenario that the rule closes, and that fails as soon as the rule is taken away.

Each scenario is run twice: as it is, and with its rule broken on purpose, when it must fail.
"""

from __future__ import annotations

from collections.abc import Callable

import holes_of_claims
import holes_of_members
import pytest

from pares.core.allcall import peers

Patch = Callable[[pytest.MonkeyPatch], None]

HOLES: dict[str, tuple[Callable[[], None], Patch]] = {
    "H1": (holes_of_claims.h1_nobody_claims_for_another, holes_of_claims.break_h1),
    "H2": (holes_of_claims.h2_no_claim_while_one_lives, holes_of_claims.break_h2),
    "H3": (holes_of_claims.h3_clocks_decide_nothing, holes_of_claims.break_h3),
    "H4": (holes_of_claims.h4_relays_don_t_prolong, holes_of_claims.break_h4),
    "H5": (holes_of_claims.h5_only_who_is_heard_renews, holes_of_claims.break_h5),
    "H6": (holes_of_claims.h6_a_term_ends_with_a_release, holes_of_claims.break_h6),
    "H7": (holes_of_claims.h7_a_release_ends_a_longer_claim, holes_of_claims.break_h7),
    "H8": (holes_of_claims.h8_the_loser_stops_at_once, holes_of_claims.break_h8),
    "H9": (holes_of_claims.h9_all_order_two_claims_alike, holes_of_claims.break_h9),
    "H10": (holes_of_claims.h10_ties_are_broken, holes_of_claims.break_h10),
    "H11": (holes_of_claims.h11_a_new_life_is_not_the_old_one, holes_of_claims.break_h11),
    "H12": (holes_of_members.h12_who_may_not_act_yet_is_not_elected, holes_of_members.break_h12),
    "H13": (holes_of_members.h13_everybody_waits_once_at_a_cold_start, holes_of_members.break_h13),
    "H14": (holes_of_members.h14_answers_don_t_multiply, holes_of_members.break_h14),
    "H15": (holes_of_members.h15_alone_as_it_was_told, holes_of_members.break_h15),
    "H16": (holes_of_members.h16_what_was_kept_is_not_believed, holes_of_members.break_h16),
    "H17": (holes_of_members.h17_a_lease_ends_by_the_clock, holes_of_members.break_h17),
    "H18": (holes_of_members.h18_terms_grow, holes_of_members.break_h18),
}


@pytest.mark.parametrize("hole", HOLES)
def test_the_rule_closes_the_hole(hole: str) -> None:
    HOLES[hole][0]()


@pytest.mark.parametrize("hole", HOLES)
def test_without_the_rule_it_is_open(hole: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario, break_rule = HOLES[hole]
    break_rule(monkeypatch)
    with pytest.raises(AssertionError):
        scenario()


def test_the_window_is_as_the_rules_were_measured_with() -> None:
    assert peers.WINDOW == 2.5
