"""What an idle member costs on Kafka, beside a plain consumer group on the same broker, and what kazoo's clients send.

Members of all sorts run one after the other, so that none disturbs another.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Final

from bench.cases import Row, spread
from bench.idle.members import idle, watched
from bench.peers import servers
from bench.processes import Troupe
from pares.core.errors import CapabilityError
from pares.dev import Kafka

BARS: Final = {(3, 1.0): 0.3, (10, 10.0): 0.06, (30, 10.0): 0.06, (100, 10.0): 0.06, (100, 1.0): 0.5}

Sent = dict[tuple[int, float], float]
"""Segments a second that all members of a group send, by how many they are and their session."""


def beside_a_group(kafka: Kafka, url: str, count: int, session: float, *, quick: bool, sent: Sent) -> Iterator[Row]:
    """One group of pares and one of Kafka's own; each is gone before the next begins."""
    yield from idle(count, session, quick=quick, bars=BARS, url=url, sent=sent)
    what = f"{count} members, session {session:g} s"
    yield Row(f"sent by all, {what}", f"{sent[count, session]:.1f} segments/s")
    used, segments = _group(kafka, count, session, 3.0 if quick else 10.0, 5.0 if quick else 30.0)
    yield Row(f"idle consumer of a plain group, {what}", spread(used, "% of a core", 3))
    yield Row(f"sent by all consumers of a plain group, {what}", f"{segments:.1f} segments/s")


def _group(kafka: Kafka, count: int, session: float, calm: float, seconds: float) -> tuple[list[float], float]:
    with Troupe("") as troupe:
        command = [sys.executable, "-m", "bench.peers.kafka_group", kafka.bootstrap]
        players = [troupe.cast(f"m{number}", [*command, f"m{number}", str(session)]) for number in range(count)]
        for _ in players:
            troupe.hear("ready", role="-")
        return watched(players, calm, seconds)[:2]


def kazoo(seconds: float, ours: float | None) -> Iterator[Row]:
    """Three clients of ZooKeeper that contend for one lock, session 1 s. `ours`: segments a second that as many members of
    pares with that session sent, if they were measured."""
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
        used, sent, _ = watched(players, 3.0, seconds)
        yield Row(what, f"{sent:.1f} segments/s")
        yield Row("idle client, kazoo Lock on ZooKeeper, 3 clients, session 1 s", spread(used, "% of a core", 3))
        if ours is not None:
            yield against(ours, sent)


def against(ours: float, theirs: float) -> Row:
    """What members of pares sent, against kazoo's clients in the same run."""
    what = "sent by all, 3 members, session 1 s, against kazoo's clients"
    return Row(what, f"{ours:.1f} and {theirs:.1f} segments/s", "<= kazoo's", ours <= theirs)
