"""A contender: redis-py's Lock on Redis, with a thread that renews it, as users write it.

    python -m bench.peers.redis_lock HOST:PORT NAME TIMEOUT

The client and the lock are as they come: the lock is tried every 0.1 s, and a request that fails is repeated by the client. It
is renewed three times a timeout. Speaks as `bench.part` says. Two forms of asking: `flag`, which the renewing thread takes down
when a renewal fails, and `owned`, a request to the server.
"""

from __future__ import annotations

import sys
import threading
import time

import redis
from redis.exceptions import RedisError

from bench.part import play, tell
from pares.runtime.clock import stopwatch

REST = 0.5
"""Seconds after a planned release before it contends again: more than others sleep between tries."""


class Contender:
    def __init__(self, client: redis.Redis, timeout: float) -> None:
        self._timeout = timeout
        # The renewing thread is not the one that works, so the lock's token must not be a thread's own.
        self._lock = client.lock("bench:leader", timeout=timeout, thread_local=False)
        self._leads = threading.Event()
        self._asked = threading.Event()

    def leads(self) -> bool:
        """What the work asks."""
        return self._leads.is_set()

    def owned(self) -> bool:
        """What the work asks if it can wait for the server each time."""
        return self._lock.owned()

    def hand(self, role: str) -> None:
        self._asked.set()

    def work(self) -> None:
        while True:
            try:
                self._lock.acquire()
            except RedisError:
                time.sleep(0.05)
                continue
            self._leads.set()
            tell("lead", "r", stopwatch())
            self._asked.clear()
            try:
                while not self._asked.wait(self._timeout / 3):
                    self._lock.reacquire()
            except RedisError:
                self._leads.clear()
                tell("lost", "r", stopwatch())
                continue
            self._leads.clear()
            tell("handing", "r", stopwatch())
            try:
                self._lock.release()
            except RedisError:
                pass  # it had run out meanwhile
            time.sleep(REST)


def main() -> None:
    address, _, timeout = sys.argv[1:4]
    host, _, port = address.rpartition(":")
    client = redis.Redis(host=host, port=int(port))
    client.ping()
    contender = Contender(client, float(timeout))
    threading.Thread(target=contender.work, daemon=True).start()
    tell("ready", "-", stopwatch())
    play({"flag": contender.leads, "owned": contender.owned}, {"hand": contender.hand})
    client.close()


if __name__ == "__main__":
    main()
