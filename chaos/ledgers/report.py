"""What a run says: tables with a row for each ledger, and for each kind of fault; and all that was wrong, in words."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from bench.figures import between, put, tables
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from chaos.ledgers.faults import KINDS, LOSSES
from chaos.ledgers.losses import Losses
from chaos.ledgers.places import ledgers
from chaos.ledgers.run import Found
from chaos.verdict.judge import rows
from chaos.verdict.report import machine

BEGIN: Final = "<!-- figures of ledgers -->"
END: Final = "<!-- end of figures of ledgers -->"
_TITLES: Final = (
    *(
        "ledger",
        "faults",
        "overlaps",
        "stale",
        "tokens fallen",
        "terms",
        "writes",
        "led again p50 s",
        "led again max s",
    ),
    *("no leader p50 s", "no leader max s", "audit", "minutes"),
)
_LOST: Final = (
    *("ledger", "what happens", "times", "overlaps", "longest s", "stale", "tokens fallen", "led again max s"),
    "promise lost",
)
_BOUND: Final = float("inf")


def _audited(found: Found) -> str:
    if found.unaudited or not found.promises:
        return "none"
    wrong = [p for p in found.promises if p["verdict"] == "broken"]
    return f"{len(wrong)} broken" if wrong else f"{sum(p['verdict'] == 'kept' for p in found.promises)} kept"


def _ledger(found: Found) -> list[str]:
    all_rows = rows(found.outcomes, _BOUND)
    figures = ["0", "0", "0", "0"] if not all_rows else []
    if all_rows:
        every = all_rows[-1]
        figures = [str(every.count), str(every.overlaps), str(every.stale), str(every.falling)]
    led = [o.led for o in found.outcomes if o.led is not None]
    without = [o.without for o in found.outcomes]
    return [
        found.ledger if found.session == 1.0 else f"{found.ledger} (session {found.session:g} s)",
        f"{figures[0]} of {found.wanted}",
        *figures[1:],
        str(found.terms),
        str(found.writes),
        *(_seconds(of) for of in (_median(led), max(led, default=None), _median(without), max(without, default=None))),
        _audited(found),
        f"{found.seconds / 60:.1f}",
    ]


def _loss(losses: Losses) -> list[str]:
    return [
        losses.ledger,
        LOSSES[losses.kind],
        str(losses.made),
        str(len(losses.overlaps)),
        _seconds(max(losses.overlaps, default=None)),
        str(losses.stale),
        str(losses.falling),
        _seconds(max(losses.led, default=None)),
        "; ".join(losses.named) or "none was seen to be",
    ]


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def to_json(all_found: Sequence[Found], **told: Any) -> dict[str, Any]:
    return {
        **told,
        "machine": machine(),
        "ledgers": [
            {
                "ledger": found.ledger,
                "wanted": found.wanted,
                "session": found.session,
                "made": len(found.outcomes),
                "seconds": round(found.seconds, 1),
                "terms": found.terms,
                "writes": found.writes,
                "kinds": [asdict(row) for row in rows(found.outcomes, 1e9)],
                "losses": None if found.losses is None else {**asdict(found.losses), "named": found.losses.named},
                "broken": found.broken,
                "audit": found.promises,
                "unaudited": found.unaudited,
                "notes": found.notes,
                "aborted": found.aborted,
                "faults": [asdict(outcome) for outcome in found.outcomes],
                "exit_code": found.exit_code,
            }
            for found in all_found
        ],
    }


def write(all_found: Sequence[Found], head: str, file: Path) -> None:
    """Puts the tables, as Markdown, between the marks of a file. What stands there of other ledgers is kept."""
    put(file, markdown(all_found, head, between(file, BEGIN, END)), BEGIN, END)


def markdown(all_found: Sequence[Found], head: str, before: str = "") -> str:
    """`before`: what stood in its place, of which the rows and words about other ledgers are kept."""
    others = [name for name in ledgers() if name not in {found.ledger for found in all_found}]
    kept = [row for of in tables(before) for row in of if _named(row.get("ledger", "")) in others]
    names = dict.fromkeys(_named(row["ledger"]) for row in kept)
    judged = [*([row.get(title, "") for title in _TITLES] for row in kept if "faults" in row), *map(_ledger, all_found)]
    lost = [[row.get(title, "") for title in _LOST] for row in kept if "faults" not in row]
    lost += [_loss(found.losses) for found in all_found if found.losses is not None]
    lines = [f"{machine()}; {head}.", *([f"Of earlier runs: {', '.join(names)}."] if names else []), ""]
    lines += _table(_TITLES, sorted(judged, key=_place))
    if lost:
        lines += ["", *_table(_LOST, sorted(lost, key=_place))]
    said = [line for line in before.splitlines() if line.startswith(tuple(f"- {name}: " for name in names))]
    said += [f"- {found.ledger}: {title}: {text}" for found in all_found for title, text, _ in _words(found)]
    return "\n".join([*lines, *([""] if said else []), *said])


def _place(cells: Sequence[str]) -> int:
    """Where a ledger's row stands: as the ledgers are tried."""
    return [*ledgers()].index(_named(cells[0]))


def _named(cell: str) -> str:
    """A ledger by what the first cell of its row says: its session may stand behind it."""
    return cell.partition(" ")[0]


def _table(titles: Sequence[str], cells: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(titles)} |", f"|{'---|' * len(titles)}", *(f"| {' | '.join(row)} |" for row in cells)]


def show(all_found: Sequence[Found], head: str, console: Console) -> None:
    for found in all_found:
        kinds = Table(
            "fault", "count", "led again p50 s", "max s", "no leader p50 s", "max s", "what", box=box.SIMPLE_HEAD
        )
        for row in rows(found.outcomes, _BOUND)[:-1]:
            figures = (row.led_p50, row.led_max, row.without_p50, row.without_max)
            kinds.add_row(row.kind, str(row.count), *map(_seconds, figures), KINDS[row.kind].what)
        if found.outcomes:
            console.print(Text(found.ledger, style="bold"))
            console.print(kinds)
    for titles, cells in (
        (_TITLES, [_ledger(found) for found in all_found]),
        (_LOST, [_loss(found.losses) for found in all_found if found.losses is not None]),
    ):
        if cells:
            table = Table(*titles, box=box.SIMPLE_HEAD, pad_edge=False)
            for row in cells:
                table.add_row(*row)
            console.print(table)
    console.print(Text(head + "."), soft_wrap=True)
    for found in all_found:
        for title, text, style in _words(found):
            console.print(Text(f"{found.ledger}: {title}: ", style=style).append(text, style="default"), soft_wrap=True)


def _words(found: Found) -> list[tuple[str, str, str]]:
    """What has to be said of a ledger beside its figures: title, text, style."""
    said = [("ABORTED", found.aborted, "bold red")] if found.aborted else []
    said += [("BROKEN", text, "bold red") for text in found.broken]
    said += [("no audit", found.unaudited, "yellow")] if found.unaudited else []
    return said + [("note", text, "yellow") for text in found.notes]
