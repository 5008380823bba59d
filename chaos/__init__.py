"""Faults on real brokers: three brokers and some members, each in a network of its own, and what is done to them.

    python -m chaos [--faults N] [--seed S] [--only KIND] [--json] [--out FOLDER]

Like the benchmarks, this is no part of the package. What the members do and how they are judged is the same as in the tests
with real processes (tests/processes), which is why their folder is made importable here; so is the one above, for the servers
that only tests have.
"""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent / "tests"
WORKERS = TESTS / "processes"

for place in (WORKERS, TESTS):
    if str(place) not in sys.path:
        sys.path.append(str(place))
