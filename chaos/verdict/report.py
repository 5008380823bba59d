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
from chaos.run import Result
from chaos.verdict.judge import Row, rows

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
    "lost again\nmax s",
    "misses",
)


END = "<!-- end of figures -->"


def begin(protocol: str) -> str:
    """The mark of the place in docs/chaos.md where the table of a run with this protocol goes, up to the next `END`."""
    return f"<!-- figures of {protocol} -->"


def machine() -> str:
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{os.cpu_count()} cores, Linux {platform.release().split('-')[0]}, {python}"


def to_json(result: Result) -> dict[str, Any]:
    return {
        "seed": result.seed,
        "protocol": result.protocol,
        "session": result.session,
        "machine": machine(),
        "wanted": result.wanted,
        "made": len(result.outcomes),
        "seconds": round(result.seconds, 1),
        "kinds": [asdict(row) for row in rows(result.outcomes, result.bound)],
        "broken": result.broken,
        "misses": result.misses,
        "members_ended": result.fallen,
        "not_made": result.not_made,
        "aborted": result.aborted,
        "notes": result.notes,
        "terms": result.terms,
        "writes": result.writes,
        "probe_appends": result.appends,
        "unmade": result.unmade,
        "audit": None if result.audits is None or result.audits.failed else result.audits.to_json(),
        "no_audit": None if result.audits is None else result.audits.failed or None,
        "faults": [asdict(outcome) for outcome in result.outcomes],
        "exit_code": result.exit_code,
    }


def write(result: Result, folder: Path) -> None:
    (folder / "report.json").write_text(json.dumps(to_json(result), indent=1) + "\n")


def put(result: Result, file: Path) -> None:
    """Puts the table, as Markdown, between the marks of a file."""
    text, mark = file.read_text(), begin(result.protocol)
    before, _, rest = text.partition(mark)
    _, _, after = rest.partition(END)
    file.write_text(f"{before}{mark}\n{markdown(result)}\n{END}{after}")


def markdown(result: Result) -> str:
    """What `show` prints, for a document."""
    titles = [title.replace("\n", " ") for title in _TITLES]
    lines = [f"| {' | '.join(titles)} |", f"|{'---|' * len(titles)}"]
    lines += [f"| {' | '.join(str(cell) for cell in _cells(row))} |" for row in rows(result.outcomes, result.bound)]
    lines += [f"| {kind} | not made: {why} |{' |' * (len(titles) - 2)}" for kind, why in result.not_made.items()]
    told = [
        ("broken", result.broken),
        ("missed", result.misses),
        ("member ended", result.fallen),
        ("not made", result.unmade),
        ("note", result.notes),
    ]
    said = [f"- {title}: {text}" for title, texts in told for text in texts]
    if result.aborted:
        said.insert(0, f"- **aborted**: {result.aborted}")
    said += [f"- {title}: {text}" for title, text in _audited(result)]
    if result.audits is not None:
        said += [f"- audit: {p['promise']}: {p['verdict']} ({p['evidence']})" for p in result.audits.promises]
    head = (
        f"{machine()}; {result.protocol}, seed {result.seed}, session {result.session:g} s: "
        f"{len(result.outcomes)} of {result.wanted} faults in {result.seconds:.0f} s, "
        f"{result.terms} terms, {result.writes} writes, {result.appends} appends of the probe."
    )
    return "\n".join([head, "", *lines, "", *said])


def show(result: Result, console: Console) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in _TITLES:
        table.add_column(title, justify="left" if title == "fault" else "right")
    for row in rows(result.outcomes, result.bound):
        if row.kind == "all":
            table.add_section()
        table.add_row(*_cells(row))
    for kind, why in result.not_made.items():
        table.add_row(kind, Text("0 NOT MADE", style="bold red"), *[""] * (len(_TITLES) - 2))
        console.print(Text(f"NOT MADE: {kind}, {KINDS[kind].what}: {why}", style="bold red"), soft_wrap=True)
    console.print(table)
    console.print(
        Text(
            f"{result.protocol}, seed {result.seed}, session {result.session:g} s, "
            f"{len(result.outcomes)} of {result.wanted} faults in {result.seconds:.0f} s; "
            f"{result.terms} terms, {result.writes} writes, {result.appends} appends of the probe.\n"
            "no append: the longest time without one acknowledged to the probe, fault included; first ack: after the heal.\n"
            "led again: from the probe's first acknowledged append after the heal until every role is led; a miss is more "
            f"than {result.bound:.2f} s.\nno leader: the longest time a role had none, fault included; lost again: in the "
            "session after that."
        ),
        soft_wrap=True,
    )
    _say(console, "ABORTED", [result.aborted] if result.aborted else [], "bold red")
    _say(console, "BROKEN", result.broken, "bold red")
    _say(console, "MISSED", result.misses, "bold red")
    _say(console, "MEMBER ENDED", result.fallen, "bold red")
    _say(console, "NOT MADE", result.unmade, "bold red")
    _say(console, "note", result.notes, "yellow")
    _show_audit(result, console)


def _audited(result: Result) -> list[tuple[str, str]]:
    """How much of the run the audits have judged, or why they have not."""
    audits = result.audits
    if audits is None:
        return [("no audit", "it was not asked for")]
    found = [("no audit", audits.failed)] if audits.failed else []
    judged = (
        f"{len(audits.found)} of {audits.logs} logs, {audits.terms} of {result.terms} terms, {audits.writes} of "
        f"{result.writes} writes were judged"
    )
    return [*found, ("audit", judged)]


def _show_audit(result: Result, console: Console) -> None:
    for title, text in _audited(result):
        _say(console, title.upper() if title != "audit" else title, [text], "yellow")
    for promise in result.audits.promises if result.audits is not None else ():
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
        seconds(row.lost_max),
        count(row.misses),
    ]
