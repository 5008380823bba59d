"""A reader, and logs for it to read: what stands in them is written by hand."""

from __future__ import annotations

from core_authors import GROUP, Paper, Pen, Plain, began

from pares.core.wire import records as R
from pares.core.wire.reader import Reader


class Feed:
    """Gives a reader what it asks for, as a loop would, from a log that begins at `start`."""

    def __init__(self, paper: Paper, start: int = 0, *, batch: int = 1000, member: str = "") -> None:
        self.paper = paper
        self.reader = Reader(GROUP, member)
        self.batch = batch
        self.asked: list[int] = []
        self.reader.attach(start, paper.end)
        self.start = start

    def run(self) -> Reader:
        """Until there is nothing more to read."""
        for _ in range(10_000):
            entries = [e for e in self.paper.entries if e[0] >= max(self.start, self.reader.position)][: self.batch]
            before = (self.reader.state, self.reader.position)
            self.asked.append(self.reader.position)
            self.reader.feed(entries)
            if not entries and before == (self.reader.state, self.reader.position):
                return self.reader
        raise AssertionError("a reader that never comes to an end")


def snapshot(pen: Pen, upto: int, text: str, *, parts: int = 1, id: str = "s") -> int:
    size = -(-len(text) // parts)
    for part in range(parts):
        chunk = text[part * size : (part + 1) * size]
        pen.write(R.Snapshot, upto=upto, id=id, part=part, parts=parts, world=chunk)
    return pen.paper.end - 1


def busy(members: int = 2, beats: int = 60) -> tuple[Paper, list[Pen]]:
    """A log long enough to have places: `a~1` holds A, the others beat."""
    paper, pens = began(*(f"{chr(97 + i)}~1" for i in range(members)))
    pens[0].claim("A")
    for i in range(beats):
        pens[i % members].beat()
    return paper, pens


def last_place(paper: Paper) -> tuple[int, str]:
    return max(Plain().read_all(paper.entries).places.items())
