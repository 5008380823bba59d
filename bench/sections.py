"""Where figures go in docs/bench.md: a table for each subject, between marks of its own, written by whatever measures it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.cases import Row
from bench.compare import recorded
from bench.figures import BEGIN, END, machine, put
from pares.core.errors import ParesError


def table(rows: Sequence[Row]) -> str:
    lines = ["| what | min / p50 / max | target | met |", "|---|---|---|---|"]
    said = {True: "yes", False: "**no**", None: ""}
    lines += [f"| {row.what} | {row.figures} | {row.target} | {said[row.met]} |" for row in rows]
    return "\n".join(lines)


STOPPED: Final = "not measured further"


def merged(before: str, now: str, of: Callable[[str], str] = str, ran: Iterable[str] = ()) -> str:
    """The text `now`, which ends with a table, with those rows of the table in `before` that it does not measure anew.

    `of`: by a row's first cell, what it belongs to. All old rows of what `now` has a row of are left out. `ran`: cases that are
    in `now`; that one of them was not measured further is no longer said, unless `now` does.
    """
    new = _rows(now)
    measured = {of(what) for what, _ in new} | {of(f"{case}: {STOPPED}") for case in ran}
    lines: list[str] = []
    placed: set[str] = set()
    for what, line in _rows(before):
        if of(what) not in measured:
            lines.append(line)
        elif of(what) not in placed:
            placed.add(of(what))
            lines += [line for other, line in new if of(other) == of(what)]
    lines += [line for what, line in new if of(what) not in placed]
    gone = {line for _, line in new}
    return "\n".join([*(line for line in now.splitlines() if line not in gone), *lines])


def _rows(text: str) -> list[tuple[str, str]]:
    """Each row of a table without its heads: the first cell, and the line."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [(line.strip("|").split("|")[0].strip(), line) for line in lines[2:]]


def group(what: str) -> str:
    """Of rows that say "GROUP OF MEMBERS: FIGURE": which group they are about."""
    return what.partition(": ")[0]


@dataclass(frozen=True)
class Section:
    """The marks of one table. `of`: as in `merged`."""

    begin: str = BEGIN
    end: str = END
    of: Callable[[str], str] = str

    def write(self, file: Path, rows: Sequence[Row], ran: Iterable[str] = ()) -> None:
        """Puts rows into the table; those that are not measured anew stay. Raises `ValueError` if a mark is missing."""
        recorded(file, self.begin, self.end)
        before = file.read_text().split(self.begin)[1].split(self.end)[0]
        put(file, merged(before, f"{machine()}:\n\n{table(rows)}", self.of, ran), self.begin, self.end)


def section(name: str, of: Callable[[str], str] = str) -> Section:
    return Section(f"<!-- figures {name} -->", f"<!-- end of figures {name} -->", of)


SQLITE, FILES, CROWDS, WITNESSES, IDLE_KAFKA = (
    Section(),
    section("on files"),
    section("of large groups", group),
    section("of witnesses"),
    section("of idle members on Kafka"),
)


def or_why(name: str, rows: Iterator[Row]) -> Iterator[Row]:
    """Rows of a case; where it comes to nothing, a row that says so, and what was measured is not lost."""
    try:
        yield from rows
    except (ParesError, OSError) as error:  # among them: not in time
        yield Row(f"{name}: {STOPPED}", str(error), "no error", met=False)


def line(row: Row, beside: str = "") -> str:
    """A row for people who watch."""
    met = {None: "", True: "met", False: "MISSED"}[row.met]
    return f"{row.what:84} {row.figures:40} {row.target:18} {met:6}{beside}".rstrip()
