"""What a run says: the table by kind of fault, everything that was wrong in words, and the same as JSON."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from chaos.faults import KINDS
from chaos.judge import ALLOWANCE, Row, rows
from chaos.run import Result

_TITLES = (
    "fault",
    "count",
    "overlaps",
    "stale",
    "tokens\nfallen",
    "no append\nmax s",
    "first ack\nmax s",
    "led again\np50 s",
    "led again\nmax s",
    "no leader\np50 s",
    "no leader\nmax s",
    "misses",
)


BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"
"""Marks of the place in docs/chaos.md where a run's table goes."""


def machine() -> str:
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{os.cpu_count()} cores, Linux {platform.release().split('-')[0]}, {python}"


def to_json(result: Result) -> dict[str, Any]:
    return {
        "seed": result.seed,
        "session": result.session,
        "machine": machine(),
        "wanted": result.wanted,
        "made": len(result.outcomes),
        "seconds": round(result.seconds, 1),
        "kinds": [asdict(row) for row in rows(result.outcomes, result.session)],
        "broken": result.broken,
        "misses": result.misses,
        "members_ended": result.fallen,
        "not_made": result.not_made,
        "aborted": result.aborted,
        "notes": result.notes,
        "terms": result.terms,
        "writes": result.writes,
        "probe_appends": result.appends,
        "audit": result.audit,
        "no_audit": result.no_audit,
        "faults": [asdict(outcome) for outcome in result.outcomes],
        "exit_code": result.exit_code,
    }


def write(result: Result, folder: Path) -> None:
    (folder / "report.json").write_text(json.dumps(to_json(result), indent=1) + "\n")


def put(result: Result, file: Path) -> None:
    """Puts the table, as Markdown, between the marks of a file."""
    text = file.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    file.write_text(f"{before}{BEGIN}\n{markdown(result)}\n{END}{after}")


def markdown(result: Result) -> str:
    """What `show` prints, for a document."""
    titles = [title.replace("\n", " ") for title in _TITLES]
    lines = [f"| {' | '.join(titles)} |", f"|{'---|' * len(titles)}"]
    lines += [f"| {' | '.join(str(cell) for cell in _cells(row))} |" for row in rows(result.outcomes, result.session)]
    lines += [f"| {kind} | not made: {why} |{' |' * (len(titles) - 2)}" for kind, why in result.not_made.items()]
    told = [
        ("broken", result.broken),
        ("missed", result.misses),
        ("member ended", result.fallen),
        ("note", result.notes),
    ]
    said = [f"- {title}: {text}" for title, texts in told for text in texts]
    if result.aborted:
        said.insert(0, f"- **aborted**: {result.aborted}")
    if result.audit is None:
        said.append(f"- no audit: {result.no_audit or 'it was not asked for'}")
    else:
        said += [f"- audit: {p['promise']}: {p['verdict']} ({p['evidence']})" for p in result.audit["promises"]]
    head = (
        f"{machine()}; seed {result.seed}, session {result.session:g} s: {len(result.outcomes)} of {result.wanted} faults in "
        f"{result.seconds:.0f} s, {result.terms} terms, {result.writes} writes, {result.appends} appends of the probe."
    )
    return "\n".join([head, "", *lines, "", *said])


def show(result: Result, console: Console) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in _TITLES:
        table.add_column(title, justify="left" if title == "fault" else "right")
    for row in rows(result.outcomes, result.session):
        if row.kind == "all":
            table.add_section()
        table.add_row(*_cells(row))
    for kind, why in result.not_made.items():
        table.add_row(kind, Text("0 NOT MADE", style="bold red"), *[""] * (len(_TITLES) - 2))
        console.print(Text(f"NOT MADE: {kind}, {KINDS[kind].what}: {why}", style="bold red"), soft_wrap=True)
    console.print(table)
    bound = result.session + ALLOWANCE
    console.print(
        Text(
            f"seed {result.seed}, session {result.session:g} s, {len(result.outcomes)} of {result.wanted} faults in "
            f"{result.seconds:.0f} s; {result.terms} terms, {result.writes} writes, {result.appends} appends of the probe.\n"
            "no append: the longest time without one acknowledged to the probe, fault included; first ack: after the heal.\n"
            "led again: from the probe's first acknowledged append after the heal until every role is led; a miss is more "
            f"than {bound:g} s.\nno leader: the longest time a role had none, fault included."
        ),
        soft_wrap=True,
    )
    _say(console, "ABORTED", [result.aborted] if result.aborted else [], "bold red")
    _say(console, "BROKEN", result.broken, "bold red")
    _say(console, "MISSED", result.misses, "bold red")
    _say(console, "MEMBER ENDED", result.fallen, "bold red")
    _say(console, "note", result.notes, "yellow")
    _show_audit(result, console)


def _show_audit(result: Result, console: Console) -> None:
    if result.audit is None:
        _say(console, "NO AUDIT", [result.no_audit or "it was not asked for"], "yellow")
        return
    for promise in result.audit["promises"]:
        style = {"kept": "green", "broken": "bold red"}.get(promise["verdict"], "yellow")
        line = (
            Text("audit: ")
            .append(promise["verdict"], style=style)
            .append(f"  {promise['promise']}: {promise['evidence']}")
        )
        console.print(line, soft_wrap=True)


def _say(console: Console, title: str, lines: list[str], style: str) -> None:
    for line in lines:
        console.print(Text(f"{title}: ", style=style).append(line, style="default"), soft_wrap=True)


def _cells(row: Row) -> list[Text | str]:
    def seconds(value: float | None) -> str:
        return "never" if value is None else f"{value:.3f}"

    def count(number: int) -> Text:
        return Text(str(number), style="bold red" if number else "")

    return [
        row.kind,
        str(row.count),
        count(row.overlaps),
        count(row.stale),
        count(row.falling),
        seconds(row.silent_max),
        seconds(row.acknowledged_max),
        seconds(row.led_p50),
        seconds(row.led_max),
        seconds(row.without_p50),
        seconds(row.without_max),
        count(row.misses),
    ]
