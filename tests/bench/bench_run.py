"""The command `python -m bench`, run as somebody types it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


def measured(*arguments: str) -> list[dict[str, Any]]:
    """The rows of a quick run."""
    ended = bench(*arguments, "--quick", "--json")
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)["rows"]


def is_spread(figures: str, unit: str) -> bool:
    """Least, median, most, and of how many."""
    return re.fullmatch(rf"[\d.]+ / [\d.]+ / [\d.]+ {unit} \(n=\d+\)", figures) is not None
