"""Keeps a history up to date beside a follower, on a thread of its own: a batch takes longer than an alarm may."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pares.core.errors import LedgerUnavailable, ParesError
from pares.spark.histories import history
from pares.spark.histories.manifest import Overtaken

EVERY_S: Final = 10.0
MOST: Final = 200_000
"""Entries of one batch."""


class Keeper:
    """Updates the history in `path` from the log at `url` every `every_s` seconds, and once more at its end."""

    def __init__(
        self,
        path: Path,
        url: str,
        groups: Sequence[str] | None,
        clock_error_ms: int,
        say: Callable[[str], None],
        every_s: float = EVERY_S,
    ) -> None:
        self._history, self._url = history(None, path), url
        last = self._history.last
        self._groups = groups if last is None else last.groups
        self._error_ms, self._say, self._every_s = clock_error_ms, say, every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pares: history", daemon=True)
        self._thread.start()

    def close(self, timeout: float = 30.0) -> None:
        """Ends it, with what is new until then; a batch that is under way is waited for."""
        self._stop.set()
        self._thread.join(timeout)

    def _run(self) -> None:
        going = True
        while going:
            going = not self._stop.wait(self._every_s)
            try:
                self._update()
            except (Overtaken, LedgerUnavailable) as error:
                self._say(f"the history was not updated: {error}; it is tried again")
            except ParesError as error:
                self._say(f"the history is no longer kept up to date: {error}")
                return

    def _update(self) -> None:
        while self._history.update(self._url, groups=self._groups, max_records=MOST, clock_error_ms=self._error_ms):
            pass
