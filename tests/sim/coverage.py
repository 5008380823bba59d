"""`python -m tests.sim.coverage`: which branches of the core and of the driver the simulation alone goes through.

Needs the package `coverage` (extra `dev`). Each protocol's seeds are played from 0 on, on all processors, some ten times slower
than else. Told is the share of statements and branches for each folder, and line by line what was not gone through.
"""

from __future__ import annotations

import argparse
import importlib
import io
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
FOLDERS: Final = ("core", "runtime/driver", "runtime/claims", "runtime/neli", "runtime/allcall")
"""Of `src/pares`: the core, the driver, and what binds each protocol to it."""
EACH: Final = 4
"""Seeds that a process plays before it hands over what it has measured."""
ALL: Final = "all"
Piece = tuple[str, int, int]
"""A protocol, the first of its seeds, and how many."""


def measured(data: str, *, suffix: bool = False) -> Any:
    coverage: Any = importlib.import_module("coverage")
    include = [f"{ROOT}/src/pares/{folder}/*" for folder in FOLDERS]
    options = {"config_file": False, "branch": True, "concurrency": ["greenlet"], "include": include}
    return coverage.Coverage(data_file=data, data_suffix=suffix or None, **options)


def play(data: str, piece: Piece) -> list[tuple[str, int]]:
    """The seeds that break a promise. In a process that has imported nothing of pares before: so imports are measured, too."""
    protocol, first, count = piece
    measuring = measured(data, suffix=True)
    measuring.start()
    from pares.sim.runs import perform

    broken = [(protocol, seed) for seed in range(first, first + count) if perform(seed, protocol=protocol).broken]
    measuring.stop()
    measuring.save()
    return broken


def pieces(protocols: Sequence[str], seeds: int) -> Iterator[Piece]:
    for first in range(0, seeds, EACH):
        for protocol in protocols:
            yield protocol, first, min(EACH, seeds - first)


def folders(measuring: Any) -> Iterator[tuple[str, float]]:
    """Each folder with files that were gone through, and its share in percent. A file that nobody imports is not counted."""
    parents = {str(Path(file).parent) for file in measuring.get_data().measured_files()}
    for folder in sorted(parents):
        name = Path(folder).relative_to(ROOT / "src/pares").as_posix()
        yield name, measuring.report(include=[f"{folder}/*.py"], omit=[f"{folder}/*/*"], file=io.StringIO())


def main(arguments: Sequence[str] | None = None) -> int:
    try:
        importlib.import_module("coverage")
    except ImportError:
        print("coverage is not there: pip install coverage", file=sys.stderr)
        return 2
    parser = argparse.ArgumentParser(prog="python -m tests.sim.coverage", description=__doc__)
    parser.add_argument("--protocol", default=ALL, help="one of them (default: all)")
    parser.add_argument("--seeds", type=int, default=60, help="so many of each protocol, from 0 on (default: 60)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (default: one for each processor)")
    options = parser.parse_args(arguments)
    from pares.sim.members.protocols import PROTOCOLS

    if options.protocol not in (ALL, *PROTOCOLS):
        parser.error(f"--protocol is {ALL} or one of {', '.join(PROTOCOLS)}")
    protocols = list(PROTOCOLS) if options.protocol == ALL else [options.protocol]
    broken: list[tuple[str, int]] = []
    os.environ["COVERAGE_CORE"] = "ctrace"  # what measures several greenlets, on each Python
    with tempfile.TemporaryDirectory() as folder:
        data = f"{folder}/coverage"
        spawned = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(options.jobs, mp_context=spawned, max_tasks_per_child=1) as pool:
            for found in pool.map(
                play, *zip(*((data, piece) for piece in pieces(protocols, options.seeds)), strict=True)
            ):
                broken += found
        measuring = measured(data)
        measuring.combine()
        total = measuring.report(file=sys.stdout, show_missing=True, skip_covered=True)
        for name, share in folders(measuring):
            print(f"{share:6.1f} %  {name}")
    print(f"{total:6.1f} %  of statements and branches, by {options.seeds} seeds of {', '.join(protocols)}")
    if broken:
        print(f"promises were broken in {', '.join(f'{protocol} {seed}' for protocol, seed in broken)}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
