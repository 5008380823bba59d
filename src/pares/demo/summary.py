"""What the demo says at its end, in a few lines.

The numbers are the audit's, which saw nothing but the log and the table. Where there is no Spark they are counted here, from
the same two sources, and the screen says so: then nobody has checked the promises.
"""

from __future__ import annotations

import shlex
import statistics
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pares.core import reasons
from pares.core.errors import CapabilityError
from pares.core.wire.records import Seat
from pares.demo.quotes import TICK_MS
from pares.demo.stage import Outcome
from pares.view import name_of

if TYPE_CHECKING:
    from pares.spark.result import AuditResult

CAUSES: Final = {
    "crash": "the leader was killed (SIGKILL)",
    "freeze": "the leader was frozen (SIGSTOP)",
    "cut": "the leader was cut off from the ledger",
    "drain": "the leader was drained",
    "join": "a member had come",
    "balance": "to balance the load",
    "leave": "the leader left",
    "lapse": "the leader's lease had run out",
    "slow barrier": "the leader's barrier took too long",
    "slow leader": "the leader's own records came back too late",
    "handover": "handed over on request",
    "step down": "the leader stepped down",
    "pause": "after a pause",
    "release": "the leader had given it up",
}
"""The audit's words for causes, and those of the screen, in its order."""
FAULTS: Final = {
    "killed": "crash",
    "frozen": "freeze",
    "cut off": "cut",
    reasons.DRAINED: "drain",
    reasons.CLOSED: "leave",
    reasons.FENCED: "lapse",
    reasons.LEASE_RAN_OUT: "lapse",
    reasons.BARRIER_TIMED_OUT: "slow barrier",
    reasons.REVOKED: "balance",
    reasons.SUPERSEDED: "balance",
}
"""The demo's words, and the members' own, for what the audit calls something else."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The numbers on the last screen."""

    takeovers: dict[str, dict[str, int]]
    """By cause: count, p50_ms, max_ms."""
    quotes: int
    duplicates: int
    missing: int
    longest_gap_ms: int
    refused: int
    stale: int
    broken: list[str]
    unsure: list[str]
    checked: int
    """How many promises the audit has checked; 0 without it."""
    lost: list[str]
    report: Path | None
    why_no_audit: str | None
    ledger: str
    group: str
    kept: bool
    """Whether the ledger is still there for a look at it."""
    slow: list[str] = field(default_factory=list[str])
    """What the audit says of promises that were kept late."""

    @property
    def exit_code(self) -> int:
        """3 if a promise was broken, 1 if a member ended by itself, else 0."""
        if self.broken:
            return 3
        return 1 if self.lost else 0

    def document(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "takeovers": self.takeovers,
            "quotes": self.quotes,
            "duplicates": self.duplicates,
            "missing": self.missing,
            "longest_gap_ms": self.longest_gap_ms,
            "zombie_writes_refused": self.refused,
            "stale_writes_landed": self.stale,
            "promises_checked": self.checked,
            "promises_broken": self.broken,
            "promises_unsure": self.unsure,
            "promises_slow": self.slow,
            "members_lost": self.lost,
            "report": None if self.report is None else str(self.report),
            "audited": self.why_no_audit is None,
            "why_not_audited": self.why_no_audit,
            "ledger": self.ledger if self.kept else None,
            "group": self.group,
        }


def summarise(
    outcome: Outcome, result: AuditResult | None, report: Path | None, why_not: str | None, *, kept: bool
) -> Summary:
    """The numbers: the audit's where there is one."""
    count = outcome.count
    broken = [p.promise for p in result.promises if p.verdict == "broken"] if result else []
    if result is None and count.stale and not outcome.overlap:
        broken = ["The table took no write under a token lower than one that it had already seen."]
    return Summary(
        takeovers=_in_order(result.summary["takeovers"]) if result else takeovers(outcome),
        quotes=count.quotes,
        duplicates=count.duplicates,
        missing=count.missing,
        longest_gap_ms=count.longest_gap_ms,
        refused=count.refused,
        stale=count.stale,
        broken=broken,
        unsure=[p.promise for p in result.promises if p.verdict == "unsure"] if result else [],
        checked=sum(p.verdict in ("kept", "broken", "unsure", "slow", "missing") for p in result.promises)
        if result
        else 0,
        lost=outcome.lost,
        report=report,
        why_no_audit=why_not,
        ledger=outcome.ledger,
        group=outcome.group,
        kept=kept,
        slow=[p.evidence for p in result.promises if p.verdict == "slow"] if result else [],
    )


def audited(ledger: str, group: str, quotes: Path) -> AuditResult:
    """Spark's audit of a run. Raises `CapabilityError` without Spark or Java."""
    try:
        from pares.spark.audit import audit
    except ModuleNotFoundError as error:
        raise CapabilityError(f"{error.name} is not installed: pip install 'pares[spark]'") from None
    return audit(ledger, group, writes=f"{quotes}#quotes", faults=f"{quotes}#faults")


def takeovers(outcome: Outcome) -> dict[str, dict[str, int]]:
    """Takeover times by cause: from the fault, or from the end of the predecessor's belief, to the next belief."""
    times: dict[str, list[int]] = defaultdict(list)
    terms: dict[Seat, tuple[Seat, int]] = {}
    for move in outcome.moves:
        term = move.seat, move.token
        before, now = terms.get(move.seat), outcome.believed.get(term)
        terms[move.seat] = term
        if now is None or move.before is None:
            continue
        hits = [(at, fault) for at, name, fault in outcome.faults if name == name_of(move.before) and at <= now]
        at, fault = hits[-1] if hits else (0, "")
        # In NELE that the group gave a seat to another does not say why; but who was killed or drained before has nothing else.
        if fault and (
            move.cause in ("died", "silent")
            or (move.why == reasons.SUPERSEDED and fault in ("killed", reasons.DRAINED))
        ):
            times[FAULTS.get(fault, fault)].append(now - at)
        elif before is not None and before in outcome.stopped:
            why = move.why or move.cause
            times[FAULTS.get(why, why)].append(max(0, now - outcome.stopped[before]))
    found = {
        cause: {"count": len(ms), "p50_ms": round(statistics.median(ms)), "max_ms": max(ms)}
        for cause, ms in times.items()
    }
    return _in_order(found)


def _in_order(found: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    order = list(CAUSES)
    return {
        cause: found[cause] for cause in sorted(found, key=lambda c: (order.index(c) if c in CAUSES else len(order), c))
    }


def show(console: Console, summary: Summary, *, overlap: bool) -> None:
    """The last lines."""

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("takeovers", no_wrap=True)
    for title in ("count", "p50", "max"):
        table.add_column(title, justify="right")
    for cause, numbers in summary.takeovers.items():
        table.add_row(CAUSES.get(cause, cause), str(numbers["count"]), _ms(numbers["p50_ms"]), _ms(numbers["max_ms"]))
    if summary.takeovers:
        console.print(table)
    ticks = summary.quotes - summary.duplicates + summary.missing
    gap = f", the longest time without a quote {_ms(summary.longest_gap_ms)}" if summary.missing else ""
    twice = " (two led for a moment)" if summary.duplicates and overlap else ""
    lines = [
        ("quotes published", f"{summary.quotes} for {ticks} ticks, one every {TICK_MS} ms an instrument"),
        ("duplicates", _good(summary.duplicates, always=not overlap) + twice),
        ("gaps", _good(summary.missing, always=overlap, what="ticks that nobody published") + gap),
    ]
    if summary.missing and not overlap:
        lines.append(("", "rather nobody than two; the other way round: pares demo --overlap"))
    if overlap:
        lines.append(("fence", "none: two leaders for a moment are what was asked for"))
    else:
        lines.append(("zombie writes", f"{summary.refused} refused by the fence, {summary.stale} landed"))
    if summary.why_no_audit is None:
        lines.append(("promises broken", _promises(summary)))
    for title, text in lines:
        console.print(f"{title and title + ':':<18} {text}", soft_wrap=True)
    for name in summary.lost:
        console.print(f"[bold red]member {name} ended by itself[/]")
    if summary.report is not None:
        console.print(f"\nreport: {summary.report}", soft_wrap=True, style="bold")
    if summary.why_no_audit is not None:
        console.print(f"\n[yellow]No audit:[/] {escape(summary.why_no_audit)}", soft_wrap=True)
    if summary.kept:
        ledger = escape(shlex.quote(summary.ledger))
        console.print(f"\nlook at it: pares history --ledger {ledger} --group {summary.group}", soft_wrap=True)


def _promises(summary: Summary) -> str:
    if summary.broken:
        return "[bold red]" + "; ".join(summary.broken) + "[/]"
    unsure = f" ({len(summary.unsure)} of them can't be told for sure from the clocks)" if summary.unsure else ""
    late = f"; [yellow]late:[/] {escape(' '.join(summary.slow))}" if summary.slow else ""
    return f"[bold green]none[/] of {summary.checked} that Spark has checked{unsure}{late}"


def _good(count: int, *, always: bool, what: str = "") -> str:
    text = f"{count}{' ' + what if what else ''}"
    if count == 0:
        return "[green]none[/]"
    return f"[red]{text}[/]" if always else text


def _ms(ms: int) -> str:
    return f"{ms} ms" if ms < 1000 else f"{ms / 1000:.2f} s"
