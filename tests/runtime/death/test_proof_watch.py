"""R7 with real processes: a watch, and a witness' watch, is woken by a death and proves it."""

from __future__ import annotations

import os
import select
import signal
from pathlib import Path

import msgspec
import pytest
from proof_tools import Holder, descriptors, next_dead

from pares.runtime.death import watcher
from pares.runtime.death.lock import DeathLock
from pares.runtime.death.watcher import DeathWatch

pytestmark = pytest.mark.processes


def test_the_watch_is_woken_and_says_it_once(tmp_path: Path, holder: Holder) -> None:
    watch = DeathWatch(tmp_path)
    watch.watch({"a~1": holder.statement, "b~2": msgspec.structs.replace(holder.statement, file="gone.alive")})
    assert watch.check() == []
    assert watch.poll_interval() is None, "it will be woken: no reason to poll"
    assert not select.select(watch.filenos(), [], [], 0)[0]
    os.kill(holder.process.pid, signal.SIGKILL)
    assert select.select(watch.filenos(), [], [], 30)[0]
    assert next_dead(watch, within=30) == ["a~1"]
    assert watch.check() == []
    assert watch.proven == {"a~1"}
    assert not select.select(watch.filenos(), [], [], 0)[0], "it does not stay readable"
    assert watch.poll_interval() is None
    watch.watch({})
    assert watch.proven == frozenset()
    watch.close()


def test_a_pid_that_means_another_process_only_makes_it_slower(tmp_path: Path, holder: Holder) -> None:
    foreign = msgspec.structs.replace(holder.statement, pid=os.getpid())
    watch = DeathWatch(tmp_path)
    watch.watch({"a~1": foreign})
    assert watch.check() == []
    assert watch.poll_interval() <= 0.005  # type: ignore[operator]
    holder.kill()
    assert next_dead(watch, within=30) == ["a~1"]
    watch.close()


def test_a_member_that_is_watched_again_soon_is_not_looked_for_again(
    tmp_path: Path, holder: Holder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where many are late now and then, neighbours change whom they watch, back and forth."""
    looked = list[int]()
    monkeypatch.setattr(watcher, "_holds_lock", lambda lock: looked.append(lock.pid) or True)
    watch, statement = DeathWatch(tmp_path), holder.statement
    for _ in range(5):
        watch.watch({"a~1": statement})
        assert watch.check() == []
        assert watch.provable == {"a~1"}
        watch.watch({})
        assert watch.provable == frozenset()
    assert looked == [statement.pid]
    watch.watch({"a~1": msgspec.structs.replace(statement, file="other.alive")})
    assert watch.provable == frozenset(), "it is another lock that counts now"
    watch.watch({"a~1": statement})
    assert looked == [statement.pid] * 2
    watch.watch({})
    holder.kill()
    assert watch.check() == [], "nobody asked"
    watch.watch({"a~1": statement})
    assert next_dead(watch, within=30) == ["a~1"]
    watch.close()


def test_what_is_kept_of_members_that_are_watched_no_more_is_little(tmp_path: Path) -> None:
    before, watch = descriptors(), DeathWatch(tmp_path)
    most = 0
    locks = {f"a~{number}": DeathLock.take(tmp_path, f"a~{number}") for number in range(30)}
    with_locks = descriptors()
    for member, lock in locks.items():
        watch.watch({member: lock.statement})
        most = max(most, descriptors() - with_locks)
    assert most <= 2 * (1 + watcher.IDLE), "a file and a process of each"
    for lock in locks.values():
        lock.release()
    watch.close()
    assert descriptors() == before


def test_a_witness_is_woken_and_tries_no_lock_before(tmp_path: Path, holder: Holder) -> None:
    """Also where a process id means somebody else, as in another container."""
    foreign = msgspec.structs.replace(holder.statement, pid=os.getpid())
    watch = DeathWatch(tmp_path, witness=True)
    watch.watch({"a~1": foreign, "b~2": msgspec.structs.replace(foreign, file="gone.alive")})
    assert watch.provable == {"a~1"}
    assert watch.check(1) == []
    assert watch.poll_interval(1) > 5, "it looks at all of them now and then, and at none in between"  # type: ignore[operator]
    path = tmp_path / holder.statement.file
    path.open().close()
    assert not select.select(watch.filenos(), [], [], 0)[0], "readers wake nobody"
    holder.kill()
    assert select.select(watch.filenos(), [], [], 30)[0]
    assert next_dead(watch, within=30) == ["a~1"]
    assert watch.provable == frozenset()
    assert watch.poll_interval() is None
    watch.watch({})
    watch.close()


def test_a_witness_is_not_deceived_by_whoever_writes_into_a_lock_file(tmp_path: Path, holder: Holder) -> None:
    watch = DeathWatch(tmp_path, witness=True)
    watch.watch({"a~1": holder.statement})
    assert watch.check(1) == []
    with (tmp_path / holder.statement.file).open("ab"):
        pass
    assert select.select(watch.filenos(), [], [], 30)[0], "it was closed by somebody"
    now = 2
    for _ in range(100):
        assert watch.check(now) == []
        now += 5_000_000
    assert watch.poll_interval(now) > 1, "it is calm again"  # type: ignore[operator]
    holder.kill()
    assert next_dead(watch, within=30) == ["a~1"]
    watch.close()


def test_a_witness_waits_for_a_command_that_keeps_the_lock_without_polling(tmp_path: Path) -> None:
    then = (
        "import subprocess; p = subprocess.Popen(['sleep', '600'], pass_fds=[lock.descriptor], stdout=subprocess.DEVNULL);"
        "print(p.pid, flush=True)"
    )
    holder = Holder(tmp_path, then=then)
    command = int(holder.lines.readline())
    watch = DeathWatch(tmp_path, witness=True)
    watch.watch({"a~1": holder.statement})
    assert watch.check() == []
    holder.kill()
    assert not select.select(watch.filenos(), [], [], 0.3)[0], "the wrapper is gone, its command is not"
    os.kill(command, signal.SIGKILL)
    assert select.select(watch.filenos(), [], [], 30)[0]
    assert next_dead(watch, within=30) == ["a~1"]
    watch.close()
    holder.close()


@pytest.mark.parametrize("missing", ["instance", "watch"])
def test_a_witness_without_inotify_looks_more_often(
    tmp_path: Path, holder: Holder, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    from pares.runtime.death import closings

    def refuse(*_: object) -> None:
        raise OSError("no more of them")

    monkeypatch.setattr(closings.Closings, "__init__" if missing == "instance" else "add", refuse)
    watch = DeathWatch(tmp_path, witness=True)
    watch.watch({"a~1": msgspec.structs.replace(holder.statement, pid=os.getpid())})
    assert watch.check() == []
    assert watch.poll_interval() <= 0.005  # type: ignore[operator]
    holder.kill()
    assert next_dead(watch, within=30) == ["a~1"]
    watch.close()


def test_a_witness_of_many_members_that_come_and_go_leaks_nothing(tmp_path: Path) -> None:
    before = descriptors()
    watch = DeathWatch(tmp_path, witness=True)
    locks = {f"a~{number}": DeathLock.take(tmp_path, f"a~{number}") for number in range(300)}
    for first in range(0, 300, 50):
        some = {member: lock.statement for member, lock in list(locks.items())[first : first + 100]}
        watch.watch(some)
        assert watch.check() == []
        assert watch.provable == some.keys()
    gone = list(locks)[250:260]
    for member in gone:
        locks[member].abandon()
    assert sorted(next_dead(watch, within=30)) == gone
    for lock in locks.values():
        lock.release()
    watch.watch({})
    watch.close()
    watch.close()
    assert descriptors() == before


def test_who_was_dead_before_the_watch_began_is_found(tmp_path: Path, holder: Holder) -> None:
    holder.kill()
    watch = DeathWatch(tmp_path)
    watch.watch({"a~1": holder.statement})
    assert watch.check() == ["a~1"]
    watch.close()
