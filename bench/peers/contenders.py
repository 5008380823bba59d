"""The contenders: what starts its server, what starts one of its processes, and what has to be said beside its figures."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Final

from bench.peers import servers

Stage = Callable[[], AbstractContextManager[str]]


@dataclass(frozen=True, kw_only=True)
class Contender:
    """`settings`: how it was set, what matters most before a semicolon. `forms` names the ways to ask whether one leads,
    as a reader should see them; the first is the one that users are told to use. `quiet` is how long nothing must have happened
    before the next fault, in seconds. `slow`: one round takes many seconds.
    """

    key: str
    name: str
    session: float
    settings: str
    stage: Stage
    module: str
    forms: Mapping[str, str]
    ours: bool = False
    extra: tuple[str, ...] = ()
    url: str = "{}"
    quiet: float = 0.4
    ledger: bool = False
    """Whether what the server holds can be counted in records of pares."""
    tcp: bool = True
    """Whether there is a server to send anything to."""

    @property
    def slow(self) -> bool:
        return self.session > 2

    def command(self, address: str, name: str) -> list[str]:
        return [sys.executable, "-m", self.module, self.url.format(address), name, str(self.session), *self.extra]


HOLDS: Final = {"holds()": "`holds()`"}


def _kazoo(session: float, tick_ms: int, settings: str) -> Contender:
    return Contender(
        key=f"kazoo-{session:g}",
        name="kazoo Lock, ZooKeeper",
        session=session,
        settings=settings,
        stage=partial(servers.zookeeper, tick_ms),
        module="bench.peers.kazoo_lock",
        forms={"listener": "listener's flag", "is_acquired": "`lock.is_acquired`"},
    )


def _redis(session: float) -> Contender:
    return Contender(
        key=f"redis-{session:g}",
        name="redis-py Lock, Redis",
        session=session,
        settings=f"timeout={session:g}; renewed every {session / 3:.2g} s, tried every 0.1 s (the default)",
        stage=servers.redis,
        module="bench.peers.redis_lock",
        forms={"flag": "renewing thread's flag", "owned": "`lock.owned()`, a request each"},
    )


@dataclass(frozen=True)
class Place:
    """A ledger of pares. `url`: with braces for the address."""

    name: str
    url: str
    stage: Stage
    beside: str = ""
    tcp: bool = False


PLACES: Final = {
    "kafka": Place("Kafka", "kafka://{}/bench", servers.kafka, "; broker as it comes", tcp=True),
    "file": Place("file", "file://{}/bench", servers.folder),
    "sqlite": Place("SQLite", "sqlite:///{}/bench.db", servers.folder),
}


def _pares(where: str, session: float, *, proof: bool) -> Contender:
    place = PLACES[where]
    return Contender(
        key=f"pares-{where}-{session:g}" + ("-proof" if proof else ""),
        name=f"**pares**, {place.name}",
        session=session,
        settings=("death proven (same host)" if proof else "by silence") + place.beside,
        stage=place.stage,
        module="bench.worker",
        url=place.url,
        forms=HOLDS,
        ours=True,
        extra=("r",) if proof else ("r", "noproof"),
        ledger=True,
        tcp=place.tcp,
    )


_ALL: Final = (
    _kazoo(1.0, 500, "tickTime=500; set on the server, for all its clients"),
    _kazoo(4.0, 2000, "the least that a stock server grants; tickTime=2000"),
    _redis(1.0),
    _redis(0.3),
    Contender(
        key="group-6",
        name="consumer group, Kafka",
        session=6.0,
        settings="the least that a stock broker grants; heartbeat 0.5 s, cooperative-sticky, classic protocol",
        stage=servers.kafka,
        module="bench.peers.kafka_group",
        forms={"assigned": "callbacks' flag"},
        quiet=1.5,  # others hear of a rebalance with their next heartbeat, and one follows upon each join
    ),
    _pares("kafka", 1.0, proof=False),
    _pares("kafka", 0.3, proof=False),
    _pares("kafka", 1.0, proof=True),
    _pares("file", 1.0, proof=False),
    _pares("file", 0.3, proof=False),
    _pares("file", 1.0, proof=True),
    _pares("sqlite", 1.0, proof=False),
    _pares("sqlite", 0.3, proof=False),
    _pares("sqlite", 1.0, proof=True),
)

CONTENDERS: Final = {contender.key: contender for contender in _ALL}
