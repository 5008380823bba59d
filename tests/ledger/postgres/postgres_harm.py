"""What tests of the ledger on PostgreSQL share: statements by a plain client, and a proxy that holds things back."""

from __future__ import annotations

import contextlib
import shutil
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

from pares.dev import Postgres


def sql(url: str, *statements: str) -> list[Any]:
    """Statements, each committed by itself; the rows of the last one."""
    rows: list[Any] = []
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            cursor = connection.execute(statement.encode())
            rows = cursor.fetchall() if cursor.description else []
    return rows


def data_of(server: Postgres) -> Path:
    return server.nodes[0].folder / "data"


def copy_of(data: Path, to: Path) -> None:
    """A copy of a stopped server's data, with its owners."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(data, to, symlinks=True)
    owner = data.stat()
    for path in (to, *to.rglob("*")):
        shutil.chown(path, owner.st_uid, owner.st_gid)


def raw(server: Postgres) -> socket.socket:
    """A session by hand, ready for a message."""
    wire = socket.create_connection(("127.0.0.1", server.port), timeout=30)
    words = b"".join(text.encode() + b"\0" for text in ("user", "pares", "database", "postgres")) + b"\0"
    wire.sendall(struct.pack(">ii", 8 + len(words), 196608) + words)
    said = b""
    while not said.endswith(b"Z\0\0\0\x05I"):
        said += wire.recv(4096)
    return wire


def message(text: str) -> bytes:
    """A message of the simple protocol."""
    body = text.encode() + b"\0"
    return b"Q" + struct.pack(">i", 4 + len(body)) + body


class Proxy:
    """Stands between clients and a server. `hold` keeps back what the server says from now on, until `release`; with a word,
    only on connections on which a client has said that."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._flows = threading.Event()
        self._flows.set()
        self._word = b""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def hold(self, word: bytes = b"") -> None:
        self._word = word
        self._flows.clear()

    def release(self) -> None:
        self._flows.set()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._to))
                self._sockets += [client, server]
                said: list[bytes] = []
                threading.Thread(target=self._pump, args=(client, server, said, False), daemon=True).start()
                threading.Thread(target=self._pump, args=(server, client, said, True), daemon=True).start()

    def _pump(self, one: socket.socket, other: socket.socket, said: list[bytes], held: bool) -> None:
        with contextlib.suppress(OSError):
            while part := one.recv(65536):
                if not held:
                    said.append(part)
                elif self._word in b"".join(said):
                    self._flows.wait()
                other.sendall(part)
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.release()
        for end in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@contextlib.contextmanager
def proxied(server: Postgres) -> Iterator[tuple[Proxy, str]]:
    proxy = Proxy(server.port)
    try:
        yield proxy, server.url.replace(f":{server.port}/", f":{proxy.port}/")
    finally:
        proxy.close()


def wait_for(done: Any, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.02)
