"""What the conformance suite needs to know of a ledger: one class and one line in `STAGES` each.

A stage makes a ledger of its kind, fresh for each test, and makes its faults by whatever means are real for it. The suite
itself, test_ledger_conformance*.py, names no kind.
"""

import ctypes
import os
import resource
import shutil
import sqlite3
import struct
import subprocess
import sys
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pares.ledger
from pares.ledger import Ledger
from pares.ledger.memory import MemoryLedger, drop

WRITER = """
import sys
import pares.ledger
url, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
ledger = pares.ledger.open(url)
print("ready", flush=True)
sys.stdin.readline()
for number in range(count):
    print(ledger.append(f"{name} {number}".encode()), flush=True)
"""
"""A program that appends `NAME 0`, `NAME 1`, ... once it is told to, and prints the offsets it was given."""


class Stage(ABC):
    """One ledger to be tested, and what can be done to it from outside."""

    often = 150
    """How many times a test opens and closes it that looks for what is left behind."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._opened: list[Ledger] = []

    @property
    @abstractmethod
    def url(self) -> str: ...

    @abstractmethod
    def outage(self) -> AbstractContextManager[None]:
        """A context in which appends are refused (certainly not done)."""

    @abstractmethod
    def replace(self) -> None:
        """Put another, empty log behind the URL, while handles are open."""

    @abstractmethod
    def elsewhere(self, names: list[str], count: int) -> dict[str, list[int]]:
        """Concurrent writers as far from each other as the ledger lets them be; the offsets each was given."""

    def open(self, **options: object) -> Ledger:
        """A new handle, closed at the end of the test."""
        ledger = pares.ledger.open(self.url, **options)
        self._opened.append(ledger)
        return ledger

    def impatient(self) -> Ledger:
        """A handle that gives up soon where it has to wait for somebody."""
        return self.open()

    def close(self) -> None:
        for ledger in self._opened:
            ledger.close()


class MemoryStage(Stage):
    @property
    def url(self) -> str:
        return f"memory://{self.folder.name}"

    @contextmanager
    def outage(self) -> Generator[None]:
        ledger = self.open()
        assert isinstance(ledger, MemoryLedger)
        ledger.cut("refused", reads=False)
        try:
            yield
        finally:
            ledger.heal()

    def replace(self) -> None:
        drop(self.folder.name)

    def elsewhere(self, names: list[str], count: int) -> dict[str, list[int]]:
        return in_threads(self, names, count)

    def close(self) -> None:
        super().close()
        drop(self.folder.name)


class SqliteStage(Stage):
    @property
    def path(self) -> Path:
        return self.folder / "ledger.db"

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path}?busy_timeout=20"

    def impatient(self) -> Ledger:
        return self.open(busy_timeout=0.2)

    @contextmanager
    def outage(self) -> Generator[None]:
        """A writer of another process that sits in its transaction, and is killed there in the end."""
        program = (
            "import sqlite3, sys, time; c = sqlite3.connect(sys.argv[1], isolation_level=None); "
            "c.execute('BEGIN IMMEDIATE'); c.execute('UPDATE logs SET next = next + 7'); "
            "print('locked', flush=True); time.sleep(600)"
        )
        holder = subprocess.Popen([sys.executable, "-c", program, str(self.path)], stdout=subprocess.PIPE, text=True)
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        try:
            yield
        finally:
            holder.kill()
            holder.wait()
            holder.stdout.close()

    def replace(self) -> None:
        self.path.unlink()
        pares.ledger.open(self.url).close()

    def elsewhere(self, names: list[str], count: int) -> dict[str, list[int]]:
        return in_processes(self.url, names, count)


class FileStage(Stage):
    @property
    def path(self) -> Path:
        return self.folder / "ledger"

    @property
    def url(self) -> str:
        return f"file://{self.path}"

    @contextmanager
    def outage(self) -> Generator[None]:
        """No file of this process may grow."""
        before, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, most))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))

    def replace(self) -> None:
        shutil.rmtree(self.path)
        pares.ledger.open(self.url).close()

    def elsewhere(self, names: list[str], count: int) -> dict[str, list[int]]:
        return in_processes(self.url, names, count)


class ServedStage(Stage):
    """A ledger of a service, which keeps the log and tells of it."""

    unsure = 0
    """How many appends to a log that is gone may fail with an unknown outcome, before the service's word is certain."""

    session = 1.0
    """Seconds of a member's session there."""

    @abstractmethod
    def delete(self) -> None:
        """The log goes, and nothing takes its place."""

    @abstractmethod
    def there(self) -> bool:
        """Whether there is a log."""

    def replace(self) -> None:
        self.delete()
        pares.ledger.open(self.url).close()


STAGES: dict[str, Callable[[Path], Stage]] = {"memory": MemoryStage, "sqlite": SqliteStage, "file": FileStage}


def start_writer(url: str, name: str, count: int) -> "subprocess.Popen[str]":
    """Start `WRITER`; it waits for a line."""
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, url, name, str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def in_processes(url: str, names: list[str], count: int) -> dict[str, list[int]]:
    """Concurrent writers in processes of their own."""
    writers = {name: start_writer(url, name, count) for name in names}
    for writer in writers.values():
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    offsets: dict[str, list[int]] = {}
    for writer in writers.values():
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for name, writer in writers.items():
        output, _ = writer.communicate(timeout=120)
        assert writer.returncode == 0
        offsets[name] = [int(line) for line in output.split()]
    return offsets


def in_threads(stage: Stage, names: list[str], count: int) -> dict[str, list[int]]:
    """Concurrent writers in threads of this process, each with a handle of its own."""

    def write(name: str) -> list[int]:
        ledger = stage.open()
        return [ledger.append(f"{name} {number}".encode()) for number in range(count)]

    with ThreadPoolExecutor(len(names)) as pool:
        return dict(zip(names, pool.map(write, names), strict=True))


def descriptors() -> int:
    """How many descriptors this process has open. More than before: something leaks. Fewer: what an earlier test had left to be
    collected was collected meanwhile."""
    return len(os.listdir("/proc/self/fd"))


def in_child(action: Callable[[], None]) -> None:
    """Run `action` in a forked child; its exception, if any, fails the test."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        report = b""
        try:
            action()
        except BaseException:
            report = traceback.format_exc().encode()
        os.write(write_end, report[-60_000:])
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        report = pipe.read()
    _, status = os.waitpid(child, 0)
    assert not report, f"in the child:\n{report.decode()}"
    assert status == 0, f"the child ended with status {status} (signal {status & 0x7F})"


def as_ordinary_user(action: Callable[[], None]) -> None:
    """Run `action` in a forked child that file permissions hold for, also when the tests run as root."""

    def without_privileges() -> None:
        if os.geteuid() == 0:
            libc = ctypes.CDLL(None, use_errno=True)
            header = ctypes.create_string_buffer(struct.pack("Ii", 0x20080522, 0))
            nothing = ctypes.create_string_buffer(24)
            assert libc.capset(header, nothing) == 0, os.strerror(ctypes.get_errno())
        action()

    in_child(without_privileges)


def integrity(path: Path) -> str:
    """What SQLite itself says of a ledger file, which nobody in this process may have open."""
    connection = sqlite3.connect(path)
    try:
        return str(connection.execute("PRAGMA integrity_check").fetchone()[0])
    finally:
        connection.close()
