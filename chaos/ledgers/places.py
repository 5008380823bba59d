"""Where each ledger can be kept: a server of each kind that `pares.dev` starts, files, SQLite, and moto."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final

from bench.ledgers.servers import clusters, named

from chaos.ledgers.grounds import Emulated, Ground, OneServer, Pair, Restored
from chaos.ledgers.standby import followed
from pares.dev import Postgres, RabbitMQ, Redis
from pares.dev.cluster import LocalCluster

_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "nats": {"settings": {"jetstream": {"sync_interval": "always"}}},
    "redis": {"replicas": 1},
}
"""What a cluster is made with, where nothing will not do."""


def ledgers() -> dict[str, Callable[[Path], AbstractContextManager[Ground]]]:
    """Where each ledger can be kept, by its name, in a folder of the run's."""
    found: dict[str, Callable[[Path], AbstractContextManager[Ground]]] = {"file": _file, "sqlite": _sqlite}
    for name, kind in sorted(clusters().items()):
        found[name] = lambda folder, kind=kind: _cluster(kind)
    found["kinesis"] = _kinesis
    return found


@contextmanager
def _file(folder: Path) -> Iterator[Ground]:
    yield Ground(lambda name: f"file://{folder / name}")


@contextmanager
def _sqlite(folder: Path) -> Iterator[Ground]:
    yield Ground(lambda name: f"sqlite:///{folder / name}.db")


@contextmanager
def _cluster(kind: type[LocalCluster]) -> Iterator[Ground]:
    if kind is Postgres:
        with followed() as pair:
            yield pair
        return
    make: Any = kind
    with make(**_OPTIONS.get(kind.command, {})) as server:
        where = Pair if kind is Redis else Restored if kind is RabbitMQ else OneServer
        yield where(server, named(server))


@contextmanager
def _kinesis(folder: Path) -> Iterator[Ground]:
    from kinesis_tools import Moto, logged_in

    with logged_in(), Moto() as moto:
        yield Emulated(moto)
