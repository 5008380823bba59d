"""A process with a member in it, whose life and end a test decides."""

from __future__ import annotations

import subprocess
import sys
import textwrap

from runtime_tools import PATIENCE

PREAMBLE = """
import os, signal, sys, threading, time
import pares
url = sys.argv[1]
def say(*words):
    print(*words, flush=True)
def member(**settings):
    global me
    me = pares.Member(url, group="g", roles=["A"], name="child", **({"session": 5.0} | settings))
    assert me.wait("A", 30)
    say("leads", me.id)
    return me
def sleep():
    while True:
        time.sleep(0.02)  # in one long sleep CPython may overlook a signal that came right before it
"""


class Script:
    """A Python process that runs `body` after the preamble; its output line by line."""

    def __init__(self, url: str, body: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PREAMBLE + textwrap.dedent(body), url],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self._lines = self.process.stdout

    def line(self) -> str:
        return self._lines.readline().strip()

    def end(self) -> tuple[int, str]:
        """Its exit code, and what it said on its way out."""
        out, err = self.process.communicate(timeout=2 * PATIENCE)
        assert "Traceback" not in err, err
        return self.process.returncode, out.strip()
