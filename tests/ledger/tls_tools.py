"""Certificates for tests of ledgers over TLS, and TLS before a server that has none."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple


class Certificate(NamedTuple):
    """Files of a certificate that has signed itself, and of its key."""

    certificate: Path
    key: Path


def make(folder: Path, name: str = "IP:127.0.0.1") -> Certificate:
    """A new one, for that name."""
    folder.mkdir(exist_ok=True)
    made = Certificate(folder / "cert.pem", folder / "key.pem")
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=pares-tests",
        "-keyout",
    ]
    more = [made.key, "-out", made.certificate, "-addext", f"subjectAltName={name}"]
    subprocess.run([*command, *more], check=True, capture_output=True)
    made.key.chmod(0o644)  # a server may run as another user; nobody is let in by it
    return made


@contextmanager
def terminated(port: int, by: Certificate) -> Iterator[int]:
    """A port that speaks TLS, and passes on to one of this host that does not."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*by)
    listener = socket.create_server(("127.0.0.1", 0))
    sockets: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def accept() -> None:
        while True:
            try:
                plug, _ = listener.accept()
            except OSError:
                return
            sockets.append(plug)
            begin(serve, plug)

    def serve(plug: socket.socket) -> None:
        try:
            near = context.wrap_socket(plug, server_side=True)
        except OSError:  # it does not trust us, or does not speak TLS: by now it was told so
            plug.close()
            return
        # TLS may be read and written at once by two threads only if neither waits within the library.
        far = socket.create_connection(("127.0.0.1", port))
        sockets.extend((near, far))
        near.settimeout(0.02)
        lock = threading.Lock()
        begin(back, far, near, lock)
        with suppress(OSError):
            while True:
                try:
                    with lock:
                        data = near.recv(65536)
                except TimeoutError:
                    continue
                if not data:
                    break
                far.sendall(data)
        end(far)
        end(near)

    def back(far: socket.socket, near: ssl.SSLSocket, lock: threading.Lock) -> None:
        with suppress(OSError):
            while data := far.recv(65536):
                with lock:
                    near.settimeout(30)
                    near.sendall(data)
                    near.settimeout(0.02)
        end(near)

    def begin(work: object, *given: object) -> None:
        assert callable(work)
        threads.append(threading.Thread(target=work, args=given, daemon=True))
        threads[-1].start()

    begin(accept)
    try:
        yield listener.getsockname()[1]
    finally:
        end(listener)
        listener.close()
        for each in sockets:
            end(each)
        for thread in threads:
            thread.join(30)
        for each in sockets:
            each.close()


def end(plug: socket.socket) -> None:
    """A thread that waits for it hears of it."""
    with suppress(OSError):
        plug.shutdown(socket.SHUT_RDWR)
