"""`pares doctor`: the whole log of a group, looked through for what is wrong."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import typer

from pares.cli.allcall import LISTEN, AnyProtocol, Listen, examine_allcall, listens
from pares.cli.options import DEFAULT_GROUP, AsJson, Group, LedgerUrl, opened
from pares.cli.output import FAILED, console, print_json

if TYPE_CHECKING:
    from rich.table import Table

    from pares.view.checkup import Checkup, Finding


def doctor(
    ledger: LedgerUrl = None,
    group: Group = DEFAULT_GROUP,
    protocol: AnyProtocol = None,
    listen: Listen = LISTEN,
    json: AsJson = False,
) -> None:
    """Say what is wrong with a log, its members, clocks, settings.

    It reads the whole log. A group that runs ALLCALL has none: it is listened to for a while.

    Ends with 1 if there is a problem; warnings and notes do not count.
    """
    from pares.core.records import check_name
    from pares.ledger import partition_of
    from pares.view import url_of
    from pares.view.checkup import examine

    check_name("--group", group)
    if listens(ledger, protocol):
        findings, document = examine_allcall(ledger, group, listen)
        if json:
            print_json(document)
        else:
            console().print(_table(findings))
        if not document["sound"]:
            raise typer.Exit(FAILED)
        return
    with opened(ledger) as log:
        checkup = examine(log, group, partition_of(log.url), time.time_ns() // 1_000_000)
        if json:
            print_json(_document(checkup, url_of(log)))
        else:
            _show(checkup)
    if not checkup.sound:
        raise typer.Exit(FAILED)


def _document(checkup: Checkup, url: str) -> dict[str, Any]:
    scan = checkup.scan
    return {
        "ledger": url,
        "group": checkup.story.group,
        "sound": checkup.sound,
        "findings": [{"level": f.level, "check": f.check, "text": f.text} for f in checkup.findings],
        "entries": scan.entries,
        "kinds": dict(scan.kinds.most_common()),
        "groups": dict(scan.groups.most_common()),
        "bad": dict(scan.bad.most_common()),
        "bad_samples": scan.samples,
        "uncounted": checkup.story.reader.uncounted,
    }


def _table(findings: list[Finding]) -> Table:
    from rich.table import Table
    from rich.text import Text

    styles = {"good": "green", "note": "", "warning": "yellow", "problem": "bold red"}
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for _ in range(3):
        table.add_column()
    for finding in findings:
        table.add_row(finding.check, Text(finding.level, style=styles[finding.level]), Text(finding.text))
    return table


def _show(checkup: Checkup) -> None:
    from rich.text import Text

    out = console()
    out.print(_table(checkup.findings))
    for sample in checkup.scan.samples:
        out.print(
            Text(f"  offset {sample['offset']}: {sample['reason']}: {sample['payload']!r}", style="dim"), soft_wrap=True
        )
    counts = ", ".join(f"{kind} {count}" for kind, count in checkup.scan.kinds.most_common(12))
    if counts:
        out.print(Text(f"\nrecords of the group: {counts}"), soft_wrap=True)
    if set(checkup.scan.groups) - {checkup.story.group}:
        others = ", ".join(f"{name} {count}" for name, count in checkup.scan.groups.most_common(8))
        out.print(Text(f"groups in this partition: {others}"), soft_wrap=True)
