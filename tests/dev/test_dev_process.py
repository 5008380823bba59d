"""Processes, their identity, and which of them live on when the one that started them dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pares.core.errors import ConfigError
from pares.dev import state
from pares.dev.process import Adopted, Identity, identify, start

PATIENCE = 30.0
SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]


def eventually(what: str, test: Callable[[], bool], until: float = PATIENCE) -> None:
    end = time.monotonic() + until
    while not test():
        assert time.monotonic() < end, f"not within {until} s: {what}"
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.processes
def test_brokers_die_with_their_parent(tmp_path: Path, number: int) -> None:
    """A program that is killed has no chance to close anything."""
    code = f"""
import time
from pares.dev import Kafka
kafka = Kafka(folder={str(tmp_path)!r})
kafka.start()
print("up", flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        try:
            assert parent.stdout.readline() == "up\n"
            found = state.load(tmp_path)
            assert found is not None
            assert list(found.alive()) == [1]
        finally:
            parent.send_signal(number)
        parent.wait(PATIENCE)
    eventually("the broker is gone", lambda: not found.alive())


def test_a_child_that_may_not_survive_dies_with_its_parent_however_it_dies(tmp_path: Path) -> None:
    code = f"""
import os, signal
from pathlib import Path
from pares.dev.process import start
made = [start({SLEEPER!r}, log=Path("log"), folder=Path("."), survive=survive) for survive in (False, True)]
print(*[process.identity.pid for process in made], flush=True)
input()
os.kill(os.getpid(), signal.SIGKILL)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path
    ) as parent:
        assert parent.stdout is not None
        mortal, survivor = (identify(int(pid)) for pid in parent.stdout.readline().split())
        try:
            assert mortal.alive()
            assert survivor.alive()
            parent.communicate("\n", timeout=PATIENCE)
            assert mortal.wait(PATIENCE)
            assert survivor.alive()
        finally:
            survivor.signal(signal.SIGKILL)
    assert survivor.wait(PATIENCE)


def test_an_identity_is_of_one_process_only(tmp_path: Path) -> None:
    process = start(SLEEPER, log=tmp_path / "log", folder=tmp_path, survive=True)
    me = process.identity
    try:
        assert me.alive()
        later = Identity(me.pid, "1", me.boot)
        other_boot = Identity(me.pid, me.started, "another")
        for stranger in (later, other_boot, Identity(me.pid, "", "")):
            assert not stranger.alive()
            assert not stranger.signal(signal.SIGKILL)
        assert me.alive()
        adopted = Adopted(me)
        assert adopted.ended() is None
        assert not adopted.wait(0.05)
        assert me.signal(signal.SIGKILL)
        # Until it is buried its number is still taken; it has ended all the same.
        assert me.wait(PATIENCE)
        assert adopted.ended() == -1
    finally:
        process.identity.signal(signal.SIGKILL)
        assert process.wait(PATIENCE)
    assert process.ended() == -signal.SIGKILL
    assert not me.signal(signal.SIGKILL)


def test_a_name_with_brackets_misleads_nobody(tmp_path: Path) -> None:
    odd = tmp_path / "a) S 1 (b"
    odd.symlink_to("/bin/sleep")
    process = start([str(odd), "600"], log=tmp_path / "log", folder=tmp_path, survive=True)
    try:
        eventually(
            "it runs under that name", lambda: ") S 1 (" in Path(f"/proc/{process.identity.pid}/comm").read_text()
        )
        assert process.identity.alive()
        assert process.identity == identify(process.identity.pid)
    finally:
        process.identity.signal(signal.SIGKILL)
        assert process.wait(PATIENCE)


def test_one_that_does_not_end_is_killed(tmp_path: Path) -> None:
    deaf = [
        sys.executable,
        "-c",
        "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf'); time.sleep(600)",
    ]
    deaf.insert(1, "-u")
    log = tmp_path / "log"
    stubborn = start(deaf, log=log, folder=tmp_path, survive=True)
    meek = start(SLEEPER, log=tmp_path / "other", folder=tmp_path, survive=True)
    frozen = start(SLEEPER, log=tmp_path / "other", folder=tmp_path, survive=True)
    frozen.freeze()
    eventually("it hears nothing", lambda: "deaf" in log.read_text())
    late = state.end([stubborn.identity, meek.identity, frozen.identity], 1.0)
    assert late == [stubborn.identity]
    for process, number in ((stubborn, signal.SIGKILL), (meek, signal.SIGTERM), (frozen, signal.SIGTERM)):
        assert process.wait(PATIENCE)
        assert process.ended() == -number


def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        start(["/nonexistent/program"], log=tmp_path / "log", folder=tmp_path, survive=True)
    process = start(["/nonexistent/program"], log=tmp_path / "log", folder=tmp_path, survive=False)
    assert process.wait(PATIENCE)
    assert process.ended() == 1
    assert "FileNotFoundError" in (tmp_path / "log").read_text()


def test_it_does_not_hear_the_terminal_s_ctrl_c(tmp_path: Path) -> None:
    process = start(SLEEPER, log=tmp_path / "log", folder=tmp_path, survive=False)
    try:
        assert os.getsid(process.identity.pid) == process.identity.pid
    finally:
        process.identity.signal(signal.SIGKILL)
        assert process.wait(PATIENCE)


def test_a_record_that_can_t_be_read_is_not_taken_for_none(tmp_path: Path) -> None:
    assert state.load(tmp_path) is None
    assert state.load(tmp_path / "none") is None
    (tmp_path / state.FILE).write_text(json.dumps({"nodes": 7}))
    with pytest.raises(ConfigError, match="no record of a dev broker"):
        state.load(tmp_path)
