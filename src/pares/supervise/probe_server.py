"""A small server for probes, for processes that have no web server of their own, such as `pares run`.

It answers what `health_app` answers (/livez, /readyz, /leader), on threads of its own, without ASGI and without a framework. A
probe must not be able to harm what it looks at: requests are read for a few seconds at most, few are served at once, what
comes beyond them is turned away, and nothing that a client sends is kept or logged.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from pares.core.errors import ConfigError
from pares.runtime.probes import Answer, answer, rendered

LOOPBACK: Final = "127.0.0.1"
READ_SECONDS: Final = 5.0
"""How long a client may take to send its request, or to take the answer."""
AT_ONCE: Final = 16
"""Requests that are served at the same time."""


class ProbeServer:
    """Answers probes for a member until it is closed.

    `member`: returns a `Member`, one of `pares.aio`, or None as long as there is none. `port`: 0 for any that is free. `host`:
    the address that it listens on; the default can be reached from this host only. `role`: what /leader is about when no
    `?role=` is given. Raises `ConfigError` when it can't listen there.
    """

    def __init__(
        self, member: Callable[[], object], port: int, *, host: str = LOOPBACK, role: str | None = None
    ) -> None:
        if not 0 <= port <= 65535:
            raise ConfigError(f"port {port} can't be: give 1 to 65535")

        def asked(method: str, target: str) -> Answer:
            path, _, query = target.partition("?")
            return answer(member, method, path, query, role=role)

        try:
            self._server = _Server(host, port, asked)
        except OSError as error:
            raise ConfigError(
                f"probes can't be answered on {host} port {port}: {error.strerror or error}; choose another port or address"
            ) from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="probes", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._server.server_address[1]

    def close(self) -> None:
        """Stops listening. Answers that are on their way are not waited for."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, host: str, port: int, asked: Callable[[str, str], Answer]) -> None:
        self.asked = asked
        self._free = threading.BoundedSemaphore(AT_ONCE)
        if ":" in host:
            import socket

            self.address_family = socket.AF_INET6
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        # The base class looks up the host's name here, which asks a name server and may take seconds.
        import socketserver

        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride]
    timeout = READ_SECONDS
    server_version = "pares"
    sys_version = ""

    def do_GET(self) -> None:
        status, said = self.server.asked(self.command, self.path)
        headers, body = rendered(status, said, self.command)
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Probes come every few seconds: none is worth a line."""
