"""`pares capacity`: how fast a log grows, and how long it lasts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from pares.cli.common.options import AsJson
from pares.cli.common.output import console, print_json
from pares.cli.common.spark import Conf, Master, Memory, settings, start_on

if TYPE_CHECKING:
    from pares.spark.histories.rates import Use

_DAY: Final = 86_400
_DAYS: Final = (1, 7, 30)
_MIB: Final = 1 << 20


def capacity(
    history: Annotated[Path, typer.Option("--history", metavar="DIR", help="The history: see docs/history.md.")],
    size: Annotated[
        int, typer.Option("--size", metavar="MIB", min=1, help="How long would a log of so many MiB last?")
    ] = 1024,
    memory: Memory = None,
    master: Master = None,
    conf: Conf = None,
    json: AsJson = False,
) -> None:
    """Show how fast groups write, and what a log needs that keeps a day, a week or a month of it.

    By the records of the newest log in a history, at their mean rate and as if every minute were the busiest one. Sizes are
    those of the records: a ledger adds to each of them, and a broker may compress them.
    """
    groups = start_on(history, memory, master, settings(conf or []), silent=json).capacity()
    found, needs = [_rates(use) for use in groups], _needs(groups, size)
    if json:
        print_json({"groups": found, **needs})
        return
    _show(found, needs, size)


def _rates(use: Use) -> dict[str, Any]:
    hourly = use.per_second(3600 * use.gained)
    return {
        **use._asdict(),
        "records_s": _rounded(use.per_second(use.records)),
        "bytes_s": _rounded(use.per_second(use.bytes)),
        "gained_hour": _rounded(hourly),
    }


def _needs(groups: list[Use], size: int) -> dict[str, Any]:
    """Of all groups together. What has lasted for no time has no rate, and is left out of the mean."""
    records = sum(use.per_second(use.records) or 0.0 for use in groups)
    mean = sum(use.per_second(use.bytes) or 0.0 for use in groups)
    most = max(mean, sum(use.busiest_bytes for use in groups) / 60)
    return {
        "bytes_s": _rounded(mean),
        "busiest_bytes_s": _rounded(most),
        "retention": [
            {
                "days": days,
                "records": round(days * _DAY * records),
                "bytes": round(days * _DAY * mean),
                "busiest_bytes": round(days * _DAY * most),
            }
            for days in _DAYS
        ],
        "size_mib": size,
        "lasts_days": _rounded(size * _MIB / mean / _DAY) if mean else None,
        "lasts_days_busiest": _rounded(size * _MIB / most / _DAY) if most else None,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _show(groups: list[dict[str, Any]], needs: dict[str, Any], size: int) -> None:
    from rich import box
    from rich.table import Table

    wrote = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in (
        "group",
        "records",
        "a second",
        "busiest minute",
        "beats",
        "KiB a second",
        "members",
        "gained an hour",
    ):
        wrote.add_column(title, justify="left" if title == "group" else "right")
    for row in groups:
        beats = f"{100 * row['beats'] / row['records']:.0f} %" if row["records"] else "-"
        kib = None if row["bytes_s"] is None else row["bytes_s"] / 1024
        rates = (_shown(row["records_s"]), str(row["busiest"]), beats, _shown(kib), str(row["members"]))
        wrote.add_row(row["group"], str(row["records"]), *rates, _shown(row["gained_hour"]))
    console().print(wrote)
    kept = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("a log that keeps", "records", "MiB", "MiB, if always busiest"):
        kept.add_column(title, justify="left" if title.startswith("a log") else "right")
    for row in needs["retention"]:
        sizes = (f"{row[name] / _MIB:.1f}" for name in ("bytes", "busiest_bytes"))
        kept.add_row(f"{row['days']} d", str(row["records"]), *sizes)
    console().print(kept)
    if needs["lasts_days"] is not None:
        console().print(
            f"{size} MiB last {needs['lasts_days']:.1f} days, {needs['lasts_days_busiest']:.1f} if always busiest"
        )


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
