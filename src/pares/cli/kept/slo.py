"""`pares slo`: how much of the time each role was led, and how long takeovers took."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from pares.cli.common.options import AsJson, LedgerUrl, existing, opened
from pares.cli.common.output import console, print_json
from pares.cli.common.spark import Conf, Master, Memory, settings, start, start_on

if TYPE_CHECKING:
    from pares.spark.histories import History

_SHOWN = 20
_ROWS = 1000


def slo(
    ledger: LedgerUrl = None,
    history: Annotated[
        Path | None,
        typer.Option("--history", metavar="DIR", help="A history in place of a ledger's log."),
    ] = None,
    by: Annotated[str, typer.Option("--by", metavar="TIME", help="In stretches of how long: 1m, 1h, 7d.")] = "1h",
    role: Annotated[str | None, typer.Option("--role", metavar="ROLE", help="Only this role.")] = None,
    window: Annotated[
        str | None, typer.Option("--window", metavar="TIME", help="Only the last so much of what is known: 30d.")
    ] = None,
    target: Annotated[
        float,
        typer.Option(
            "--target", metavar="PERCENT", min=0.0, max=100.0, help="How much of the time a role is to be led: 99.9."
        ),
    ] = 99.9,
    memory: Memory = None,
    master: Master = None,
    conf: Conf = None,
    json: AsJson = False,
) -> None:
    """Show how much of the time each role was led, and how long takeovers took, by cause.

    Of all groups in a ledger's log, or of a history. The error budget is what --target leaves of the time; a time under a pause
    was asked for, and takes nothing of it. With --json every stretch by itself.
    """
    given, asked = settings(conf or []), _Asked(by, role, window, target)
    if history is not None:
        _tell(start_on(history, memory, master, given, silent=json), asked, json=json)
        return
    url = existing(ledger)
    from pares.spark.logs import is_long

    with opened(url) as log:
        long = is_long(log)  # what is no ledger is said at once, not when Spark is up
    spark = start(memory, master, given, silent=json, long=long)
    from pares.spark.histories import history as history_in
    from pares.spark.host.folder import temporary

    with temporary("pares-slo-") as folder:
        kept = history_in(spark, folder / "history")
        kept.update(url)
        _tell(kept, asked, json=json)


class _Asked(NamedTuple):
    by: str
    role: str | None
    window: str | None
    target: float


def _tell(kept: History, asked: _Asked, *, json: bool) -> None:
    stretches = kept.slo(asked.by, role=asked.role, window=asked.window)
    times = kept.takeover_times(role=asked.role, window=asked.window).limit(_ROWS)
    takeovers = [row.asDict() for row in times.collect()]
    worst = stretches.sparkSession.sql(_WORST, stretches=stretches).limit(_ROWS if json else _SHOWN)
    seats = [_seat(row.asDict(), asked.target) for row in worst.collect()]
    if json:
        rows = [row.asDict() for row in stretches.orderBy("group", "role", "seat", "from_ms").limit(_ROWS).collect()]
        told = {"by": asked.by, "window": asked.window, "target": asked.target}
        print_json({**told, "seats": seats, "stretches": rows, "takeovers": takeovers})
        return
    _show_seats(seats, asked)
    if takeovers:
        _show_takeovers(takeovers)


def _seat(row: dict[str, Any], target: float) -> dict[str, Any]:
    """With nines and the budget: how long a seat may be without a leader that was not paused."""
    unled = row["none_ms"] - row["paused_ms"]
    lacking = 1 - row["availability"]
    nines = None if lacking <= 0 else round(-math.log10(lacking), 2)
    budget = round(row["there_ms"] * (1 - target / 100))
    return {**row, "nines": nines, "budget_ms": budget, "budget_left_ms": budget - unled}


def _show_seats(seats: list[dict[str, Any]], asked: _Asked) -> None:
    from rich import box
    from rich.table import Table

    led = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    budget = f"budget left ({asked.target:g} %)"
    titles = (
        "group",
        "role",
        "seat",
        "led",
        "nines",
        f"worst {asked.by}",
        "without a leader",
        "of it paused",
        "led by two",
    )
    for title in (*titles, budget):
        led.add_column(title, justify="left" if title in ("group", "role") else "right")
    for row in seats:
        availability, worst = (f"{100 * row[name]:.3f} %" for name in ("availability", "worst"))
        nines = "all" if row["nines"] is None else f"{row['nines']:.1f}"
        lasted = (f"{row[name] / 1000:.1f} s" for name in ("none_ms", "paused_ms", "double_ms", "budget_left_ms"))
        led.add_row(row["group"], row["role"], str(row["seat"]), availability, nines, worst, *lasted)
    console().print(led)


def _show_takeovers(takeovers: list[dict[str, Any]]) -> None:
    from rich import box
    from rich.table import Table

    times = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("group", "takeovers by cause", "count", "p50 ms", "p95 ms", "max ms"):
        times.add_column(title, justify="left" if title.startswith(("group", "take")) else "right")
    for row in takeovers:
        times.add_row(row["group"], row["cause"], *(str(row[name]) for name in ("count", "p50_ms", "p95_ms", "max_ms")))
    console().print(times)


_WORST = """
SELECT `group`, role, seat, sum(there_ms) AS there_ms, sum(led_ms) / sum(there_ms) AS availability,
       min(availability) AS worst, sum(none_ms) AS none_ms, sum(paused_ms) AS paused_ms, sum(double_ms) AS double_ms
FROM {stretches} GROUP BY `group`, role, seat ORDER BY availability, `group`, role, seat
"""
"""The seats that were led least come first."""
