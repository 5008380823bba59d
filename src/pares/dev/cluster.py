"""What all dev clusters have in common: nodes that are started, harmed, started again, ended, and kept in a folder."""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import signal
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Final, Self

from pares.core.errors import CapabilityError, ConfigError
from pares.dev import ports as ports_of
from pares.dev import state
from pares.dev.node import Node
from pares.dev.place import Place
from pares.dev.process import Adopted, Started, start
from pares.dev.state import Cluster

MOST: Final = 9
"""Nodes of a cluster: more than one machine bears."""
STOP_SECONDS: Final = 15.0
_LOOK: Final = 0.05
_TRIES: Final = 3
_IN_USE: Final = "ddress already in use"


class LocalCluster(ABC):
    """One or more nodes on this machine. What it promises, and what its arguments mean, stands at `Kafka` and `Nats`.

    A kind of server says how one node is started (`_command`) and what it still lacks until it serves (`_missing`).
    """

    kind: ClassVar[str]
    """The scheme of its ledgers' URLs."""
    command: ClassVar[str]
    """`pares dev COMMAND`."""
    title: ClassVar[str]
    _ports_each: ClassVar[int]
    """How many ports a node needs: for clients, for the other nodes, and perhaps for monitoring."""
    _log: ClassVar[str]
    _errors: ClassVar[Sequence[str]]
    _look: ClassVar[float] = _LOOK
    _stop_by: ClassVar[signal.Signals] = signal.SIGTERM
    """What ends a node in good order."""
    _login: ClassVar[str] = ""
    """The user that its ledgers' URLs name, if they have to."""

    def __init__(
        self,
        nodes: int,
        *,
        folder: Path | str | None,
        host: str | Sequence[str],
        ports: Sequence[int] | None,
        prefix: Mapping[int, Sequence[str]] | None,
        survive: bool,
        log: str = "pares",
    ) -> None:
        if not 1 <= nodes <= MOST:
            raise ConfigError(f"a cluster of {nodes} nodes can't be made: 1 to {MOST}")
        self._hosts = [host] * nodes if isinstance(host, str) else list(host)
        self._ports = None if ports is None else list(ports)
        for what, values in (("hosts", self._hosts), ("ports", self._ports)):
            if values is not None and len(values) != nodes:
                raise ConfigError(f"{len(values)} {what} were given for {nodes} nodes: give one for each")
        if survive and folder is None:
            raise ConfigError("nodes that survive need a folder that does: give one")
        self.folder: Path | None = None if folder is None else Path(folder).absolute()
        self.nodes: list[Node] = []
        self._url_log = log
        self._temporary = folder is None
        self._prefix = dict(prefix or {})
        self._survive = survive
        self._guard = threading.RLock()
        self._owner = os.getpid()
        self._cluster = self._nothing()

    # What a kind of server has to say ------------------------------------------------------------------------------------

    @abstractmethod
    def _prepare(self) -> None:
        """Whatever a start needs and takes long, or may not be there. Raises `CapabilityError`."""

    @abstractmethod
    def _version(self) -> str: ...

    @abstractmethod
    def _command(self, node: Node) -> list[str]:
        """A node's command line, once its folder is ready for a start."""

    @abstractmethod
    def _missing(self, node: Node, wanted: set[int], left: float) -> str | None:
        """What a node still lacks; None if it serves and knows the wanted ones. `left`: seconds until nobody waits any more."""

    def _runs_as(self) -> tuple[int, int] | None:
        """Ids of the user that nodes run as and of its group; None: the present one."""
        return None

    def _new_id(self) -> str:
        """What tells one cluster of this kind from another."""
        return secrets.token_hex(8)

    # What clients need ---------------------------------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        """`HOST:PORT[,HOST:PORT...]` of all nodes."""
        return self._up().bootstrap

    @property
    def url(self) -> str:
        """A ledger on it, with a log called `pares`, which is made when it is first used."""
        return self._up().url

    # Life ----------------------------------------------------------------------------------------------------------------

    def start(self, timeout: float = 120.0) -> Self:
        """Starts all nodes and waits until each serves, at most `timeout` seconds (a first download not included).

        Raises `CapabilityError` if what it needs is not there, or a node does not start, whose last words it quotes;
        `ConfigError` if the folder holds another cluster or one that runs, or a port of `ports` is taken. After an error
        nothing that it started is left running.
        """
        with self._guard:
            if self._cluster.nodes:
                raise ConfigError(f"this {self.title} was started already: close it first, or make another")
            if self.folder is not None:
                self._kept(self.folder)  # before a download, say what makes it useless
            self._prepare()
            if self.folder is None:
                self.folder = Path(tempfile.mkdtemp(prefix=f"pares-{self.kind}-"))
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
            return self

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
        if kept.kind != self.kind:
            raise ConfigError(
                f"{folder} holds a cluster for {kept.kind}:// ledgers, no {self.title}: name another folder"
            )
        if len(kept.nodes) != len(self._hosts):
            raise ConfigError(
                f"{folder} holds a cluster of {len(kept.nodes)}, not of {len(self._hosts)}: ask for as many nodes, name "
                f"another folder, or remove this one with its data (pares dev {self.command} down --remove)"
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
        clients, others = self._ports, None
        if kept is not None:
            clients = clients or [place.port for place in kept.nodes]
            others = [place.peer_port for place in kept.nodes]
            if self._ports_each > 2:
                others += [place.monitor_port for place in kept.nodes]
        wanted = list(zip(hosts * self._ports_each, [*(clients or []), *(others or [])], strict=False))
        taken = [port for host, port in wanted if not ports_of.is_free(host, port)]
        if self._ports and (refused := [port for port in taken if port in self._ports]):
            raise ConfigError(f"port {', '.join(map(str, refused))} is in use: name another, or end what listens there")
        drawn = ports_of.free(hosts * self._ports_each)
        if taken or clients is None:
            clients = self._ports or drawn[:count]
        if taken or others is None:
            others = drawn[count:]
        places = [Place(at + 1, hosts[at], clients[at], *others[at::count]) for at in range(count)]
        return Cluster(
            self.kind, self._version(), kept.id if kept else self._new_id(), places, log=self._url_log, user=self._login
        )

    def _nothing(self) -> Cluster:
        return Cluster(self.kind, "", "", [])

    def _take_over(self, folder: Path, cluster: Cluster) -> None:
        self._cluster = cluster
        self.nodes = []
        for place in cluster.nodes:
            node_folder = state.node_folder(folder, place.id)
            node = Node(place, node_folder, self._log, self._errors, self._prefix.get(place.id, ()))
            if (identity := cluster.running.get(place.id)) is not None and identity.alive():
                node.begin(Adopted(identity))
            self.nodes.append(node)

    def _launch(self, node: Node) -> None:
        assert self.folder is not None
        node.folder.mkdir(parents=True, exist_ok=True)
        command = self._command(node)
        log_from = node.turn_log()
        process = start(
            [*node.prefix, *command], log=node.log, folder=node.folder, survive=self._survive, user=self._runs_as()
        )
        node.begin(process, log_from=log_from)
        self._cluster.running[node.id] = process.identity
        state.save(self.folder, self._cluster)

    def wait_ready(self, timeout: float = 120.0) -> None:
        """Waits until every running node serves and knows all other running nodes; at most `timeout` seconds.

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
                time.sleep(self._look)

    def _did_not_start(self, node: Node, what: str) -> CapabilityError:
        return CapabilityError(
            f"{self.title}'s node {node.id} at {node.place.address} {what}.\n"
            f"Its last words{'' if self._temporary else f', of {node.log}'}:\n{node.last_words()}"
        )

    def close(self) -> None:
        """Ends all nodes, orderly where data is kept, and removes a temporary folder. May be called more than once."""
        with self._guard:
            if os.getpid() != self._owner:
                return
            atexit.unregister(self.close)
            if not self._temporary:
                running = [node.process.identity for node in self.nodes if node.process is not None]
                state.end(running, STOP_SECONDS, self._stop_by)
            self._kill_all()
            if self.folder is not None and self._temporary:
                shutil.rmtree(self.folder, ignore_errors=True)
                self.folder = None
            elif self.folder is not None and self._cluster.nodes:
                self._cluster.running = self._cluster.alive()
                state.save(self.folder, self._cluster)
            self.nodes = []
            self._cluster = self._nothing()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Faults --------------------------------------------------------------------------------------------------------------

    def kill(self, node: int) -> None:
        """SIGKILL; returns when the process is gone. Raises `ConfigError` if the node is not running."""
        self._node(node).end(signal.SIGKILL, STOP_SECONDS)

    def stop(self, node: int, timeout: float = 60.0) -> None:
        """An orderly stop: the node hands over what it leads. Killed if that takes longer than `timeout` seconds."""
        self._node(node).end(self._stop_by, timeout)

    def freeze(self, node: int) -> None:
        """SIGSTOP: connections stay, nothing answers. Returns when it stands still."""
        self._node(node).freeze()

    def thaw(self, node: int) -> None:
        """SIGCONT: a frozen node goes on, and learns what it missed."""
        self._node(node).thaw()

    def restart(self, node: int, *, wait: bool = True, timeout: float = 120.0) -> None:
        """Starts a node again, on the same port and folder; one that runs is stopped first.

        Waits until it serves and knows the other running nodes, unless told not to: without a majority of nodes that can't
        happen.
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
            raise ConfigError(f"this {self.title} is not started: use it in a with statement, or call start()")
        return self._cluster
