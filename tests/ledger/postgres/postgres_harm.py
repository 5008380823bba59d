"""What tests of the ledger on PostgreSQL share: statements by a plain client, and messages by hand."""

from __future__ import annotations

import shutil
import socket
import struct
import time
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


def wait_for(done: Any, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.02)
