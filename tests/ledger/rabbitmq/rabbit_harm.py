"""What tests of the ledger on RabbitMQ share."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pares.ledger
from pares.dev import RabbitMQ
from pares.ledger import Ledger


def opened(server: RabbitMQ, stream: str = "pares", **options: object) -> Ledger:
    return pares.ledger.open(f"{server.stream_url(stream)}?timeout=5", **options)


class Proxy:
    """Passes everything on to a server, and can cut all connections."""

    def __init__(self, host: str, port: int) -> None:
        self._to = (host, port)
        self._pairs: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._start(self._accept)

    def _start(self, work: Callable[..., None], *given: socket.socket) -> None:
        self._threads.append(threading.Thread(target=work, args=given, daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(self._to)
            except OSError:
                near.close()
                continue
            self._pairs += [near, far]
            for one, other in ((near, far), (far, near)):
                self._start(self._pass_on, one, other)

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        try:
            while data := one.recv(65536):
                other.sendall(data)
        except OSError:
            pass
        end(one)
        end(other)

    def cut(self) -> None:
        """End all connections, whatever is on its way."""
        for each in self._pairs:
            end(each)

    def shut(self) -> None:
        """Cut all connections, and take no new ones."""
        end(self._listener)
        self.cut()

    def close(self) -> None:
        self.shut()
        for thread in self._threads:
            thread.join()
        for each in (*self._pairs, self._listener):
            each.close()


def end(plug: socket.socket) -> None:
    """A thread that waits for it hears of it."""
    try:
        plug.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


@contextmanager
def proxied(server: RabbitMQ) -> Iterator[tuple[Proxy, str]]:
    """A proxy before a server, and the URL of a ledger through it."""
    proxy = Proxy("127.0.0.1", server.port)
    try:
        yield proxy, f"rabbitmq-stream://127.0.0.1:{proxy.port}/pares"
    finally:
        proxy.close()
