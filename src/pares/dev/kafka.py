"""A real Kafka on loopback: one or more nodes, each a broker and a controller in a process of its own."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlencode

from pares.core.errors import CapabilityError, ConfigError, LedgerUnavailable
from pares.dev import broker, jars, probe, state
from pares.dev import ports as ports_of
from pares.dev.node import Node
from pares.dev.process import Adopted, Started, start
from pares.dev.settings import Place, Security, check_extra, properties
from pares.dev.state import Cluster
from pares.spark.java import JavaHome, require_java

MOST: Final = 9
"""Nodes of a cluster: more than one machine bears."""
STOP_SECONDS: Final = 15.0
_LOOK: Final = 0.05
_TRIES: Final = 3
_IN_USE: Final = "Address already in use"


class Kafka:
    """A Kafka cluster of this program's own.

        with Kafka(nodes=3) as kafka:
            ledger = pares.open(kafka.url)
            kafka.kill(2)
            kafka.restart(2)

    Promised: real brokers (KRaft, the version in `pares.dev.jars`) on loopback, on ports nobody used; when `start` returns,
    every node has answered a request and knows of all others; when `close` returns, none is left; and when this program dies
    without closing, they are killed with it (on Linux; elsewhere only an orderly end of the program ends them). The first use
    on a machine downloads 44 MB and takes half a minute or more; after that one node takes about a second, three take three.
    Not promised: anything about production. Heaps are small, all is on one disk, and acknowledged records are not synced to it:
    they survive the death of every process, not of the machine. Settings differ from a stock broker's as listed in
    `pares.dev.settings`: no topic is made by itself, groups start at once and take sessions from 100 ms on.

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

    Threads may share it. A forked child may not use it, and closes nothing.
    """

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
        if not 1 <= nodes <= MOST:
            raise ConfigError(f"a cluster of {nodes} nodes can't be made: 1 to {MOST}")
        self._hosts = [host] * nodes if isinstance(host, str) else list(host)
        self._ports = None if ports is None else list(ports)
        for what, values in (("hosts", self._hosts), ("ports", self._ports)):
            if values is not None and len(values) != nodes:
                raise ConfigError(f"{len(values)} {what} were given for {nodes} nodes: give one for each")
        check_extra(settings or {})
        if survive and folder is None:
            raise ConfigError("nodes that survive need a folder that does: give one")
        self.settings = dict(settings or {})
        self.security = security or Security()
        self.folder: Path | None = None if folder is None else Path(folder).absolute()
        self.nodes: list[Node] = []
        self._temporary = folder is None
        self._prefix = dict(prefix or {})
        self._heap_mb, self._survive, self._progress = heap_mb, survive, progress
        self._guard = threading.RLock()
        self._owner = os.getpid()
        self._cluster = Cluster(jars.VERSION, "", [])
        self._java: JavaHome | None = None
        self._jars = Path()
        self._jvm: list[str] = []

    # What clients need ---------------------------------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        """`HOST:PORT[,HOST:PORT...]` of all nodes."""
        return self._up().bootstrap

    @property
    def url(self) -> str:
        """A ledger on it: the topic `pares`, which is made when it is first used."""
        return self._up().url

    def topic_url(self, topic: str, **params: str | int) -> str:
        """A ledger on another topic; `params` are those of the URL, such as `partitions=4`."""
        query = f"?{urlencode(params)}" if params else ""
        return f"kafka://{self.bootstrap}/{topic}{query}"

    def client(self, user: str | None = None, password: str | None = None) -> dict[str, str]:
        """Client settings (librdkafka's names) beside the addresses; see `Security.client`. Empty without security."""
        return self.security.client(user, password)

    # Life ----------------------------------------------------------------------------------------------------------------

    def start(self, timeout: float = 60.0) -> None:
        """Starts all nodes and waits until each serves, at most `timeout` seconds (a first download not included).

        Raises `CapabilityError` if there is no Java, no PySpark (its Ivy fetches Kafka), the download fails, or a node does not
        start, whose last words it quotes; `ConfigError` if the folder holds another cluster or one that runs, or a port of
        `ports` is taken. After an error nothing that it started is left running.
        """
        with self._guard:
            if self._cluster.nodes:
                raise ConfigError("this Kafka was started already: close it first, or make another")
            self._jars = jars.fetch(self._progress)
            self._java = require_java("Kafka")
            self._jvm = broker.quickly(self._java, self._jars)
            if self.folder is None:
                self.folder = Path(tempfile.mkdtemp(prefix="pares-kafka-"))
            folder = self.folder
            try:
                with state.alone(folder):
                    self._start(folder, timeout)
            except BaseException:
                self.nodes = [node for node in self.nodes if isinstance(node.process, Started)]
                self.close()
                raise
            if not self._survive:
                atexit.register(self.close)

    def _start(self, folder: Path, timeout: float) -> None:
        kept = self._kept(folder)
        if kept is not None and (alive := kept.alive()):
            self._take_over(folder, kept)
            for node in self.nodes:
                if node.id not in alive:
                    self._launch(node)
            self.wait_ready(timeout)
            return
        for left in reversed(range(_TRIES)):
            self._take_over(folder, self._draw(kept))
            try:
                for node in self.nodes:
                    self._launch(node)
                self.wait_ready(timeout)
            except CapabilityError:
                # Between the draw and the start somebody may have taken a port.
                if left == 0 or not any(_IN_USE in node.last_words() for node in self.nodes):
                    raise
                self._kill_all()
                kept = self._cluster
            else:
                return

    def _kept(self, folder: Path) -> Cluster | None:
        """What the folder holds, if it suits what was asked for."""
        kept = state.load(folder)
        if kept is None:
            return None
        if len(kept.nodes) != len(self._hosts):
            raise ConfigError(
                f"{folder} holds a cluster of {len(kept.nodes)}, not of {len(self._hosts)}: ask for as many nodes, name "
                "another folder, or remove this one with its data (pares dev kafka down --remove)"
            )
        if (alive := kept.alive()) and not self._survive:
            pids = ", ".join(str(identity.pid) for identity in alive.values())
            raise ConfigError(
                f"the cluster in {folder} is running (processes {pids}): end it first, or name another folder"
            )
        return kept

    def _draw(self, kept: Cluster | None) -> Cluster:
        """The shape of the cluster: what was kept of it stays if it can."""
        hosts, count = self._hosts, len(self._hosts)
        clients, controllers = self._ports, None
        if kept is not None:
            clients = clients or [place.port for place in kept.nodes]
            controllers = [place.controller_port for place in kept.nodes]
        wanted = list(zip([*hosts, *hosts], [*(clients or []), *(controllers or [])], strict=False))
        taken = [port for host, port in wanted if not ports_of.is_free(host, port)]
        if self._ports and (refused := [port for port in taken if port in self._ports]):
            raise ConfigError(f"port {', '.join(map(str, refused))} is in use: name another, or end what listens there")
        drawn = ports_of.free([*hosts, *hosts])
        if taken or clients is None:
            clients = self._ports or drawn[:count]
        if taken or controllers is None:
            controllers = drawn[count:]
        places = [Place(at + 1, hosts[at], clients[at], controllers[at]) for at in range(count)]
        return Cluster(jars.VERSION, kept.id if kept else broker.short_uuid(), places)

    def _take_over(self, folder: Path, cluster: Cluster) -> None:
        self._cluster = cluster
        self.nodes = []
        for place in cluster.nodes:
            node = Node(place, state.node_folder(folder, place.id), self._prefix.get(place.id, ()))
            if (identity := cluster.running.get(place.id)) is not None and identity.alive():
                node.begin(Adopted(identity))
            self.nodes.append(node)

    def _launch(self, node: Node) -> None:
        assert self._java is not None
        assert self.folder is not None
        data = broker.data_of(node.folder)
        settings = properties(node.place, self._cluster.nodes, data, self.security, self.settings)
        config = broker.write_folder(node.folder, node.place, settings, self._cluster.id, self._jars)
        command = broker.command(self._java, self._jars, config, self._heap_mb, self._jvm)
        log_from = broker.log_size(node.folder)
        process = start([*node.prefix, *command], log=node.log, folder=node.folder, survive=self._survive)
        node.begin(process, log_from=log_from)
        self._cluster.running[node.id] = process.identity
        state.save(self.folder, self._cluster)

    def wait_ready(self, timeout: float = 60.0) -> None:
        """Waits until every running node answers, knows a controller and all other running nodes; at most `timeout` seconds.

        Raises `CapabilityError` with a node's last words if it ends meanwhile or time is up. Frozen nodes are not waited for.
        """
        until = time.monotonic() + timeout
        nodes = [node for node in self.nodes if node.running and not node.frozen]
        wanted = {node.id for node in nodes}
        for node in nodes:
            while (said := self._missing(node, wanted, until - time.monotonic())) is not None:
                if node.process is not None and (code := node.process.ended()) is not None:
                    raise self._did_not_start(node, f"ended with {code}")
                if time.monotonic() >= until:
                    raise self._did_not_start(node, f"is not ready after {timeout:g} s ({said})")
                time.sleep(_LOOK)

    def _missing(self, node: Node, wanted: set[int], left: float) -> str | None:
        """What a node still lacks; None if it serves and knows the wanted ones."""
        try:
            view = probe.look(node.place, self.security, timeout=max(0.1, min(2.0, left)))
        except LedgerUnavailable as error:
            return str(error)
        if wanted <= view.brokers and view.controller >= 0:
            return None
        return f"it knows nodes {sorted(view.brokers)} and controller {view.controller}"

    def _did_not_start(self, node: Node, what: str) -> CapabilityError:
        return CapabilityError(
            f"Kafka's node {node.id} at {node.place.address} {what}.\n"
            f"Its last words{'' if self._temporary else f', of {node.log}'}:\n{node.last_words()}"
        )

    def close(self) -> None:
        """Ends all nodes, orderly where data is kept, and removes a temporary folder. May be called more than once."""
        with self._guard:
            if os.getpid() != self._owner:
                return
            atexit.unregister(self.close)
            if not self._temporary:
                state.end([node.process.identity for node in self.nodes if node.process is not None], STOP_SECONDS)
            self._kill_all()
            if self.folder is not None and self._temporary:
                shutil.rmtree(self.folder, ignore_errors=True)
                self.folder = None
            elif self.folder is not None and self._cluster.nodes:
                self._cluster.running = self._cluster.alive()
                state.save(self.folder, self._cluster)
            self.nodes = []
            self._cluster = Cluster(jars.VERSION, "", [])

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Faults --------------------------------------------------------------------------------------------------------------

    def kill(self, node: int) -> None:
        """SIGKILL; returns when the process is gone. Raises `ConfigError` if the node is not running."""
        self._node(node).end(signal.SIGKILL, STOP_SECONDS)

    def stop(self, node: int, timeout: float = 60.0) -> None:
        """An orderly stop: the node hands its partitions over. Killed if that takes longer than `timeout` seconds."""
        self._node(node).end(signal.SIGTERM, timeout)

    def freeze(self, node: int) -> None:
        """SIGSTOP: connections stay, nothing answers. Returns when it stands still."""
        self._node(node).freeze()

    def thaw(self, node: int) -> None:
        """SIGCONT: a frozen node goes on, and learns what it missed."""
        self._node(node).thaw()

    def restart(self, node: int, *, wait: bool = True, timeout: float = 60.0) -> None:
        """Starts a node again, on the same port and folder; one that runs is stopped first.

        Waits until it serves and knows the other running nodes, unless told not to: without a majority of nodes that can't
        happen. The others let it in again only when its `broker.session.timeout.ms` is over, also after an orderly stop: 9 s
        in a stock broker and here among several nodes, so give a shorter one in `settings` (`QUICK_RETURN`) to tests that
        are not about that.
        """
        with self._guard:
            found = self._node(node)
            if found.running:
                self.stop(node)
            self._launch(found)
        if wait:
            self.wait_ready(timeout)

    def _kill_all(self) -> None:
        processes = [node.process for node in self.nodes if node.process is not None]
        for process in processes:
            process.identity.signal(signal.SIGKILL)
        for process in processes:
            process.wait(STOP_SECONDS)

    def _node(self, node: int) -> Node:
        self._up()
        if not 1 <= node <= len(self.nodes):
            raise ConfigError(f"there is no node {node!r}: they are numbered 1 to {len(self.nodes)}")
        return self.nodes[node - 1]

    def _up(self) -> Cluster:
        if not self._cluster.nodes:
            raise ConfigError("this Kafka is not started: use it in a with statement, or call start()")
        return self._cluster
