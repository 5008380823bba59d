"""One node of a dev cluster, as a test that kills or freezes it sees it."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pares.core.errors import ConfigError
from pares.dev.place import Place
from pares.dev.process import Adopted, Started

_LOG_LINES: Final = 12
_LOG_BYTES: Final = 16 << 20


class Node:
    """One node of a `Kafka` or a `Nats`: one process.

    `id` counts from 1; `host`, `port` and `peer_port` say where it listens; `folder` holds its data, settings and `log`.
    `prefix` goes before its command line when it is started next: `["ip", "netns", "exec", "one"]` puts it into a network
    namespace, `["env", "LD_PRELOAD=...", "FAKETIME=+1h"]` changes its clock. A program named there must become the command, not
    start it. `errors`: what a line of its log has in it that says what went wrong.
    """

    def __init__(
        self, place: Place, folder: Path, log: str, errors: Sequence[str] = (), prefix: Sequence[str] = ()
    ) -> None:
        self.place = place
        self.folder = folder
        self.log = folder / log
        """What the node has to say of itself."""
        self.prefix = list(prefix)
        self._errors = tuple(errors)
        self.process: Started | Adopted | None = None
        self._frozen = False
        self._log_from = 0

    @property
    def id(self) -> int:
        return self.place.id

    @property
    def host(self) -> str:
        return self.place.host

    @property
    def port(self) -> int:
        return self.place.port

    @property
    def peer_port(self) -> int:
        """Where it listens for the other nodes."""
        return self.place.peer_port

    @property
    def running(self) -> bool:
        """Whether its process is there, be it frozen."""
        return self.process is not None and self.process.ended() is None

    @property
    def frozen(self) -> bool:
        return self._frozen and self.running

    @property
    def pid(self) -> int | None:
        """Its process; None if it is not running."""
        process = self.process
        return process.identity.pid if process is not None and process.ended() is None else None

    def begin(self, process: Started | Adopted, *, log_from: int = 0) -> None:
        """From now on it is this process, which writes to the log behind `log_from` bytes."""
        self.process, self._frozen, self._log_from = process, False, log_from

    def turn_log(self) -> int:
        """Puts a long log aside; returns how many bytes the one that goes on has."""
        try:
            size = self.log.stat().st_size
        except OSError:
            return 0
        if size <= _LOG_BYTES:
            return size
        self.log.replace(self.log.with_suffix(".log.old"))
        return 0

    def last_words(self) -> str:
        """What it said, since it was started, that explains its end: from its first error on, else its last lines."""
        try:
            with self.log.open("rb") as log:
                log.seek(self._log_from)
                lines = [
                    line for line in log.read().decode(errors="replace").splitlines() if not line.startswith("\tat ")
                ]
        except OSError:
            return ""
        for at, line in enumerate(lines):
            if any(sign in line for sign in self._errors):
                return "\n".join(lines[at : at + _LOG_LINES])
        return "\n".join(lines[-_LOG_LINES:])

    def end(self, number: int, timeout: float) -> None:
        """Ends it by a signal; if it is not gone within `timeout` seconds, by SIGKILL."""
        process = self._there()
        process.identity.signal(number)
        process.identity.signal(signal.SIGCONT)  # one that is frozen would not notice
        if not process.wait(timeout):
            process.identity.signal(signal.SIGKILL)
            process.wait(timeout)

    def freeze(self) -> None:
        process = self._there()
        self._frozen = True
        process.freeze()

    def thaw(self) -> None:
        self._there().identity.signal(signal.SIGCONT)
        self._frozen = False

    def _there(self) -> Started | Adopted:
        if self.process is None or self.process.ended() is not None:
            raise ConfigError(f"node {self.id} is not running: restart it first")
        return self.process

    def __repr__(self) -> str:
        condition = "frozen" if self.frozen else f"process {self.pid}" if self.running else "not running"
        return f"<Node {self.id} at {self.place.address}, {condition}>"
