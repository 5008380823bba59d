"""A member whose death lock is gone may be "proven dead" at any moment, so it stops believing, and says so (K5, A3)."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from runtime_tools import PATIENCE, Crew, Recorder, in_child, until

from pares.runtime.death.lock import DeathLock as FileLock
from pares.runtime.death.lock import prove
from pares.runtime.host import DeathLock

SESSION = 20.0
"""Beyond what any test waits: nothing here happens because a lease ran out."""


def closed(lock: DeathLock) -> None:
    os.close(lock.descriptor)


def used_again(lock: DeathLock) -> None:
    other = os.open(os.devnull, os.O_RDONLY)
    os.dup2(other, lock.descriptor)
    os.close(other)


def opened_again(lock: DeathLock) -> None:
    """The same number, the same file, another open file: only the kernel's word about locks tells them apart."""
    number, other = lock.descriptor, os.open(lock.path, os.O_RDWR)
    os.dup2(other, number)
    os.close(other)


def unlocked(lock: DeathLock) -> None:
    fcntl.flock(lock.descriptor, fcntl.LOCK_UN)


def unlocked_by_a_child(lock: DeathLock) -> None:
    descriptor = os.dup(lock.descriptor)
    in_child(lambda: fcntl.flock(descriptor, fcntl.LOCK_UN))
    os.close(descriptor)


WAYS = [closed, used_again, opened_again, unlocked, unlocked_by_a_child]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_lock_that_is_gone_is_seen(tmp_path: Path, way: Callable[[DeathLock], None]) -> None:
    lock = FileLock.take(tmp_path, "a~1")
    assert lock.lost() == ""
    assert not prove(tmp_path, "a~1", lock.statement)
    number = lock.descriptor
    way(lock)
    assert prove(tmp_path, "a~1", lock.statement), "anybody may prove that it is dead"
    assert lock.lost()
    before = [os.fstat(number).st_ino] if way is used_again else []
    lock.release()
    if way is used_again:
        assert [os.fstat(number).st_ino] == before, "what is somebody else's is not closed"
        os.close(number)
    assert lock.lost() == "it was given up"


@pytest.mark.parametrize("way", [closed, used_again, opened_again, unlocked], ids=lambda way: way.__name__)
def test_a_member_without_its_lock_stops_believing(sqlite: str, way: Callable[[DeathLock], None]) -> None:
    barrier = Recorder()
    crew = Crew(sqlite)
    me = crew.leader("a", barrier=barrier, session=SESSION)
    term, id, lock = me.term("A"), me.id, me.lock
    assert term is not None
    assert lock is not None
    way(lock)
    began = time.monotonic()
    until(lambda: not term, "it stops believing")
    assert time.monotonic() - began < SESSION / 2, "long before its lease runs out"
    assert "death lock" in term.why
    until(lambda: "Fenced" in barrier.kinds(), "its barrier is told")
    assert any(problem.startswith("lock-lost") for problem in me.health().problems)
    again = me.wait("A", PATIENCE)
    assert again
    assert me.id != id, "under another id, with a lock of its own"
    assert me.lock is not None
    assert me.lock.lost() == ""
    assert again.token > term.token
