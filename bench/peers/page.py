"""Figures as a table for people."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from bench.peers.measure import LOOK, Result, Yes

HEAD = (
    "who",
    "session, s",
    "crash takeover, ms",
    "planned handover, ms",
    "thawed leader says yes though another leads",
    "sent to the server, idle, per s",
    "CPU of an idle member",
    "how it was set",
)


def table(results: Sequence[Result], missing: Sequence[tuple[str, str]] = ()) -> str:
    """`missing`: who was not measured, and why."""
    lines = [f"| {' | '.join(HEAD)} |", "|---" * len(HEAD) + "|"]
    lines += [f"| {' | '.join(cells(result))} |" for result in results]
    lines += [f"| {name} | not measured: {_plain(why)} |" + " |" * (len(HEAD) - 2) for name, why in missing]
    return "\n".join(lines)


def cells(result: Result) -> list[str]:
    contender = result.contender
    yes = "<br>".join(f"{words}: {beliefs(result.yes.get(form, []))}" for form, words in contender.forms.items())
    return [
        contender.name,
        f"{contender.session:g}",
        spread(result.crash),
        spread(result.handover),
        yes,
        "<br>".join(load(result)) or "-",
        f"{statistics.median(result.cpu):.2f} %" if result.cpu else "-",
        contender.settings,
    ]


def spread(values: Sequence[float]) -> str:
    """min / **p50** / max (n)."""
    if not values:
        return "-"
    low, middle, high = map(short, (min(values), statistics.median(values), max(values)))
    return f"{low} / **{middle}** / {high} (n={len(values)})"


def short(ms: float) -> str:
    """As many digits as mean something."""
    return f"{ms:.1f}" if ms < 100 else f"{ms:.0f}"


def beliefs(said: Sequence[Yes]) -> str:
    """How often that was wrong, for how long, and how many answers were."""
    if not said:
        return "-"
    wrong = [yes for yes in said if yes.count]
    if not wrong:
        return f"never (n={len(said)})"
    counts = sorted(yes.count for yes in wrong)
    answers = (
        f"{counts[0]} to {counts[-1]} answers"
        if counts[0] != counts[-1]
        else f"{counts[0]} answer{'s' * (counts[0] > 1)}"
    )
    times = [yes.ms for yes in wrong if yes.ms is not None]
    share = f"in {len(wrong)} of {len(said)}"
    if len(times) < len(wrong):
        without_end = len(wrong) - len(times)
        of_them = "" if without_end == len(wrong) else f"{without_end} of them "
        return f"{share}, {of_them}without end (looked for {LOOK:g} s)"
    low, middle, high = map(short, (min(times), statistics.median(times), max(times)))
    return f"{share}, for {low} / **{middle}** / {high} ms, {answers}"


def load(result: Result) -> list[str]:
    found: list[str] = []
    if result.sent is not None:
        found.append(f"{result.sent:.0f} segments")
    if result.records is not None:
        found.append(f"{result.records:.1f} records" + ("" if result.contender.tcp else " (a file, no server)"))
    return found


def _plain(text: str) -> str:
    """One line, with nothing that ends a cell."""
    return " ".join(text.split()).replace("|", "\\|")
