"""A contender: kazoo's Lock on ZooKeeper, used as its documentation says.

    python -m bench.peers.kazoo_lock HOST:PORT NAME SESSION

A new lock for each try, and a listener on the client's state that stops the work when the connection is in doubt (SUSPENDED)
or the session is gone (LOST). Speaks as `bench.part` says. Two forms of asking: `listener`, a flag that the listener keeps, and
`is_acquired`, the lock's own attribute, for those who have no listener.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import KazooException
from kazoo.recipe.lock import Lock

from bench.part import play, tell
from pares.runtime.clock import stopwatch

PATH = "/bench/leader"
REST = 0.5
"""Seconds after a planned release before it contends again."""


class Contender:
    def __init__(self, client: KazooClient, name: str) -> None:
        self._client, self._name = client, name
        self._connected = True
        self._held: Lock | None = None
        self._turn = threading.Condition()
        self._over = ""
        """Why the term at hand is over: lost or handed; empty while it is not."""
        client.add_listener(self._heard)

    def _heard(self, state: KazooState) -> None:
        now = stopwatch()
        with self._turn:
            was, self._connected = self.leads(), state == KazooState.CONNECTED
            if state == KazooState.LOST and self._held is not None:
                self._over = "lost"
                self._turn.notify()
            is_now = self.leads()
        if was != is_now:
            tell("lead" if is_now else "lost", "r", now)

    def leads(self) -> bool:
        """What the work asks."""
        return self._connected and self._held is not None and not self._over

    def is_acquired(self) -> bool:
        """What the work would ask without a listener."""
        held = self._held
        return held is not None and held.is_acquired

    def hand(self, role: str) -> None:
        with self._turn:
            self._over = self._over or "handed"
            self._turn.notify()

    def work(self) -> None:
        while True:
            lock = Lock(self._client, PATH, self._name)
            try:
                lock.acquire()
            except KazooException:
                time.sleep(0.05)  # the session is gone; the client makes another one by itself
                continue
            with self._turn:
                self._held, self._over = lock, ""
                if self._connected:
                    tell("lead", "r", stopwatch())
                self._turn.wait_for(lambda: self._over)
                handed = self._over == "handed"
            if handed:
                tell("handing", "r", stopwatch())
                with contextlib.suppress(KazooException):
                    lock.release()
                time.sleep(REST)


def main() -> None:
    address, name, session = sys.argv[1:4]
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # lost connections are what this is about
    client = KazooClient(hosts=address, timeout=float(session))
    client.start()
    contender = Contender(client, name)
    threading.Thread(target=contender.work, daemon=True).start()
    tell("ready", "-", stopwatch())
    play({"listener": contender.leads, "is_acquired": contender.is_acquired}, {"hand": contender.hand})
    client.stop()


if __name__ == "__main__":
    main()
