"""Starting, hearing and ending the benchmarks' processes."""

from __future__ import annotations

import contextlib
import itertools
import os
import queue
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from bench.part import ANSWERS, Traffic
from pares.dev.process import guarded
from pares.ledger import parse

PATIENCE = 60.0


class Player:
    """One process with one member. It can't outlive this one, not even frozen (on Linux)."""

    def __init__(self, troupe: Troupe, name: str, command: Sequence[str]) -> None:
        self.name = name
        self.process = subprocess.Popen(
            guarded(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            cwd=Path(__file__).parent.parent,
        )
        self.lines: queue.Queue[list[str]] = queue.Queue()
        threading.Thread(target=self._listen, args=(troupe, self.process.stdout), daemon=True).start()

    def _listen(self, troupe: Troupe, out: IO[str] | None) -> None:
        assert out is not None
        with out:
            for line in out:
                words = line.split()
                if words[0] in ANSWERS:
                    self.lines.put(words)
                else:
                    troupe.lines.put([self.name, *words])

    def say(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.hang_up()

    def hang_up(self) -> None:
        """It ends when it hears that nobody will say anything more."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it is gone
            self.process.stdin.close()

    def freeze(self, url: str) -> None:
        """SIGSTOP; returns when it stands still. Not in the middle of a write to the ledger, where that is a SQLite file: who
        has its lock keeps all others out, so that there would be no successor."""
        with contextlib.ExitStack() as stack:
            if url.startswith("sqlite:"):
                connect = sqlite3.connect(parse(url).path[1:], timeout=PATIENCE, isolation_level=None)
                connection = stack.enter_context(contextlib.closing(connect))
                connection.execute("BEGIN IMMEDIATE")
            self.signal(signal.SIGSTOP)
            if hasattr(os, "waitid"):
                os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def cpu(self) -> float:
        """Seconds of processor time that it has used."""
        return float(self._ask("cpu"))

    def sent(self) -> int:
        """TCP segments with data that it has sent; -1 where the system can't say."""
        return self.traffic().segments

    def traffic(self) -> Traffic:
        """What its TCP connections have carried so far; -1 where the system can't say."""
        self.say("sent")
        return Traffic(*map(int, self._answer()))

    def watched(self, since: int) -> Iterator[tuple[str, int, int, bool]]:
        """What it answered to those who asked whether it leads, at that time of the stopwatch or later: (form of the question,
        times yes before the first no, when the last of them, whether there was a no)."""
        self.say(f"watched {since}")
        while rest := self._answer():
            yield rest[0], int(rest[1]), int(rest[2]), rest[3] == "1"

    def _ask(self, word: str) -> str:
        self.say(word)
        return self._answer()[0]

    def _answer(self) -> list[str]:
        """What follows the word."""
        try:
            return self.lines.get(timeout=PATIENCE)[1:]
        except queue.Empty:
            raise TimeoutError(f"{self.name} did not answer in {PATIENCE:g} s") from None


class Troupe:
    """The processes of one benchmark, on the ledger `url` or a fresh one of the sort `begins`; all are gone when it is left."""

    begins = "sqlite"

    def __init__(self, url: str | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="pares-bench-")
        place = f"{self._folder.name}/bench"
        self.url = url or (f"file://{place}" if self.begins == "file" else f"sqlite:///{place}.db")
        self.players: dict[str, Player] = {}
        self.lines: queue.Queue[list[str]] = queue.Queue()
        """What players tell: [name, word, ...]."""
        self._heard: list[list[str]] = []
        """What was told while something else was waited for: two players' lines may come in either order."""

    def start(self, name: str, *, session: float = 1.0, roles: str = "r", proof: bool = True) -> Player:
        command = [sys.executable, "-m", "bench.worker", self.url, name, str(session), roles]
        return self.cast(name, command if proof else [*command, "noproof"])

    def cast(self, name: str, command: Sequence[str]) -> Player:
        """Starts whatever speaks as `bench.part` says."""
        player = self.players[name] = Player(self, name, command)
        return player

    def hear(self, word: str, *, role: str = "r", after: int = 0, by_other_than: str = "") -> tuple[str, int]:
        """The next to say `word` of `role` that has not been heard yet, and at what time of the stopwatch; waits for it."""
        for number in itertools.count():
            if number == len(self._heard):
                self._heard.append(self._next(word, role))
            name, said, about, at, *_ = self._heard[number]
            if said == word and about == role and int(at) >= after and name != by_other_than:
                del self._heard[number]
                return name, int(at)
        raise AssertionError

    def _next(self, word: str, role: str) -> list[str]:
        try:
            return self.lines.get(timeout=PATIENCE)
        except queue.Empty:
            raise TimeoutError(f"nothing was told for {PATIENCE:g} s, and {word!r} of {role} is waited for") from None

    def heard(self, word: str, *, role: str = "r") -> list[str]:
        """Those that have said `word` of `role` by now and have not been heard yet, in order; waits for nothing."""
        while True:
            try:
                self._heard.append(self.lines.get_nowait())
            except queue.Empty:
                break
        found = [line for line in self._heard if line[1:3] == [word, role]]
        self._heard = [line for line in self._heard if line not in found]
        return [name for name, *_ in found]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for player in self.players.values():
            player.hang_up()
        for player in self.players.values():
            try:
                player.process.wait(20)
            except subprocess.TimeoutExpired:
                player.process.kill()
                player.process.wait()
        self._folder.cleanup()
