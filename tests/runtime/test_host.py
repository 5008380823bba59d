"""What drives a member asks its host for clocks, tasks, waits and chance: or the simulation could not play it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from runtime_tools import PATIENCE, Elsewhere, elsewhere

import pares
from pares.runtime import here

RUNTIME = Path(here.__file__).parent
OF_THE_SYSTEM = {"time", "threading", "select", "selectors", "queue", "random", "secrets", "uuid", "socket", "signal"}
"""Modules that tell the time, wait, run something beside, or leave something to chance."""
OF_OS = {"urandom", "getrandom", "getpid", "uname", "environ", "getenv", "times", "pipe", "fork", "register_at_fork"}
"""The same of `os`."""
OS_PARTS = {
    "os_host.py",
    "host.py",
    "clock.py",
    "work/mailbox.py",
    "driver/doorbell.py",
    "death/lock.py",
    "death/watcher.py",
    "death/exit_hooks.py",
}
"""Parts of the host in production."""


def asked_elsewhere(source: str) -> list[str]:
    """What this source has of the operating system that only a host is to have."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
            names = [f"os.{node.attr}"]
        for name in names:
            first, _, second = name.partition(".")
            if first in OF_THE_SYSTEM or (first == "os" and second in OF_OS) or name.startswith("pares.runtime.clock"):
                found.append(f"line {getattr(node, 'lineno', 0)}: {name}")
    return found


@pytest.mark.parametrize(
    "name",
    sorted(
        {name for path in RUNTIME.rglob("*.py") if (name := path.relative_to(RUNTIME).as_posix())}
        - OS_PARTS
        - {"__init__.py"}
    ),
)
def test_nothing_that_is_played_asks_anybody_but_its_host(name: str) -> None:
    assert asked_elsewhere((RUNTIME / name).read_text()) == []


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "from time import monotonic",
        "import threading as t",
        "import os\nos.urandom(4)",
        "from os import environ",
        "def f():\n    from queue import SimpleQueue",
        "from pares.runtime.clock import stopwatch",
        "from pares.runtime import clock",
    ],
)
def test_the_check_sees_who_asks_elsewhere(source: str) -> None:
    assert asked_elsewhere(source)


def test_the_parts_that_may_are_still_there() -> None:
    assert all((RUNTIME / name).is_file() for name in OS_PARTS)


def test_a_member_keeps_the_host_that_it_was_made_on(memory: str) -> None:
    """Also when it is called from elsewhere: its term runs out by the stopwatch of where it lives, and on no other."""
    with elsewhere() as far:
        me = pares.Member(memory, group="g", roles=["A"], session=60.0)
    assert here.here() is here.OS
    with me:
        term = me.wait("A", PATIENCE)
        assert term is not None
        assert me.holds("A")
        before = far.stopwatch
        far.stopwatch = lambda: before() + 3600 * 10**9
        assert not me.holds("A")
        assert not term
        assert term.wait_lost(PATIENCE)


def test_members_without_names_are_counted_by_their_process() -> None:
    assert [Elsewhere().count("x") for _ in range(2)] == [1, 1]
    one = Elsewhere()
    assert [one.count("x"), one.count("y"), one.count("x")] == [1, 1, 2]
