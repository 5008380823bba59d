"""Records written by hand, and a reader so simple that one can see that it is right.

A `Pen` writes what one member would write, numbering its records; every value can be overruled, so that it also writes what
no member should. `Plain` folds a log record by record, without any of the short cuts of the real `Reader`: what it says is
what the real one is compared with.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pares.core.wire import fold as fold_rules
from pares.core.wire import records as R
from pares.core.wire.changes import Change
from pares.core.wire.world import World

GROUP = "g"
BASE = 1_000
Entry = tuple[int, int, bytes]


def raw(**fields: Any) -> bytes:
    """A record of any form, also one that `encode` would refuse to write."""
    return msgspec.json.encode(fields)


class Paper:
    """A log that is written by hand. `hole` leaves offsets unused, as any log may."""

    def __init__(self, start: int = 0) -> None:
        self.start = start
        self.end = start
        self.entries: list[Entry] = []

    def put(self, payload: bytes) -> int:
        self.entries.append((self.end, 0, payload))
        self.end += 1
        return self.end - 1

    def hole(self, count: int = 1) -> None:
        self.end += count

    def last(self) -> bytes:
        return self.entries[-1][2]

    def since(self, offset: int) -> list[Entry]:
        return [entry for entry in self.entries if entry[0] >= offset]

    def genesis(self, base: int = BASE, over: int | None = None, **fields: Any) -> int:
        fields = {"v": 1, "g": GROUP, "m": "founder", "n": 1, "b": base, "s": 0, **fields}
        return self.put(msgspec.json.encode(R.Genesis(base=base, over=over, **fields)))


class Pen:
    """Writes one member's records onto a `Paper`. Each method returns the offset."""

    def __init__(self, paper: Paper, id: str, **join: Any) -> None:
        self.paper = paper
        self.id = id
        self.n = 0
        self.base = BASE
        self.session = 1000
        if "session" in join:
            self.session = join["session"]
        self.joining = {"name": id.split("~")[0], "session": self.session, **join}
        self.joined = False

    def write(self, kind: type[R.Record], **fields: Any) -> int:
        self.n += 1
        envelope = {"v": 1, "g": GROUP, "m": self.id, "n": self.n, "b": self.base, "s": self.session // 4}
        return self.paper.put(msgspec.json.encode(kind(**{**envelope, **fields})))

    def join(self, **fields: Any) -> Pen:
        self.write(R.Join, **{**self.joining, **fields})
        return self

    def beat(self, marks: tuple[tuple[str, int, int, int], ...] | None = None, **fields: Any) -> int:
        return self.write(R.Beat, marks=marks, **fields)

    def leave(self, **fields: Any) -> int:
        return self.write(R.Leave, **fields)

    def claim(self, role: str, over: tuple[str, int] | None = None, index: int = 0, **fields: Any) -> int:
        return self.write(R.Claim, seat=(role, index), over=over, **fields)

    def release(self, role: str, token: int, index: int = 0, **fields: Any) -> int:
        return self.write(R.Release, seat=(role, index), token=token, **fields)

    def transfer(self, role: str, token: int, to: str, index: int = 0, **fields: Any) -> int:
        return self.write(R.Transfer, seat=(role, index), token=token, to=to, **fields)

    def obituary(self, of: str, **fields: Any) -> int:
        return self.write(R.Obituary, of=of, **fields)

    def role(self, name: str, **fields: Any) -> int:
        return self.write(R.Role, name=name, **fields)

    def pause(self, scope: str | None = None, ms: int = 1000, **fields: Any) -> int:
        return self.write(R.Pause, scope=scope, ms=ms, **fields)

    def resume(self, pause: int, **fields: Any) -> int:
        return self.write(R.Resume, pause=pause, **fields)

    def rewind(self, *marks: tuple[str, int, int], **fields: Any) -> int:
        return self.write(R.Rewind, marks=marks, **fields)

    def unknown(self, kind: str = "poem", **fields: Any) -> int:
        """A record of a kind that nobody knows, with a readable envelope."""
        self.n += 1
        envelope = {"v": 1, "g": GROUP, "m": self.id, "n": self.n, "b": self.base, "s": 250}
        return self.paper.put(raw(k=kind, **{**envelope, **fields}))


class Plain:
    """The plain reader: decode, fold, see whether it is a place. `places` has the whole text of the world at each."""

    def __init__(self, group: str = GROUP) -> None:
        self.group = group
        self.world = World()
        self.changes: list[Change] = []
        self.counted: list[tuple[int, R.AnyRecord | R.Unknown]] = []
        self.places: dict[int, str] = {}

    def read(self, entry: Entry) -> bool:
        offset, _, payload = entry
        try:
            record = R.decode(payload)
        except R.BadRecord:
            return False
        if record.g != self.group or not fold_rules.fold(self.world, offset, record, self.changes):
            return False
        self.counted.append((offset, record))
        if isinstance(record, R.Genesis):
            self.places.clear()
        if fold_rules.at_place(self.world, offset, record, self.changes):
            self.places[offset + 1] = self.world.dump()
        return True

    def read_all(self, entries: list[Entry]) -> Plain:
        for entry in entries:
            self.read(entry)
        return self


def began(*members: str, roles: tuple[str, ...] = ("A",), **join: Any) -> tuple[Paper, list[Pen]]:
    """A log with a genesis, these members in it, and roles with one seat."""
    paper = Paper()
    paper.genesis()
    pens = [Pen(paper, id, **join).join() for id in members]
    for role in roles:
        pens[0].role(role)
    return paper, pens


def world_of(paper: Paper) -> World:
    return Plain().read_all(paper.entries).world


def token(offset: int, base: int = BASE) -> int:
    return base + offset
