"""python -m examples.consume: orders in a topic, and workers that share out its partitions while they are killed and frozen.

Shown live: who has what, how far behind it is, how fast orders are booked, and how many were booked twice: none, with the
fence.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from examples.consume.stage import Counts, Plan, Stage, run
from pares.core.wire.shown import short_token

LINES = 6


def picture(stage: Stage, now: float, velocity: list[float]) -> Group:
    """One moment of it."""
    table = Table(title=f"{now:.0f} s: {stage.plan.workers} workers, session {stage.plan.session:g} s")
    for column in ("worker", "state", "partitions", "tokens", "lag"):
        table.add_column(column, justify="right" if column == "lag" else "left", no_wrap=True)
    held = stage.held()
    for name in [*(worker.name for worker in stage.workers), ""]:
        mine = [each for each in held if each.worker == name]
        state = next((worker.state for worker in stage.workers if worker.name == name), "")
        if name or mine:
            tokens = " ".join(short_token(each.token) for each in mine if name)
            partitions = " ".join(str(each.number) for each in mine)
            table.add_row(name or "nobody", state, partitions, tokens, str(sum(each.lag for each in mine)))
    speed = f"{velocity[0]:.0f}" if velocity else "-"
    sums = f"booked {stage.booked()}, {speed} a second, lag {sum(each.lag for each in held)}, twice {stage.twice()}"
    return Group(table, Text(sums, style="bold"), *(Text(line, style="dim") for line in stage.faults[-LINES:]))


def main() -> int:
    """0: every order was booked, with the fence once; 1: not so."""
    plan = Plan()
    parser = argparse.ArgumentParser(prog="python -m examples.consume", description=__doc__)
    parser.add_argument("--seconds", type=float, default=plan.seconds, help="of orders and faults")
    parser.add_argument("--workers", type=int, default=plan.workers)
    parser.add_argument("--partitions", type=int, default=plan.partitions)
    parser.add_argument("--rate", type=int, default=plan.rate, help="orders a second, at most")
    parser.add_argument(
        "--session", type=float, default=plan.session, help="seconds of silence before others take over"
    )
    parser.add_argument("--pace", type=float, default=plan.pace, help="seconds between two faults")
    parser.add_argument("--seed", type=int, default=plan.seed)
    parser.add_argument("--plain", action="store_true", help="no fence: rows first, done afterwards, as by habit")
    parser.add_argument("--json", action="store_true", help="the result, as JSON, and nothing else")
    given = parser.parse_args()
    numbers = (given.seconds, given.workers, given.partitions, given.rate, given.session, given.pace, given.seed)
    plan = Plan(*numbers, not given.plain)
    velocity: list[float] = []
    with tempfile.TemporaryDirectory(prefix="pares-consume-") as folder:
        stage = Stage(plan, Path(folder))
        try:
            console = Console(stderr=True, quiet=given.json)
            with Live(console=console, auto_refresh=False, transient=False) as live:
                for now in run(stage, velocity):
                    live.update(picture(stage, now, velocity), refresh=console.is_terminal)
                live.update(picture(stage, time.monotonic() - stage.began, velocity))
            counts = stage.counts()
        finally:
            stage.close()
    return told(counts, stage, as_json=given.json)


def told(counts: Counts, stage: Stage, *, as_json: bool) -> int:
    """The result, on standard output."""
    faults = {"kills": stage.kills, "freezes": stage.freezes}
    clean = counts.missing == 0 and (counts.twice == 0 or not stage.plan.fenced)
    if as_json:
        print(json.dumps({**counts._asdict(), **faults, "fence": stage.plan.fenced, "clean": clean}))
    else:
        how = "with the fence" if stage.plan.fenced else "without a fence"
        print(
            f"{counts.orders} orders, {stage.kills} kills, {stage.freezes} freezes, {how}: "
            f"{counts.booked} booked, {counts.missing} missing, {counts.twice} twice"
        )
    return 0 if clean and counts.orders else 1


if __name__ == "__main__":
    sys.exit(main())
