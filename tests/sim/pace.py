"""`python -m tests.sim.pace`: how long groups of ALLCALL take in the calm, as a part of the bound for it, in Markdown.

Seeds in which tasks come back late are left out: there the bounds are wide, so that the shares would be small.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from statistics import median
from typing import Final

from pares.sim.members.allcall.draw import draw
from pares.sim.members.allcall.stage import AllCallStage
from pares.sim.members.play import Play

EVENTS: Final = {
    "cold": "first leader after a cold start",
    "crash": "next leader after a crash",
    "restart": "the same, the leader back within its lease",
    "close": "after a graceful stop",
    "step_down": "after a step-down",
    "heal": "one leader after a heal",
    "best": "the best ranked one after a heal",
    "join": "a better ranked one that joins",
}
Taken = tuple[str, float]
"""What was done, and the part of the bound that it took."""


def measured(seed: int) -> list[Taken]:
    played = Play(draw(seed))
    outcome = played.play()
    if outcome.broken:
        print(f"seed {seed} breaks a promise: {outcome.what}", file=sys.stderr)
    stage = played.stage
    assert isinstance(stage, AllCallStage)
    return [(kind, took / bound) for kind, taken in stage.probes.measured.items() for took, bound in taken]


def table(taken: Iterable[Taken]) -> Iterator[str]:
    parts: dict[str, list[float]] = {kind: [] for kind in EVENTS}
    for kind, part in taken:
        parts[kind].append(part)
    yield "| event | times | median | longest |"
    yield "|---|---|---|---|"
    for kind, event in EVENTS.items():
        if parts[kind]:
            yield f"| {event} | {len(parts[kind]):,} | {median(parts[kind]):.2f} | {max(parts[kind]):.2f} |"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.pace", description=__doc__)
    parser.add_argument("--seeds", type=int, default=900, help="so many, from 0 on (default: 900)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (default: one for each processor)")
    options = parser.parse_args(arguments)
    seeds = [seed for seed in range(options.seeds) if not draw(seed).starving]
    with ProcessPoolExecutor(options.jobs) as pool:
        found = [taken for each in pool.map(measured, seeds, chunksize=8) for taken in each]
    print(*table(found), sep="\n")
    print(f"{len(seeds)} seeds of {options.seeds}")


if __name__ == "__main__":
    main()
