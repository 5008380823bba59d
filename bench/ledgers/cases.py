"""The same on each ledger, and beside PostgreSQL an elector by its advisory lock: `python -m bench --ledgers all`."""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import time
import uuid
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Final

import pares
from bench.cases import Row, crash, handed_over, spread
from bench.processes import Troupe
from pares.dev import Kafka, Nats, Postgres, Pulsar, RabbitMQ, Redis
from pares.runtime.clock import stopwatch

BEGIN, END = "<!-- figures on ledgers -->", "<!-- end of figures on ledgers -->"
SIZE: Final = 150
"""Bytes of a record: a beat has about as many."""
WARM: Final = 500
SLACK_MS: Final = 20
HANDOVER_MS: Final = 4
PAUSE: Final = 0.02

Cases = dict[str, Callable[[bool], Iterator[Row]]]
NewUrl = Callable[[], str]
"""The URL of a ledger that nobody has used."""


@contextmanager
def _folder(url: str) -> Iterator[NewUrl]:
    with tempfile.TemporaryDirectory(prefix="pares-bench-") as folder:
        yield lambda: url.format(f"{folder}/{_name()}")


@contextmanager
def _nats() -> Iterator[NewUrl]:
    with Nats(settings={"jetstream": {"sync_interval": "always"}}) as nats:
        yield lambda: nats.stream_url(_name())


@contextmanager
def _kafka() -> Iterator[NewUrl]:
    with Kafka() as kafka:
        yield lambda: kafka.topic_url(_name())


@contextmanager
def _postgres() -> Iterator[NewUrl]:
    with Postgres({"fsync": "on"}) as server:
        yield lambda: server.table_url(_name())


@contextmanager
def _redis() -> Iterator[NewUrl]:
    """It syncs each append, as the others do."""
    with Redis({"appendfsync": "always"}) as server:
        yield lambda: server.stream_url(_name())


@contextmanager
def _rabbitmq() -> Iterator[NewUrl]:
    """It syncs nothing, unlike the others."""
    with RabbitMQ() as server:
        yield lambda: server.stream_url(_name())


@contextmanager
def _pulsar() -> Iterator[NewUrl]:
    with Pulsar() as server:
        yield lambda: server.topic_url(_name())


def _name() -> str:
    return f"bench_{uuid.uuid4().hex[:8]}"


LEDGERS: Final = {
    "file": lambda: _folder("file://{}"),
    "sqlite": lambda: _folder("sqlite:///{}.db"),
    "postgres": _postgres,
    "redis": _redis,
    "rabbitmq": _rabbitmq,
    "pulsar": _pulsar,
    "nats": _nats,
    "kafka": _kafka,
}


def cases(options: Namespace) -> Cases:
    """What `--ledgers` measures: on each that is named, or on all."""
    named: list[str] = [*LEDGERS] if "all" in options.ledgers else options.ledgers
    rounds: int = 3 if options.quick else options.rounds
    return {name: (lambda quick, name=name: measured(name, rounds, 3 if quick else 20)) for name in named}


def measured(name: str, rounds: int, idle_seconds: float) -> Iterator[Row]:
    with LEDGERS[name]() as new:
        yield from round_trips(name, new(), 10 * rounds)
        found = handed_over(rounds, new())
        target, met = ("", None) if name != "postgres" else _within(found, HANDOVER_MS)
        yield Row(f"{name}: handover", spread(found), target, met)
        for session in (1.0, 0.3):
            found = crash(session, False, rounds, new())
            target, met = _within(found, session * 1000 + SLACK_MS)
            yield Row(f"{name}: crash takeover by silence, session {session:g} s", spread(found, digits=0), target, met)
        yield Row(f"{name}: crash takeover, death proven", spread(crash(1.0, True, rounds, new())))
        yield Row(f"{name}: idle member, 3 members, session 1 s", spread(idle(new(), idle_seconds), "% of a core", 2))
        if name == "postgres":
            yield from elected(new(), rounds, idle_seconds)


def _within(found: list[float], most: float) -> tuple[str, bool]:
    return f"p50 <= {most:g} ms", statistics.median(found) <= most


def round_trips(name: str, url: str, rounds: int) -> Iterator[Row]:
    appended: list[float] = []
    back: list[float] = []
    with closing(pares.open(url)) as ledger:
        bell = ledger.bell()
        for number in range(WARM + rounds):
            began = time.perf_counter()
            offset = ledger.append(b"x" * SIZE)
            acknowledged = time.perf_counter()
            assert ledger.read(offset, timeout=10)[0].offset == offset
            if number >= WARM:
                appended.append((acknowledged - began) * 1000)
                back.append((time.perf_counter() - began) * 1000)
                time.sleep(PAUSE)
        if bell is not None:
            bell.close()
    yield Row(f"{name}: append", spread(appended, digits=2))
    yield Row(f"{name}: append and read back", spread(back, digits=2))


def idle(url: str, seconds: float) -> list[float]:
    """Of a core, in per cent, for each of three members of which one leads."""
    with Troupe(url) as troupe:
        players = [troupe.start(f"m{i}") for i in range(3)]
        troupe.hear("lead")
        time.sleep(3)
        before = [player.cpu() for player in players]
        time.sleep(seconds)
        return [(player.cpu() - used) / seconds * 100 for player, used in zip(players, before, strict=True)]


def elected(url: str, rounds: int, idle_seconds: float) -> Iterator[Row]:
    """By the advisory lock, on the same server."""
    command = [sys.executable, "-m", "bench.ledgers.advisory_lock", url]
    handed: list[float] = []
    killed: list[float] = []
    with Troupe(url) as troupe:
        players = [troupe.cast(f"m{i}", [*command, f"m{i}", "1.0"]) for i in range(3)]
        leader, _ = troupe.hear("lead")
        time.sleep(1)
        before = [player.cpu() for player in players]
        time.sleep(idle_seconds)
        used = [(player.cpu() - one) / idle_seconds * 100 for player, one in zip(players, before, strict=True)]
        for _ in range(rounds):
            time.sleep(0.3)
            troupe.players[leader].say("hand r")
            _, asked = troupe.hear("handing")
            leader, at = troupe.hear("lead", after=asked, by_other_than=leader)
            handed.append((at - asked) / 1e6)
        for i in range(rounds):
            time.sleep(0.5 + 0.5 * random.random())
            at_kill = stopwatch()
            troupe.players[leader].kill()
            dead, (leader, at) = leader, troupe.hear("lead", after=at_kill, by_other_than=leader)
            killed.append((at - at_kill) / 1e6)
            troupe.players[dead].process.wait()
            troupe.cast(f"n{i}", [*command, f"n{i}", "1.0"])
    yield Row("advisory lock: handover", spread(handed))
    yield Row("advisory lock: crash takeover, the connection seen to end (a freeze: never)", spread(killed))
    yield Row("advisory lock: idle contender, 3 contenders", spread(used, "% of a core", 2))
