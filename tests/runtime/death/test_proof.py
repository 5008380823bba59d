"""R7 with real processes: who is dead can be proven at once, and who lives never."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import msgspec
import pytest
from proof_tools import Holder, descriptors, next_dead, until_proven

from pares.core.errors import CapabilityError, ConfigError
from pares.core.wire.records import Lock
from pares.runtime.death import lock as proof
from pares.runtime.death.lock import DeathLock, boot_id, forget, prove, sweep
from pares.runtime.death.watcher import DeathWatch

pytestmark = pytest.mark.processes


def test_a_killed_process_is_proven_dead_and_a_living_one_is_not(tmp_path: Path, holder: Holder) -> None:
    assert not any(prove(tmp_path, "a~1", holder.statement) for _ in range(100))
    holder.kill()
    assert prove(tmp_path, "a~1", holder.statement)
    assert prove(tmp_path, "a~1", holder.statement), "a second prover has the same proof"


def test_a_stopped_process_lives(tmp_path: Path, holder: Holder) -> None:
    os.kill(holder.process.pid, signal.SIGSTOP)
    os.waitpid(holder.process.pid, os.WUNTRACED)
    watch = DeathWatch(tmp_path)
    watch.watch({"a~1": holder.statement})
    assert next_dead(watch, within=0.7) == []
    assert not prove(tmp_path, "a~1", holder.statement)
    os.kill(holder.process.pid, signal.SIGKILL)
    assert next_dead(watch, within=30) == ["a~1"]
    watch.close()


def test_a_process_that_ends_by_itself_is_dead(tmp_path: Path) -> None:
    holder = Holder(tmp_path, then="sys.exit()")
    holder.process.wait()
    assert prove(tmp_path, "a~1", holder.statement), "it did not release, so its file is there and its lock is free"
    holder.close()


def test_a_forked_child_does_not_keep_its_parent_alive(tmp_path: Path) -> None:
    then = "p = os.fork()\nif p: print(p, flush=True)\nelse: os.close(1), time.sleep(600)"
    holder = Holder(tmp_path, then=then)
    child = int(holder.lines.readline())
    assert not prove(tmp_path, "a~1", holder.statement)
    holder.kill()
    assert until_proven(tmp_path, "a~1", holder.statement) < 30
    os.kill(child, 0)  # it lives on
    os.kill(child, signal.SIGKILL)
    holder.close()


def test_a_forked_child_that_ends_or_releases_takes_nothing_from_its_parent(tmp_path: Path) -> None:
    then = "p = os.fork()\nif not p: lock.release(), sys.exit()\nos.waitpid(p, 0), print('over', flush=True)"
    holder = Holder(tmp_path, then=then)
    assert holder.lines.readline() == "over\n"
    assert not prove(tmp_path, "a~1", holder.statement)
    assert (tmp_path / holder.statement.file).exists()
    holder.close()


def test_a_command_that_inherits_the_lock_is_covered_by_the_proof(tmp_path: Path) -> None:
    then = (
        "import subprocess; p = subprocess.Popen(['sleep', '600'], pass_fds=[lock.descriptor], stdout=subprocess.DEVNULL);"
        "print(p.pid, flush=True)"
    )
    holder = Holder(tmp_path, then=then)
    command = int(holder.lines.readline())
    watch = DeathWatch(tmp_path)
    watch.watch({"a~1": holder.statement})
    assert watch.check() == []
    holder.kill()
    assert next_dead(watch, within=0.5) == [], "the wrapper is gone, its command is not"
    assert watch.poll_interval() is not None
    assert watch.poll_interval() <= 0.005  # type: ignore[operator]
    os.kill(command, signal.SIGKILL)
    assert next_dead(watch, within=30) == ["a~1"]
    watch.close()
    holder.close()


def test_nothing_is_proven_by_what_is_not_exactly_the_stated_file(tmp_path: Path, holder: Holder) -> None:
    dead = holder.statement
    path = tmp_path / dead.file
    holder.kill()
    assert prove(tmp_path, "a~1", dead)

    def but(**fields: str) -> Lock:
        return msgspec.structs.replace(dead, **fields)

    assert not prove(tmp_path, "a~2", dead), "another member's"
    assert not prove(tmp_path, "a~1", but(boot="00000000-0000-0000-0000-000000000000")), "another boot"
    assert not prove(tmp_path, "a~1", but(boot="")), "no boot"
    assert not prove(tmp_path, "a~1", but(inode="1")), "another inode"
    assert not prove(tmp_path, "a~1", but(device="1")), "another device"
    assert not prove(tmp_path / "elsewhere", "a~1", dead), "no folder"
    for name in ("", ".", "..", "/etc/passwd", "a/../" + dead.file, "x\0.alive", "missing.alive", "x" * 300 + ".alive"):
        assert not prove(tmp_path, "a~1", but(file=name)), name

    link = tmp_path / "link.alive"
    link.symlink_to(path)
    assert not prove(tmp_path, "a~1", but(file="link.alive")), "a link to it"
    os.mkfifo(tmp_path / "pipe.alive")
    assert not prove(tmp_path, "a~1", but(file="pipe.alive")), "a pipe, which would stop a reader"

    path.chmod(0o600)
    path.write_text("a~11")
    assert not prove(tmp_path, "a~1", dead), "another content"
    path.write_text("a~1")
    assert prove(tmp_path, "a~1", dead)

    os.rename(path, tmp_path / "kept.alive")
    path.write_text("a~1")
    assert not prove(tmp_path, "a~1", dead), "replaced by another file with the same content"
    path.unlink()
    assert not prove(tmp_path, "a~1", dead), "missing"


@pytest.mark.parametrize("unlink", [True, False])
def test_a_file_that_changes_while_it_is_watched_proves_nothing(tmp_path: Path, holder: Holder, unlink: bool) -> None:
    watch = DeathWatch(tmp_path)
    watch.watch({"a~1": holder.statement})
    assert watch.check() == []
    path = tmp_path / holder.statement.file
    if unlink:
        path.unlink()
    path.write_text("a~1" if unlink else "a~2")
    holder.kill()
    assert next_dead(watch, within=0.6) == []
    watch.close()


def test_provers_that_compete_all_get_their_proof(tmp_path: Path, holder: Holder) -> None:
    proven: list[float] = []
    threads = [
        threading.Thread(target=lambda: proven.append(until_proven(tmp_path, "a~1", holder.statement)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    time.sleep(0.05)
    assert not proven
    holder.kill()
    for thread in threads:
        thread.join(60)
    assert len(proven) == 8


def test_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pares.ledger.local import mounts

    table = tmp_path / "mountinfo"
    table.write_text(f"1 0 0:1 / / rw - ext4 /dev/a rw\n2 1 0:2 / {tmp_path}/far rw - nfs4 server:/x rw\n")
    monkeypatch.setattr(mounts, "MOUNTINFO", table)
    with pytest.raises(CapabilityError, match="local"):
        DeathLock.take(tmp_path / "far" / "locks", "a~1")
    assert not (tmp_path / "far").exists()
    DeathLock.take(tmp_path / "near", "a~1").release()


def test_the_folder_is_made_for_its_owner_and_an_unusable_one_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "x" / "locks"
    lock = DeathLock.take(folder, "a~1")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert lock.path.stat().st_mode & 0o777 == 0o600
    assert lock.path.read_text() == "a~1"
    assert lock.statement.boot == boot_id() != ""
    lock.release()
    lock.release()
    assert list(folder.iterdir()) == []
    assert lock.descriptor == -1

    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="no lock file"):
        DeathLock.take(tmp_path / "file", "a~1")
    for member in ("", "x" * 3000):
        with pytest.raises(ConfigError, match="member id"):
            DeathLock.take(folder, member)


def test_release_removes_only_its_own_file(tmp_path: Path) -> None:
    lock = DeathLock.take(tmp_path, "a~1")
    lock.path.unlink()
    lock.path.write_text("somebody else's")
    lock.release()
    assert lock.path.read_text() == "somebody else's"


def test_forget_removes_the_file_of_the_dead_only(tmp_path: Path, holder: Holder) -> None:
    path = tmp_path / holder.statement.file
    assert not forget(tmp_path, "a~1", holder.statement)
    assert path.exists()
    holder.kill()
    assert forget(tmp_path, "a~1", holder.statement)
    assert not path.exists()
    assert not forget(tmp_path, "a~1", holder.statement)


def test_sweep_removes_what_was_long_known_to_be_dead(tmp_path: Path, holder: Holder) -> None:
    path = tmp_path / holder.statement.file
    half = tmp_path / ("0" * 32 + proof.UNNAMED)
    half.write_text("")
    other = tmp_path / "other"
    other.write_text("not ours")
    os.utime(path, (0, 0))
    assert [sweep(tmp_path, 0.0) for _ in range(3)] == [0, 1, 0], "only the half-made one: the holder lives"
    assert path.exists()
    holder.kill()
    assert sweep(tmp_path, 3600.0) == 0
    assert sweep(tmp_path, 3600.0) == 0, "known to be dead, but not for long"
    assert prove(tmp_path, "a~1", holder.statement), "so it can still be proven"
    assert sweep(tmp_path, 0.0) == 1
    assert not path.exists()
    assert other.exists()
    assert sweep(tmp_path / "missing", 0.0) == 0


def test_thousands_of_locks_leak_nothing(tmp_path: Path) -> None:
    before = descriptors()
    watch = DeathWatch(tmp_path)
    for number in range(2000):
        lock = DeathLock.take(tmp_path, f"a~{number}")
        if number % 20 == 0:
            watch.watch({f"a~{number}": lock.statement})
            assert watch.check() == []
            assert not prove(tmp_path, f"a~{number}", lock.statement)
        lock.release()
    watch.close()
    watch.close()
    assert descriptors() == before
    assert list(tmp_path.iterdir()) == []


def test_forks_while_locks_come_and_go_never_inherit_one(tmp_path: Path) -> None:
    """A fork between the opening of a file and the moment it is known would hand a lock to the child for good."""
    then = """
import threading
def churn():
    while True: DeathLock.take(Path(sys.argv[1]), 'b~2').release()
for _ in range(2): threading.Thread(target=churn, daemon=True).start()
folder = os.path.realpath(sys.argv[1])
for _ in range(200):
    child = os.fork()
    if not child:
        open_files = [os.path.realpath(f'/proc/self/fd/{fd}') for fd in os.listdir('/proc/self/fd')]
        os._exit(any(name.startswith(folder) for name in open_files))
    if os.waitpid(child, 0)[1]: print('leaked', flush=True)
print('over', flush=True)
os._exit(0)
"""
    holder = Holder(tmp_path, then=then)
    assert holder.lines.readline() == "over\n"
    holder.close()
