"""Where Linux' own things are missing: members elect, die, freeze and hand over all the same, only later."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from elsewhere import make_platform
from process_judge import falling_tokens, overlaps, zombie_writes
from process_troupe import Troupe, Worker

import pares
from pares.core.wire.changes import SeatChanged
from pares.runtime.clock import stopwatch

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600)]

SESSION = 1.5


@pytest.fixture
def troupe(tmp_path: Path) -> Iterator[Troupe]:
    troupe = Troupe(tmp_path, f"sqlite:///{tmp_path}/group.db", SESSION, ("A", "B"))
    yield troupe
    troupe.end()


def causes(troupe: Troupe) -> list[str]:
    """Why each seat changed hands, or was freed, in order."""
    with pares.Observer(troupe.url, group="g") as observer:
        return [change.cause for change in observer.read() if isinstance(change, SeatChanged)]


def holders(troupe: Troupe) -> dict[str, str | None]:
    """The holder of each role, as the log says."""
    with pares.Observer(troupe.url, group="g") as observer:
        found = {role: observer.leader(role) for role in troupe.roles}
    return {role: None if holder is None else holder.name for role, holder in found.items()}


def a_holder(troupe: Troupe) -> tuple[Worker, list[str]] | None:
    """A worker that holds something, and what."""
    names = holders(troupe)
    for worker in troupe.workers:
        if held := [role for role, name in names.items() if name == worker.name]:
            return worker, held
    return None


@pytest.mark.parametrize("name", ["macos", "old linux"])
def test_members_elect_die_freeze_and_hand_over(troupe: Troupe, tmp_path: Path, name: str) -> None:
    platform = make_platform(tmp_path, name)
    troupe.begin(2, release=platform)
    with pares.Observer(troupe.url, group="g") as observer:
        members = [member for member in observer.world.members.values() if not member.administrator]
        provable = [member.lock is not None for member in members]
    assert provable == [name != "macos"] * 2

    # A death: by silence, or by the lock that the kernel let go of, which is tried every few milliseconds.
    found = troupe.until(lambda: a_holder(troupe), "somebody holds something")
    assert found is not None
    victim, held = found
    before = len(causes(troupe))
    victim.kill()
    troupe.bury(victim)
    troupe.until(lambda: all(who not in (None, victim.name) for who in holders(troupe).values()), "others hold all")
    since = causes(troupe)[before:]
    assert {*since[: len(held)]} == {"claim" if name == "macos" else "obituary"}, since

    # A freeze.
    troupe.enlist(platform)
    troupe.until_all_led()
    frozen, _ = troupe.freeze_a_leader()
    at = stopwatch()
    others = [worker for worker in troupe.workers if worker is not frozen]
    troupe.until(lambda: set.union(*(w.leads() for w in others)) == {0, 1}, "the others lead all")
    troupe.until(lambda: stopwatch() > at + 2.5e9 * SESSION, "it was frozen for so long that it notices")
    frozen.thaw()
    troupe.until(lambda: frozen.events("thawed"), "it has looked at its beliefs again")
    assert not any(event["held"] for event in frozen.events("thawed"))
    troupe.until_all_led()

    # A handover: from hand to hand, with no session in between.
    before = len(causes(troupe))
    leaving = troupe.a_leader()
    leaving.end()
    troupe.bury(leaving)
    troupe.until(lambda: {0, 1} == set.union(*(w.leads() for w in troupe.workers)), "all is led")
    assert {*causes(troupe)[before:]} == {"transfer"}

    assert overlaps(troupe.all_beliefs()) == []
    assert falling_tokens(troupe.all_beliefs()) == []
    assert zombie_writes(troupe.writes()) == []
    assert not [event for event in troupe.all_events("zombie") if event["outcome"] != "refused"]


def run(platform: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(platform), "NO_COLOR": "1"}
    command = [sys.executable, "-m", "pares", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


def test_commands_elsewhere(tmp_path: Path) -> None:
    platform = make_platform(tmp_path, "macos")
    url = f"sqlite:///{tmp_path}/work.db"
    with pares.Member(url, group="default", roles=["A"], session=5) as me:
        assert me.wait("A", 60)
        for arguments in (["watch", "--once"], ["history"], ["doctor"], ["roles"], ["pause"], ["resume"]):
            ran = run(platform, *arguments, "--ledger", url)
            assert ran.returncode == 0, (arguments, ran.stderr)
    ran = run(platform, "run", "--ledger", url, "--role", "A", "--", "true")
    assert ran.returncode == 1
    assert "only Linux can end a command in time for certain; use pares.Member" in ran.stderr.splitlines()[-1]


def test_makers_that_can_t_lock_a_pipe_meet_at_a_file(tmp_path: Path) -> None:
    """Many processes at once make one ledger, and each finds all that the others wrote."""
    platform = make_platform(tmp_path, "macos")
    program = (
        "import sys, pares\n"
        "ledger = pares.open(f'sqlite:///{sys.argv[1]}', create=True)\n"
        "print(ledger.append(b'x'), ledger.identity())\n"
        "ledger.close()\n"
    )
    path = tmp_path / "deep" / "work.db"
    makers = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(path)],
            env={**os.environ, "PYTHONPATH": str(platform)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(6)
    ]
    said = [maker.communicate(timeout=120)[0].split() for maker in makers]
    assert sorted(int(offset) for offset, _ in said) == [*range(6)]
    assert len({identity for _, identity in said}) == 1
    assert (path.parent / "work.db-making").stat().st_mode & 0o777 == 0o600


def test_windows_is_told_where_to_go() -> None:
    program = "import sys; sys.platform = 'win32'\ntry: import pares\nexcept ImportError as error: print(error)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "does not run on Windows" in ran.stdout
    assert "WSL 2" in ran.stdout


def test_the_stopwatch_that_comes_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    from pares.ledger.local import stamp

    pick = stamp._pick  # pyright: ignore[reportPrivateUsage]
    assert pick().args == (time.CLOCK_BOOTTIME,)  # type: ignore[attr-defined]  # pyright: ignore
    monkeypatch.delattr(time, "CLOCK_BOOTTIME")
    assert pick() is time.monotonic_ns
    monkeypatch.setattr(sys, "platform", "darwin")
    assert pick().args == (time.CLOCK_MONOTONIC,)  # type: ignore[attr-defined]  # pyright: ignore
