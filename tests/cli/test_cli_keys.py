"""`pares watch` on a real terminal: what ends it, and what it leaves behind."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from cli_log import HandLog

PATIENCE = 60.0


class Terminal:
    """`pares watch` in the foreground of a terminal of its own."""

    def __init__(self, url: str) -> None:
        self.side, other = pty.openpty()
        self.before = termios.tcgetattr(other)
        self.other = other
        script = (
            "import fcntl, os, sys, termios\n"
            "os.setsid()\n"
            "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
            "os.execv(sys.executable, [sys.executable, '-m', 'pares', 'watch', '--ledger', sys.argv[1], '--interval', '30'])\n"
        )
        env = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", script, url], stdin=other, stdout=other, stderr=other, env=env
        )

    def until(self, text: str) -> None:
        said, end = "", time.monotonic() + PATIENCE
        while text not in said:
            assert time.monotonic() < end, said
            if select.select([self.side], [], [], 0.5)[0]:
                said += os.read(self.side, 65536).decode(errors="replace")

    def ended(self) -> int:
        """Its exit code; what it writes meanwhile is read, or it could not end."""
        end = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < end, "it goes on"
            if select.select([self.side], [], [], 0.05)[0]:
                os.read(self.side, 65536)
        return self.process.returncode

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.side)
        os.close(self.other)


@pytest.mark.parametrize(
    "keys", [b"q", b"Q", b"\x1b", b"xq", b"\x03"], ids=["q", "Q", "escape", "after another", "ctrl-c"]
)
def test_a_key_ends_it_and_the_terminal_is_as_it_was(tmp_path: Path, keys: bytes) -> None:
    """At once: it would look again after 30 seconds only."""
    log = HandLog(tmp_path / "l.db")
    log.role("feed")
    terminal = Terminal(log.url)
    try:
        terminal.until("q ends it")
        os.write(terminal.side, keys)
        assert terminal.ended() == 0
        assert termios.tcgetattr(terminal.other) == terminal.before
    finally:
        terminal.close()


def test_an_arrow_key_ends_nothing(tmp_path: Path) -> None:
    log = HandLog(tmp_path / "l.db")
    log.role("feed")
    terminal = Terminal(log.url)
    try:
        terminal.until("q ends it")
        os.write(terminal.side, b"\x1b[A")
        with pytest.raises(subprocess.TimeoutExpired):
            terminal.process.wait(1.0)
        os.write(terminal.side, b"q")
        assert terminal.ended() == 0
    finally:
        terminal.close()
