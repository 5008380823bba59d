"""A leader that is frozen for longer than its session, and goes on writing when it wakes up: real members and PostgreSQL."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from postgres_tools import PATIENCE, Sink

from pares.dev import Postgres
from standstill import stop_between_writes

PROGRAM = Path(__file__).with_name("sql_zombie.py")
pytestmark = pytest.mark.processes


class Leader:
    def __init__(self, group: Path, sink: str, name: str, where: str) -> None:
        self.group = group
        command = [sys.executable, str(PROGRAM), f"sqlite:///{group}", sink, name, where]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.token = 0
        """Of the term that it has begun last: on a busy machine it may lose one before its time."""

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def until(self, word: str, times: int = 1) -> None:
        """Waits until it has said this so many times more."""
        while True:
            line = self.line()
            assert line, f"it ended without saying {word}"
            if line.startswith("leads"):
                self.token = int(line.split()[1])
            times -= line.startswith(word)
            if not times:
                return

    def frozen(self) -> None:
        self.until("freezes")
        stop_between_writes(self.process, self.group)

    def thaw(self) -> list[str]:
        """What it says from then on, until it ends."""
        os.kill(self.process.pid, signal.SIGCONT)
        return self.process.communicate("go on\n", timeout=PATIENCE)[0].split("\n")[:-1]

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


@pytest.mark.parametrize("where", ["between", "inside"])
def test_a_frozen_leader_wakes_up_and_its_write_is_refused(postgres: Postgres, tmp_path: Path, where: str) -> None:
    group = tmp_path / "group.db"
    with contextlib.ExitStack() as stack:
        sink = Sink(postgres, stack)
        old = Leader(group, sink.url, "old", where)
        stack.callback(old.kill)
        old.frozen()
        new = Leader(group, sink.url, "new", "never")
        stack.callback(new.kill)
        new.until("wrote", 10)  # frozen inside a transaction, the old one holds it up until the server ends that
        assert new.token > old.token
        said = old.thaw()
        assert said[0] == "thawed"
        if where == "between":
            assert said[1].startswith(f"stale {old.token} ")
            assert int(said[1].split()[2]) >= new.token
        else:
            assert said[1].startswith("error"), "the server has ended its session; nothing of it is kept"
        new.until("wrote", 3)
        new.kill()
        tokens = sink.tokens()
        assert tokens == sorted(tokens)
        assert tokens.count(old.token) == 5
        assert len([token for token in tokens if token > old.token]) >= 13
