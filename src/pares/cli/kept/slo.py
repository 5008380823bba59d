"""`pares slo`: how much of the time each role was led, and how long takeovers took."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pares.cli.common.options import AsJson, LedgerUrl, existing, opened
from pares.cli.common.output import console, print_json
from pares.cli.common.spark import Conf, Master, Memory, settings, start

if TYPE_CHECKING:
    from pares.spark.histories import History

_SHOWN = 20


def slo(
    ledger: LedgerUrl = None,
    history: Annotated[
        Path | None,
        typer.Option("--history", metavar="DIR", help="A history in place of a ledger's log."),
    ] = None,
    by: Annotated[str, typer.Option("--by", metavar="TIME", help="In stretches of how long: 1m, 1h, 7d.")] = "1h",
    memory: Memory = None,
    master: Master = None,
    conf: Conf = None,
    json: AsJson = False,
) -> None:
    """Show how much of the time each role was led, and how long takeovers took, by cause.

    Of all groups in a ledger's log, or of a history. With --json every stretch by itself.
    """
    given = settings(conf or [])
    if history is not None:
        spark = start(memory, master, given, silent=json)
        _tell(_of(spark, history), by, json=json)
        return
    url = existing(ledger)
    with opened(url):
        pass  # what is no ledger is said at once, not when Spark is up
    spark = start(memory, master, given, silent=json)
    with tempfile.TemporaryDirectory(prefix="pares-slo-") as folder:
        kept = _of(spark, Path(folder))
        kept.update(url)
        _tell(kept, by, json=json)


def _of(spark: Any, folder: Path) -> History:
    from pares.spark.histories import history

    return history(spark, folder)


def _tell(kept: History, by: str, *, json: bool) -> None:
    stretches = kept.slo(by)
    takeovers = [row.asDict() for row in kept.takeover_times().limit(1000).collect()]
    if json:
        rows = [row.asDict() for row in stretches.orderBy("group", "role", "seat", "from_ms").limit(1000).collect()]
        print_json({"by": by, "stretches": rows, "takeovers": takeovers})
        return
    from rich import box
    from rich.table import Table

    seats = stretches.sparkSession.sql(_WORST, stretches=stretches).limit(_SHOWN).collect()
    led = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("group", "role", "seat", "led", f"worst {by}", "without a leader", "of it paused", "led by two"):
        led.add_column(title, justify="left" if title in ("group", "role") else "right")
    for row in seats:
        shares = (f"{100 * row[name]:.3f} %" for name in ("availability", "worst"))
        lasted = (f"{row[name]} ms" for name in ("none_ms", "paused_ms", "double_ms"))
        led.add_row(row["group"], row["role"], str(row["seat"]), *shares, *lasted)
    console().print(led)
    times = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("group", "takeovers by cause", "count", "p50 ms", "p95 ms", "max ms"):
        times.add_column(title, justify="left" if title.startswith(("group", "take")) else "right")
    for row in takeovers:
        times.add_row(row["group"], row["cause"], *(str(row[name]) for name in ("count", "p50_ms", "p95_ms", "max_ms")))
    if takeovers:
        console().print(times)


_WORST = """
SELECT `group`, role, seat, sum(led_ms) / sum(there_ms) AS availability, min(availability) AS worst, sum(none_ms) AS none_ms,
       sum(paused_ms) AS paused_ms, sum(double_ms) AS double_ms
FROM {stretches} GROUP BY `group`, role, seat ORDER BY availability, `group`, role, seat
"""
"""The seats that were led least come first."""
