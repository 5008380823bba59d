"""What came of a run, as a table and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from chaos.delivery.judge import Verdict
from chaos.delivery.plan import PLAIN

COLUMNS = (
    *("way", "records", "faults", "terms", "lost", "repeated", "unmarked", "out of order", "records/s", "promises"),
)


def cells(verdict: Verdict) -> list[str]:
    """One row."""
    mine = verdict.way != PLAIN
    kept = "BROKEN" if verdict.broken else "kept" if mine else ""
    counts = (verdict.lost, verdict.repeated, verdict.allowed if mine else "", verdict.out_of_order)
    rate = f"{verdict.records / verdict.seconds:.0f}" if verdict.seconds else ""
    head = (verdict.way, verdict.records, sum(verdict.faults.values()), verdict.terms if mine else "")
    return [str(cell) for cell in (*head, *counts, rate, kept)]


def show(verdicts: Sequence[Verdict], aborted: str | None, console: Console) -> None:
    table = Table()
    for column in COLUMNS:
        table.add_column(column, justify="left" if column in ("way", "promises") else "right")
    for verdict in verdicts:
        table.add_row(*cells(verdict))
    console.print(table)
    kinds = Counter[str]()
    for verdict in verdicts:
        kinds.update(verdict.faults)
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    console.print(f"faults: {told or 'none'}", highlight=False, soft_wrap=True)
    for verdict in verdicts:
        for words in verdict.broken:
            console.print(f"BROKEN, {verdict.way}: {words}", style="red", highlight=False, soft_wrap=True)
        for words in verdict.notes:
            console.print(f"note, {verdict.way}: {words}", highlight=False, soft_wrap=True)
    if aborted is not None:
        console.print(f"broken off: {aborted}", style="red", highlight=False, soft_wrap=True)


def to_json(verdicts: Sequence[Verdict], aborted: str | None, **more: object) -> dict[str, Any]:
    return {
        **more,
        "aborted": aborted,
        "ways": [
            {
                "way": v.way,
                "records": v.records,
                "given": v.given,
                "effects": v.effects,
                "lost": v.lost,
                "repeated": v.repeated,
                "unmarked": v.allowed if v.way != PLAIN else None,
                "out_of_order": v.out_of_order,
                "terms": v.terms,
                "faults": v.faults,
                "seconds": round(v.seconds, 1),
                "broken": v.broken,
                "notes": v.notes,
            }
            for v in verdicts
        ],
    }
