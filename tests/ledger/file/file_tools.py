"""What the tests of file ledgers share."""

from __future__ import annotations

import itertools
import json
import os
import signal
import tempfile
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import pares.ledger
from pares.core.errors import ParesError
from pares.ledger.file import appending
from pares.ledger.file.log import FileLedger

CALLS = ("open", "write", "lseek", "stat", "fstat", "fsync", "pread", "listdir", "mkdir", "link", "unlink", "fchmod")
"""What the ledger calls in `os`: a process can be stopped before each."""


def opened(path: Path, **options: object) -> FileLedger:
    ledger = pares.ledger.open(f"file://{path}", **options)
    assert isinstance(ledger, FileLedger)
    return ledger


def refused(path: Path, error: type[ParesError], says: str, **options: object) -> None:
    """Opening it raises this, which names the path and says that."""
    with pytest.raises(error) as caught:
        opened(path, **options)
    assert says in str(caught.value)
    assert str(path) in str(caught.value)


def segments(path: Path, partition: int = 0) -> list[Path]:
    return sorted((path / "log" / str(partition)).glob("*.log"))


@contextmanager
def in_memory() -> Generator[Path]:
    """A folder in memory where there is such a thing: for what is about order, not about disks."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder) / "ledger"


def stop_at(number: int) -> None:
    """Have this process stop itself before its call of that number."""
    calls = itertools.count(1)

    def watched(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if next(calls) == number:
                os.kill(os.getpid(), signal.SIGSTOP)
            return real(*args, **kwargs)

        return call

    for name in CALLS:
        setattr(os, name, watched(getattr(os, name)))
    appending._sync_file = watched(appending._sync_file)  # pyright: ignore[reportPrivateUsage, reportConstantRedefinition]


def forked(action: Callable[[], object]) -> int:
    """A child that does this, and no more; it exits with 0 if that went well."""
    child = os.fork()
    if child:
        return child
    try:
        action()
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def stopped(child: int) -> bool:
    """Wait until it has stopped itself, True, or is through, False."""
    _, status = os.waitpid(child, os.WUNTRACED)
    if os.WIFSTOPPED(status):
        return True
    assert status == 0, f"the child ended with {status}"
    return False


def finish(child: int, how: signal.Signals) -> None:
    """Go on with a child that has stopped (SIGCONT), or kill it."""
    os.kill(child, how)
    _, status = os.waitpid(child, 0)
    assert status == (0 if how == signal.SIGCONT else how)


def end(child: int) -> None:
    """Kill a child that may be through already."""
    try:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    except (ProcessLookupError, ChildProcessError):
        pass


def writers(
    path: Path, count: int, each: int, work: Callable[[int, FileLedger], Iterable[Any]], **options: Any
) -> list[Any]:
    """So many processes that begin together, and what each has yielded."""
    ready, go = os.pipe(), os.pipe()
    outputs = [tempfile.TemporaryFile() for _ in range(count)]  # noqa: SIM115 - closed below

    def child(number: int) -> None:
        ledger = opened(path, **options)
        os.write(ready[1], b"r")
        os.close(go[1])
        os.read(go[0], 1)
        outputs[number].write(json.dumps(list(work(number, ledger))).encode())
        outputs[number].flush()

    children = [forked(lambda number=number: child(number)) for number in range(count)]
    for _ in children:
        assert os.read(ready[0], 1) == b"r"
    os.close(go[1])
    for one in children:
        assert not stopped(one)
    for descriptor in (*ready, go[0]):
        os.close(descriptor)
    found: list[Any] = []
    for output in outputs:
        with output:
            output.seek(0)
            found.append(json.loads(output.read()))
            assert len(found[-1]) == each
    return found
