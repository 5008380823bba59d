"""Makes the folder `chaos/` beside `tests/` importable, as `python -m chaos` has it, and with it `tests/processes`."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import chaos  # noqa: E402, F401  # pyright: ignore[reportUnusedImport]
