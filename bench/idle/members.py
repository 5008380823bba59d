"""What idle members cost, with all of them holding a role.

Figures are of members that have been calm for a while: clients that were needed to begin have been given back by then, and
readers of a large group are lazy.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.cases import Row, spread
from bench.processes import Player, Troupe

COUNTS: Final = (3, 10, 30, 100)
SESSIONS: Final = (1.0, 10.0)
MOST_MB: Final = 30
CALM: Final = 35.0
"""Seconds until clients that are not needed any more have been given back."""

Bars = Mapping[tuple[int, float], float]
"""Percent of a core that an idle member may take, by how many there are and their session."""


def idle(
    count: int, session: float, *, quick: bool, bars: Bars, url: str | None = None, sent: dict[tuple[int, float], float]
) -> Iterator[Row]:
    """Rows of one group, on this ledger or a fresh one. `sent`: takes what all of them send, in segments a second."""
    what = f"{count} members, session {session:g} s"
    with Troupe(url) as troupe:
        players = [troupe.start(f"m{number}", session=session, roles=str(count)) for number in range(count)]
        for _ in players:
            troupe.hear("ready", role="-")
        used, sent[count, session], memory = watched(players, 5.0 if quick else CALM, 5.0 if quick else 30.0)
    most = bars.get((count, session))
    met = None if most is None else statistics.median(used) <= most
    target = "" if most is None else f"p50 <= {most:g} %"
    yield Row(f"idle member, all holding, {what}", spread(used, "% of a core", 3), target, met)
    yield Row(
        f"idle member's memory, {what}",
        spread(memory, "MB"),
        f"p50 <= {MOST_MB} MB",
        statistics.median(memory) <= MOST_MB,
    )


def groups(counts: Sequence[int] | None, sessions: Sequence[float] | None, quick: bool) -> Iterator[tuple[int, float]]:
    """Which groups are measured: those that were asked for, or all; of a quick run the first alone."""
    for count in (counts or COUNTS)[: 1 if quick else None]:
        for session in (sessions or SESSIONS)[: 1 if quick else None]:
            yield count, session


def watched(players: list[Player], calm: float, seconds: float) -> tuple[list[float], float, list[float]]:
    """Percent of a core that each takes, segments a second that all send, and megabytes of memory that each has to itself."""
    time.sleep(calm)
    sent, before, began = sum(p.sent() for p in players), [p.cpu() for p in players], time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - began
    used = [(p.cpu() - was) / took * 100 for p, was in zip(players, before, strict=True)]
    return used, (sum(p.sent() for p in players) - sent) / took, [_anonymous(p.process.pid) for p in players]


def _anonymous(pid: int) -> float:
    """Megabytes of resident memory that no file backs. What maps files (the interpreter, the client library) all share."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    return float("nan")
