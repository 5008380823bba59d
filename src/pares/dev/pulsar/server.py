"""A real Pulsar on loopback: broker, bookie and metadata in one process, as `pulsar standalone` has it.

The server's jars come from Maven Central (see `jars`). Settings differ from a stock standalone's in this:

| setting | here | stock | why |
|---|---|---|---|
| `bindAddress`, `advertisedAddress`, `listeningInterface` | loopback | all interfaces | nobody else is to reach it |
| heap, `managedLedgerCacheSizeMB` and the bookie's caches | small | a quarter of the memory | it is for trying |
| functions, transactions, WebSocket | off | on | no ledger needs them, and they start slowly |
| `brokerShutdownTimeoutMs` | 5 s | 60 s | an end is not waited for so long |
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final

from pares.core.errors import ConfigError
from pares.dev.cluster import LocalCluster
from pares.dev.maven import Progress
from pares.dev.node import Node
from pares.dev.place import address
from pares.dev.pulsar.jars import JARS, VERSION
from pares.dev.state import Cluster
from pares.spark.java import JavaHome, require_java

LOG: Final = "server.log"
NAMESPACE: Final = "public/default"
TOPIC: Final = "pares"
HEAP_MB: Final = 512
_DIRECT_MB: Final = 256
_WELL: Final = 10.0
"""Seconds for it to say whether it is well: a first question may be lost in its start."""
_OURS: Final = frozenset({"brokerServicePort", "webServicePort", "bindAddress", "advertisedAddress"})
"""Settings that follow from the place of the server; nobody may change them."""
_OPENS: Final = (
    "java.base/java.io", "java.base/java.lang", "java.base/java.nio", "java.base/java.util.zip", "java.base/jdk.internal.misc",
    "java.base/jdk.internal.platform", "java.base/sun.net", "java.management/sun.management",
    "jdk.management/com.sun.management.internal",
)  # fmt: skip


class Pulsar(LocalCluster):
    """A Pulsar of this program's own.

        with Pulsar() as server:
            ledger = pares.open(server.url)

    Promised: a real server on loopback, on ports nobody used; when `start` returns it answers; when `close` returns it is gone,
    and its data with it unless a folder is named; and when this program dies without closing, it is killed (on Linux). It takes
    ten seconds to start, and up to 1 GB of memory. `kill(1)`, `stop(1)`, `freeze(1)`, `thaw(1)` and `restart(1)` do that to the
    server. It lets everybody in. Not promised: anything about production.

    `settings`: of the server, as in its configuration file, such as `{"allowAutoTopicCreation": "false"}`.
    `folder`: where data is kept; the same folder gives the same server again, at the same port if that is free.
    `port`: where it listens for clients; else a free one is drawn.
    `token`: by which `start` may ask whether it is ready, where settings make it ask for one.
    `survive`: the server outlives this program, and one that runs in `folder` is taken over: what `pares dev pulsar up` does.
    `progress`: hears of the first download, 230 MB.

    Raises `CapabilityError` when there is no Java 17, the jars can't be fetched, or the server does not come up.
    """

    kind = "pulsar"
    command = "pulsar"
    title = "Pulsar"
    _ports_each = 2  # one is for clients, the other for HTTP
    _log = LOG
    _errors = ("ERROR", "Exception", "Caused by")
    _look = 0.1

    def __init__(
        self,
        settings: Mapping[str, str | int] | None = None,
        *,
        folder: Path | str | None = None,
        port: int | None = None,
        token: str | None = None,
        survive: bool = False,
        progress: Progress | None = None,
    ) -> None:
        ports = None if port is None else [port]
        super().__init__(1, folder=folder, host="127.0.0.1", ports=ports, prefix=None, survive=survive, log=TOPIC)
        self.settings: Final = dict(settings or {})
        if bad := [name for name in self.settings if not name.replace("_", "").isalnum()]:
            raise ConfigError(f"{bad[0]!r} is no setting of Pulsar")
        if taken := sorted(_OURS & {*self.settings}):
            raise ConfigError(
                f"settings {', '.join(taken)} follow from the ports of a dev server: choose those instead"
            )
        self._token = token
        self._progress = progress
        self._java: JavaHome
        self._jars = Path()

    @property
    def port(self) -> int:
        return self._up().nodes[0].port

    @property
    def admin(self) -> str:
        """Where it answers HTTP."""
        place = self._up().nodes[0]
        return f"http://{address(place.host, place.peer_port)}"

    def topic_url(self, topic: str) -> str:
        """A ledger in another topic."""
        return f"{self.kind}://{self.bootstrap}/{NAMESPACE}/{topic}?admin={self.admin}"

    # What a kind of server has to say ----------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        self._java = require_java("Pulsar")
        self._jars = JARS.fetch(self._progress)

    def _version(self) -> str:
        return VERSION

    def _draw(self, kept: Cluster | None) -> Cluster:
        drawn = super()._draw(kept)
        place = drawn.nodes[0]
        drawn.log = f"{NAMESPACE}/{TOPIC}?admin=http://{address(place.host, place.peer_port)}"
        return drawn

    def _command(self, node: Node) -> list[str]:
        chosen: dict[str, str | int] = {
            "clusterName": "standalone",
            "managedLedgerDefaultEnsembleSize": 1,
            "managedLedgerDefaultWriteQuorum": 1,
            "managedLedgerDefaultAckQuorum": 1,
            "managedLedgerCacheSizeMB": 32,
            "loadBalancerEnabled": "false",
            "functionsWorkerEnabled": "false",
            "transactionCoordinatorEnabled": "false",
            "webSocketServiceEnabled": "false",
            "brokerShutdownTimeoutMs": 5000,
            "numIOThreads": 2,
            "numHttpServerThreads": 8,
            "allowLoopback": "true",
            "listeningInterface": _loopback(),
            "httpServerEnabled": "false",
            "dbStorage_writeCacheMaxSizeMb": 16,
            "dbStorage_readAheadCacheMaxSizeMb": 8,
            "dbStorage_rocksDB_blockCacheSize": 4 << 20,
            **self.settings,
            "brokerServicePort": node.port,
            "webServicePort": node.peer_port,
            "bindAddress": node.host,
            "advertisedAddress": node.host,
        }
        config = node.folder / "standalone.conf"
        config.touch(mode=0o600)  # it may hold secrets
        config.write_text("".join(f"{name}={value}\n" for name, value in chosen.items()))
        data = node.folder / "data"
        return [
            str(self._java.java),
            f"-Xmx{HEAP_MB}m",
            f"-XX:MaxDirectMemorySize={_DIRECT_MB}m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-XX:-UsePerfData",
            "-Dio.netty.tryReflectionSetAccessible=true",
            "-Dlog4j2.disableJmx=true",
            *(word for module in _OPENS for word in ("--add-opens", f"{module}=ALL-UNNAMED")),
            "-cp",
            str(self._jars / "*"),
            "org.apache.pulsar.PulsarStandaloneStarter",
            *("--config", str(config), "--no-functions-worker", "--no-stream-storage"),
            *("--advertised-address", node.host),
            *("--bookkeeper-dir", str(data / "bookkeeper"), "--metadata-dir", str(data / "metadata")),
        ]

    def _missing(self, node: Node, wanted: set[int], left: float) -> str | None:
        if not serves(node.host, node.place.peer_port, self._token):
            return "it does not answer"
        # It writes and reads a message, so that the first user need not wait for what only the first one waits for.
        status, _ = ask(node.host, node.place.peer_port, "/admin/v2/brokers/health", self._token, _WELL)
        return None if status in (200, 401, 403) else "it is not well yet"


def _loopback() -> str:
    """The interface that a bookie listens at: it takes no address."""
    names = [name for _, name in socket.if_nameindex()]
    return next((name for name in ("lo", "lo0") if name in names), names[0])


def serves(host: str, port: int, token: str | None = None, timeout: float = 2.0) -> bool:
    """Whether it has made the namespace that ledgers are in, which is the last thing that a start does."""
    status, said = ask(host, port, f"/admin/v2/namespaces/{NAMESPACE.partition('/')[0]}", token, timeout)
    return status in (401, 403) or (status == 200 and NAMESPACE.encode() in said)


def ask(host: str, port: int, path: str, token: str | None, timeout: float) -> tuple[int, bytes]:
    """What it answers over HTTP; a status of 0: nothing."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    wire = HTTPConnection(host, port, timeout=timeout)
    try:
        wire.request("GET", path, headers=headers)
        answer = wire.getresponse()
        return answer.status, answer.read()
    except (OSError, HTTPException):
        return 0, b""
    finally:
        wire.close()
