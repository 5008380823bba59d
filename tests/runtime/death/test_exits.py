"""Ends of processes: who exits leaves its groups, and who is killed is succeeded. Each case is a process of its own."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from runtime_tools import PATIENCE, QUICK, Crew, ids, until
from script_tools import Script

from pares.runtime.death import exit_hooks

pytestmark = pytest.mark.processes


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("pass", 0),
        ("sys.exit(7)", 7),
        ("raise SystemExit('gone')", 1),
    ],
)
def test_a_process_that_ends_normally_leaves(sqlite: str, how: str, code: int) -> None:
    """Without close() and without `with`. Sessions are long, so nobody else could lead so soon."""
    crew = Crew(sqlite)
    script = Script(sqlite, f"me = member(session=60.0)\n{how}")
    assert script.line().startswith("leads")
    assert script.end()[0] == code
    other = crew.member("b", session=60)
    assert other.wait("A", PATIENCE)
    assert ids(other) == {other.id}


def test_an_uncaught_error_leaves_too(sqlite: str) -> None:
    crew = Crew(sqlite)
    body = "me = member(session=60.0)\nsys.excepthook = lambda *_: None\nraise RuntimeError('by the test')"
    script = Script(sqlite, body)
    assert script.line().startswith("leads")
    assert script.end()[0] == 1
    other = crew.member("b", session=60)
    assert other.wait("A", PATIENCE)
    assert ids(other) == {other.id}


def test_barriers_run_at_a_normal_exit(sqlite: str) -> None:
    script = Script(
        sqlite,
        """
        def barrier(event):
            if isinstance(event, pares.Revoked):
                time.sleep(0.2)
                say("barrier", event.why)
        me = member(barrier=barrier)
        """,
    )
    assert script.line().startswith("leads")
    assert script.end() == (0, "barrier closed")


def test_a_killed_leader_is_succeeded_long_before_its_session_ends(sqlite: str) -> None:
    crew = Crew(sqlite)
    script = Script(sqlite, "me = member(session=60.0)\nsleep()")
    assert script.line().startswith("leads")
    other = crew.standby("b", session=60)
    script.process.kill()
    assert other.wait("A", PATIENCE), "proof of death"
    assert script.end()[0] == -signal.SIGKILL
    until(lambda: ids(other) == {other.id}, "it is declared dead")


def test_a_restart_under_the_same_name_takes_its_seat_back(sqlite: str) -> None:
    """It proves its own earlier death, so that it waits for no session (R8)."""
    first = Script(sqlite, "me = member(session=60.0)\nsleep()")
    assert first.line().startswith("leads")
    first.process.kill()
    first.end()
    second = Script(sqlite, "me = member(session=60.0)")
    assert second.line().startswith("leads")
    assert second.end()[0] == 0


def test_lock_files_of_the_dead_and_the_living(sqlite: str, tmp_path: Path) -> None:
    """A member that leaves takes its lock file along; one that was killed leaves it until it is buried."""
    folder = Path(sqlite.removeprefix("sqlite:///") + "-locks")
    crew = Crew(sqlite)
    me = crew.leader("a", session=QUICK)
    assert len(list(folder.iterdir())) == 1
    other = crew.standby("b", session=QUICK)
    assert len(list(folder.iterdir())) == 2
    other.close()
    until(lambda: len(list(folder.iterdir())) == 1, "one has left")
    script = Script(
        sqlite,
        """
        me = pares.Member(url, group="g", roles=["B"], session=0.4)
        me.wait("B", 30)
        say("leads")
        sleep()
        """,
    )
    assert script.line() == "leads"
    assert len(list(folder.iterdir())) == 2
    script.process.kill()
    script.end()
    until(lambda: len(list(folder.iterdir())) == 1, "the dead one is buried")
    me.close()
    assert list(folder.iterdir()) == []


class Guest:
    """As much of a member as whoever closes all of them knows."""

    def __init__(self) -> None:
        self.left = threading.Event()

    def close(self, timeout: float | None = None) -> None:
        self.left.set()
        exit_hooks.unregister(self)

    def _die_in_child(self) -> None:
        pass


def test_a_member_may_come_at_any_moment_while_all_leave() -> None:
    """At every line of whoever closes them another thread makes one more; those that were there before do leave."""
    here, coming = [Guest() for _ in range(3)], list[Guest]()
    for guest in here:
        exit_hooks.register(guest)

    def comes() -> None:
        coming.append(Guest())
        exit_hooks.register(coming[-1])

    def at_every_line(frame: Any, event: str, _: object) -> Any:
        if event == "line" and "threading" not in frame.f_code.co_filename:
            thread = threading.Thread(target=comes)
            thread.start()
            thread.join()
        return at_every_line

    before = sys.gettrace()
    sys.settrace(at_every_line)
    try:
        exit_hooks.leave_all(timeout=1)
    finally:
        sys.settrace(before)
        for guest in coming:
            exit_hooks.unregister(guest)
    assert coming
    assert all(guest.left.wait(PATIENCE) for guest in here)


def test_a_member_that_is_just_being_made_can_be_closed_with_all(crew: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    raised, registered = list[BaseException](), exit_hooks.register

    def leave() -> None:
        try:
            for member in list(exit_hooks._members):  # pyright: ignore
                member.close(PATIENCE)
        except RuntimeError as error:
            raised.append(error)

    leaving = threading.Thread(target=leave)

    def register(member: exit_hooks.Leaver) -> None:
        registered(member)
        leaving.start()
        leaving.join(0.3)

    monkeypatch.setattr(exit_hooks, "register", register)
    me = crew.member("a")
    leaving.join(2 * PATIENCE)
    assert not raised
    assert me.state == "closed"
