"""Logs of lawful groups, as long as asked for, at once or at a rate: members that beat, roles that change hands, snapshots."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import pares
from pares.core.claims.chores.duties import SNAPSHOT_TEXT, snapshot_every_ns, snapshot_writer
from pares.core.wire import records as r
from pares.core.wire.reader import Reader
from pares.core.wire.snapshots import Taken
from pares.ledger import MAX_BATCH

BASE: Final = 1_790_000_000_000_000
GROUP: Final = "g"
PLANTED: Final = "planted"
MEMBERS: Final = 20
ROLES: Final = 50
FEW: Final = 3
"""Members, and roles, of each of many groups."""
BATCH: Final = 5000
SESSION_MS: Final = 10_000
BEATS_A_SESSION: Final = 4
"""Of a holder (R16), and nearly all members hold something."""
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
        self.next = dict[str, tuple[str, int]]()
        """By role: which member reads its claim back next, and by which token."""
        self.unread = list[tuple[int, int, bytes]]()
        """What its reader has not read yet."""
        self.snapshots = 0
        self._reader = Reader(name)
        self._reader.attach(0, 0)
        seconds = snapshot_every_ns(self._reader.world, None) / 1e9
        self._every = int(seconds * BEATS_A_SESSION * 1000 / SESSION_MS) * members
        """Records in which so many members bring the time to pass after which one of them writes a snapshot (R10)."""

    def place(self) -> tuple[str, Taken] | None:
        """If it is time for a snapshot: of which world, and by which member."""
        if len(self.unread) < self._every:
            return None
        self._reader.wanted = True
        self._reader.feed(self.unread)
        self.unread, taken = [], self._reader.taken
        if taken is None:
            return None
        self._reader.taken = None
        self.snapshots += 1
        return snapshot_writer(self._reader.world, frozenset(self.members)), taken


class Writer:
    """Writes records of its groups to a ledger that nobody else writes to: also snapshots, as often as their members would by
    the clock. One group is `GROUP`; more of them are named after it, and have fewer members and roles, unless told
    otherwise."""

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
            for role, (member, token) in group.next.items():
                self._did(group, member, role, token, "lead")
            group.next = {}
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
            self._snapshot(group)
        self._flush()

    def close(self) -> None:
        self.ledger.close()

    def _begin(self, group: _Group) -> None:
        self._put(r.Genesis, group, "admin~0", base=BASE)
        self._put(r.Join, group, "admin~0", name="admin", session=SESSION_MS, eligible=())
        for member in group.members:
            self._put(r.Join, group, member, name=member.split("~")[0], session=SESSION_MS)
        for role in group.roles:
            self._put(r.Role, group, "admin~0", name=role)
        for role in group.roles:
            self._claim(group, role, group.members[0] if role == PLANTED else self._dice.choice(group.members))
        self._flush()

    def _move(self, group: _Group, role: str) -> None:
        if role in group.next:
            return
        member, token = group.holder[role]
        self._did(group, member, role, token, "stop")
        self._put(r.Release, group, member, seat=(role, 0), token=token, why="asked")
        self._claim(group, role, self._dice.choice(group.members))

    def _claim(self, group: _Group, role: str, member: str) -> None:
        token = BASE + self._put(r.Claim, group, member, seat=(role, 0), over=None)
        group.holder[role] = member, token
        # It reads its claim back, and says that it leads, after this append.
        group.next[role] = member, token

    def _did(self, group: _Group, member: str, role: str, token: int, what: str) -> None:
        at = time.time_ns() // 1_000_000
        self._put(r.Did, group, member, seat=(role, 0), token=token, what=what, at=at)

    def _snapshot(self, group: _Group) -> None:
        found = group.place()
        if found is None:
            return
        author, taken = found
        texts = [taken.text[at : at + SNAPSHOT_TEXT] for at in range(0, len(taken.text), SNAPSHOT_TEXT)]
        for part, text in enumerate(texts):
            what = {"id": f"{taken.upto}.{group.snapshots}", "part": part, "parts": len(texts), "world": text}
            self._put(r.Snapshot, group, author, upto=taken.upto, **what)

    def _put(self, kind: Any, group: _Group, member: str, **fields: Any) -> int:
        group.n[member] = group.n.get(member, 0) + 1
        envelope = {"v": 1, "g": group.name, "m": member, "n": group.n[member], "b": BASE, "s": SESSION_MS}
        payload = r.encode(kind(**envelope, **fields))
        offset = self._offset + len(self._batch)
        self._batch.append(payload)
        group.unread.append((offset, 0, payload))
        return offset

    def _flush(self) -> None:
        for at in range(0, len(self._batch), MAX_BATCH):
            self._offset = self.ledger.append_many(self._batch[at : at + MAX_BATCH])[-1] + 1
        self._batch = []


def written(
    url: str,
    records: int,
    say: Callable[[str], None],
    *,
    groups: int = 1,
    roles: int | None = None,
    moves: int = 1,
    batch: int = BATCH,
) -> Writer:
    """A log of so many records, with `moves` changes of hands in each `batch` of them; says now and then how far it is."""
    writer, told = Writer(url, groups=groups, roles=roles), time.monotonic()
    while (done := writer.ledger.end()) < records:
        writer.append(min(batch, records - done), moves=moves)
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
