"""What an idle member costs on Kafka, with all of them holding a role, beside a plain consumer group on the same broker.

Figures are of members that have been calm for a while: clients that were needed to begin have been given back by then, and
readers of a large group are lazy. Members of both sorts run one after the other, so that none disturbs the other.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.cases import Row, spread
from bench.peers import servers
from bench.processes import Player, Troupe
from pares.core.errors import CapabilityError
from pares.dev import Kafka

COUNTS: Final = (3, 10, 30, 100)
SESSIONS: Final = (1.0, 10.0)
MOST: Final = {(3, 1.0): 0.3, (10, 10.0): 0.06, (30, 10.0): 0.06, (100, 10.0): 0.06, (100, 1.0): 0.5}
"""Percent of a core that an idle member may take, by how many there are and their session."""
MOST_MB: Final = 30
CALM: Final = 35.0
"""Seconds until clients that are not needed any more have been given back."""


def idle(kafka: Kafka, url: str, count: int, session: float, *, quick: bool) -> Iterator[Row]:
    """One group of pares and one of Kafka's own; each is gone before the next begins."""
    what, seconds = f"{count} members, session {session:g} s", 5.0 if quick else 30.0
    with Troupe(url) as troupe:
        players = [troupe.start(f"m{number}", session=session, roles=str(count)) for number in range(count)]
        for _ in players:
            troupe.hear("ready", role="-")
        used, sent, memory = _watched(players, 5.0 if quick else CALM, seconds)
    most = MOST.get((count, session))
    met = None if most is None else statistics.median(used) <= most
    target = "" if most is None else f"p50 <= {most:g} %"
    yield Row(f"idle member, all holding, {what}", spread(used, "% of a core", 3), target, met)
    yield Row(
        f"idle member's memory, {what}",
        spread(memory, "MB"),
        f"p50 <= {MOST_MB} MB",
        statistics.median(memory) <= MOST_MB,
    )
    yield Row(f"sent by all, {what}", f"{sent:.1f} segments/s")
    used, sent = _group(kafka, count, session, 3.0 if quick else 10.0, seconds)
    yield Row(f"idle consumer of a plain group, {what}", spread(used, "% of a core", 3))
    yield Row(f"sent by all consumers of a plain group, {what}", f"{sent:.1f} segments/s")


def _group(kafka: Kafka, count: int, session: float, calm: float, seconds: float) -> tuple[list[float], float]:
    with Troupe("") as troupe:
        command = [sys.executable, "-m", "bench.peers.kafka_group", kafka.bootstrap]
        players = [troupe.cast(f"m{number}", [*command, f"m{number}", str(session)]) for number in range(count)]
        for _ in players:
            troupe.hear("ready", role="-")
        return _watched(players, calm, seconds)[:2]


def kazoo(seconds: float) -> Iterator[Row]:
    """Three clients of ZooKeeper that contend for one lock, session 1 s: what they send."""
    what = "sent by all, kazoo Lock on ZooKeeper, 3 clients, session 1 s"
    with contextlib.ExitStack() as stack:
        try:
            address = stack.enter_context(servers.zookeeper(500))
        except CapabilityError as error:
            yield Row(what, f"not measured: {error}")
            return
        troupe = stack.enter_context(Troupe(""))
        command = [sys.executable, "-m", "bench.peers.kazoo_lock", address]
        players = [troupe.cast(f"m{number}", [*command, f"m{number}", "1.0"]) for number in range(3)]
        for _ in players:
            troupe.hear("ready", role="-")
        used, sent, _ = _watched(players, 3.0, seconds)
        yield Row(what, f"{sent:.1f} segments/s")
        yield Row("idle client, kazoo Lock on ZooKeeper, 3 clients, session 1 s", spread(used, "% of a core", 3))


def _watched(players: list[Player], calm: float, seconds: float) -> tuple[list[float], float, list[float]]:
    """Percent of a core that each takes, segments a second that all send, and megabytes of memory that each has to itself."""
    time.sleep(calm)
    sent, before, began = sum(p.sent() for p in players), [p.cpu() for p in players], time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - began
    used = [(p.cpu() - was) / took * 100 for p, was in zip(players, before, strict=True)]
    return used, (sum(p.sent() for p in players) - sent) / took, [_anonymous(p.process.pid) for p in players]


def _anonymous(pid: int) -> float:
    """Megabytes of resident memory that no file backs. What maps files (the interpreter, the client library) all share."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    return float("nan")
