"""Real servers on loopback: each a process that is killed when this one ends, with a folder that goes with it.

ZooKeeper needs no download: among the jars in PySpark's wheel, which are Maven Central's, is a whole server. Redis is the one
that `pares.dev` finds.
"""

from __future__ import annotations

import contextlib
import importlib.util
import signal
import socket
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from pares.core.errors import CapabilityError
from pares.dev import Kafka, ports
from pares.dev import redis as dev_redis
from pares.dev.process import start
from pares.spark.java import require_java

HOST: Final = "127.0.0.1"
PATIENCE: Final = 30.0
_LOOK: Final = 0.02
_LAST_WORDS: Final = 2000

STOCK_GROUPS: Final = {"group.min.session.timeout.ms": "6000", "group.initial.rebalance.delay.ms": "3000"}
"""What a stock broker has, and a dev broker has not: see `pares.dev.kafka.settings`."""

# What a ZooKeeper server needs beside its own two jars. (Each name is a whole one, up to its version.)
_NEEDED: Final = (
    *("zookeeper", "zookeeper-jute", "snappy-java", "metrics-core", "commons-cli", "commons-io"),
    *(
        "netty-buffer",
        "netty-codec",
        "netty-codec-base",
        "netty-common",
        "netty-handler",
        "netty-resolver",
        "netty-transport",
    ),
    *("slf4j-api", "log4j-api", "log4j-core", "log4j-slf4j2-impl"),
)


@contextlib.contextmanager
def kafka() -> Iterator[str]:
    """One broker with a stock one's settings for groups; gives its address."""
    with Kafka(settings=STOCK_GROUPS) as broker:
        yield broker.bootstrap


@contextlib.contextmanager
def folder() -> Iterator[str]:
    """A place for what needs no server."""
    with tempfile.TemporaryDirectory(prefix="pares-bench-") as place:
        yield place


@contextlib.contextmanager
def zookeeper(tick_ms: int) -> Iterator[str]:
    """One ZooKeeper; gives its address. It grants sessions of 2 to 20 ticks, and ends them in steps of a tick."""
    java = require_java("ZooKeeper")
    with _place("zookeeper") as (place, port):
        settings = {"tickTime": tick_ms, "dataDir": place / "data", "clientPort": port, "clientPortAddress": HOST}
        settings |= {"maxClientCnxns": 0, "admin.enableServer": "false"}
        config = place / "zoo.cfg"
        config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        options = ["-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"]
        classpath = ":".join(map(str, zookeeper_jars()))
        main = "org.apache.zookeeper.server.ZooKeeperServerMain"
        command = [str(java.java), *options, "-cp", classpath, main, str(config)]
        with _running("ZooKeeper", command, place, port, ask=b"srvr", answer=b"Mode: standalone"):
            yield f"{HOST}:{port}"


def zookeeper_jars() -> list[Path]:
    """Raises `CapabilityError` if PySpark is not there or holds no ZooKeeper any more."""
    spec = importlib.util.find_spec("pyspark")
    places = [Path(place) / "jars" for place in (spec.submodule_search_locations or [])] if spec else []
    found = {name: jar for place in places for name in _NEEDED for jar in place.glob(f"{name}-[0-9]*.jar")}
    if missing := [name for name in _NEEDED if name not in found]:
        raise CapabilityError(
            f"a ZooKeeper server is run from the jars of PySpark, and it lacks {', '.join(missing)}: pip install 'pares[spark]'"
        )
    return [found[name] for name in _NEEDED]


def zookeeper_version() -> str:
    return zookeeper_jars()[0].stem.removeprefix("zookeeper-")


@contextlib.contextmanager
def redis() -> Iterator[str]:
    """One Redis that writes nothing to disk, which is its fastest form; gives its address."""
    program = dev_redis.program()
    with _place("redis") as (place, port):
        command = [
            str(program),
            "--bind",
            HOST,
            "--port",
            str(port),
            "--dir",
            str(place),
            "--save",
            "",
            "--appendonly",
            "no",
        ]
        with _running("Redis", command, place, port, ask=b"PING\r\n", answer=b"+PONG"):
            yield f"{HOST}:{port}"


def redis_version() -> str:
    return dev_redis.version(dev_redis.program())


@contextlib.contextmanager
def _place(what: str) -> Iterator[tuple[Path, int]]:
    """A folder and a port."""
    with tempfile.TemporaryDirectory(prefix=f"pares-{what}-", ignore_cleanup_errors=True) as place:
        yield Path(place), ports.free([HOST])[0]


@contextlib.contextmanager
def _running(what: str, command: Sequence[str], place: Path, port: int, *, ask: bytes, answer: bytes) -> Iterator[None]:
    log = place / "server.log"
    server = start(command, log=log, folder=place, survive=False)
    try:
        end = time.monotonic() + PATIENCE
        while not _answers(port, ask, answer):
            if (code := server.ended()) is not None or time.monotonic() > end:
                how = f"ended with {code}" if code is not None else f"does not answer after {PATIENCE:g} s"
                words = log.read_text(errors="replace")[-_LAST_WORDS:]
                raise CapabilityError(f"{what} at {HOST}:{port} {how}. Its last words:\n{words}")
            time.sleep(_LOOK)
        yield
    finally:
        server.identity.signal(signal.SIGKILL)
        server.wait(PATIENCE)


def _answers(port: int, ask: bytes, answer: bytes) -> bool:
    try:
        with socket.create_connection((HOST, port), timeout=1.0) as connection:
            connection.sendall(ask)
            said = b""
            while answer not in said and (more := connection.recv(4096)):
                said += more
            return answer in said
    except OSError:
        return False
