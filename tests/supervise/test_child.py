"""A command under a supervisor, with real processes: it never outlives its term, whoever is killed or frozen."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from child_tools import CHILD, COMMAND, ESCAPED, GRACE, Wrapper, alive, beater, python

from pares.runtime.death.lock import prove

pytestmark = pytest.mark.processes


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Wrapper]]:
    started: list[Wrapper] = []

    def begin(*command: str, **options: Any) -> Wrapper:
        started.append(Wrapper(tmp_path, *command, **options))
        return started[-1]

    yield begin
    for wrapper in started:
        wrapper.close()


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("pass", 0),
        ("import sys; sys.exit(3)", 3),
        ("import os; os.kill(os.getpid(), 9)", 137),
        ("import os; os.abort()", 134),
    ],
)
def test_the_exit_code_of_a_command_that_ends_by_itself(
    start: Callable[..., Wrapper], code: str, expected: int
) -> None:
    wrapper = start(*python(code))
    assert wrapper.read() == {"outcome": [expected, "ended"]}


def test_what_a_command_is_given(start: Callable[..., Wrapper], tmp_path: Path) -> None:
    code = """
import json, os, signal, sys
status = dict(line.split(":\\t") for line in open("/proc/self/status") if ":\\t" in line)
# Python itself ignores two; those that the C library keeps for itself are nobody's to set, and are inherited as they are.
usual = sum(1 << number - 1 for number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ})
print(json.dumps({
    "environment": [os.environ[name] for name in ("PARES_ROLE", "PARES_SEAT", "PARES_TOKEN")],
    "group": os.getpgid(0) == os.getpid(),
    "open": sorted(os.path.basename(path) for path in (os.path.realpath(f"/proc/self/fd/{fd}") for fd in range(3, 30))
                   if not path.startswith("/proc")),
    "ignored": int(status["SigIgn"], 16) & usual, "blocked": int(status["SigBlk"], 16) & usual,
}), flush=True)
"""
    wrapper = start(*python(code))
    assert wrapper.read() == {
        "environment": ["r", "2", "41"],
        "group": True,
        "open": [wrapper.lock.file],
        "ignored": 0,
        "blocked": 0,
    }


def test_a_killed_wrapper_takes_its_command_with_it(start: Callable[..., Wrapper]) -> None:
    wrapper = start()
    assert all(alive(pid) for pid in wrapper.pids())
    wrapper.send(signal.SIGKILL)
    wrapper.until_all_dead()
    assert wrapper.last_beat() < wrapper.deadline


def test_a_proof_of_death_covers_all_of_the_command(start: Callable[..., Wrapper]) -> None:
    wrapper = start()
    assert not prove(wrapper.folder / "locks", "w~1", wrapper.lock)
    wrapper.send(signal.SIGKILL)
    wrapper.until(lambda: prove(wrapper.folder / "locks", "w~1", wrapper.lock))
    assert not any(alive(pid) for pid in wrapper.pids())


def test_with_wrapper_and_watchdog_killed_at_once_the_kernel_kills_the_command(start: Callable[..., Wrapper]) -> None:
    wrapper = start(*python("import time; print('{\"up\": 1}', flush=True); time.sleep(600)"))
    wrapper.read()
    command = int(Path(f"/proc/{wrapper.watchdog}/task/{wrapper.watchdog}/children").read_text())
    for number in (signal.SIGSTOP, signal.SIGKILL):
        wrapper.send(number)
        os.kill(wrapper.watchdog, number)
    wrapper.until(lambda: not alive(command))


@pytest.mark.parametrize("mode", ["obey", "ignore"])
def test_a_frozen_wrapper_does_not_prolong_its_command(start: Callable[..., Wrapper], mode: str) -> None:
    wrapper = start(mode=mode)
    wrapper.send(signal.SIGSTOP)
    os.waitpid(wrapper.process.pid, os.WUNTRACED)
    deadline = wrapper.deadline
    wrapper.until_all_dead()
    assert wrapper.last_beat() < deadline
    assert 0 < wrapper.entry(COMMAND, 2) < deadline - int(GRACE * 1e9), "it had its grace"
    assert wrapper.entry(ESCAPED, 2) == 0, "TERM goes to the process group"
    wrapper.send(signal.SIGCONT)
    code, why = wrapper.read()["outcome"]
    assert (code, why) == (7 if mode == "obey" else 137, "lost")


@pytest.mark.parametrize("mode", ["obey", "ignore"])
def test_a_lease_that_is_not_renewed_ends_the_command_in_time(start: Callable[..., Wrapper], mode: str) -> None:
    wrapper = start(mode=mode)
    wrapper.tell("cut")
    assert wrapper.read() == {"outcome": [7 if mode == "obey" else 137, "lost"]}
    assert wrapper.last_beat() < wrapper.deadline
    assert 0 < wrapper.entry(COMMAND, 2) < wrapper.deadline - int(GRACE * 1e9)
    assert not any(alive(pid) for pid in wrapper.pids()), "nothing is left when run() returns"


def test_a_term_that_is_lost_at_once_leaves_no_grace(start: Callable[..., Wrapper]) -> None:
    wrapper = start()
    wrapper.tell("lose")
    assert wrapper.read() == {"outcome": [137, "lost"]}
    assert not any(alive(pid) for pid in wrapper.pids())


def test_a_killed_watchdog_ends_the_command(start: Callable[..., Wrapper]) -> None:
    wrapper = start()
    os.kill(wrapper.watchdog, signal.SIGKILL)
    assert wrapper.read() == {"outcome": [1, "watchdog"]}
    command, child, escaped = wrapper.pids()
    assert not alive(command)
    assert not alive(child)
    os.kill(escaped, signal.SIGKILL)  # the one that no process group and no parent leads to


def test_a_frozen_watchdog_is_replaced_by_the_wrapper(start: Callable[..., Wrapper]) -> None:
    wrapper = start()
    os.kill(wrapper.watchdog, signal.SIGSTOP)
    wrapper.tell("cut")
    assert wrapper.read() == {"outcome": [1, "watchdog"]}
    assert max(wrapper.entry(slot, 1) for slot in (COMMAND, CHILD)) < wrapper.deadline
    os.kill(wrapper.entry(ESCAPED, 0), signal.SIGKILL)


@pytest.mark.parametrize(
    ("order", "mode", "code"), [("stop", "obey", 7), ("stop", "ignore", 137), ("stop now", "ignore", 137)]
)
def test_a_command_that_is_told_to_stop(start: Callable[..., Wrapper], order: str, mode: str, code: int) -> None:
    wrapper = start(mode=mode)
    wrapper.tell(order)
    wrapper.tell("gone")
    said = [wrapper.read(), wrapper.read()]
    assert {"outcome": [code, "stopped"]} in said
    assert {"gone": True} in said
    assert not any(alive(pid) for pid in wrapper.pids())


def test_signals_are_forwarded(start: Callable[..., Wrapper]) -> None:
    code = """
import json, os, signal, time
def say(**what): os.write(1, json.dumps(what).encode() + b"\\n")  # a handler that prints may meet a print
def got(number, _): say(got=number)
for number in (1, 2, 3, 10, 12, 15, 28): signal.signal(number, got)
say(up=True)
while True: time.sleep(600)
"""
    wrapper = start(*python(code))
    assert wrapper.read() == {"up": True}
    for number in (
        signal.SIGHUP,
        signal.SIGINT,
        signal.SIGQUIT,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGTERM,
        signal.SIGWINCH,
    ):
        wrapper.send(number)
        assert wrapper.read() == {"got": number}


def test_the_watchdog_is_not_ended_by_signals_that_end_others(start: Callable[..., Wrapper]) -> None:
    wrapper = start()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1):
        os.kill(wrapper.watchdog, number)
    beat = wrapper.last_beat()
    wrapper.until(lambda: wrapper.last_beat() > beat + 50_000_000)
    assert alive(wrapper.watchdog)


def test_what_a_command_leaves_behind_is_killed(start: Callable[..., Wrapper], tmp_path: Path) -> None:
    code = f"""
import os, subprocess, sys, time
beater = subprocess.Popen({beater(tmp_path / "book", "ignore")!r})
while os.stat({str(tmp_path / "book")!r}).st_size < 1 or not all(
    int(open({str(tmp_path / "book")!r}).read()[slot * 128 + 32 : slot * 128 + 63]) for slot in (0, 1, 2)
): time.sleep(0.01)
sys.exit(5)
"""
    wrapper = start(*python(code))
    assert wrapper.read() == {"outcome": [5, "ended"]}
    assert all(wrapper.pids())
    assert not any(alive(pid) for pid in wrapper.pids())
