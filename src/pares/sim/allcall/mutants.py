"""Rules of ALLCALL broken on purpose, one at a time, to see that the simulation would notice.

A mutant patches the real core for as long as a simulation runs. `bias` makes it likely that the damage shows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pares.core.lease import MS
from pares.sim.allcall import broken
from pares.sim.mutant import Mutant, Patch


def _made(name: str, rule: str, what: str, patches: Callable[[], list[Patch]], **bias: Any) -> Mutant:
    return Mutant(name, rule, what, patches, bias)


_FAIR: dict[str, Any] = {"loss": 0.0, "late": 0.0, "doubled": 0.0}
_SPLITS: dict[str, Any] = {"faults": {"split": 1.0}, "probes": ("split", "split"), "members": 4, "weather": _FAIR}
_SLOW: dict[str, Any] = {"weather": _FAIR | {"delay": (30 * MS, 40 * MS)}, "beat_ms": 100, "lease_ms": 300}
_CUTS: dict[str, Any] = {"reach": 3.0, "pace": 0.2, "weather": _FAIR, "wall_s": 0.0}

MUTANTS: dict[str, Mutant] = {
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
            beat_ms=100,
            lease_ms=1000,
            drift=0.018,
            extreme=True,
            faults={"freeze": 1.0},
            pace=1.0,
            probes=(),
            wall_s=0.0,
            members=3,
            weather=_FAIR,
        ),
        _made("longer-than-told", "H3", "a holder believes for longer than it says", broken.longer_than_told),
        _made(
            "relay-maximum",
            "H4",
            "of copies of a claim the latest end counts",
            broken.latest_end,
        ),
        _made(
            "relays-round-down",
            "H4",
            "each relay of a claim loses part of a millisecond",
            broken.rounds_down,
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
            broken.no_loopback,
            **_CUTS | {"faults": {"mute": 1.0}},
        ),
        _made(
            "deaf-is-waited-for",
            "H5",
            "a member that can't lead says that it could",
            broken.deaf_offers,
            **_CUTS | {"faults": {"deaf": 1.0}, "isolated": ("step_down",)},
        ),
        _made(
            "last-beat-only",
            "H6",
            "a role is given up at the last beat, and whoever wakes late is too late",
            broken.last_beat_only,
            beat_ms=100,
            lease_ms=1000,
            wakes_late=10 * MS,
            faults={"crash": 1.0},
            pace=0.2,
            probes=("join", "join"),
            weather=_FAIR,
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
        _made("both-go-on", "H8", "two that lead wait for the end of their terms", broken.both_go_on, **_SPLITS),
        _made(
            "by-what-is-left",
            "H9",
            "claims are ordered by what each measures",
            broken.by_what_is_left,
            **_SPLITS,
            order="lease",
        ),
        _made("ties", "H10", "two claims may be equal", broken.ties, **_SPLITS, ranks=(0, 0, 0, 0), order="rank"),
        _made(
            "name-is-enough",
            "H11",
            "an earlier life's claim is one's own",
            broken.name_is_enough,
            probes=("restart", "restart"),
        ),
        _made("init-electable", "H12", "a member that keeps silence may be elected", broken.init_electable, dawn=1.0),
        _made("no-silence", "H13", "a newcomer leads as soon as it can", broken.no_silence),
        _made(
            "bar-lifted-for-all",
            "H12",
            "one role's live claim lets a newcomer lead any",
            broken.bar_lifted_for_all,
            roles=2,
            picky=True,
            members=3,
            beat_ms=100,
            lease_ms=300,
            faults={"crash": 2.0, "restart": 1.0},
        ),
        _made("eager-answers", "H14", "every call is answered", broken.eager, members=8),
        _made(
            "leads-on-its-own",
            "H15",
            "a member that is alone leads, though it should step down",
            broken.leads_alone,
            **_CUTS | {"faults": {"disconnect": 1.0}, "isolated": ("step_down",)},
        ),
        _made(
            "never-on-its-own",
            "H15",
            "a member that is alone does not lead, though it should",
            broken.never_alone,
            **_CUTS | {"faults": {"disconnect": 1.0}, "isolated": ("lead",)},
        ),
        _made(
            "old-calls-count",
            "H16",
            "what was said long ago counts",
            broken.old_counts,
            faults={"replay": 3.0, "crash": 1.0},
        ),
        _made("copies-count", "H16", "a late copy is a sign of life", broken.copies_count, weather={"doubled": 0.3}),
        _made(
            "clocks-divide",
            "H16",
            "wall clocks alone say how old a call is",
            broken.clocks_divide,
            wall_s=60.0,
            extreme=True,
        ),
        _made("leads-by-a-flag", "H17", "nobody looks whether a lease is over", broken.flag, faults={"freeze": 1.0}),
        _made(
            "standstill-unnoticed",
            "H17",
            "a member that stood still takes all for lost",
            broken.standstill,
            faults={"freeze": 1.0},
        ),
        _made(
            "not-outbid", "H18", "a leader that stays after a split keeps a lower token", broken.not_outbid, **_SPLITS
        ),
        _made(
            "barrier-not-awaited",
            "R5",
            "a release does not wait",
            broken.barrier_not_awaited,
            barrier=0.7,
            drift=0.0,
            wall_s=0.0,
        ),
        _made(
            "not-ready-is-waited-for",
            "R13",
            "a member that is not ready says that it could lead",
            broken.not_ready_leads,
            **_CUTS | {"faults": {"ready": 1.0}},
        ),
        _made("terms-from-the-clock", "H18", "a term may be below what was heard of", broken.forgetful),
        _made(
            "declined-for-ever",
            "R13",
            "what was stepped down from is not taken back",
            broken.declined_for_ever,
            faults={"step_down": 1.0, "crash": 1.0},
            members=2,
        ),
    )
}
"""All of them, by name."""
