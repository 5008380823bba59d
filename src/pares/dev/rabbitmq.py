"""A real RabbitMQ on loopback, with its plugin for streams.

The server is an installed one: there is none in a wheel. It is started in a folder of its own, with nothing of the settings,
users and data of one that runs on this machine already. Settings differ from a stock server's in little:

| setting | here | stock | why |
|---|---|---|---|
| `stream.frame_max` | 20 MiB | 1 MiB | an append of many payloads is taken whole, whatever it may have in it |
| `listeners.tcp` | none, unless `listeners.tcp.1` is set | 5672 | a ledger needs streams only |
| node name, its port, epmd's port | its own, on loopback | the host's | several servers on one machine |
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pares.core.errors import CapabilityError, ConfigError
from pares.dev import ports as ports_of
from pares.dev.cluster import LocalCluster
from pares.dev.node import Node
from pares.dev.process import Identity, Started, start

LOG: Final = "server.log"
STREAM: Final = "pares"
_PLACES: Final = (
    "usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server",
    "opt/rabbitmq*/sbin/rabbitmq-server",
    "opt/homebrew/opt/rabbitmq/sbin/rabbitmq-server",
    "usr/local/opt/rabbitmq/sbin/rabbitmq-server",
)
_OURS: Final = frozenset(
    {"listeners.tcp", "stream.listeners.tcp.1", "stream.advertised_host", "stream.advertised_port"}
)
"""Settings that follow from the folder and the port; nobody may change them."""
_HELLO: Final = bytes.fromhex("0000000c001100010000000100000000")
"""The first frame of a connection: properties of a client that has none."""


class RabbitMQ(LocalCluster):
    """A RabbitMQ server of this program's own, with streams.

        with RabbitMQ() as server:
            ledger = pares.open(server.url)

    Promised: a real server on loopback, on ports nobody used; when `start` returns it answers; when `close` returns it is gone,
    and its data with it unless a folder is named; and when this program dies without closing, it is killed (on Linux). It takes
    some seconds. `kill(1)`, `stop(1)`, `freeze(1)`, `thaw(1)` and `restart(1)` do that to the server. Its user is `guest`, with
    that password. Not promised: anything about production.

    `settings`: of the server, as in its configuration file, such as `{"stream.frame_max": 1048576}`.
    `plugins`: names of plugins, beside `rabbitmq_stream`.
    `folder`: where data is kept; the same folder gives the same server again, at the same port if that is free.
    `port`: where it listens for streams; else a free one is drawn.
    `survive`: the server outlives this program, and one that runs in `folder` is taken over: what `pares dev rabbitmq up` does.

    Raises `CapabilityError` when there is no rabbitmq-server, or it does not come up.
    """

    kind = "rabbitmq-stream"
    command = "rabbitmq"
    title = "RabbitMQ"
    _ports_each = 2  # one is for clients, the other epmd's
    _log = LOG
    _errors = ("[error]", "BOOT FAILED", "Error")
    _look = 0.1

    def __init__(
        self,
        settings: Mapping[str, str | int] | None = None,
        *,
        plugins: Sequence[str] = (),
        folder: Path | str | None = None,
        port: int | None = None,
        survive: bool = False,
    ) -> None:
        ports = None if port is None else [port]
        super().__init__(1, folder=folder, host="127.0.0.1", ports=ports, prefix=None, survive=survive, log=STREAM)
        self.settings: Final = dict(settings or {})
        self.plugins: Final = ("rabbitmq_stream", *plugins)
        if bad := [name for name in self.settings if not name.replace("_", "").replace(".", "").isalnum()]:
            raise ConfigError(f"{bad[0]!r} is no setting of RabbitMQ")
        if bad := [name for name in self.plugins if not name.replace("_", "").isalnum()]:
            raise ConfigError(f"{bad[0]!r} is no plugin of RabbitMQ")
        if taken := sorted(_OURS & {*self.settings}):
            raise ConfigError(
                f"settings {', '.join(taken)} follow from the folder and port of a dev server: choose those instead"
            )
        self._program = Path()
        self._epmd: Started | None = None

    @property
    def port(self) -> int:
        return self._up().nodes[0].port

    def stream_url(self, stream: str) -> str:
        """A ledger in another stream."""
        return f"{self.kind}://{self.bootstrap}/{stream}"

    def close(self) -> None:
        """Ends the server, orderly where data is kept, and removes a temporary folder. May be called more than once."""
        with self._guard:
            epmd = [node.peer_port for node in self.nodes]
            super().close()
            if self._owner != os.getpid():
                return
            if self._epmd is not None:
                end_epmd(self._epmd.identity)
                self._epmd.wait(1.0)
                self._epmd = None
            else:
                for port in epmd:
                    ask_epmd_to_end(port)

    # What a kind of server has to say ----------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        self._program = program()

    def _version(self) -> str:
        return version(self._program)

    def _command(self, node: Node) -> list[str]:
        data = node.folder / "data"
        data.mkdir(exist_ok=True)
        if self._epmd is None and not self._survive:
            # Else the server starts it, as a process that outlives everybody.
            command = [str(epmd()), "-address", node.host, "-port", str(node.peer_port)]
            self._epmd = start(command, log=node.folder / "epmd.log", folder=node.folder, survive=False)
        chosen: dict[str, str | int] = {
            "stream.frame_max": 20 << 20,
            "loopback_users.guest": "true",
            "log.console": "true",
            "log.console.level": "info",
            "log.console.formatter": "plaintext",
            "log.file": "false",
            "disk_free_limit.absolute": "50MB",
            **self.settings,
            **({} if "listeners.tcp.1" in self.settings else {"listeners.tcp": "none"}),
            "stream.listeners.tcp.1": node.place.address,
            "stream.advertised_host": node.host,
            "stream.advertised_port": node.port,
        }
        config = node.folder / "rabbitmq.conf"
        config.touch(mode=0o600)  # it may hold passwords
        config.write_text("".join(f"{name} = {value}\n" for name, value in chosen.items()))
        plugins = node.folder / "plugins"
        plugins.write_text(f"[{','.join(self.plugins)}].\n")
        environment = {
            "HOME": node.folder,
            "RABBITMQ_NODENAME": "pares@localhost",
            "RABBITMQ_DIST_PORT": ports_of.free([node.host])[0],
            "RABBITMQ_MNESIA_BASE": data,
            "RABBITMQ_LOG_BASE": node.folder / "logs",
            "RABBITMQ_CONFIG_FILE": config,
            "RABBITMQ_GENERATED_CONFIG_DIR": node.folder / "generated",
            "RABBITMQ_ENABLED_PLUGINS_FILE": plugins,
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "ERL_EPMD_ADDRESS": node.host,
            "ERL_EPMD_PORT": node.peer_port,
            "ERL_FLAGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "detached": 1,  # the script becomes the server, and does not wait for it
        }
        unset = [word for name in ("RABBITMQ_HOME", "RABBITMQ_NODE_PORT", "ERL_LIBS") for word in ("-u", name)]
        return ["env", *unset, *(f"{name}={value}" for name, value in environment.items()), str(self._program)]

    def _missing(self, node: Node, wanted: set[int], left: float) -> str | None:
        return None if serves(node.host, node.port) else "it does not answer"


def program() -> Path:
    """The script that becomes the server. Raises `CapabilityError` if there is none."""
    places = [place for pattern in _PLACES for place in Path("/").glob(pattern)]
    places.sort(key=lambda place: [int(part) for part in version(place).split(".") if part.isdigit()])
    if not places and (found := shutil.which("rabbitmq-server")):
        places = [Path(found).resolve()]
    if not places or shutil.which("erl") is None:
        raise CapabilityError(
            "no rabbitmq-server was found on PATH or where packages put it, or no Erlang: apt install rabbitmq-server (Debian, "
            "Ubuntu), brew install rabbitmq"
        )
    return places[-1]


def version(script: Path) -> str:
    """As its folder says."""
    return script.parent.parent.name.partition("-")[2]


def epmd() -> Path:
    """Erlang's port mapper: a node does not start without one."""
    if found := shutil.which("epmd"):
        return Path(found)
    raise CapabilityError("there is no epmd, which comes with Erlang: apt install erlang-base (Debian, Ubuntu)")


def end_epmd(identity: Identity) -> None:
    """One that this program has started."""
    identity.signal(15)
    identity.wait(5.0)


def ask_epmd_to_end(port: int) -> None:
    """One that a server has started, and left behind. It ends only if it serves nobody."""
    if found := shutil.which("epmd"):
        subprocess.run(
            [found, "-port", str(port), "-kill"],
            env={**os.environ, "ERL_EPMD_ADDRESS": "127.0.0.1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )


def serves(host: str, port: int, timeout: float = 2.0) -> bool:
    """Whether it answers a client's first frame."""
    try:
        with socket.create_connection((host, port), timeout=timeout) as wire:
            wire.sendall(_HELLO)
            return wire.recv(8)[4:6] == b"\x80\x11"
    except OSError:
        return False
