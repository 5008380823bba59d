"""A proxy between a ledger and its server, that holds back what the server says, or cuts connections.

Not for Pulsar: a broker names the address that it advertises, and the client connects to that, past any proxy.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

from pares.dev.cluster import LocalCluster


class Proxy:
    """Passes on to a port of this host. `hold` keeps back what the server says from now on, until `release`; with a word, only
    on connections on which a client has said that."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._flows = threading.Event()
        self._flows.set()
        self._word = b""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.taken = 0
        """How many connections clients have made so far."""
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def hold(self, word: bytes = b"") -> None:
        self._word = word
        self._flows.clear()

    def release(self) -> None:
        self._flows.set()

    def cut(self) -> None:
        """End all connections. What is on its way, or held, never comes."""
        for each in self._sockets:
            _end(each)

    def shut(self) -> None:
        """Cut all connections, and take no new ones."""
        _end(self._listener)
        self.cut()

    def close(self) -> None:
        self.shut()
        self.release()
        for thread in self._threads:
            thread.join()
        for each in (self._listener, *self._sockets):
            each.close()

    def _start(self, work: object, *given: object) -> None:
        assert callable(work)
        self._threads.append(threading.Thread(target=work, args=given, daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                client.close()
                continue
            self._sockets += [client, server]
            self.taken += 1
            said: list[bytes] = []
            self._start(self._pump, client, server, said, False)
            self._start(self._pump, server, client, said, True)

    def _pump(self, one: socket.socket, other: socket.socket, said: list[bytes], held: bool) -> None:
        with contextlib.suppress(OSError):
            while part := one.recv(65536):
                if not held:
                    said.append(part)
                elif self._word in b"".join(said):
                    self._flows.wait()
                other.sendall(part)
        _end(one)
        _end(other)


def _end(plug: socket.socket) -> None:
    """A thread that waits for it hears of it."""
    with contextlib.suppress(OSError):
        plug.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def proxied(server: LocalCluster, url: str) -> Iterator[tuple[Proxy, str]]:
    """A proxy before a server of one node, and a ledger's URL through it."""
    port = server.nodes[0].port
    proxy = Proxy(port)
    try:
        yield proxy, url.replace(f":{port}/", f":{proxy.port}/")
    finally:
        proxy.close()
