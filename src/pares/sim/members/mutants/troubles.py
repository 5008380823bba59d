"""Troubles in which mutants are looked for: what of a seed's plan they replace."""

from __future__ import annotations

from typing import Any, Final

FROZEN: Final[dict[str, Any]] = {
    "faults": {"freeze": 1.0, "freeze_at": 1.0, "starve_at": 1.0},
    "acts": {},
    "overlap_ms": 0,
    "pace": 1.5,
}
"""Members that stand still and wake up again: the classic way to two leaders."""
STARVED: Final[dict[str, Any]] = {
    "faults": {"starve_at": 1.0},
    "acts": {},
    "overlap_ms": 0,
    "pace": 3.0,
    "starving": 0.0,
}
"""Tasks that come back late, one at a time."""
CALMLY: Final[dict[str, Any]] = {
    "slow": 0.0,
    "unknown": 0.0,
    "lost": 0.0,
    "silent": 0.0,
    "unreadable": 0.0,
    "torn": 0.0,
}
"""A weather in which little goes wrong."""
MOVED: Final[dict[str, Any]] = {
    "faults": {"close": 1.0},
    "acts": {"hand_over": 1.0, "step_down": 1.0},
    "overlap_ms": 0,
    "pace": 1.0,
}
"""Roles that move by plan."""
QUIET: Final[dict[str, Any]] = {"faults": {"wall": 1.0}, "acts": {}, "overlap_ms": 0, "pace": 0.5}
"""Hardly anything happens but what a mutant needs."""
