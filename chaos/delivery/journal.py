"""What a worker writes down, and reads of workers' journals.

A line is one `write` to a file that was opened for appending: it stands there when the call returns, whatever becomes of the
process. Times are of the stopwatch that all processes of a host share.

    given ns partition token runs     the worker was handed these offsets
    did   ns partition token offset   the effect of one record: done, as far as the world is concerned
    said  ns partition token runs     `done()` was called for them, and counted
    kept  ns partition token          `flush()` has returned, and the term still lasted
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from pares.runtime.clock import stopwatch


class Line(NamedTuple):
    worker: str
    """The process: its name, and how many of that name there were before."""
    kind: str
    at: int
    partition: int
    token: int
    offsets: tuple[int, ...]


class Journal:
    """Of one process."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def given(self, partition: int, token: int, offsets: Iterable[int]) -> None:
        self._write("given", partition, token, runs(offsets))

    def did(self, partition: int, token: int, offset: int) -> None:
        self._write("did", partition, token, str(offset))

    def said(self, partition: int, token: int, offsets: Iterable[int]) -> None:
        self._write("said", partition, token, runs(offsets))

    def kept(self, partition: int, token: int) -> None:
        self._write("kept", partition, token, "")

    def _write(self, kind: str, partition: int, token: int, rest: str) -> None:
        os.write(self._file, f"{kind} {stopwatch()} {partition} {token} {rest}\n".encode())


def runs(offsets: Iterable[int]) -> str:
    """As `0-9,12`."""
    found: list[list[int]] = []
    for offset in offsets:
        if found and offset == found[-1][1] + 1:
            found[-1][1] = offset
        else:
            found.append([offset, offset])
    return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in found)


def _offsets(text: str) -> Iterator[int]:
    for run in text.split(",") if text else ():
        first, _, last = run.partition("-")
        yield from range(int(first), int(last or first) + 1)


def lines(folder: Path) -> list[Line]:
    """Of all journals in a folder, by time. A line that a process was killed in the middle of was not written."""
    found: list[Line] = []
    for path in sorted(folder.glob("*.journal")):
        text = path.read_text()
        for line in text[: text.rfind("\n") + 1].splitlines():
            kind, at, partition, token, rest = line.split(" ")
            found.append(Line(path.stem, kind, int(at), int(partition), int(token), tuple(_offsets(rest))))
    return sorted(found, key=lambda line: line.at)
