"""How fast a coordination log of consumers is read: what a consumer, an observer or an audit does when it starts.

Beside it: decoding of the same payloads alone, which is the floor; a plain `json.loads` of each, as a reader by hand would
begin with; and a naive replay in Python of as many records in Marshal's format (split at slashes, positions in a dictionary),
which does less: it has no terms, no members and no rules. Rates are by processor time.
"""

from __future__ import annotations

import json
import random
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import pares
from bench.cases import BASE, Row, spread
from pares.core.wire import records
from pares.core.wire.reader import Reader

PARTITIONS: Final = 200
BAR: Final = 1.0
"""Millions of records a second."""
CHUNK: Final = 1000
LOGS: Final = (("one position a beat", 1, 0.0), ("ten positions a beat", 10, 0.0), ("takes (at most once)", 10, 0.9))
"""Name, partitions of a worker, and which part of the records are takes."""
Entry = tuple[int, int, bytes]


class Pen:
    """Writes records of consumers as those do: one after the other, with numbers of their own."""

    def __init__(self) -> None:
        self.payloads: list[bytes] = []
        self._numbers: Counter[str] = Counter()

    @property
    def here(self) -> int:
        return BASE + len(self.payloads)

    def write(self, kind: type[records.Record], member: str, **fields: Any) -> None:
        self._numbers[member] += 1
        record = kind(v=1, g="bench", m=member, n=self._numbers[member], b=BASE, s=250, **fields)
        self.payloads.append(records.encode(record))  # type: ignore[arg-type]


def log_of(count: int, *, each: int, takes: float) -> list[Entry]:
    """200 partitions, of which each worker begins with so many; `takes`: which part of the records are takes, as of workers
    with "at-most-once". The rest are beats with the positions of all that a worker has, and now and then a partition moves
    with its position."""
    members = PARTITIONS // each
    pen, dice = Pen(), random.Random(1)
    ids = [f"worker-{number}~1a2b3c4d" for number in range(members)]
    roles = [f"orders@0a1b2c3d/{number}" for number in range(PARTITIONS)]
    pen.write(records.Genesis, ids[0], base=BASE)
    for id in ids:
        pen.write(records.Join, id, name=id.partition("~")[0], session=1000)
    for role in roles:
        pen.write(records.Role, ids[0], name=role)
    owner: dict[int, tuple[int, int]] = {}
    for number, role in enumerate(roles):
        owner[number] = (number % members, pen.here)
        pen.write(records.Claim, ids[number % members], seat=(role, 0))
    held = [[number for number in owner if owner[number][0] == worker] for worker in range(members)]
    positions = [0] * PARTITIONS
    while len(pen.payloads) < count:
        worker, draw = dice.randrange(members), dice.random()
        mine = held[worker]
        if draw < takes and mine:
            number = dice.choice(mine)
            first, positions[number] = positions[number], positions[number] + 500
            pen.write(
                records.Take,
                ids[worker],
                seat=(roles[number], 0),
                token=owner[number][1],
                first=first,
                last=first + 499,
            )
        elif draw < 0.998 or not mine:
            for number in mine:
                positions[number] += 0 if takes else dice.randrange(1000)
            marks = [(roles[number], 0, owner[number][1], positions[number]) for number in mine]
            pen.write(records.Beat, ids[worker], marks=tuple(marks))
        else:
            number = dice.choice(mine)
            heir, token = dice.randrange(members), owner[number][1]
            if heir == worker:
                continue
            owner[number] = (heir, pen.here)
            mine.remove(number)
            held[heir].append(number)
            pen.write(
                records.Transfer,
                ids[worker],
                seat=(roles[number], 0),
                token=token,
                to=ids[heir],
                mark=positions[number],
                why="balance",
            )
    return [(offset, 0, payload) for offset, payload in enumerate(pen.payloads)]


def rate(action: Callable[[], object], count: int) -> float:
    """Millions a second of processor time."""
    began = time.process_time()
    action()
    return count / (time.process_time() - began) / 1e6


def fold(entries: list[Entry]) -> None:
    reader = Reader("bench")
    reader.attach(0, 0)
    for begin in range(0, len(entries), CHUNK):
        reader.feed(entries[begin : begin + CHUNK])
    if reader.world.count != len(entries):
        raise AssertionError(f"{reader.world.count} of {len(entries)} records counted")


def decode(entries: list[Entry]) -> None:
    for _, _, payload in entries:
        records.decode(payload)


def by_hand(entries: list[Entry]) -> None:
    for _, _, payload in entries:
        json.loads(payload)


def marshal_log(count: int) -> list[bytes]:
    """Heartbeats of 2,000 claims, with a claim and a release among a hundred of them."""
    dice = random.Random(1)
    found: list[bytes] = []
    while len(found) < count:
        claim, draw, at = dice.randrange(2000), dice.random(), 1_790_000_000 + len(found) // 100
        kind, extra = ("Heartbeat", f"/{len(found)}") if draw < 0.98 else ("ClaimingPartition", "")
        if draw >= 0.99:
            kind, extra = "ReleasingPartition", f"/{len(found)}"
        found.append(f"{kind}/1/{at}/0a1b2c3d/client{claim % 200}/billing/orders/{claim}{extra}".encode())
    return found


def naive(payloads: list[bytes]) -> None:
    world: dict[tuple[str, str, int], list[Any]] = {}
    for payload in payloads:
        kind, _, at, instance, client, group, topic, partition, *extra = payload.decode().split("/")
        seat = (group, topic, int(partition))
        state = world.setdefault(seat, ["", "", 0, 0, 0])
        if kind == "Heartbeat":
            state[:] = [instance, client, int(at), int(extra[0]), 0]
        elif kind == "ClaimingPartition":
            if not state[2] or not 0 <= int(at) - state[2] < 120:
                state[:3] = [instance, client, int(at)]
        elif [instance, client] == state[:2]:
            state[2:] = [0, int(extra[0]), int(at)]


def from_file(entries: list[Entry]) -> Iterator[float]:
    """Millions a second by the wall clock, of a file ledger that is read and folded."""
    with tempfile.TemporaryDirectory(prefix="pares-bench-") as folder:
        ledger = pares.open(f"file://{folder}/log")
        for begin in range(0, len(entries), CHUNK):
            ledger.append_many([payload for _, _, payload in entries[begin : begin + CHUNK]])
        for _ in range(3):
            reader, at = Reader("bench"), ledger.start()
            reader.attach(at, 0)
            began = time.perf_counter()
            while found := ledger.read(at, max_records=CHUNK):
                reader.feed([(entry.offset, entry.timestamp_ms, entry.payload) for entry in found])
                at = found[-1].offset + 1
            yield len(entries) / (time.perf_counter() - began) / 1e6
        ledger.close()


def cases(quick: bool) -> Iterator[Row]:
    count, turns = (50_000, 2) if quick else (1_000_000, 5)
    unit = "M records/s"
    for what, each, takes in LOGS:
        entries = log_of(count, each=each, takes=takes)
        rates = [rate(partial(fold, entries), count) for _ in range(turns)]
        held = what.startswith("one")
        target, met = (f">= {BAR:.2f}", statistics.median(rates) >= BAR) if held else ("", None)
        yield Row(f"replay of a coordination log, {what}", spread(rates, unit, 2), target, met)
        floor = [rate(partial(decode, entries), count) for _ in range(turns)]
        yield Row(f"{what}: decoding alone", spread(floor, unit, 2))
        plain = [rate(partial(by_hand, entries), count) for _ in range(turns)]
        yield Row(f"{what}: json.loads alone", spread(plain, unit, 2))
        if held:
            yield Row(f"from a file ledger, {what}, by the clock", spread(list(from_file(entries)), unit, 2))
    theirs = marshal_log(count)
    rates = [rate(partial(naive, theirs), count) for _ in range(turns)]
    yield Row("naive replay of Marshal's format in Python", spread(rates, unit, 2))
