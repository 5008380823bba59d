"""A contender whose truth is known: leases from a server that runs in the test itself, and writes down each change.

    python -m tests.bench.toy_lock HOST:PORT NAME SESSION

Two forms of asking: `deadline`, which is right, and `flag`, which stays up when a lease is lost: as wrong as can be.
"""

from __future__ import annotations

import contextlib
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Iterator
from typing import Final

from bench.part import play, tell

from pares.runtime.clock import stopwatch

LOOK: Final = 0.01


class Truth:
    """The lease's holder, and all holders in order, with when each got it (nanoseconds of the stopwatch)."""

    def __init__(self, session: float) -> None:
        self.history: list[tuple[str, int]] = []
        self._session = int(session * 1e9)
        self._holder, self._until = "", 0
        self._giver = ""
        """The one that gave it back last, if nobody else has had it since: that one does not get it."""
        self._guard = threading.Lock()

    def answer(self, word: str, name: str) -> bool:
        """Whether `name` has the lease now: `want` asks for it or renews it, `free` gives it back."""
        with self._guard:
            now = stopwatch()
            if word == "free" and self._holder == name:
                self._holder, self._giver = "", name
            elif word == "want" and name != self._giver and (self._holder in ("", name) or now >= self._until):
                if self._holder != name:
                    self.history.append((name, now))
                self._holder, self._until, self._giver = name, now + self._session, ""
            return self._holder == name

    @contextlib.contextmanager
    def serve(self) -> Iterator[str]:
        """Gives the address."""
        truth = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                for line in self.rfile:
                    self.wfile.write(b"yes\n" if truth.answer(*line.decode().split()) else b"no\n")

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True

        with Server(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            try:
                yield f"127.0.0.1:{server.server_address[1]}"
            finally:
                server.shutdown()
                thread.join()


class Contender:
    def __init__(self, address: str, name: str, session: float) -> None:
        host, port = address.split(":")
        self._stream = socket.create_connection((host, int(port))).makefile("rw", buffering=1)
        self._name, self._session = name, int(session * 1e9)
        self._until = 0
        self._leads = False
        self._turn = threading.Lock()
        self.flag = False

    def deadline(self) -> bool:
        return stopwatch() < self._until

    def work(self) -> None:
        while True:
            with self._turn:
                sent = stopwatch()
                has = self._ask("want")
                self._until = sent + self._session if has else 0
                if has != self._leads:
                    tell("lead" if has else "lost", "r", stopwatch())
                self._leads = has
                self.flag = self.flag or has
            time.sleep(LOOK)

    def hand(self, role: str) -> None:
        with self._turn:
            tell("handing", "r", stopwatch())
            self._until, self._leads, self.flag = 0, False, False
            self._ask("free")

    def _ask(self, word: str) -> bool:
        self._stream.write(f"{word} {self._name}\n")
        return self._stream.readline() == "yes\n"


def main() -> None:
    address, name, session = sys.argv[1:4]
    contender = Contender(address, name, float(session))
    threading.Thread(target=contender.work, daemon=True).start()
    tell("ready", "-", stopwatch())
    play({"deadline": contender.deadline, "flag": lambda: contender.flag}, {"hand": contender.hand})


if __name__ == "__main__":
    main()
