"""What the ledgers stand on: a server of each kind that `pares.dev` starts, files, SQLite, and moto.

A `Ground` says what can be done to its server. A kind of cluster that `pares.dev` comes to have is one here, too.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import pares
from pares.core.errors import CapabilityError
from pares.dev import RabbitMQ, Redis
from pares.dev.cluster import LocalCluster
from pares.dev.redis import serves

SERVER: Final = (
    "server-stop",
    "server-kill",
    "server-freeze",
    "server-restart",
    "restart-beside-frozen",
    "both-killed",
)
"""What is done to a server that keeps its data."""
MEMBERS: Final = ("member-kill", "member-freeze")
_PATIENCE: Final = 60.0
START: Final = 300.0
"""Seconds in which a server that is started has to answer: on a busy machine those in Erlang and Java take long."""


def awaited(look: Callable[[], bool], what: str) -> None:
    """Returns when it is so. Raises `CapabilityError` after a minute."""
    end = time.monotonic() + _PATIENCE
    while True:
        with contextlib.suppress(OSError):
            if look():
                return
        if time.monotonic() > end:
            raise CapabilityError(f"not within {_PATIENCE:g} s: {what}")
        time.sleep(0.01)


class Ground:
    """Where a ledger is kept. `kinds`: the faults that keep what was acknowledged; `loss`: the one that does not, if any."""

    kinds: tuple[str, ...] = MEMBERS
    loss = ""

    def __init__(self, url: Callable[[str], str]) -> None:
        self.url = url
        """The URL of a ledger by a name, which nobody has used."""

    def settle(self, url: str) -> None:
        """What has to be once the first ledger was made, before anything is done to the server."""

    def stop(self) -> None:
        raise NotImplementedError

    def kill(self) -> None:
        raise NotImplementedError

    def freeze(self) -> None:
        raise NotImplementedError

    def thaw(self) -> None:
        raise NotImplementedError

    def restart(self) -> None:
        """Returns when it answers; one that runs is stopped first."""
        raise NotImplementedError

    def fail_over(self) -> None:
        """To a replica that has everything."""
        raise NotImplementedError

    @contextmanager
    def losing(self) -> Iterator[Callable[[], None]]:
        """What is acknowledged from now on is lost when the function given is called; returns when the server answers again."""
        raise NotImplementedError


class OneServer(Ground):
    """A cluster of one node."""

    kinds = (*MEMBERS, *SERVER)

    def __init__(self, server: LocalCluster, url: Callable[[str], str]) -> None:
        super().__init__(url)
        self.server = server
        self.node = 1

    def settle(self, url: str) -> None:
        if isinstance(self.server, RabbitMQ):
            # docs/choosing.md: one that is killed right after its first stream was made does not find its streams again.
            with closing(pares.open(url)) as ledger:
                ledger.append(b"the first")
            self.restart()

    def stop(self) -> None:
        self.server.stop(self.node)

    def kill(self) -> None:
        self.server.kill(self.node)

    def freeze(self) -> None:
        self.server.freeze(self.node)

    def thaw(self) -> None:
        self.server.thaw(self.node)

    def restart(self) -> None:
        self.server.restart(self.node, timeout=START)


class Restored(OneServer):
    """One that can be given back the data that it had some time ago, as by a loss of power."""

    loss = "restored"

    @contextmanager
    def losing(self) -> Iterator[Callable[[], None]]:
        data = self.server.nodes[0].folder / "data"
        copy = data.with_name("copy")
        self.stop()
        _copy(data, copy)
        self.restart()

        def lose() -> None:
            self.kill()
            shutil.rmtree(data)
            copy.rename(data)
            self.restart()

        try:
            yield lose
        finally:
            shutil.rmtree(copy, ignore_errors=True)


class Replicated(OneServer):
    """One that has a replica, of which each may be the master."""

    kinds = (*MEMBERS, *SERVER, "failover")
    loss = "failover-behind"

    def fail_over(self) -> None:
        self._catch_up()
        self.kill()
        self._promote()

    def _catch_up(self) -> None:
        awaited(self._caught_up, "the replica has all that the master has")

    def _caught_up(self) -> bool:
        """Whether nothing that the master had before this look is missing at the replica."""
        raise NotImplementedError

    def _promote(self) -> None:
        """The replica is the master now, and the former master its replica."""
        raise NotImplementedError


class Pair(Replicated):
    """Redis."""

    server: Redis

    @property
    def other(self) -> int:
        return 3 - self.node

    @contextmanager
    def losing(self) -> Iterator[Callable[[], None]]:
        self._catch_up()
        behind = self.other
        self.server.freeze(behind)

        def lose() -> None:
            self.kill()
            # What lies in its socket it must not read.
            self.server.kill(behind)
            self.server.restart(behind, wait=False)
            self._promote()

        try:
            yield lose
        finally:
            if self.server.nodes[behind - 1].frozen:
                self.server.thaw(behind)

    def _promote(self) -> None:
        old, new = self.node, self.other
        awaited(lambda: serves("127.0.0.1", self.server.nodes[new - 1].port), "the replica answers")
        self.server.promote(new)
        self.node = new
        self.server.restart(old)

    def _caught_up(self) -> bool:
        def offset(node: int, of: bytes) -> int:
            said = self.server.ask("INFO", "replication", node=node)
            found = [line.partition(b":")[2] for line in said.splitlines() if line.startswith(of + b":")]
            return int(found[0]) if found else -1

        had = offset(self.node, b"master_repl_offset")
        return offset(self.other, b"slave_repl_offset") >= had >= 0


class Emulated(Ground):
    """moto keeps all in its memory, so it is not ended: it is frozen, and told to refuse."""

    kinds = (*MEMBERS, "server-freeze", "writes-denied", "reads-throttled")

    def __init__(self, moto: Any) -> None:
        super().__init__(moto.stream_url)
        self.moto = moto

    def freeze(self) -> None:
        self.moto.freeze()

    def thaw(self) -> None:
        self.moto.thaw()


def _copy(data: Path, to: Path) -> None:
    """Of a stopped server's data, with its owners."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(data, to, symlinks=True)
    owner = data.stat()
    for path in (to, *to.rglob("*")):
        shutil.chown(path, owner.st_uid, owner.st_gid)
