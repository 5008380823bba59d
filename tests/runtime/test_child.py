"""A command under a supervisor, with real processes: it never outlives its term, whoever is killed or frozen.

The command writes what time it is, as fast as it can, into a file; so do its child, its child that has a session of its own,
and the wrapper, which writes up to when it may believe. What is checked is that no time in the file is later than that.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pares.core.errors import ConfigError
from pares.core.records import Lock
from pares.runtime.child import Supervisor
from pares.runtime.child_grace import check_grace, room_for_grace
from pares.runtime.child_watchdog import now_ns
from pares.runtime.proof import prove

pytestmark = pytest.mark.processes

COMMAND, CHILD, ESCAPED, WRAPPER = range(4)
SESSION, GRACE = 1.0, 0.2

BEATER = """
import os, signal, sys, time
book, ignore = os.open(sys.argv[1], os.O_RDWR), sys.argv[2] == "ignore"
def write(slot, field, number): os.pwrite(book, b"%31d\\n" % number, slot * 128 + field * 32)
def beat(slot):
    write(slot, 0, os.getpid())
    signal.alarm(120)  # should a test fail, nothing of it stays for ever
    while True:
        write(slot, 1, time.clock_gettime_ns(time.CLOCK_BOOTTIME))
        time.sleep(0.0005)
def terminated(*_):
    write(slot, 2, time.clock_gettime_ns(time.CLOCK_BOOTTIME))
    if not ignore: sys.exit(7)
slot = 0
signal.signal(signal.SIGTERM, terminated)
if os.fork() == 0: slot = 1; beat(1)
if os.fork() == 0: slot = 2; os.setsid(); beat(2)
beat(0)
"""

HARNESS = """
import json, os, signal, sys, threading
from pathlib import Path
import msgspec
from pares.runtime.child import FORWARDED, Supervisor
from pares.runtime.child_watchdog import now_ns
from pares.runtime.proof import DeathLock

book_path, folder, session, grace, *command = sys.argv[1:]
book = os.open(book_path, os.O_RDWR)
def tell(**what): os.write(1, (json.dumps(what) + chr(10)).encode())

class Lease:
    '''Renewed every time it is asked for, until it is cut; its own clock is the one of the command.'''
    role, seat, token, mode, until = "r", 2, 41, "renew", 0
    @property
    def deadline_ns(self):
        if self.mode == "renew": self.until = now_ns() + int(float(session) * 0.75e9)
        if self.mode == "lose": self.until = 0
        os.pwrite(book, b"%31d\\n" % self.until, 3 * 128)
        return self.until

lease = Lease()
lock = DeathLock.take(Path(folder), "w~1")
supervisor = Supervisor(command, session=float(session), grace=float(grace), descriptors=[lock.descriptor],
                        environment={"PARES_ROLE": "r"})
for number in FORWARDED: signal.signal(number, lambda n, _: supervisor.forward(n))
supervisor.prepare()
tell(lock=msgspec.to_builtins(lock.statement), watchdog=supervisor._spare.process.pid)

def obey():
    for line in sys.stdin:
        match line.split():
            case ["stop"]: supervisor.stop(lease.token)
            case ["stop", "now"]: supervisor.stop(lease.token, at_once=True)
            case ["gone"]: tell(gone=supervisor.wait_gone(lease.token, 60))
            case [mode]: lease.mode = mode

threading.Thread(target=obey, daemon=True).start()
try:
    tell(outcome=supervisor.run(lease))
except Exception as error:
    tell(error=f"{type(error).__name__}: {error}")
supervisor.close()
signal.pause()
"""


def beater(book: Path, mode: str) -> list[str]:
    return [sys.executable, "-S", "-c", BEATER, str(book), mode]


class Wrapper:
    """A process that supervises a command, and what its command wrote."""

    def __init__(self, folder: Path, *command: str, mode: str = "obey") -> None:
        self.folder = folder
        self.book = folder / "book"
        self.book.write_bytes(b"%31d\n" % 0 * 16)
        arguments = [str(self.book), str(folder / "locks"), str(SESSION), str(GRACE)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", HARNESS, *arguments, *(command or beater(self.book, mode))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        first = self.read()
        self.lock = Lock(**first["lock"])
        self.watchdog: int = first["watchdog"]
        if not command:
            self.until(lambda: all(self.entry(slot, 1) for slot in (COMMAND, CHILD, ESCAPED)))

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the wrapper has ended"
        return json.loads(line)

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def entry(self, slot: int, field: int) -> int:
        """What a process wrote: its pid, the last time it ran, when it got TERM; of the wrapper, its deadline."""
        with open(self.book, "rb") as book:
            return int(os.pread(book.fileno(), 31, slot * 128 + field * 32) or 0)

    @property
    def deadline(self) -> int:
        return self.entry(WRAPPER, 0)

    def pids(self) -> list[int]:
        return [self.entry(slot, 0) for slot in (COMMAND, CHILD, ESCAPED)]

    def until(self, true: Callable[[], object]) -> None:
        end = time.monotonic() + 60
        while not true():
            assert time.monotonic() < end
            time.sleep(0.002)

    def until_all_dead(self) -> None:
        self.until(lambda: not any(alive(pid) for pid in (*self.pids(), self.watchdog)))

    def last_beat(self) -> int:
        return max(self.entry(slot, 1) for slot in (COMMAND, CHILD, ESCAPED))

    def send(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        self.until_all_dead()


def alive(pid: int) -> bool:
    """Whether it can still do something: not one that is dead and not buried yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Wrapper]]:
    started: list[Wrapper] = []

    def begin(*command: str, **options: Any) -> Wrapper:
        started.append(Wrapper(tmp_path, *command, **options))
        return started[-1]

    yield begin
    for wrapper in started:
        wrapper.close()


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-S", "-c", code)


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


def test_a_spare_watchdog_that_died_is_replaced(start: Callable[..., Wrapper], tmp_path: Path) -> None:
    supervisor = Supervisor(["true"], session=1, grace=0.1)
    supervisor.prepare()
    spare: Any = vars(supervisor)["_spare"]
    spare.process.kill()
    spare.process.wait()
    assert supervisor.run(Steady()) == (0, "ended")
    supervisor.close()


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
import json, signal, time
def got(number, _): print(json.dumps({"got": number}), flush=True)
for number in (1, 2, 3, 10, 12, 15, 28): signal.signal(number, got)
print(json.dumps({"up": True}), flush=True)
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


class Steady:
    """A term that lasts."""

    role, seat, token, deadline_ns = "r", 0, 1, 2**62


class Ended(Steady):
    deadline_ns = 0


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


def test_many_runs_leak_nothing() -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(15):
        supervisor = Supervisor(["true"], session=1, grace=0.1)
        assert supervisor.run(Steady()) == (0, "ended")
        supervisor.prepare()
        supervisor.prepare([])
        supervisor.close()
    assert len(os.listdir("/proc/self/fd")) == before
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_a_grace_that_does_not_fit_is_refused_with_the_sum() -> None:
    for session in (0.3, 1.0, 5.0, 10.0, 60.0):
        room = room_for_grace(session)
        assert room > session / 5 - 0.02, "the default fits"
        check_grace(room, session)
        with pytest.raises(ConfigError, match=rf"does not fit a session of {session:g} s"):
            check_grace(room + 0.001, session)
    with pytest.raises(ConfigError) as error:
        check_grace(2.0, 1.0)
    text = str(error.value)
    assert "0.816" in text
    assert "0.250" in text
    needed = float(text.split("session of ")[2].split()[0])
    check_grace(2.0, needed)
    with pytest.raises(ConfigError):
        check_grace(2.0, needed * 0.95)
    with pytest.raises(ConfigError, match="no grace fits it, so take a session of"):
        check_grace(0.0, 0.02)
    for grace in (-1, float("nan")):
        with pytest.raises(ConfigError, match="0 or more"):
            check_grace(grace, 1)
    for session in (0.0, 0.01, 61.0, float("inf"), float("nan")):
        with pytest.raises(ConfigError, match=r"give 0\.02 to 60 s"):
            check_grace(0.0, session)
    with pytest.raises(ConfigError, match=r"less$"):
        check_grace(100, 60)
