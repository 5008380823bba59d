"""Ends of processes: who exits leaves its groups, and who is killed is succeeded. Each case is a process of its own."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from runtime_tools import PATIENCE, QUICK, Crew, ids, until
from script_tools import Script

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
