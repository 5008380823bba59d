"""A log that grows under a follower, and followers that are killed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from pares.ledger import open as open_ledger
from pares.spark.follow.checkpoint import Checkpoint
from pares.spark.follow.feeds import LogFeed
from pares.spark.follow.following import Follower
from pares.spark.follow.judge import Alarm, Judge
from pares.spark.follow.outlets import Courier
from pares.spark.logs import open_to_read
from pares.spark.rules.base import Allowed

Entries = list[tuple[int, int, bytes]]


class Growing:
    """A SQLite ledger to which a history is appended, portion by portion, with its times."""

    def __init__(self, path: Path) -> None:
        self.path, self.url = path, f"sqlite:///{path}"
        self._ledger = open_ledger(self.url)
        self.length = 0

    def append(self, entries: Entries) -> None:
        if not entries:
            return
        offsets = self._ledger.append_many([payload for _, _, payload in entries])
        self.length = offsets[-1] + 1
        with sqlite3.connect(self.path) as connection:
            keys = [row[0] for row in connection.execute("SELECT id FROM entries ORDER BY id")][-len(entries) :]
            times = [(at_ms, key) for key, (_, at_ms, _) in zip(keys, entries, strict=True)]
            connection.executemany("UPDATE entries SET timestamp_ms = ? WHERE id = ?", times)
        connection.close()

    def close(self) -> None:
        self._ledger.close()


class Run:
    """One follower, until it is killed or closed."""

    def __init__(
        self,
        log: Growing,
        group: str,
        folder: Path | None,
        show: Callable[[Alarm], None] | None,
        couriers: Sequence[Courier] = (),
        allowed: Allowed | None = None,
    ) -> None:
        self._open = ExitStack()
        opened, _ = self._open.enter_context(open_to_read(log.url))
        self.said: list[str] = []
        checkpoint = None if folder is None else self._open.enter_context(Checkpoint(folder))
        judge = Judge(allowed or Allowed(), 10**12)
        try:
            self.follower = Follower(
                LogFeed(opened, 0, frozenset((group,)), 0),
                judge,
                group,
                checkpoint=checkpoint,
                couriers=couriers,
                show=show,
                say=self.said.append,
            )
        except BaseException:
            self.kill()
            raise

    def catch_up(self) -> None:
        while self.follower.step():
            pass

    def kill(self) -> None:
        """Nothing is written any more."""
        self._open.close()
