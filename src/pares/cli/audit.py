"""`pares audit`: Spark looks whether the promises were kept."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

from pares.cli.common.options import DEFAULT_GROUP, AsJson, Group, LedgerUrl, check_folder, existing, opened
from pares.cli.common.output import console, print_json, say
from pares.cli.common.spark import Conf, Master, Memory, settings, start, start_on
from pares.cli.kept.follow import Asked, milliseconds
from pares.cli.kept.follow import follow as follow_log
from pares.core.wire.shown import short_tokens

if TYPE_CHECKING:
    from pares.spark.result import AuditResult


def audit(
    ledger: LedgerUrl = None,
    group: Group = DEFAULT_GROUP,
    writes: Annotated[
        str | None,
        typer.Option(
            "--writes",
            metavar="PATH",
            help="The sink's rows (role, token, at_ms and, if there, key, seq): Parquet, CSV, JSON lines, file.db#table.",
        ),
    ] = None,
    faults: Annotated[
        str | None,
        typer.Option("--faults", metavar="PATH", help="What was done to whom: rows of at_ms, member, fault."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Write the tables (Parquet), a summary and report.html here."),
    ] = None,
    clock_error: Annotated[
        int, typer.Option("--clock-error", metavar="MS", min=0, help="How far the members' clocks may be off.")
    ] = 0,
    also: Annotated[
        list[str] | None,
        typer.Option(
            "--also",
            metavar="GROUP",
            help="Another group over the same roles; may be given again. Was each role led at any time by one of them?",
        ),
    ] = None,
    all_groups: Annotated[
        bool,
        typer.Option("--all-groups", help="Every group on the ledger, in one pass over its log; not with --group."),
    ] = False,
    fail_on: Annotated[
        str,
        typer.Option(
            "--fail-on", metavar="VERDICTS", help="End with 3 for these verdicts, too: some of unsure,slow,missing."
        ),
    ] = "",
    history: Annotated[
        Path | None,
        typer.Option("--history", metavar="DIR", help="A history in place of a ledger's log: see docs/history.md."),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", help="Go on until Ctrl-C, and tell each violation soon after the record that shows it."
        ),
    ] = False,
    alert: Annotated[
        list[str] | None,
        typer.Option(
            "--alert",
            metavar="WHERE",
            help="With --follow, where to: console (the default), webhook:URL, topic:LEDGER#NAME; may be given again.",
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option("--checkpoint", metavar="DIR", help="With --follow: go on from there, and tell nothing twice."),
    ] = None,
    window: Annotated[
        str, typer.Option("--window", metavar="TIME", help="With --follow: how long terms are kept that have ended.")
    ] = "10m",
    memory: Memory = None,
    master: Master = None,
    conf: Conf = None,
    engine: Annotated[
        Literal["auto", "spark", "python"],
        typer.Option(
            "--engine",
            help="By what it is judged. python: without Java, up to 100,000 records of one log. auto: by Spark; by Python "
            "where no Java is found, and, beside Spark, for a log of up to 20,000 records.",
        ),
    ] = "auto",
    json: AsJson = False,
) -> None:
    """Have Spark check whether the promises were kept.

    Against the log and, with --writes, against what was written.

    Reads only. What the log decided is exact; what members believed, and when, is known within --clock-error. Ends with 3
    if a promise was broken.

    With --follow it goes on: each violation is told once, with its evidence, and again if its verdict changes. With --history
    that history is kept up to date meanwhile.
    """
    from pares.core.errors import ConfigError
    from pares.core.wire.records import check_name
    from pares.spark.logs import is_long

    check_name("--group", group)
    if follow:
        if also or writes is not None or faults is not None or out is not None or fail_on:
            raise ConfigError(
                "--follow goes without --writes, --faults, --out, --also and --fail-on: audit the log for those"
            )
        if all_groups and group != DEFAULT_GROUP:
            raise ConfigError("--all-groups goes without --group")
        of = None if all_groups else group
        asked = Asked(existing(ledger), of, alert or [], checkpoint, window, history, clock_error, json)
        _follow(asked, engine, memory, master, conf or [])
    if alert or checkpoint is not None:
        raise ConfigError("--alert and --checkpoint go with --follow")
    if all_groups and (also or writes is not None or out is not None or group != DEFAULT_GROUP):
        raise ConfigError(
            "--all-groups goes without --group, --also, --writes and --out: audit one group by itself for those"
        )
    if also and (writes is not None or out is not None):
        raise ConfigError(
            "--also looks at the logs of several groups together: audit each by itself for --writes and --out"
        )
    if history is not None and (also or all_groups or clock_error or engine == "python"):
        raise ConfigError(
            "--history goes without --also, --all-groups, --clock-error and --engine python: it was folded as it was updated"
        )
    url, long = "" if history is not None else existing(ledger), False
    if history is None:
        with opened(url) as log:
            long = is_long(log)  # what is no ledger is said at once, not when Spark is up
    if out is not None:
        check_folder("--out", out)
    given, verdicts = settings(conf or []), [verdict for verdict in fail_on.split(",") if verdict]
    from pares.spark.audit import audit as run
    from pares.spark.verdict import check_failing

    check_failing(verdicts)
    if history is not None:
        kept = start_on(history, memory, master, given, silent=json)
        result = kept.audit(group, writes, faults)
        if out is not None:
            result.write(out)
        _end(result, out, verdicts, json=json)
    by_spark = _by_spark(engine, alone=not (also or all_groups or writes or faults))
    if by_spark:
        spark = start(memory, master, given, silent=json, long=long)
        if also:
            _together(url, [group, *also], faults, clock_error, json=json)
        if all_groups:
            _all(url, faults, clock_error, verdicts, json=json)
        result = run(
            url, group, writes=writes, faults=faults, out=out, clock_error_ms=clock_error, spark=spark, engine=engine
        )
    else:
        if not json:
            say("judged in plain Python, without Spark: every table and every rule, of up to 100,000 records")
        result = run(url, group, out=out, clock_error_ms=clock_error, engine="python")
    _end(result, out, verdicts, json=json)


def _follow(asked: Asked, engine: str, memory: str | None, master: str | None, conf: list[str]) -> NoReturn:
    milliseconds("--window", asked.window)
    with opened(asked.url):
        pass
    given, spark = settings(conf), None
    if _by_spark(engine, alone=True):
        spark = start(memory, master, given, silent=asked.json)
    raise typer.Exit(follow_log(asked, spark))


def _end(result: AuditResult, out: Path | None, verdicts: list[str], *, json: bool) -> NoReturn:
    from pares.spark.session import end_in_haste

    if out is not None:
        _report(result, out / "report.html")
    if json:
        print_json({**result.to_json(), "exit_code": result.code(verdicts)})
    else:
        _show(result, out)
    end_in_haste()
    raise typer.Exit(result.code(verdicts))


def _by_spark(engine: str, *, alone: bool) -> bool:
    """Whether Spark judges; `alone`: one log, and nothing that only Spark reads. Says so where there is no Java and Python
    judges instead. Raises `CapabilityError` where Spark is needed and can't be had."""
    from pares.core.errors import ConfigError
    from pares.spark.session import has_java, require, require_rows, spare_pandas

    if engine == "python" and not alone:
        raise ConfigError(
            "--engine python judges one log by itself: leave out --writes, --faults, --also and --all-groups"
        )
    require_rows()
    spare_pandas()
    if engine == "python":
        return False
    if engine == "auto" and alone and not has_java():
        say("no Java was found, which Spark needs")
        return False
    require()
    return True


def _all(url: str, faults: str | None, clock_error: int, verdicts: list[str], *, json: bool) -> None:
    from pares.spark.audit import audit_all

    found = audit_all(url, faults=faults, clock_error_ms=clock_error)
    code = max(result.code(verdicts) for result in found)
    if json:
        print_json({"groups": [one.to_json() for one in found], "exit_code": code})
        raise typer.Exit(code)
    for one in found:
        console().print(f"group {one.group}", style="bold", markup=False)
        _show(one, None)
    raise typer.Exit(code)


def _together(url: str, groups: list[str], faults: str | None, clock_error: int, *, json: bool) -> None:
    from pares.spark.together import audit_together

    found = audit_together(url, groups, faults=faults, clock_error_ms=clock_error)
    if json:
        print_json(
            {"groups": [one.to_json() for one in found.groups], "gaps": found.gaps, "exit_code": found.exit_code}
        )
        raise typer.Exit(found.exit_code)
    screen = console()
    for one in found.groups:
        screen.print(f"group {one.group}", style="bold")
        _show(one, None)
    screen.print(f"together: {len(found.gaps)} stretches in which a role had no leader in any group")
    for gap in found.gaps[:20]:
        screen.print(f"  {gap['role']}: {gap['to_ms'] - gap['from_ms']} ms from {gap['from_ms']} on")
    raise typer.Exit(found.exit_code)


def _show(result: AuditResult, out: Path | None) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    screen = console()
    styles = {"kept": "green", "broken": "bold red", "unsure": "yellow", "slow": "yellow", "missing": "yellow"}
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("promise", "verdict", "evidence"):
        table.add_column(title)
    for promise in result.promises:
        table.add_row(
            promise.promise,
            Text(promise.verdict, style=styles.get(promise.verdict, "")),
            Text(short_tokens(promise.evidence)),
        )
    screen.print(table)
    times = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("takeovers by cause", "count", "p50 ms", "max ms"):
        times.add_column(title, justify="left" if title.startswith("take") else "right")
    for cause, numbers in result.summary["takeovers"].items():
        times.add_row(cause, str(numbers["count"]), str(numbers["p50_ms"]), str(numbers["max_ms"]))
    if times.row_count:
        screen.print(times)
    if result.cut_off is not None:
        screen.print(Text(result.cut_off, style="yellow"), soft_wrap=True)
    for line in _counts(result.summary):
        screen.print(Text(line), soft_wrap=True)
    if out is not None:
        screen.print(Text(f"tables and report.html are in {out}"), soft_wrap=True)


def _count(summary: Any, what: str) -> str:
    number, name = summary[what], what.replace("_", " ")
    return f"{number} {name.removesuffix('s') if number == 1 else name}"


def _counts(summary: dict[str, Any] | Any) -> list[str]:
    lines = [
        f"{_count(summary, 'terms')} of {_count(summary, 'members')} in {_count(summary, 'seats')} of "
        f"{_count(summary, 'roles')}; {_count(summary, 'moves')}; {_count(summary, 'bad_records')}"
    ]
    if summary["administrators"]:
        lines.append(
            f"not counted as members: {_count(summary, 'administrators')}, who may lead nothing (pares handover, Admin)"
        )
    allowed = summary["allowances"]
    lines.append(
        f"allowed: {allowed['append_ms']} ms for an append and its read-back, {allowed['error_ms']} ms for clocks that differ, "
        f"{allowed['resolution_ms']} ms for rounding"
        + ("" if summary["exclusive"] else f", {allowed['slack_ms']} ms for timers")
    )
    if summary["anomalies"]:
        lines.append("anomalies: " + ", ".join(f"{count} {kind}" for kind, count in summary["anomalies"].items()))
    writes = summary.get("writes")
    if writes is not None:
        lines.append(
            f"{writes['count']} writes: {writes['duplicates']} duplicates, {writes['missing']} missing, "
            f"{writes['stale']} stale, {writes['unknown']} under unknown tokens, "
            f"{writes['early']} early, {writes['late']} late, "
            f"{writes['wrong_member'] + writes['wrong_seat']} by the wrong member or seat"
        )
    return lines


def _report(result: AuditResult, path: Path) -> None:
    from pares.spark.report import write_report

    write_report(result, path)
