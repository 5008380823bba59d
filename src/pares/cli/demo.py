"""`pares demo`: see it work, on real processes, in half a minute."""

from __future__ import annotations

import signal
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from pares.cli.common.options import Create, beginnable, check_folder
from pares.cli.common.output import console, print_json
from pares.core.errors import ConfigError

if TYPE_CHECKING:
    from pares.demo.screen import Screen


def demo(
    seconds: Annotated[float, typer.Option("--seconds", metavar="SECONDS", help="How long faults are made.")] = 25.0,
    members: Annotated[int, typer.Option("--members", metavar="N", help="How many members begin.")] = 4,
    roles: Annotated[int, typer.Option("--roles", metavar="N", help="How many instruments they share.")] = 12,
    protocol: Annotated[
        str, typer.Option("--protocol", metavar="P", help="claims, nele, neli, fast-neli or allcall.")
    ] = "claims",
    overlap: Annotated[
        bool, typer.Option("--overlap", help="Non-exclusive mode: rather two leaders for a moment than none.")
    ] = False,
    ledger: Annotated[
        str | None,
        typer.Option(
            "--ledger",
            metavar="URL",
            help="Where the log is. Default: files, removed at the end. kafka: a Kafka that the demo starts on this "
            "machine and ends again. kafka://HOST:PORT: a topic of its own there, deleted at the end; with /TOPIC behind it "
            "that topic, new or empty, and kept. Any other ledger is used and kept.",
        ),
    ] = None,
    create: Create = False,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Decides whom the faults meet, and the prices.")] = 1,
    report: Annotated[Path, typer.Option("--report", metavar="FILE", help="Where the audit's report goes.")] = Path(
        "report.html"
    ),
    audit: Annotated[bool, typer.Option("--audit/--no-audit", help="Have Spark audit the run.")] = True,
    plain: Annotated[bool, typer.Option("--plain", help="Lines instead of the live table.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Nothing but the result, in JSON.")] = False,
) -> None:
    """Real processes share price feeds under faults; Spark audits.

    Processes share price feeds; some are killed, frozen and drained; then Spark audits the log and what was published.

    Every process, signal and file is real. Ends with 3 if a promise was broken.
    """
    from pares.demo.law import law_of
    from pares.demo.location import OWN_KAFKA, check
    from pares.demo.screen import Plain, Silent, Table
    from pares.demo.show import run
    from pares.demo.stage import Options
    from pares.demo.summary import show

    check(ledger)
    if ledger is not None and ledger not in OWN_KAFKA:
        ledger, _ = beginnable(ledger, create)
    if audit:
        if report.is_dir():
            raise ConfigError(f"--report: {report} is a folder: name a file, such as {report / 'report.html'}")
        check_folder("--report", report.parent)
    out = console()
    screen: Screen
    if json:
        screen = Silent()
    elif plain or not out.is_terminal or out.is_dumb_terminal:
        screen = Plain(out)
    else:
        screen = Table(out)
    signal.signal(signal.SIGTERM, _interrupt)
    options = Options(
        seconds=seconds, members=members, roles=roles, ledger=ledger, seed=seed, overlap=overlap, protocol=protocol
    )
    options.check()
    summary = run(options, screen, report if audit else None)
    if json:
        print_json(summary.document())
    else:
        show(out, summary, overlap=law_of(protocol, overlap=overlap).two)
    raise typer.Exit(summary.exit_code)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Ended by TERM the demo tidies up as it does on Ctrl-C."""
    raise KeyboardInterrupt
