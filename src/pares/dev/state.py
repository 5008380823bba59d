"""What a cluster's folder remembers: the shape of the cluster, and which processes serve it.

The shape must outlive the processes (a cluster comes back with its data and, if it can, at its addresses); the processes are
remembered so that `down`, in another program and perhaps days later, ends these very ones.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from pares.core.errors import ConfigError
from pares.dev.place import Place, address
from pares.dev.process import Identity

FILE: Final = "cluster.json"
LOCK: Final = ".lock"


class Cluster(msgspec.Struct):
    """One cluster. `running` has the processes that were started and not seen to end; some may be gone.

    `kind`: the scheme of the URLs of its ledgers. `log`: the log (or database) that its own URL names; empty if it keeps none.
    `user`: whom that URL names.
    """

    kind: str
    version: str
    id: str
    nodes: list[Place]
    running: dict[int, Identity] = {}
    log: str = "pares"
    user: str = ""

    @property
    def bootstrap(self) -> str:
        """`HOST:PORT[,HOST:PORT...]` of all nodes."""
        return ",".join(place.address for place in self.nodes)

    @property
    def url(self) -> str:
        user = f"{self.user}@" if self.user else ""
        return f"{self.kind}://{user}{self.bootstrap}/{self.log}".rstrip("/")

    @property
    def looked_after_url(self) -> str:
        """The ledger's URL, with where servers say how they are, if they do: so `pares doctor` sees whether they sync."""
        monitors = [address(place.host, place.monitor_port) for place in self.nodes if place.monitor_port]
        return f"{self.url}?monitor={','.join(monitors)}" if self.log and monitors else self.url

    def alive(self) -> dict[int, Identity]:
        return {node: identity for node, identity in self.running.items() if identity.alive()}


def load(folder: Path) -> Cluster | None:
    """The cluster in a folder, None if there is none. Raises `ConfigError` if the folder's record can't be read."""
    path = folder / FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Cluster)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except msgspec.MsgspecError as error:
        raise ConfigError(
            f"{path} is no record of a dev broker ({error}); remove the folder, or name another"
        ) from None


def save(folder: Path, cluster: Cluster) -> None:
    """In one step: a reader sees the record before or the record after."""
    draft = folder / f".{FILE}.{os.getpid()}"
    draft.write_bytes(msgspec.json.format(msgspec.json.encode(cluster), indent=2) + b"\n")
    draft.replace(folder / FILE)


def remove(folder: Path, cluster: Cluster) -> None:
    """Removes the data and the record, and the folder if nothing else is in it. For a cluster that does not run."""
    for place in cluster.nodes:
        shutil.rmtree(node_folder(folder, place.id), ignore_errors=True)
    for name in (FILE, LOCK):
        (folder / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def node_folder(folder: Path, node: int) -> Path:
    return folder / f"node-{node}"


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """While the shape or the set of processes is changed, nobody else changes it."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def end(processes: list[Identity], timeout: float, by: signal.Signals = signal.SIGTERM) -> list[Identity]:
    """Ends them, orderly if they do so within `timeout` seconds; returns those that had to be killed.

    All at once: a broker that is alone tries for minutes to hand over to the others before it stops.
    """
    for process in processes:
        process.signal(by)
        process.signal(signal.SIGCONT)  # one that is frozen would not notice
    until = time.monotonic() + timeout
    late = [process for process in processes if not process.wait(max(0.0, until - time.monotonic()))]
    for process in late:
        process.signal(signal.SIGKILL)
    for process in late:
        process.wait(timeout)
    return late
