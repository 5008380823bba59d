"""A real Kafka on loopback: one or more nodes, each a broker and a controller in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlencode

from pares.core.errors import LedgerUnavailable
from pares.dev.cluster import LocalCluster
from pares.dev.kafka import broker, jars, probe
from pares.dev.kafka.settings import Security, check_extra, properties
from pares.dev.node import Node
from pares.spark.java import JavaHome, require_java


class Kafka(LocalCluster):
    """A Kafka cluster of this program's own.

        with Kafka(nodes=3) as kafka:
            ledger = pares.open(kafka.url)
            kafka.kill(2)
            kafka.restart(2)

    Promised: real brokers (KRaft, the version in `jars`) on loopback, on ports nobody used; when `start` returns,
    every node has answered a request and knows of all others; when `close` returns, none is left; and when this program dies
    without closing, they are killed with it (on Linux; elsewhere only an orderly end of the program ends them). The first use
    on a machine downloads 44 MB and takes half a minute or more; after that one node takes about a second, three take three.
    Not promised: anything about production. Heaps are small, all is on one disk, and acknowledged records are not synced to it:
    they survive the death of every process, not of the machine. Settings differ from a stock broker's as listed in
    `pares.dev.kafka.settings`: no topic is made by itself, groups start at once and take sessions from 100 ms on.

    `nodes`: 1 to 9; from three on, topics get three copies unless they ask for less, and two must confirm a write.
    `folder`: where data is kept; the same folder gives the same cluster again, at the same ports if they are free. Without
    it, a temporary one is removed at the end. A node's data is in `node-N/data`, which may be a file system of its own.
    `host`: the address to listen at, or one for each node.
    `ports`: clients' port of each node; else free ones are drawn.
    `settings`: properties of the brokers, such as `{"message.max.bytes": "1000"}`; they go before the ones chosen here.
    `security`: users and rights, TLS; see `Security`. `client(user)` then has what a client needs.
    `prefix`: what goes before a node's command line, by node id; see `Node`.
    `heap_mb`: the most heap of a node, in megabytes.
    `survive`: the nodes outlive this program, and a cluster that runs in `folder` is taken over, what is missing of it started:
    what `pares dev kafka up` does. Settings and security of nodes that run stay as they are.
    `progress`: is told how far a download is, as (steps done, steps in all).

    A node that was ended is let in again by the others only when its `broker.session.timeout.ms` is over, also after an orderly
    stop: 9 s in a stock broker and here among several nodes, so give a shorter one in `settings` (`QUICK_RETURN`) to tests that
    are not about that.

    Threads may share it. A forked child may not use it, and closes nothing.
    """

    kind = command = "kafka"
    title = "Kafka"
    _ports_each = 2
    _log = broker.LOG
    _errors = broker.ERRORS

    def __init__(
        self,
        nodes: int = 1,
        *,
        folder: Path | str | None = None,
        host: str | Sequence[str] = "127.0.0.1",
        ports: Sequence[int] | None = None,
        settings: Mapping[str, str] | None = None,
        security: Security | None = None,
        prefix: Mapping[int, Sequence[str]] | None = None,
        heap_mb: int = 320,
        survive: bool = False,
        progress: jars.Progress | None = None,
    ) -> None:
        super().__init__(nodes, folder=folder, host=host, ports=ports, prefix=prefix, survive=survive)
        check_extra(settings or {})
        self.settings = dict(settings or {})
        self.security = security or Security()
        self._heap_mb, self._progress = heap_mb, progress
        self._java: JavaHome | None = None
        self._jars = Path()
        self._jvm: list[str] = []

    def topic_url(self, topic: str, **params: str | int) -> str:
        """A ledger on another topic; `params` are those of the URL, such as `partitions=4`."""
        query = f"?{urlencode(params)}" if params else ""
        return f"kafka://{self.bootstrap}/{topic}{query}"

    def client(self, user: str | None = None, password: str | None = None) -> dict[str, str]:
        """Client settings (librdkafka's names) beside the addresses; see `Security.client`. Empty without security."""
        return self.security.client(user, password)

    def _prepare(self) -> None:
        self._jars = jars.fetch(self._progress)
        self._java = require_java("Kafka")
        self._jvm = broker.quickly(self._java, self._jars)

    def _version(self) -> str:
        return jars.VERSION

    def _new_id(self) -> str:
        return broker.short_uuid()

    def _command(self, node: Node) -> list[str]:
        assert self._java is not None
        data = broker.data_of(node.folder)
        settings = properties(node.place, self._cluster.nodes, data, self.security, self.settings)
        config = broker.write_folder(node.folder, node.place, settings, self._cluster.id, self._jars)
        return broker.command(self._java, self._jars, config, self._heap_mb, self._jvm)

    def _missing(self, node: Node, wanted: set[int], left: float) -> str | None:
        try:
            view = probe.look(node.place, self.security, timeout=max(0.1, min(2.0, left)))
        except LedgerUnavailable as error:
            return str(error)
        if wanted <= view.brokers and view.controller >= 0:
            return None
        return f"it knows nodes {sorted(view.brokers)} and controller {view.controller}"
