"""Starting, hearing and ending the benchmarks' processes."""

from __future__ import annotations

import itertools
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import IO, Self

PATIENCE = 60.0


class Player:
    """One process with one member."""

    def __init__(self, troupe: Troupe, name: str, session: float, roles: str, proof: bool) -> None:
        self.name = name
        command = [sys.executable, "-m", "bench.worker", troupe.url, name, str(session), roles]
        self.process = subprocess.Popen(
            command + ([] if proof else ["noproof"]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            cwd=Path(__file__).parent.parent,
        )
        self.lines: queue.Queue[list[str]] = queue.Queue()
        threading.Thread(target=self._listen, args=(troupe, self.process.stdout), daemon=True).start()

    def _listen(self, troupe: Troupe, out: IO[str] | None) -> None:
        for line in out or ():
            words = line.split()
            (self.lines if words[0] == "cpu" else troupe.lines).put([self.name, *words] if words[0] != "cpu" else words)

    def say(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)

    def cpu(self) -> float:
        """Seconds of processor time that it has used."""
        self.say("cpu")
        return float(self.lines.get(timeout=PATIENCE)[1])


class Troupe:
    """The processes of one benchmark, on the ledger `url` or a fresh SQLite one; all are gone when it is left."""

    def __init__(self, url: str | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="pares-bench-")
        self.url = url or f"sqlite:///{self._folder.name}/bench.db"
        self.players: dict[str, Player] = {}
        self.lines: queue.Queue[list[str]] = queue.Queue()
        """What players tell: [name, word, ...]."""
        self._heard: list[list[str]] = []
        """What was told while something else was waited for: two players' lines may come in either order."""

    def start(self, name: str, *, session: float = 1.0, roles: str = "r", proof: bool = True) -> Player:
        player = self.players[name] = Player(self, name, session, roles, proof)
        return player

    def hear(self, word: str, *, role: str = "r", after: int = 0, by_other_than: str = "") -> tuple[str, int]:
        """Who said `word` of `role` and has not been heard yet, and at what time of the stopwatch; waits for it."""
        for number in itertools.count():
            if number == len(self._heard):
                self._heard.append(self.lines.get(timeout=PATIENCE))
            name, said, about, at, *_ = self._heard[number]
            if said == word and about == role and int(at) >= after and name != by_other_than:
                del self._heard[number]
                return name, int(at)
        raise AssertionError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for player in self.players.values():
            if player.process.stdin is not None and player.process.poll() is None:
                player.process.stdin.close()
        for player in self.players.values():
            try:
                player.process.wait(20)
            except subprocess.TimeoutExpired:
                player.process.kill()
                player.process.wait()
        self._folder.cleanup()
