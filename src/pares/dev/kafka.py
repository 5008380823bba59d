"""A real Kafka on loopback: one or more nodes, each a broker and a controller in a process of its own."""

from __future__ import annotations

import atexit
import base64
import os
import shutil
import signal
import tempfile
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlencode

from pares.core.errors import CapabilityError, ConfigError, LedgerUnavailable
from pares.dev import jars, ports, probe, state
from pares.dev.process import Started, start
from pares.dev.settings import Place, Security, check_extra, properties, text
from pares.dev.state import Cluster
from pares.spark.java import JavaHome, require_java

MOST: Final = 9
"""Nodes of a cluster. More than one machine of this kind can bear."""
STOP_SECONDS: Final = 15.0
_LOG_LINES: Final = 12
_LOG_BYTES: Final = 16 << 20
_LOOK: Final = 0.05
_TRIES: Final = 3
_IN_USE: Final = "Address already in use"


class Node:
    """One node of a `Kafka`.

    `id` counts from 1; `host`, `port` and `controller_port` say where it listens; `folder` holds its data, settings and `log`.
    `prefix` goes before its command line when it is started next: `["ip", "netns", "exec", "one"]` puts it into a network
    namespace, `["env", "LD_PRELOAD=...", "FAKETIME=+1h"]` changes its clock. A program named there must become the command, not
    start it.
    """

    def __init__(self, place: Place, folder: Path, prefix: Sequence[str]) -> None:
        self.place = place
        self.folder = folder
        self.prefix = list(prefix)
        self.started: Started | None = None
        self.frozen = False

    @property
    def id(self) -> int:
        return self.place.id

    @property
    def host(self) -> str:
        return self.place.host

    @property
    def port(self) -> int:
        return self.place.port

    @property
    def controller_port(self) -> int:
        return self.place.controller_port

    @property
    def log(self) -> Path:
        """What the node has to say of itself."""
        return self.folder / "broker.log"

    @property
    def running(self) -> bool:
        """Whether its process is there, be it frozen."""
        return self.started is not None and self.started.ended() is None

    @property
    def pid(self) -> int | None:
        """Its process, None if it is not running."""
        started = self.started
        return started.identity.pid if started is not None and started.ended() is None else None

    def __repr__(self) -> str:
        return f"<Node {self.id} at {self.place.address}, {'frozen' if self.frozen else self.pid or 'not running'}>"


class Kafka:
    """A Kafka cluster of this program's own.

        with Kafka(nodes=3) as kafka:
            ledger = pares.open(kafka.url)
            kafka.kill(2)
            kafka.restart(2)

    Promised: real brokers (KRaft, the version in `pares.dev.jars`) on loopback and on ports that nobody else uses; when `start`
    returns, every node has answered a request and knows of all others; when `close` returns, none is left; and when this
    program dies without closing, they are killed with it (on Linux; elsewhere only an orderly end of the program ends them).
    The first use on a machine downloads 44 MB.
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
    `heap_mb`: the most heap of a node, in megabytes. `survive`: the nodes outlive this program (`pares dev kafka up`).
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
        `ports` is taken. After an error nothing is left running.
        """
        with self._guard:
            if self._cluster.nodes:
                raise ConfigError("this Kafka was started already: close it first, or make another")
            self._jars = jars.fetch(self._progress)
            self._java = require_java("Kafka")
            if self.folder is None:
                self.folder = Path(tempfile.mkdtemp(prefix="pares-kafka-"))
            folder = self.folder
            try:
                with state.alone(folder):
                    self._start(folder, timeout)
            except BaseException:
                self.close()
                raise
            if not self._survive:
                atexit.register(self.close)

    def _start(self, folder: Path, timeout: float) -> None:
        kept = self._kept(folder)
        for left in reversed(range(_TRIES)):
            self._cluster = self._draw(kept)
            self.nodes = [
                Node(place, folder / f"node-{place.id}", self._prefix.get(place.id, ()))
                for place in self._cluster.nodes
            ]
            try:
                for node in self.nodes:
                    self._launch(node)
                self.wait_ready(timeout)
            except CapabilityError:
                # Between the draw and the start somebody may have taken a port.
                if left == 0 or self._ports is not None or not any(_IN_USE in _tail(node.log) for node in self.nodes):
                    raise
                self._kill_all()
            else:
                return

    def _kept(self, folder: Path) -> Cluster | None:
        kept = state.load(folder)
        if kept is None:
            return None
        if alive := kept.alive():
            pids = ", ".join(str(identity.pid) for identity in alive.values())
            raise ConfigError(
                f"the cluster in {folder} is running (processes {pids}): end it first, or name another folder"
            )
        if len(kept.nodes) != len(self._hosts):
            raise ConfigError(
                f"{folder} holds a cluster of {len(kept.nodes)}, not of {len(self._hosts)}: ask for as many nodes, name "
                "another folder, or remove this one with its data"
            )
        return kept

    def _draw(self, kept: Cluster | None) -> Cluster:
        """The shape of the cluster: what is kept of it stays if it can."""
        count = len(self._hosts)
        drawn = ports.free([*self._hosts, *self._hosts])
        clients = self._ports or (kept and [place.port for place in kept.nodes]) or drawn[:count]
        controllers = (kept and [place.controller_port for place in kept.nodes]) or drawn[count:]
        taken = [
            port
            for host, port in zip([*self._hosts] * 2, [*clients, *controllers], strict=True)
            if not ports.is_free(host, port)
        ]
        if self._ports and (refused := [port for port in taken if port in self._ports]):
            raise ConfigError(f"port {', '.join(map(str, refused))} is in use: name another, or end what listens there")
        if taken:
            clients, controllers = self._ports or drawn[:count], drawn[count:]
        places = [
            Place(at + 1, host, port, controller)
            for at, (host, port, controller) in enumerate(zip(self._hosts, clients, controllers, strict=True))
        ]
        return Cluster(jars.VERSION, kept.id if kept else _short_uuid(), places)

    def _launch(self, node: Node) -> None:
        assert self._java is not None
        assert self.folder is not None
        data = node.folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        _format(data, node, self._cluster.id, self._jars)
        config = node.folder / "server.properties"
        config.touch(mode=0o600)
        config.write_text(text(properties(node.place, self._cluster.nodes, data, self.security, self.settings)))
        if node.log.exists() and node.log.stat().st_size > _LOG_BYTES:
            node.log.replace(node.log.with_suffix(".log.old"))
        node.frozen = False
        node.started = start(
            [*node.prefix, *_command(self._java, self._jars, self._heap_mb), str(config)],
            log=node.log,
            folder=node.folder,
            survive=self._survive,
        )
        self._cluster.running[node.id] = node.started.identity
        state.save(self.folder, self._cluster)

    def wait_ready(self, timeout: float = 60.0) -> None:
        """Waits until every running node answers, knows a controller and all other running nodes; at most `timeout` seconds.

        Raises `CapabilityError` with a node's last words if it ends meanwhile or time is up. Frozen nodes are not waited for.
        """
        until = time.monotonic() + timeout
        nodes = [node for node in self.nodes if node.running and not node.frozen]
        wanted = {node.id for node in nodes}
        for node in nodes:
            said = "it has not been asked"
            while True:
                if node.started is not None and (code := node.started.ended()) is not None:
                    raise self._did_not_start(node, f"ended with {code}")
                if time.monotonic() >= until:
                    raise self._did_not_start(node, f"is not ready after {timeout:g} s: {said}")
                try:
                    view = probe.look(node.place, self.security, timeout=max(0.1, min(2.0, until - time.monotonic())))
                except LedgerUnavailable as error:
                    said = str(error)
                else:
                    if wanted <= view.brokers and view.controller >= 0:
                        break
                    said = f"it knows nodes {sorted(view.brokers)} and controller {view.controller}"
                time.sleep(_LOOK)

    def _did_not_start(self, node: Node, what: str) -> CapabilityError:
        return CapabilityError(
            f"Kafka's node {node.id} at {node.place.address} {what}.\nIts last words, of {node.log}:\n{_tail(node.log)}"
        )

    def close(self) -> None:
        """Ends all nodes, orderly where data is kept, and removes a temporary folder. May be called more than once."""
        with self._guard:
            if os.getpid() != self._owner:
                return
            atexit.unregister(self.close)
            if self.folder is not None and not self._temporary:
                state.end([node.started.identity for node in self.nodes if node.started is not None], STOP_SECONDS)
            self._kill_all()
            if self.folder is not None and not self._temporary and self._cluster.nodes:
                self._cluster.running.clear()
                state.save(self.folder, self._cluster)
            if self._temporary and self.folder is not None:
                shutil.rmtree(self.folder, ignore_errors=True)
                self.folder = None
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
        self._end(node, signal.SIGKILL)

    def stop(self, node: int, timeout: float = 60.0) -> None:
        """An orderly stop: the node hands its partitions over. Killed if that takes longer than `timeout` seconds."""
        self._end(node, signal.SIGTERM, timeout)

    def freeze(self, node: int) -> None:
        """SIGSTOP: connections stay, nothing answers. Returns when it stands still."""
        found = self._running(node)
        assert found.started is not None
        found.frozen = True
        found.started.freeze()

    def thaw(self, node: int) -> None:
        """SIGCONT: a frozen node goes on, and learns what it missed."""
        found = self._running(node)
        assert found.started is not None
        found.started.identity.signal(signal.SIGCONT)
        found.frozen = False

    def restart(self, node: int, *, wait: bool = True, timeout: float = 60.0) -> None:
        """Starts a node again, on the same port and folder; one that runs is stopped first.

        Waits until it serves and knows the other running nodes, unless told not to: without a majority of nodes that can't
        happen. A node that was killed is let in again when its `broker.session.timeout.ms` is over (see `settings`).
        """
        with self._guard:
            found = self._node(node)
            if found.running:
                self.stop(node)
            self._launch(found)
        if wait:
            self.wait_ready(timeout)

    def _end(self, node: int, number: int, timeout: float = 60.0) -> None:
        found = self._running(node)
        started = found.started
        assert started is not None
        started.identity.signal(number)
        started.identity.signal(signal.SIGCONT)
        if not started.wait(timeout):
            started.identity.signal(signal.SIGKILL)
            started.wait(timeout)
        found.frozen = False

    def _kill_all(self) -> None:
        for node in self.nodes:
            if node.running and node.started is not None:
                node.started.identity.signal(signal.SIGKILL)
        for node in self.nodes:
            if node.started is not None:
                node.started.wait(STOP_SECONDS)

    def _node(self, node: int) -> Node:
        self._up()
        if not 1 <= node <= len(self.nodes):
            raise ConfigError(f"there is no node {node!r}: they are numbered 1 to {len(self.nodes)}")
        return self.nodes[node - 1]

    def _running(self, node: int) -> Node:
        found = self._node(node)
        if not found.running:
            raise ConfigError(f"node {node} is not running: restart it first")
        return found

    def _up(self) -> Cluster:
        if not self._cluster.nodes:
            raise ConfigError("this Kafka is not started: use it in a with statement, or call start()")
        return self._cluster


def _command(java: JavaHome, home: Path, heap_mb: int) -> list[str]:
    """A JVM that is small and quickly there: what it will do for minutes is not worth compiling for hours."""
    options = [
        "-Xms96m",
        f"-Xmx{heap_mb}m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-XX:-UsePerfData",
        "-Xshare:auto",
    ]
    options += ["-Djava.awt.headless=true", "-Dorg.slf4j.simpleLogger.defaultLogLevel=info"]
    options += ["-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS"]
    return [str(java.java), *options, "-cp", str(home / "*"), "kafka.Kafka"]


def _format(data: Path, node: Node, cluster: str, home: Path) -> None:
    """Does to an empty data folder what Kafka's own tool would do: two files, one of them the tool's own work."""
    if (data / "meta.properties").exists():
        return
    shutil.copyfile(home / jars.CHECKPOINT, data / jars.CHECKPOINT)
    lines = ["version=1", f"cluster.id={cluster}", f"node.id={node.id}", f"directory.id={_short_uuid()}"]
    (data / "meta.properties").write_text("\n".join(lines) + "\n")


def _short_uuid() -> str:
    """A random id as Kafka writes them: none that begins with a dash, which its tools would take for an option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text


def _tail(log: Path) -> str:
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-_LOG_LINES:])
    except OSError:
        return ""
