"""What a supervisor starts, and what it does not: commands that can't be run, terms that are over, watchdogs that died."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from pares.core.errors import ConfigError
from pares.supervise.child import Supervisor
from pares.supervise.watchdog import now_ns

pytestmark = pytest.mark.processes


class Steady:
    """A term that lasts."""

    role, seat, token, deadline_ns = "r", 0, 1, 2**62


class Ended(Steady):
    deadline_ns = 0


def test_a_spare_watchdog_that_died_is_replaced() -> None:
    supervisor = Supervisor(["true"], session=1, grace=0.1)
    supervisor.prepare()
    spare: Any = vars(supervisor)["_spare"]
    spare.process.kill()
    spare.process.wait()
    assert supervisor.run(Steady()) == (0, "ended")
    supervisor.close()


def test_a_signal_that_comes_while_no_command_runs_is_passed_on_to_none() -> None:
    """Nor to the next one, which would die of it."""
    supervisor = Supervisor(["sleep", "0.3"], session=1, grace=0.1)
    supervisor.forward(signal.SIGUSR1)
    assert supervisor.run(Steady()) == (0, "ended")
    supervisor.forward(signal.SIGUSR1)

    class Next(Steady):
        token = 2

    assert supervisor.run(Next()) == (0, "ended")
    supervisor.close()


def test_a_stop_that_comes_as_it_is_closed_writes_into_nobodys_file(monkeypatch: pytest.MonkeyPatch) -> None:
    supervisor = Supervisor(["true"], session=1, grace=0.1)
    closing, there, write = threading.Thread(target=supervisor.close), list[bool](), os.write

    def slow_write(descriptor: int, data: bytes) -> int:
        closing.start()
        closing.join(0.3)
        with contextlib.suppress(OSError):
            there.append(os.fstat(descriptor).st_ino != 0)
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", slow_write)
    supervisor.stop(1)
    monkeypatch.undo()
    closing.join()
    supervisor.stop(1)
    assert there == [True], "the number was not given back before the write"


def test_commands_that_can_not_be_run(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("echo hello\n")
    for command, message in (
        (["/no/such/program"], "No such file"),
        (["no-such-program-anywhere"], "No such file"),
        ([str(tmp_path)], "Permission denied"),
        ([str(script)], "Permission denied"),
    ):
        with pytest.raises(ConfigError, match=message):
            Supervisor(command, session=1, grace=0.1).run(Steady())
    script.chmod(0o755)
    with pytest.raises(ConfigError, match=r"Exec format error.*never a line for a shell"):
        Supervisor([str(script)], session=1, grace=0.1).run(Steady())
    script.write_text("#!/no/such/interpreter\n")
    with pytest.raises(ConfigError, match=r"No such file.*its first line names"):
        Supervisor([str(script)], session=1, grace=0.1).run(Steady())
    with pytest.raises(ConfigError, match="no command"):
        Supervisor([], session=1, grace=0.1)


def test_nothing_starts_in_a_term_that_is_over(tmp_path: Path) -> None:
    supervisor = Supervisor(["touch", str(tmp_path / "ran")], session=1, grace=0.1)
    assert supervisor.run(Ended()).why == "lost"
    supervisor.stop(Steady.token)
    assert supervisor.run(Steady()).why == "stopped"
    assert not (tmp_path / "ran").exists()

    class Next(Steady):
        token = 2

    assert supervisor.run(Next()) == (0, "ended")
    assert (tmp_path / "ran").exists()
    supervisor.close()


def test_a_start_waits_until_the_lease_has_room_for_the_grace(tmp_path: Path) -> None:
    class Short(Steady):
        asked = 0

        @property
        def deadline_ns(self) -> int:  # type: ignore[override]
            self.asked += 1
            return now_ns() + (int(0.1e9) if self.asked < 5 else int(0.8e9))

    term = Short()
    supervisor = Supervisor(["true"], session=1, grace=0.2)
    assert supervisor.run(term) == (0, "ended")
    assert term.asked >= 5
    supervisor.close()


def test_a_watchdog_that_is_told_too_late_starts_nothing(tmp_path: Path) -> None:
    """The wrapper was frozen between its look at the lease and its word to start."""
    supervisor = Supervisor(["touch", str(tmp_path / "ran")], session=1, grace=0.2)
    supervisor.prepare()
    watchdog: Any = vars(supervisor)["_spare"]
    heard: list[list[str]] = []

    def hear(count: int) -> list[list[str]]:
        while len(heard) < count:
            heard.extend(watchdog.receive())
        return heard[-1:]

    for left in (-1.0, 0.0, 0.2):
        watchdog.deadline.store(now_ns() + int(left * 1e9))
        watchdog.send("start 1 0")
        assert hear(len(heard) + 1 + (not heard)) == [["late"]]
    assert not (tmp_path / "ran").exists()
    watchdog.deadline.store(now_ns() + int(60e9))
    watchdog.send("start 1 0")
    assert hear(len(heard) + 2) == [["exit", "0", "ended"]]
    assert (tmp_path / "ran").exists()
    supervisor.close()


def children() -> set[str]:
    """Processes that this one has started and not yet waited for; the fork server of `multiprocessing` may be among them."""
    return {pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}


def test_many_runs_leak_nothing() -> None:
    before, there = len(os.listdir("/proc/self/fd")), children()
    for _ in range(15):
        supervisor = Supervisor(["true"], session=1, grace=0.1)
        assert supervisor.run(Steady()) == (0, "ended")
        supervisor.prepare()
        supervisor.prepare([])
        supervisor.close()
    assert len(os.listdir("/proc/self/fd")) == before
    assert children() == there
