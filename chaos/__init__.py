"""Faults on real brokers: three brokers and some members, each in a network of its own, and what is done to them.

    python -m chaos [--faults N] [--seed S] [--only KIND] [--json] [--out FOLDER]

Like the benchmarks, this is no part of the package. What the members do and how they are judged is the same as in the tests
with real processes (tests/processes), which is why their folder is made importable here.
"""

from __future__ import annotations

import sys
from pathlib import Path

WORKERS = Path(__file__).resolve().parent.parent / "tests" / "processes"

if str(WORKERS) not in sys.path:
    sys.path.append(str(WORKERS))
