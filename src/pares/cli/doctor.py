"""`pares doctor`: the whole log of a group, looked through for what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from pares.cli.common.allcall import LISTEN, Listen, examine_allcall, listens
from pares.cli.common.options import DEFAULT_GROUP, AsJson, Group, LedgerUrl, opened
from pares.cli.common.output import FAILED, console, now_ms, print_json

if TYPE_CHECKING:
    from rich.table import Table

    from pares.view.checkup import Checkup, Finding


NELI: Final = "Settings of NELI and Fast NELI, to be looked at before a group runs them"

Protocol = Annotated[
    Literal["neli", "fast-neli", "allcall"] | None,
    typer.Option(
        "--protocol",
        help="Only where the log can't tell. allcall: listen to such a group on a ledger with a log (on core NATS that is done "
        "anyway). neli, fast-neli: look at the settings below, before a group runs them.",
        show_default=False,
    ),
]
Threshold = Annotated[
    float | None,
    typer.Option(
        "--T",
        metavar="SECONDS",
        min=0.001,
        max=60,
        help="T of neli, the deadline of fast-neli.",
        show_default=False,
        rich_help_panel=NELI,
    ),
]
ClockBound = Annotated[
    float | None,
    typer.Option(
        "--clock-error",
        metavar="SECONDS",
        min=0,
        max=60,
        help="clock_error of exclusive neli.",
        show_default=False,
        rich_help_panel=NELI,
    ),
]
Overlap = Annotated[
    float,
    typer.Option("--overlap", metavar="SECONDS", min=0, max=60, help="overlap of neli.", rich_help_panel=NELI),
]
Session = Annotated[
    float | None,
    typer.Option(
        "--session",
        metavar="SECONDS",
        min=0.02,
        max=3600,
        help="The group's session: after how long a silence it may give partitions away. Default: what the ledger or the log "
        "says.",
        show_default=False,
        rich_help_panel=NELI,
    ),
]


def doctor(
    ledger: LedgerUrl = None,
    group: Group = DEFAULT_GROUP,
    protocol: Protocol = None,
    threshold: Threshold = None,
    clock_error: ClockBound = None,
    overlap: Overlap = 0.0,
    session: Session = None,
    listen: Listen = LISTEN,
    json: AsJson = False,
) -> None:
    """Say what is wrong with a log, its members, clocks, settings.

    It reads the whole log and writes nothing, but for a group that runs exclusive NELI: there it measures how far the log's
    clock is from this host's, by appending some small records of no group (run it on each host). A group that runs ALLCALL
    has no log: it is listened to for a while.

    The last line is the verdict. Ends with 1 if there is a problem; warnings and notes do not count.
    """
    from pares.core.errors import ConfigError
    from pares.core.wire.records import check_name
    from pares.ledger import partition_of
    from pares.runtime.config.protocols import TRAITS
    from pares.view import url_of
    from pares.view.checkup import examine, measured
    from pares.view.induced import Plan

    check_name("--group", group)
    asked = None if protocol is None else TRAITS[protocol].mode
    if asked is None and (threshold, clock_error, overlap, session) != (None, None, 0.0, None):
        raise ConfigError(
            "--T, --clock-error, --overlap and --session are settings of NELI: say --protocol neli or fast-neli"
        )
    if asked is not None and asked.by_own_beats and (clock_error is not None or overlap):
        raise ConfigError("--clock-error and --overlap are settings of --protocol neli: leave them out")
    if asked is None and listens(ledger, protocol):
        findings, document = examine_allcall(ledger, group, listen)
        if json:
            print_json(document)
        else:
            console().print(_table(findings))
            _last_word(findings)
        if not document["sound"]:
            raise typer.Exit(FAILED)
        return
    plan = Plan(protocol, threshold, clock_error, overlap, session)
    with opened(ledger) as log:
        checkup = examine(log, group, partition_of(log.url), now_ms(), plan)
        url = url_of(log)
    if checkup.induction is not None and checkup.induction.measurable:
        with opened(ledger, write=True) as log:
            checkup = measured(checkup, log, now_ms())
    if json:
        print_json(_document(checkup, url))
    else:
        _show(checkup)
    if not checkup.sound:
        raise typer.Exit(FAILED)


def _document(checkup: Checkup, url: str) -> dict[str, Any]:
    from pares.view.checkup import verdict

    scan = checkup.scan
    return {
        "ledger": url,
        "group": checkup.story.group,
        "sound": checkup.sound,
        "verdict": verdict(checkup.findings),
        "findings": [{"level": f.level, "check": f.check, "text": f.text} for f in checkup.findings],
        "entries": scan.entries,
        "kinds": dict(scan.kinds.most_common()),
        "groups": dict(scan.groups.most_common()),
        "bad": dict(scan.bad.most_common()),
        "bad_samples": scan.samples,
        "uncounted": checkup.story.reader.uncounted,
        "induction": None if checkup.induction is None else checkup.induction.facts(),
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
    if set(checkup.scan.groups) - {checkup.story.group} and checkup.scan.groups[checkup.story.group]:
        others = ", ".join(f"{name} {count}" for name, count in checkup.scan.groups.most_common(8))
        out.print(Text(f"groups in this partition: {others}"), soft_wrap=True)
    _last_word(checkup.findings)


def _last_word(findings: list[Finding]) -> None:
    from rich.text import Text

    from pares.view.checkup import PROBLEM, WARNING, verdict

    levels = {finding.level for finding in findings}
    style = "bold red" if PROBLEM in levels else "yellow" if WARNING in levels else "green"
    console().print(Text("\nverdict: ").append(verdict(findings), style=style), soft_wrap=True)
