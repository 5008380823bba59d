"""Asks a broker who is there, in Kafka's own protocol, over a socket: the test that a broker serves.

It takes a real request through the broker's network, login, request and metadata layers. A line in a log file, or a port that
accepts, would say less; a client library would be a dependency, and would hide in retries what is to be seen here.

Requests and the versions used (the newest ones without tagged fields; every broker since Kafka 2.4 knows them):
SaslHandshake 1, SaslAuthenticate 0, Metadata 8.
"""

from __future__ import annotations

import socket
import ssl
import struct
from dataclasses import dataclass
from typing import Final

from pares.core.errors import LedgerUnavailable
from pares.dev.kafka.settings import Security
from pares.dev.place import Place

_METADATA: Final = (3, 8)
_SASL_HANDSHAKE: Final = (17, 1)
_SASL_AUTHENTICATE: Final = (36, 0)
_LIMIT: Final = 16 << 20


@dataclass(frozen=True)
class View:
    """The cluster as one broker sees it: the nodes that are up, which of them is the controller (-1: none is known)."""

    brokers: frozenset[int]
    controller: int
    cluster: str | None


def look(node: Place, security: Security, timeout: float) -> View:
    """Asks one broker. Raises `LedgerUnavailable`, within about `timeout` seconds, if it does not answer."""
    try:
        with socket.create_connection((node.host, node.port), timeout) as plain, _wrapped(plain, security) as wire:
            wire.settimeout(timeout)
            if security.users:
                _log_in(wire, security)
            # No topics; make none; no lists of rights.
            return _view(_Reader(_ask(wire, _METADATA, struct.pack(">i???", 0, False, False, False))))
    except (OSError, struct.error, IndexError) as error:
        raise LedgerUnavailable(f"node {node.id} at {node.address} does not answer: {error}") from None


def _wrapped(plain: socket.socket, security: Security) -> socket.socket:
    if security.certificate is None:
        return plain
    context = ssl.create_default_context(cafile=str(security.certificate))
    context.check_hostname = False
    return context.wrap_socket(plain)


def _log_in(wire: socket.socket, security: Security) -> None:
    client = security.client()
    _ask(wire, _SASL_HANDSHAKE, _string("PLAIN"))
    token = f"\0{client['sasl.username']}\0{client['sasl.password']}".encode()
    answer = _Reader(_ask(wire, _SASL_AUTHENTICATE, struct.pack(">i", len(token)) + token))
    if code := answer.int16():
        raise OSError(f"the login was refused (error {code}: {answer.string()})")


def _ask(wire: socket.socket, api: tuple[int, int], body: bytes) -> bytes:
    request = struct.pack(">hhi", *api, 1) + _string("pares-dev") + body
    wire.sendall(struct.pack(">i", len(request)) + request)
    (size,) = struct.unpack(">i", _exactly(wire, 4))
    if not 4 <= size <= _LIMIT:
        raise OSError(f"an answer of {size} bytes: that is no Kafka broker")
    return _exactly(wire, size)[4:]  # behind the number of the request


def _exactly(wire: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = wire.recv(size - len(parts))
        if not part:
            raise OSError("it closed the connection")
        parts += part
    return bytes(parts)


def _string(value: str) -> bytes:
    raw = value.encode()
    return struct.pack(">h", len(raw)) + raw


def _view(answer: _Reader) -> View:
    answer.int32()  # for how long the broker would like to be left alone
    brokers: set[int] = set()
    for _ in range(answer.int32()):
        brokers.add(answer.int32())
        answer.string()
        answer.int32()
        answer.string()
    cluster = answer.string()
    return View(frozenset(brokers), answer.int32(), cluster)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def _take(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return value

    def int16(self) -> int:
        return self._take(">h")

    def int32(self) -> int:
        return self._take(">i")

    def string(self) -> str | None:
        size = self.int16()
        if size < 0:
            return None
        self._at += size
        return self._data[self._at - size : self._at].decode()
