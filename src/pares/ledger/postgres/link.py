"""Connections to the primary: which of the servers it is, whether a pooler stands in between, and one that requests share.

A request is sent once. When its connection breaks, the caller hears of it, and the next request finds another connection.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Final

from pares.core.errors import CapabilityError, LedgerUnavailable
from pares.ledger.handle_state import Lifetime
from pares.ledger.postgres.errors import GONE, NOT_PREPARED, Broken, Refused, advice, unavailable
from pares.ledger.postgres.settings import Settings
from pares.ledger.postgres.statements import Statements
from pares.ledger.postgres.wire import Row, Wire, connect, number
from pares.ledger.service_log import Gone

OLDEST: Final = 130_000
"""The oldest version of the server that will do."""
_HELLO: Final = (
    "SELECT pg_is_in_recovery()::int::bigint, pg_backend_pid()::bigint, "
    "(current_setting('transaction_read_only') = 'on')::int::bigint"
)
_PID: Final = "SELECT pg_backend_pid()::bigint"
_BREATH: Final = 0.05
"""Seconds between two attempts to find a primary."""
_TURNS: Final = 3


class Link:
    """For any thread. `ask`, `wire` and `open_wire` raise `LedgerUnavailable`."""

    def __init__(self, settings: Settings, statements: Statements, lifetime: Lifetime) -> None:
        self.settings = settings
        self.shared: bool | None = None
        """Whether a pooler lends connections for a transaction at a time; None: nobody has looked."""
        self.pooled = False
        """A pooler stands in between."""
        self.version = 0
        self._statements = statements
        self._lifetime = lifetime
        self._lock = threading.Lock()
        self._wire: Wire | None = None
        self._last = 0
        self._again_at = 0.0
        self._why = ""
        self._stop, self._stopping = os.pipe()
        self._finding = threading.Lock()

    @contextmanager
    def wire(self, doing: str, seconds: float | None = None) -> Generator[tuple[Wire, float]]:
        """The connection for requests, and the deadline. It is dropped after whatever leaves it in doubt; what the caller does
        not make of `Broken` and `Refused` itself becomes `LedgerUnavailable`, of something that did not happen."""
        deadline = time.monotonic() + (seconds or self.settings.timeout)
        if not self._lock.acquire(timeout=seconds or self.settings.timeout):
            raise self.unavailable(doing, "another thread of this process still waits for the server")
        try:
            self._lifetime.check()
            wire = self._wire
            if wire is None or not wire.alive():
                self._drop()
                wire = self._wire = self.open_wire(deadline, doing)
            try:
                yield wire, deadline
            except Broken as error:
                self._drop()
                self._lifetime.check()
                raise self.unavailable(doing, error.why) from None
            except Refused as error:
                self._recover(wire, error, deadline)
                raise self.refused(doing, error) from None
            except BaseException:
                self._drop()  # also Ctrl-C in the middle of an answer
                raise
        finally:
            self._lock.release()

    def ask(
        self, sql: str, values: Sequence[object], doing: str, *, name: str = "", seconds: float | None = None
    ) -> list[Row]:
        """One statement that may be cut off at any moment without harm, and its rows."""
        with self.wire(doing, seconds) as (wire, deadline):
            return wire.query(sql, values, deadline, name)

    def _recover(self, wire: Wire, error: Refused, deadline: float) -> None:
        """After a refusal: the connection goes on only if nothing of it is left."""
        from psycopg.pq import TransactionStatus

        if error.state == NOT_PREPARED:
            self.shared = None  # somebody else's connection: look again
        try:
            if wire.connection.transaction_status != TransactionStatus.IDLE:
                wire.script("ROLLBACK", deadline)
        except (Broken, Refused):
            self._drop()
        if not error.certain or error.state == NOT_PREPARED:
            self._drop()

    def _drop(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.abort()

    def lent(self) -> LedgerUnavailable:
        """For a connection on which another process of the server has answered than before: it is not one's own."""
        self.shared = True
        return self.unavailable(
            "rely on a connection", "a pooler lends it for a transaction at a time: from now on it is used so"
        )

    def unavailable(self, doing: str, why: str, *, unknown: bool = False) -> LedgerUnavailable:
        return unavailable(self.settings.where, doing, why, unknown=unknown)

    def refused(self, doing: str, error: Refused, *, unknown: bool = False) -> LedgerUnavailable:
        if error.state in GONE:
            return Gone(
                f"{self.settings.where}: could not {doing}: the table is gone; a member that looks for it makes it anew"
            )
        return self.unavailable(doing, advice(error, self._statements.hold), unknown=unknown)

    # Connections -----------------------------------------------------------------------------------------------------

    def open_wire(self, deadline: float, doing: str = "connect") -> Wire:
        """A new connection to the primary, as it is to be used."""
        with self._finding:
            now = time.monotonic()
            if now < self._again_at:
                raise self.unavailable(doing, self._why)
            try:
                return self._find(deadline)
            except (Broken, Refused) as error:
                self._why = error.why if isinstance(error, Broken) else error.text
                self._again_at = time.monotonic() + _BREATH
                raise self.unavailable(doing, self._why) from None

    def _find(self, deadline: float) -> Wire:
        """Each server in turn, beginning with the one that was the primary last."""
        servers = self.settings.servers
        said: list[str] = []
        for turn in range(len(servers)):
            at = (self._last + turn) % len(servers)
            share = time.monotonic() + max(0.0, deadline - time.monotonic()) / (len(servers) - turn)
            try:
                wire = connect(self.settings, servers[at], share, self._stop)
            except Broken as error:
                said.append(error.why if servers[at] in error.why else f"{servers[at]}: {error.why}")
                continue
            try:
                if why := self._unfit(wire, share):
                    said.append(f"{servers[at]}: {why}")
                    wire.close()
                    continue
                self._settle(wire, deadline)
            except Broken as error:
                wire.abort()
                said.append(f"{servers[at]}: {error.why}")
                continue
            except BaseException:
                wire.abort()
                raise
            self._last = at
            return wire
        raise Broken("; ".join(said), sent=False)

    def _unfit(self, wire: Wire, deadline: float) -> str:
        """Why the server can't be written to, if so. Raises `CapabilityError` for one that never will do."""
        if wire.version < OLDEST:
            raise CapabilityError(
                f"{self.settings.where}: {wire.server} is a PostgreSQL {wire.version // 10_000}: a ledger needs "
                f"{OLDEST // 10_000} or newer; upgrade the server, or use another one"
            )
        (answer,) = wire.query(_HELLO, [], deadline)
        standby, wire.pid, unwritable = (number(value) for value in answer)
        self.version = wire.version
        self.pooled = wire.pid != wire.connection.backend_pid
        if standby:
            return (
                "it is a read replica (a standby), and takes no writes: name the primary, or all servers, with commas"
            )
        if unwritable and not self.settings.readonly:
            return "default_transaction_read_only is on: have it switched off for this user and database"
        return ""

    def _settle(self, wire: Wire, deadline: float) -> None:
        if not self.pooled:
            self.shared = False
        elif self.shared is None:
            self.shared = self._lends(wire, deadline)
        wire.shared = self.shared or False
        if not wire.shared:
            wire.script(self._statements.session(wire.version), deadline)

    def _lends(self, one: Wire, deadline: float) -> bool:
        """Whether the pooler gives a connection to another client as soon as a transaction is over. Two clients that take
        turns are then on one server process, sooner or later: at once where the pooler gives out what came back last, in two
        turns where it is what came back first."""
        try:
            other = connect(self.settings, one.server, deadline, self._stop)
        except Broken as error:
            raise Broken(
                f"a pooler stands before it, and has no second connection, which a member needs: {error.why}"
            ) from None
        try:
            one.script("BEGIN", deadline)
            held = self._pid(one, deadline)
            others = {self._pid(other, deadline)}
            one.script("COMMIT", deadline)
            for _ in range(_TURNS):
                others.add(self._pid(other, deadline))
            return held in others or len(others) > 1 or self._pid(one, deadline) != held
        except Refused as error:
            raise Broken(
                f"a pooler stands before it that allows no transaction ({error.text}): pool_mode=statement won't do; set "
                "pool_mode=session, or connect without it"
            ) from None
        except Broken as error:
            raise Broken(
                f"a pooler stands before it, and gave no second connection in time ({error.why}): a member needs two; "
                "raise its pool_size"
            ) from None
        finally:
            other.abort()

    def _pid(self, wire: Wire, deadline: float) -> int:
        return number(wire.query(_PID, [], deadline)[0][0])

    @property
    def stop(self) -> int:
        """Readable from `close` on."""
        return self._stop

    def close(self, others: Callable[[], None]) -> None:
        """Nobody has to wait for an answer any more; then `others` is called, and all is given back."""
        os.write(self._stopping, b"!")
        others()
        with self._lock:
            wire, self._wire = self._wire, None
            if wire is not None:
                wire.close()
        os.close(self._stop)
        os.close(self._stopping)
