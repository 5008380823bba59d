"""Logs of a lawful group, as long as asked for, at once or at a rate: members that beat, and roles that change hands."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import pares
from pares.core.wire import records as r

BASE: Final = 1_790_000_000_000_000
GROUP: Final = "g"
PLANTED: Final = "planted"
MEMBERS: Final = 20
ROLES: Final = 50
BATCH: Final = 5000
BEYOND: Final = 10**12
"""Tokens from here on are given to nobody."""


class Writer:
    """Writes records of one group to a ledger that nobody else writes to."""

    def __init__(self, url: str, seed: int = 1) -> None:
        self.ledger = pares.open(url)
        self._dice, self._n = random.Random(seed), dict[str, int]()
        self._offset = self.ledger.end()
        self._batch: list[bytes] = []
        self._next: list[tuple[str, str, int]] = []
        self._holder: dict[str, tuple[str, int]] = {}
        self.members = [f"m{number}~0" for number in range(MEMBERS)]
        self.roles = [f"r{number:03}" for number in range(ROLES)] + [PLANTED]
        self.planted = 0
        self._open: list[int] = []
        self._begin()

    def append(self, records: int, *, move: bool = True, plant: bool = False) -> None:
        """So many records or a few more, as one append: beats, a change of hands, and with `plant` a member that says that it
        leads by a token that the log gave to nobody (it takes that back with the next append)."""
        for member, role, token in self._next:
            self._did(member, role, token, "lead")
        self._next = []
        for token in self._open:
            self._did(self.members[0], PLANTED, token, "stop")
        self._open = []
        if plant:
            self.planted += 1
            token = BASE + BEYOND + self.planted
            self._did(self.members[0], PLANTED, token, "lead")
            self._open.append(token)
        if move:
            self._move(self._dice.choice(self.roles[:-1]))
        while len(self._batch) < records:
            self._put(r.Beat, self.members[self._dice.randrange(MEMBERS)])
        self._flush()

    def close(self) -> None:
        self.ledger.close()

    def _begin(self) -> None:
        self._put(r.Genesis, "admin~0", base=BASE)
        self._put(r.Join, "admin~0", name="admin", session=10_000, eligible=())
        for member in self.members:
            self._put(r.Join, member, name=member.split("~")[0], session=10_000)
        for role in self.roles:
            self._put(r.Role, "admin~0", name=role)
        for role in self.roles:
            self._claim(role, self.members[0] if role == PLANTED else self._dice.choice(self.members))
        self._flush()

    def _move(self, role: str) -> None:
        member, token = self._holder[role]
        if any(token == other for _, _, other in self._next):
            return
        self._did(member, role, token, "stop")
        self._put(r.Release, member, seat=(role, 0), token=token, why="asked")
        self._claim(role, self._dice.choice(self.members))

    def _claim(self, role: str, member: str) -> None:
        token = BASE + self._put(r.Claim, member, seat=(role, 0), over=None)
        self._holder[role] = member, token
        # It reads its claim back, and says that it leads, after this append.
        self._next.append((member, role, token))

    def _did(self, member: str, role: str, token: int, what: str) -> None:
        self._put(r.Did, member, seat=(role, 0), token=token, what=what, at=time.time_ns() // 1_000_000)

    def _put(self, kind: Any, member: str, **fields: Any) -> int:
        self._n[member] = self._n.get(member, 0) + 1
        envelope = {"v": 1, "g": GROUP, "m": member, "n": self._n[member], "b": BASE, "s": 10_000}
        self._batch.append(r.encode(kind(**envelope, **fields)))
        return self._offset + len(self._batch) - 1

    def _flush(self) -> None:
        self._offset = self.ledger.append_many(self._batch)[-1] + 1
        self._batch = []


def written(url: str, records: int, say: Callable[[str], None]) -> Writer:
    """A log of so many records; says now and then how far it is."""
    writer, done, told = Writer(url), 0, time.monotonic()
    while done < records:
        size = min(BATCH, records - done)
        writer.append(size)
        done += size
        if time.monotonic() - told > 5:
            told = time.monotonic()
            say(f"wrote {done} of {records} records")
    return writer


def at_rate(writer: Writer, rate: int, every_s: float = 0.02) -> Iterator[int]:
    """Writes `rate` records a second from now on, and plants a violation ten times a second; yields how many were written."""
    began, done, turn = time.monotonic(), 0, 0
    while True:
        due = int((time.monotonic() - began) * rate) - done
        if due > 0:
            writer.append(min(due, BATCH), move=turn % 10 == 0, plant=turn % 5 == 0)
            done += min(due, BATCH)
            turn += 1
        yield done
        time.sleep(every_s)
