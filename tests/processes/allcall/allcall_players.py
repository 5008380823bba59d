"""Members in processes of their own, which can be killed and frozen; and what they have done, by a stopwatch that all share."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pares.runtime.clock import stopwatch

HANG = float(os.environ.get("PARES_PATIENCE", "60"))
"""Seconds after which something that must come is taken for lost."""
PLAYER = Path(__file__).with_name("allcall_player.py")
LATELY = 500_000_000
"""Nanoseconds: whoever has acted within them leads, as far as one can see from outside."""


def until(done: Callable[[], object], saying: str) -> None:
    end = time.monotonic() + HANG
    while not done():
        assert time.monotonic() < end, f"not within {HANG:g} s: {saying}"
        time.sleep(0.005)


class Player:
    """One process. `prefix`: what goes before its command, such as what puts it into a network of its own."""

    def __init__(self, url: str, name: str, rank: int, settings: dict[str, Any], prefix: Sequence[str] = ()) -> None:
        self.name = name
        self.acts: list[tuple[int, int]] = []
        """Token, and when it asked."""
        command = [*prefix, sys.executable, str(PLAYER), url, name, str(rank), json.dumps(settings)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                if not line.endswith("\n"):
                    break  # killed in the middle of a line
                _, token, asked = line.split()
                self.acts.append((int(token), int(asked)))

    @property
    def leads(self) -> bool:
        return bool(self.acts) and self.acts[-1][1] > stopwatch() - LATELY

    @property
    def token(self) -> int:
        return self.acts[-1][0]

    def by(self, token: int) -> list[int]:
        """When it acted with this token."""
        return [asked for used, asked in self.acts if used == token]

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> None:
        """Gracefully, and if that does not come to an end, otherwise."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._thread.join(20)


class Players:
    """All are gone when it is left."""

    def __init__(self) -> None:
        self.all: list[Player] = []

    def start(self, url: str, name: str, rank: int, settings: dict[str, Any], prefix: Sequence[str] = ()) -> Player:
        player = Player(url, name, rank, settings, prefix)
        self.all.append(player)
        return player

    def leading(self) -> list[str]:
        return [player.name for player in self.all if player.leads]

    def come_to(self, *names: str) -> None:
        """Waits until just these lead."""
        until(lambda: self.leading() == list(names), f"{' and '.join(names)} lead")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for player in self.all:
            player.signal(signal.SIGCONT)
        for player in self.all:
            player.end()
