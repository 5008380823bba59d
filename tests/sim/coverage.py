"""`python -m tests.sim.coverage`: which branches of the claims kernel and of the driver the simulation alone goes through.

Needs the package `coverage`, which nothing else here does. Seeds are played in this process, some ten times slower than else;
what was not gone through is named, line by line.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
FOLDERS: Final = ("src/pares/core/claims", "src/pares/runtime/driver")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.coverage", description=__doc__)
    parser.add_argument("--seeds", type=int, default=300, help="so many, from 0 on (default: 300)")
    options = parser.parse_args()
    try:
        coverage = importlib.import_module("coverage")
    except ImportError:
        print("coverage is not there: pip install coverage", file=sys.stderr)
        return 2
    measured = coverage.Coverage(
        data_file=None, branch=True, concurrency=["greenlet"], include=[f"{ROOT}/{folder}/*" for folder in FOLDERS]
    )
    measured.start()
    from pares.sim.runs import perform

    broken = [seed for seed in range(options.seeds) if perform(seed).broken]
    measured.stop()
    total = measured.report(file=sys.stdout, show_missing=True, skip_covered=False)
    print(f"{total:.1f} % of statements and branches, by {options.seeds} seeds of claims")
    if broken:
        print(f"promises were broken in {broken}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
