"""Logs of lawful groups, as long as asked for, at once or at a rate: members that beat, and roles that change hands."""

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
FEW: Final = 3
"""Members, and roles, of each of many groups."""
BATCH: Final = 5000
BEYOND: Final = 10**12
"""Tokens from here on are given to nobody."""


class _Group:
    """One group: its members, its roles and who holds them."""

    def __init__(self, name: str, members: int, roles: int) -> None:
        self.name = name
        self.members = [f"m{number}~0" for number in range(members)]
        self.roles = [f"r{number:03}" for number in range(roles)]
        self.n = dict[str, int]()
        self.holder = dict[str, tuple[str, int]]()
        self.next = list[tuple[str, str, int]]()


class Writer:
    """Writes records of its groups to a ledger that nobody else writes to. One group is `GROUP`; more of them are named after
    it, and have fewer members and roles, unless told otherwise."""

    def __init__(
        self, url: str, seed: int = 1, *, groups: int = 1, members: int | None = None, roles: int | None = None
    ) -> None:
        self.ledger = pares.open(url)
        self._dice = random.Random(seed)
        self._offset = self.ledger.end()
        self._batch: list[bytes] = []
        members = members or (MEMBERS if groups == 1 else FEW)
        roles = roles or (ROLES if groups == 1 else FEW)
        names = [GROUP] if groups == 1 else [f"{GROUP}{number:04}" for number in range(groups)]
        self.groups = [_Group(name, members, roles) for name in names]
        self.groups[0].roles.append(PLANTED)
        self.planted = 0
        self._open: list[int] = []
        for group in self.groups:
            self._begin(group)

    def append(self, records: int, *, moves: int = 1, plant: bool = False) -> None:
        """So many records or a few more, as one append: beats, `moves` changes of hands, and with `plant` a member that says
        that it leads by a token that the log gave to nobody (it takes that back with the next append)."""
        first = self.groups[0]
        for group in self.groups:
            for member, role, token in group.next:
                self._did(group, member, role, token, "lead")
            group.next = []
        for token in self._open:
            self._did(first, first.members[0], PLANTED, token, "stop")
        self._open = []
        if plant:
            self.planted += 1
            token = BASE + BEYOND + self.planted
            self._did(first, first.members[0], PLANTED, token, "lead")
            self._open.append(token)
        for _ in range(moves):
            group = self._dice.choice(self.groups)
            self._move(group, group.roles[self._dice.randrange(len(group.roles) - (group is first))])
        while len(self._batch) < records:
            group = self._dice.choice(self.groups)
            self._put(r.Beat, group, self._dice.choice(group.members))
        self._flush()

    def close(self) -> None:
        self.ledger.close()

    def _begin(self, group: _Group) -> None:
        self._put(r.Genesis, group, "admin~0", base=BASE)
        self._put(r.Join, group, "admin~0", name="admin", session=10_000, eligible=())
        for member in group.members:
            self._put(r.Join, group, member, name=member.split("~")[0], session=10_000)
        for role in group.roles:
            self._put(r.Role, group, "admin~0", name=role)
        for role in group.roles:
            self._claim(group, role, group.members[0] if role == PLANTED else self._dice.choice(group.members))
        self._flush()

    def _move(self, group: _Group, role: str) -> None:
        member, token = group.holder[role]
        if any(token == other for _, _, other in group.next):
            return
        self._did(group, member, role, token, "stop")
        self._put(r.Release, group, member, seat=(role, 0), token=token, why="asked")
        self._claim(group, role, self._dice.choice(group.members))

    def _claim(self, group: _Group, role: str, member: str) -> None:
        token = BASE + self._put(r.Claim, group, member, seat=(role, 0), over=None)
        group.holder[role] = member, token
        # It reads its claim back, and says that it leads, after this append.
        group.next.append((member, role, token))

    def _did(self, group: _Group, member: str, role: str, token: int, what: str) -> None:
        at = time.time_ns() // 1_000_000
        self._put(r.Did, group, member, seat=(role, 0), token=token, what=what, at=at)

    def _put(self, kind: Any, group: _Group, member: str, **fields: Any) -> int:
        group.n[member] = group.n.get(member, 0) + 1
        envelope = {"v": 1, "g": group.name, "m": member, "n": group.n[member], "b": BASE, "s": 10_000}
        self._batch.append(r.encode(kind(**envelope, **fields)))
        return self._offset + len(self._batch) - 1

    def _flush(self) -> None:
        self._offset = self.ledger.append_many(self._batch)[-1] + 1
        self._batch = []


def written(
    url: str, records: int, say: Callable[[str], None], *, groups: int = 1, roles: int | None = None, moves: int = 1
) -> Writer:
    """A log of so many records, with `moves` changes of hands in each `BATCH` of them; says now and then how far it is."""
    writer, told = Writer(url, groups=groups, roles=roles), time.monotonic()
    while (done := writer.ledger.end()) < records:
        writer.append(min(BATCH, records - done), moves=moves)
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
            writer.append(min(due, BATCH), moves=int(turn % 10 == 0), plant=turn % 5 == 0)
            done += min(due, BATCH)
            turn += 1
        yield done
        time.sleep(every_s)
