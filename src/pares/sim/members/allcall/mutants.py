"""Rules of ALLCALL broken on purpose, one at a time, to see that some seed notices.

A mutant patches the code that ships for as long as a seed is played. `bias` makes it likely that the damage shows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pares.sim.engine import MS
from pares.sim.members.allcall import broken, planted
from pares.sim.mutant import Mutant, Patch

QUICK: Final[dict[str, Any]] = {
    "members": 3,
    "beat_ms": 100,
    "session_ms": 300,
    "storm": 4.0,
    "acts": {},
    "probes": (),
    "starts": (False,) * 8,
    "barrier": -1.0,
    "barrier_raises": 0.0,
}
"""A small group, and nothing but what a mutant asks for."""
FAIR: Final[dict[str, Any]] = {"dropped": 0.0, "late": 0.0, "doubled": 0.0}
SPLITS: Final[dict[str, Any]] = {"faults": {"split": 1.0}, "probes": ("split",), "air": FAIR}
LONG: Final[dict[str, Any]] = {"session_ms": 800, "storm": 8.0, "pace": 0.3, "air": FAIR, "wall_spread": 0.0}
"""Many beats a lease, so that what a fault does lasts for longer than it may take to come right."""
CUTS: Final[dict[str, Any]] = LONG | {"reach": 3.0}


def _made(name: str, rule: str, what: str, patches: Callable[[], list[Patch]], **bias: Any) -> Mutant:
    return Mutant(name, rule, what, patches, QUICK | bias)


MUTANTS: Final[dict[str, Mutant]] = {
    mutant.name: mutant
    for mutant in (
        _made("followers-stamp", "H1", "everybody starts the winner's lease", broken.followers_stamp),
        _made("over-live-claims", "H2", "the best ranked member claims, whatever claim lives", broken.over_live_claims),
        _made("absolute-expiry", "H3", "the holder's end is compared with one's own clock", broken.absolute),
        _made(
            "no-skew",
            "H3",
            "a claim is over without the skew",
            broken.no_skew,
            session_ms=1000,
            skew_ms=50,
            drift=0.02,
            rates=(1.02, 0.98, 1.02),
            faults={"freeze": 1.0},
            pace=1.0,
            wall_spread=0.0,
            air=FAIR,
        ),
        _made("longer-than-told", "H3", "a holder believes for longer than it says", broken.longer_than_told),
        _made(
            "relay-maximum",
            "H4",
            "of copies of a claim the latest end counts",
            broken.latest_end,
            members=4,
            faults={},
            probes=("crash", "crash"),
            air=FAIR | {"delay": (15 * MS, 35 * MS)},
        ),
        _made(
            "relays-round-down",
            "H4",
            "each relay of a claim loses part of a millisecond",
            broken.rounds_down,
            members=5,
            beat_ms=20,
            session_ms=600,
            skew_ms=4,
            drift=0.0,
            wall_spread=0.0,
            starving=0.0,
            faults={},
            storm=1.0,
        ),
        _made(
            "no-loopback",
            "H5",
            "a holder renews though its calls don't come back",
            broken.no_loopback,
            **CUTS | {"faults": {"mute": 1.0}},
        ),
        _made(
            "deaf-is-waited-for",
            "H5",
            "a member that can't lead says that it could",
            broken.deaf_offers,
            **CUTS | {"faults": {"deaf": 1.0}, "isolated": ("step_down",)},
        ),
        _made(
            "last-beat-only",
            "H6",
            "a role is given up at the last beat, and a member that wakes late is too late",
            broken.last_beat_only,
            session_ms=400,
            starving=0.5,
            starving_by=0.06,
            faults={},
            probes=("join",),
            air=FAIR,
            order="lease",
        ),
        _made("no-release", "H6", "terms end without a word", broken.no_release, probes=("join", "close")),
        _made(
            "monotone",
            "H7",
            "a release that ends a longer claim is refused",
            broken.monotone,
            probes=("close", "step_down"),
        ),
        _made("both-go-on", "H8", "two that lead wait for the end of their terms", broken.both_go_on, **SPLITS),
        _made(
            "by-what-is-left",
            "H9",
            "claims are ordered by what each measures",
            broken.by_what_is_left,
            **SPLITS
            | {"storm": 0.5, "order": "lease", "probes": ("split",) * 4, "air": FAIR | {"delay": (25 * MS, 35 * MS)}},
        ),
        _made("ties", "H10", "two claims may be equal", broken.ties, **SPLITS, ranks=(0, 0, 0), order="rank"),
        _made(
            "name-is-enough",
            "H11",
            "an earlier life's claim is one's own",
            broken.name_is_enough,
            probes=("restart", "restart"),
        ),
        _made(
            "init-electable",
            "H12",
            "a member that keeps silence may be elected",
            broken.init_electable,
            session_ms=1000,
            faults={},
            probes=("restart", "restart"),
        ),
        _made("no-silence", "H13", "a newcomer leads as soon as it can", broken.no_silence),
        _made(
            "bar-lifted-for-all",
            "H12",
            "one role's live claim lets a newcomer lead any",
            broken.bar_lifted_for_all,
            roles=2,
            picky=True,
            faults={"crash": 2.0, "restart": 1.0},
        ),
        _made("eager-answers", "H14", "every call is answered", broken.eager, members=8),
        _made(
            "leads-on-its-own",
            "H15",
            "a member that is alone leads, though it should step down",
            broken.leads_alone,
            **CUTS | {"faults": {"disconnect": 1.0}, "isolated": ("step_down",)},
        ),
        _made(
            "never-on-its-own",
            "H15",
            "a member that is alone does not lead, though it should",
            broken.never_alone,
            **CUTS | {"faults": {"disconnect": 1.0}, "isolated": ("lead",)},
        ),
        _made(
            "old-calls-count",
            "H16",
            "what was said long ago counts",
            broken.old_counts,
            faults={"replay": 3.0, "crash": 1.0},
        ),
        _made(
            "copies-count",
            "H16",
            "a late copy is a sign of life",
            broken.copies_count,
            session_ms=800,
            faults={"crash": 1.0},
            pace=1.0,
            wall_spread=0.0,
            air=FAIR | {"doubled": 0.3, "late_by": (200 * MS, 700 * MS)},
        ),
        _made(
            "clocks-divide",
            "H16",
            "wall clocks alone say how old a call is",
            broken.clocks_divide,
            wall_spread=60.0,
        ),
        _made("leads-by-a-flag", "H17", "nobody looks whether a lease is over", broken.flag, faults={"freeze": 1.0}),
        _made(
            "standstill-unnoticed",
            "H17",
            "a member that stood still takes all for lost",
            broken.standstill,
            faults={"freeze": 1.0},
        ),
        # Three standstills in a row, each at the worst moment: one seed in some hundreds, and no bias makes it likelier.
        Mutant("silent-while-unread", "H17", "a peer is lost whose call waits to be read", broken.unread, {}),
        _made(
            "not-outbid", "H18", "a leader that stays after a split keeps a lower token", broken.not_outbid, **SPLITS
        ),
        _made(
            "barrier-not-awaited",
            "R5",
            "a release does not wait",
            broken.barrier_not_awaited,
            barrier=0.5,
            drift=0.0,
            wall_spread=0.0,
        ),
        _made(
            "not-ready-is-waited-for",
            "R13",
            "a member that is not ready says that it could lead",
            broken.not_ready_leads,
            **LONG | {"faults": {"ready": 1.0}},
        ),
        _made("terms-from-the-clock", "H18", "a term may be below what was heard of", broken.forgetful),
        _made(
            "declined-for-ever",
            "R13",
            "what was stepped down from is not taken back",
            broken.declined_for_ever,
            members=2,
            **LONG | {"faults": {"crash": 1.0}, "acts": {"step_down": 1.0}},
        ),
        _made(
            "led-before-it-is-said",
            "H1",
            "a term is believed before its claim is said",
            planted.led_before_it_is_said,
            faults={"starve_at": 1.0, "crash": 1.0},
            pace=2.0,
            air=FAIR,
        ),
        _made(
            "renewals-dropped",
            "H5",
            "a claim is prolonged, and the belief is not",
            planted.renewals_dropped,
            faults={},
        ),
        _made(
            "fences-dropped",
            "H8",
            "what the core gives up is believed until the lease runs out",
            planted.fences_dropped,
            **SPLITS,
        ),
        _made(
            "closes-at-once",
            "R5",
            "a member that is closed says goodbye before its barriers have returned",
            planted.closes_at_once,
            faults={},
            probes=("close", "close"),
            barrier=0.2,
        ),
        _made(
            "asked-by-another-session",
            "R19",
            "a check is asked as often as in claims, however short the lease",
            planted.asked_by_another_session,
            beat_ms=20,
            session_ms=100,
            members=2,
            faults={"ready": 1.0},
        ),
    )
}
"""All of them, by name."""
