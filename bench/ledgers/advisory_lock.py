"""A contender: PostgreSQL's own advisory lock, held by a connection for as long as this process leads.

    python -m bench.ledgers.advisory_lock URL NAME SESSION

It waits in `pg_advisory_lock`, and asks its connection ten times in a session whether it is still there. Speaks as `bench.part`
says. The server gives the lock on when it hears that the connection has ended: at once when the process is killed; when it
freezes, not at all.
"""

from __future__ import annotations

import sys
import threading
import time

import psycopg

from bench.part import play, tell
from pares.runtime.clock import stopwatch

KEY = 4711
REST = 0.1
"""Seconds after a planned release before it contends again."""


class Contender:
    def __init__(self, url: str, session: float) -> None:
        self._url, self._pause = url.partition("?")[0], session / 10
        self._turn = threading.Condition()
        self._held = self._handed = False

    def leads(self) -> bool:
        """What the work asks."""
        return self._held and not self._handed

    def hand(self, role: str, heir: str = "") -> None:
        """It can't be handed to anybody by name."""
        with self._turn:
            self._handed = True
            self._turn.notify()

    def work(self) -> None:
        while True:
            try:
                with psycopg.connect(self._url, autocommit=True) as connection:
                    self._lead(connection)
            except psycopg.Error:
                if self._held:
                    tell("lost", "r", stopwatch())
                self._held = False
            time.sleep(REST)

    def _lead(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        connection.execute("SELECT pg_advisory_lock(%s)", (KEY,))
        with self._turn:
            self._held, self._handed = True, False
        tell("lead", "r", stopwatch())
        while True:
            with self._turn:
                if self._turn.wait_for(lambda: self._handed, self._pause):
                    break
            connection.execute("SELECT 1")
        tell("handing", "r", stopwatch())
        self._held = False
        connection.execute("SELECT pg_advisory_unlock(%s)", (KEY,))


def main() -> None:
    url, _, session = sys.argv[1:4]
    contender = Contender(url, float(session))
    threading.Thread(target=contender.work, daemon=True).start()
    tell("ready", "-", stopwatch())
    play({"asks": contender.leads}, {"hand": contender.hand})


if __name__ == "__main__":
    main()
