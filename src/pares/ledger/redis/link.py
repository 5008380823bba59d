"""Connections to the master: which of the servers it is, and one connection that requests share.

A request is sent once. When its connection breaks, the caller hears of it, and the next request finds another connection.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from pares.core.errors import CapabilityError, ConfigError, LedgerUnavailable
from pares.ledger.handle_state import Lifetime
from pares.ledger.redis.errors import ELSEWHERE, Broken, Refused, advice, unavailable
from pares.ledger.redis.scripts import Script
from pares.ledger.redis.settings import Settings
from pares.ledger.redis.wire import OLDEST, Wire, advised, connect, pairs

_BREATH: Final = 0.05
"""Seconds between two attempts to find a master."""
_GRACE: Final = 0.5
"""Seconds for which `close` leaves a request that is under way to its answer."""


class Link:
    """For any thread. Everything raises `LedgerUnavailable`."""

    def __init__(self, settings: Settings, lifetime: Lifetime) -> None:
        self.settings = settings
        self.server: dict[str, str] = {}
        """What the server said of itself when it was connected to last: the answer to INFO."""
        self._lifetime = lifetime
        self._lock = threading.Lock()
        self._wire: Wire | None = None
        self._last = 0
        self._again_at = 0.0
        self._why = ""
        self._finding = threading.Lock()

    @contextmanager
    def wire(self, doing: str) -> Generator[Wire]:
        """The connection for requests. It is dropped after whatever leaves it in doubt; what the caller does not make of
        `Broken` and `Refused` itself becomes `LedgerUnavailable`, of something that did not happen."""
        if not self._lock.acquire(timeout=self.settings.timeout):
            self._lifetime.check()
            raise self.unavailable(doing, "another thread of this process still waits for the server")
        try:
            self._lifetime.check()
            wire = self._wire
            if wire is None or not wire.alive():
                self._drop()
                wire = self._wire = self.open_wire(doing)
            try:
                yield wire
            except Broken as error:
                self._drop()
                self._lifetime.check()
                raise self.unavailable(doing, error.why) from None
            except Refused as error:
                if error.code in ELSEWHERE:
                    self._drop()
                raise self.unavailable(doing, advice(error)) from None
            except LedgerUnavailable as error:
                if error.unknown:
                    self._drop()
                raise
            except BaseException:
                self._drop()  # also Ctrl-C in the middle of an answer
                raise
        finally:
            self._lock.release()

    def run(self, script: Script, keys: Sequence[str], values: Sequence[object], doing: str) -> Any:
        """A script that may be cut off at any moment without harm, and its answer."""
        with self.wire(doing) as wire:
            return wire.run(script, keys, values)[0]

    def info(self, doing: str) -> dict[str, str]:
        """What the server says of itself, now."""
        with self.wire(doing) as wire:
            return dict(pairs(wire.ask("INFO")))

    def append(self, script: Script, keys: Sequence[str], values: Sequence[object]) -> Any:
        """The same, sent once and of unknown outcome unless the server, or nobody, has answered."""
        with self.wire("append") as wire:
            try:
                answer, replicas = wire.run(script, keys, values, self.settings.replicas)
            except Broken as error:
                if not error.sent:
                    raise
                raise self.unavailable("append", error.why, unknown=True) from None
            if answer[0] == b"ok" and replicas < self.settings.replicas:
                raise self.unavailable(
                    "append",
                    f"it is in the log of the master, and {replicas} of {self.settings.replicas} replicas had it in time",
                    unknown=True,
                )
            return answer

    def _drop(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()

    def unavailable(self, doing: str, why: str, *, unknown: bool = False) -> LedgerUnavailable:
        return unavailable(self.settings.where, doing, why, unknown=unknown)

    # Connections -----------------------------------------------------------------------------------------------------

    def open_wire(self, doing: str = "connect") -> Wire:
        """A new connection to the master."""
        with self._finding:
            now = time.monotonic()
            if now < self._again_at:
                raise self.unavailable(doing, self._why)
            try:
                return self._find(now + self.settings.connect)
            except (Broken, Refused) as error:
                self._why = error.why if isinstance(error, Broken) else advice(error)
                self._again_at = time.monotonic() + _BREATH
                raise self.unavailable(doing, self._why) from None

    def _find(self, deadline: float) -> Wire:
        """Each server in turn, beginning with the one that was the master last, or that knew who is."""
        servers = self.settings.servers
        said: list[str] = []
        for turn in range(len(servers)):
            at = (self._last + turn) % len(servers)
            share = max(0.0, deadline - time.monotonic()) / (len(servers) - turn)
            try:
                server = self._master(servers[at], share) if self.settings.sentinel else servers[at]
                wire = self._fit(server, share)
            except (Broken, Refused) as error:
                why = error.why if isinstance(error, Broken) else advice(error)
                said.append(why if servers[at] in why else f"{servers[at]}: {why}")
                continue
            self._last = at
            return wire
        raise Broken("; ".join(said), sent=False)

    def _master(self, sentinel: str, seconds: float) -> str:
        """Where the master is, by a Sentinel."""
        name = self.settings.sentinel
        wire = connect(self.settings, sentinel, seconds, sentinel=True)
        try:
            found = wire.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", name)
        except Refused as error:
            if "unknown command" in error.text.lower():
                raise Broken(f"{sentinel} is no Sentinel: leave ?sentinel= out, or name one", sent=False) from None
            raise
        finally:
            wire.close()
        if not found:
            raise Broken(f"{sentinel} is a Sentinel that knows of no master {name}", sent=False)
        host, port = (part.decode() for part in found)
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def _fit(self, server: str, seconds: float) -> Wire:
        """A connection to a server that is a master. Raises `CapabilityError` for one that never will do."""
        wire = connect(self.settings, server, seconds)
        try:
            try:
                info = dict(pairs(wire.ask("INFO")))
            except Refused as error:
                raise Broken(f"{server}: INFO: {advice(error)}", sent=False) from None
            except Broken as error:
                raise Broken(advised(error.why, self.settings, server), sent=False) from None
            self._check(server, info)
        except BaseException:
            wire.close()
            raise
        self.server = info
        return wire

    def _check(self, server: str, info: dict[str, str]) -> None:
        where, mode, said = self.settings.where, info.get("redis_mode", ""), info.get("redis_version", "")
        if mode == "sentinel":
            raise ConfigError(
                f"{where}: {server} is a Sentinel, which keeps no data: add ?sentinel=NAME, with the name that it knows the "
                "master by"
            )
        if mode == "cluster" or info.get("cluster_enabled") == "1":
            raise CapabilityError(
                f"{where}: {server} is a node of a Redis Cluster, and this ledger is kept by one master: use a Redis without "
                "cluster mode, with replicas and Sentinels if it is to fail over (?sentinel=NAME)"
            )
        version = tuple(int(part) for part in said.split(".")[:2] if part.isdecimal())
        if version < OLDEST:
            raise CapabilityError(
                f"{where}: {server} is a Redis {said or 'of unknown version'}: a ledger needs "
                f"{'.'.join(map(str, OLDEST))} or newer; upgrade the server, or use another one"
            )
        if "run_id" not in info or "master_replid" not in info:
            raise CapabilityError(
                f"{where}: {server} does not say in INFO which run of it this is (run_id, master_replid), so nobody would "
                "notice what a failover loses: use a Redis or Valkey"
            )
        if info.get("loading") == "1":
            raise Broken(f"{server} is still loading its data", sent=False)
        if info.get("role") != "master":
            raise Broken(
                f"{server} is a replica, and takes no writes: name the master, or all servers, with commas, or Sentinels with "
                "?sentinel=NAME",
                sent=False,
            )

    def close(self) -> None:
        """Nobody has to wait for an answer any more, and the connection is given back."""
        # What is under way is about to be answered; an append that was cut off here would be of unknown outcome.
        if not self._lock.acquire(timeout=_GRACE):
            wire = self._wire
            if wire is not None:
                wire.close()
            self._lock.acquire()
        self._drop()
        self._lock.release()
