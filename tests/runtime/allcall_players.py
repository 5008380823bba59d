"""Members in processes of their own, which can be killed and frozen; and what they have done, by a stopwatch that all share."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from runtime_tools import until

from pares.runtime.clock import stopwatch

PLAYER = Path(__file__).with_name("allcall_player.py")
LATELY = 500_000_000
"""Nanoseconds: whoever has acted within them leads, as far as one can see from outside."""


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
        for line in self.process.stdout or ():
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
            self.process.wait(20)
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


def check_kill_freeze_and_end(url: str, settings: dict[str, Any]) -> None:
    """A leader is frozen, thawed, stopped gracefully and killed; nobody acts on a lease that is over."""
    with Players() as players:
        a, b, c = (players.start(url, name, rank, settings) for rank, name in enumerate("abc"))
        players.come_to("a")

        first = a.token
        a.signal(signal.SIGSTOP)
        # Frozen in the middle of a write it may hold SQLite's lock: then the others can't hear each other either.
        until(lambda: b.leads and not a.leads, "b leads")
        second = b.token
        assert second > first
        thawed = stopwatch()
        a.signal(signal.SIGCONT)
        players.come_to("a")  # at the end of b's term, for it has the lower rank
        third = a.token
        assert third > second
        assert max(a.by(first)) < thawed, "after the thaw it did nothing on a lease that was over"

        a.end()
        players.come_to("b")
        fourth = b.token
        assert fourth > third

        b.signal(signal.SIGKILL)
        players.come_to("c")
        assert c.token > fourth
