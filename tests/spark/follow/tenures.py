"""Random histories of Fast NELI in two partitions, most of them unlawful."""

from __future__ import annotations

import random
from typing import Any

from pares.core.wire.neli_records import Announce, PartitionCount, Pulse, RolesChanged, Yield, encode

BASE = 1_000_000
SESSION = 1000
Entries = list[tuple[int, int, bytes]]


class _Log:
    def __init__(self, dice: random.Random) -> None:
        self.entries: dict[int, Entries] = {0: [], 1: []}
        self.dice, self.now = dice, 1_700_000_000_000
        self._n: dict[tuple[str, int], int] = {}

    def write(self, kind: Any, member: str, p: int, **fields: Any) -> int:
        n = self._n[member, p] = self._n.get((member, p), 0) + 1
        if kind is Announce:
            fields = {
                "name": member.split("~")[0],
                "host": "h",
                "of": 2,
                "drift": 0.1,
                "session": SESSION,
                "within": 300,
                "protocol": "fast-neli",
                **fields,
            }
        elif kind is Pulse:
            fields = {"within": 300, **fields}
        offset = len(self.entries[p])
        fields = {"at": self.now, **fields}
        payload = encode(kind(v=1, g="g", m=member, n=n, b=BASE, s=60, **fields))
        self.entries[p].append((offset, self.now, payload))
        return BASE + offset


def induced(seed: int) -> dict[int, Entries]:
    """The entries of both partitions."""
    dice = random.Random(seed)
    log = _Log(dice)
    members = [f"m{i}~0" for i in range(3)]
    for p in (0, 1):
        log.write(PartitionCount, members[0], p, of=2)
        log.write(RolesChanged, members[0], p, add=[f"r{i}" for i in range(4)])
    leads: dict[int, tuple[str, int, int] | None] = {0: None, 1: None}
    for _ in range(dice.randrange(30, 80)):
        log.now += dice.choice([5, 40, 50, 60, 200])
        p = dice.choice([0, 1])
        lead = leads[p]
        match dice.choice(["lead", "beat", "beat", "beat", "beat", "yield", "silence", "usurp", "late yield"]):
            case "lead" if lead is None:
                leads[p] = _lead(log, dice.choice(members), p)
            case "beat" if lead is not None:
                member, token, _ = lead
                log.write(Pulse, member, p, term=token, lead=True)
            case "yield" if lead is not None:
                _yield(log, lead, p)
                leads[p] = None
            case "silence":
                log.now += dice.choice([300, 1100, 2500])
            case "usurp" if lead is not None:
                others = [member for member in members if member != lead[0]]
                leads[p] = _lead(log, dice.choice(others), p)
                if dice.random() < 0.4:
                    log.now += dice.choice([10, 400])
                    _yield(log, lead, p)
            case "late yield" if lead is not None:
                log.now += 1500
                _yield(log, lead, p)
                leads[p] = None
            case _:
                pass
    return log.entries


def _lead(log: _Log, member: str, p: int) -> tuple[str, int, int]:
    token = log.write(Announce, member, p)
    log.now += log.dice.choice([1, 5])
    log.write(Pulse, member, p, term=token, lead=True)
    return member, token, log.now


def _yield(log: _Log, lead: tuple[str, int, int], p: int) -> None:
    member, token, began = lead
    log.write(Yield, member, p, term=token, led=True, began=began, ended=log.now, why="superseded by another")
