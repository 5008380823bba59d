"""One connection to a PostgreSQL server, from its beginning to its end, with a deadline for everything.

libpq is used without blocking: a server that is frozen, or a network that swallows everything, costs no more than the time that
was given. A wire never reconnects, and sends nothing twice.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pares.core.errors import CapabilityError
from pares.ledger.postgres.errors import Broken, Refused
from pares.ledger.postgres.settings import Settings

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn, PGresult

Row = list[bytes | None]

_PAUSE: Final = 0.002


class Wire:
    """For one thread at a time. `stop`: a descriptor that becomes readable when nobody wants an answer any more."""

    def __init__(self, connection: PGconn, settings: Settings, server: str, stop: int) -> None:
        self.server = server
        self.connection = connection
        self.prepared: set[str] = set()
        self.shared = False
        """A pooler lends its connections to any client: each transaction may be on another one."""
        self.pid = 0
        """The server's process, as it has said itself."""
        self.run: int | None = None
        """When the server that answers was started, as it has said last."""
        self.warnings: list[str] = []
        """What the server has warned of since the last request."""
        self._settings = settings
        self._stop = stop
        self._unsent = False
        connection.notice_handler = self._notice

    @property
    def version(self) -> int:
        return self.connection.server_version

    def query(self, sql: str, values: Sequence[object], deadline: float, name: str = "") -> list[Row]:
        """One statement and its rows, in binary. With a `name` it is prepared once, where that is of use."""
        given = [str(value).encode() for value in values]
        if name and not self.shared:
            if name not in self.prepared:
                self._send(lambda: self.connection.send_prepare(name.encode(), sql.encode()), deadline)
                self.prepared.add(name)
            results = self._send(
                lambda: self.connection.send_query_prepared(name.encode(), given, result_format=1), deadline
            )
        else:
            results = self._send(
                lambda: self.connection.send_query_params(sql.encode(), given, result_format=1), deadline
            )
        return rows(results[-1])

    def prepare(self, name: str, sql: str, deadline: float) -> None:
        """See to it that a statement is there for `script`."""
        if name not in self.prepared:
            self._send(lambda: self.connection.send_prepare(name.encode(), sql.encode()), deadline)
            self.prepared.add(name)

    def script(self, text: str, deadline: float) -> list[PGresult]:
        """Several statements in one message, on which the server acts only when all of it has come. Results in text.

        Raises `Refused` for the first error; with it, and with `Broken`, `done` has what was answered before."""
        self.done: list[PGresult] = []
        return self._send(lambda: self.connection.send_query(text.encode()), deadline)

    def _send(self, send: _Send, deadline: float) -> list[PGresult]:
        from psycopg import Error
        from psycopg.pq import DiagnosticField, ExecStatus

        self.warnings, self.done, self._unsent = [], [], True
        error: Refused | None = None
        try:
            send()
            self._unsent = self.connection.flush() == 1
            while True:
                while not self.connection.is_busy():
                    result = self.connection.get_result()
                    if result is None:
                        if error is not None:
                            raise error
                        return self.done
                    if result.status in (ExecStatus.FATAL_ERROR, ExecStatus.BAD_RESPONSE):
                        state = result.error_field(DiagnosticField.SQLSTATE)
                        if state is None:  # libpq's own: the connection is over
                            raise error or Broken(self._said(result.error_message), sent=not self._unsent)
                        severity = result.error_field(DiagnosticField.SEVERITY_NONLOCALIZED) or b"FATAL"
                        text = result.error_field(DiagnosticField.MESSAGE_PRIMARY) or b""
                        error = error or Refused(_text(state), _text(severity), self._said(text))
                    else:
                        self.done.append(result)
                self._wait(deadline, writing=self._unsent)
                if self._unsent:
                    self._unsent = self.connection.flush() == 1
                self.connection.consume_input()
        except Error as lost:
            raise error or Broken(self._said(str(lost).encode()), sent=not self._unsent) from None

    def _wait(self, deadline: float, *, writing: bool = False) -> None:
        left = deadline - time.monotonic()
        listening = select.poll()
        listening.register(self.connection.socket, select.POLLIN | (select.POLLOUT if writing else 0))
        listening.register(self._stop, select.POLLIN)
        ready = listening.poll(max(0.0, left) * 1000)
        if any(descriptor == self._stop for descriptor, _ in ready):
            raise Broken("the ledger was closed", sent=not self._unsent)
        if not ready and left <= 0:
            raise Broken(f"{self.server} does not answer in time", sent=not self._unsent)

    def heard(self) -> dict[str, set[str]]:
        """Channels on which something was notified, and what the notices said; what has come is read. Raises `Broken`."""
        from psycopg import Error

        try:
            self.connection.consume_input()
            found: dict[str, set[str]] = {}
            while (notify := self.connection.notifies()) is not None:
                found.setdefault(_text(notify.relname), set()).add(_text(notify.extra))
            return found
        except Error as lost:
            raise Broken(self._said(str(lost).encode()), sent=False) from None

    def alive(self) -> bool:
        """Whether the server has not ended it meanwhile, as far as this side has heard."""
        from psycopg.pq import ConnStatus

        if self.connection.status != ConnStatus.OK:
            return False
        try:
            listening = select.poll()
            listening.register(self.connection.socket, select.POLLIN)
            if listening.poll(0):
                self.heard()
        except Broken:
            return False
        return self.connection.status == ConnStatus.OK

    def close(self) -> None:
        """An orderly end."""
        self.connection.finish()

    def abort(self) -> None:
        """End it, and take back from the system what it has not delivered yet."""
        try:
            plug = socket.socket(fileno=self.connection.socket)
            try:
                plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            finally:
                plug.detach()
        except Exception:  # there is no socket any more
            pass
        self.connection.finish()

    def _notice(self, notice: PGresult) -> None:
        from psycopg.pq import DiagnosticField

        if notice.error_field(DiagnosticField.SEVERITY_NONLOCALIZED) == b"WARNING":
            self.warnings.append(self._said(notice.error_field(DiagnosticField.MESSAGE_PRIMARY) or b""))

    def _said(self, text: bytes) -> str:
        return self._settings.scrubbed(" ".join(_text(text).split())) or "the connection is closed"


if TYPE_CHECKING:
    from collections.abc import Callable

    _Send = Callable[[], None]


def connect(settings: Settings, server: str, deadline: float, stop: int) -> Wire:
    """A connection to one server. Raises `Broken` with what it said, or the system."""
    try:
        from psycopg import Error, pq
        from psycopg.conninfo import make_conninfo
    except ImportError as error:
        raise CapabilityError(f"PostgreSQL ledgers need psycopg 3 ({error}): pip install 'pares[postgres]'") from error

    try:
        told = make_conninfo("", **settings.told(server))
    except Error as error:
        raise Broken(settings.scrubbed(str(error)), sent=False) from None
    connection: PGconn = pq.PGconn.connect_start(told.encode())
    try:
        while True:
            status = connection.connect_poll()
            if status == pq.PollingStatus.OK:
                connection.nonblocking = 1
                return Wire(connection, settings, server, stop)
            if status == pq.PollingStatus.FAILED:
                raise Broken(_why(connection, settings), sent=False)
            events = select.POLLIN if status == pq.PollingStatus.READING else select.POLLOUT
            listening = select.poll()
            listening.register(connection.socket, events)
            listening.register(stop, select.POLLIN)
            left = deadline - time.monotonic()
            ready = listening.poll(max(0.0, left) * 1000)
            if any(descriptor == stop for descriptor, _ in ready):
                raise Broken("the ledger was closed", sent=False)
            if not ready and left <= 0:
                raise Broken(f"{server} does not answer in time", sent=False)
    except Error as error:
        connection.finish()
        raise Broken(settings.scrubbed(str(error)), sent=False) from None
    except BaseException:
        connection.finish()
        raise


def _why(connection: PGconn, settings: Settings) -> str:
    said = settings.scrubbed(" ".join(_text(connection.error_message).split()))
    if connection.needs_password:
        return f"{said}; let libpq find a password (PGPASSWORD, ~/.pgpass), or give options={{'password': ...}} or config=FILE"
    if connection.used_password:
        return f"{said}; a password was given: look whether it, the user and the database are right"
    return said


def rows(result: PGresult) -> list[Row]:
    return [[result.get_value(row, column) for column in range(result.nfields)] for row in range(result.ntuples)]


def number(value: bytes | None) -> int:
    """An integer in binary."""
    return int.from_bytes(value or b"", "big", signed=True)


def _text(value: bytes) -> str:
    return bytes(value).decode(errors="replace")
