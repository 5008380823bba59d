"""What came of a seed, of whatever protocol."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Outcome(Struct, frozen=True):
    """What came of a seed."""

    seed: int
    broken: str
    """The promise that was broken; empty if none was."""
    what: str
    at: float
    """Virtual seconds that were played."""
    records: int
    knobs: Any
    trace: list[str]
