"""What plays the tests: everything runs, whatever fails; nothing that fails is passed over; and what is behind gives way."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import play

OTHER = "import os; print('behind, under', os.sched_getscheduler(0))"
FRONT = "import os; print('in front, under', os.sched_getscheduler(0), flush=True)"


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def played(front: str, *others: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, so that this one's output is not touched."""
    commands = f"{python(front)!r}, {[python(other) for other in others]!r}"
    code = f"import sys, play; sys.exit(play.play({commands}))"
    return subprocess.run(
        python(code), cwd=Path(play.__file__).parent, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.skipif(not play.can_give_way(), reason="this system has no SCHED_IDLE, or does not keep to it")
def test_what_is_behind_gives_way_and_is_told_at_the_end() -> None:
    wait = "import os, time; ready = lambda: os.sched_getscheduler(0) == os.SCHED_IDLE\nwhile not ready(): time.sleep(0.01)\n"
    done = played(
        FRONT,
        wait + OTHER,
        wait + "import subprocess, sys; subprocess.run([sys.executable, '-c', '''" + OTHER + "'''])",
    )
    told = f"behind, under {os.SCHED_IDLE}"
    assert done.stdout.splitlines() == [f"in front, under {os.sched_getscheduler(0)}", told, told]
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("front", "others", "code"),
    [
        ("exit(3)", ["", ""], 3),
        ("", ["exit(4)", ""], 4),
        ("", ["", "exit(5)"], 5),
        ("", ["import os; os.abort()"], -6 % 256),
    ],
)
def test_what_fails_fails_all_and_keeps_nobody_from_playing(front: str, others: list[str], code: int) -> None:
    done = played(f"print('front')\n{front}", *(f"print('other', flush=True)\n{other}" for other in others))
    assert done.returncode == code
    assert sorted(done.stdout.split()) == ["front", *["other"] * len(others)]


def test_what_has_failed_is_said_once_more_behind_all_else() -> None:
    crash = "import faulthandler, os; faulthandler.enable(); os.write(1, b'double free\\n..'); os.kill(os.getpid(), 11)"
    summary, plain = "print('FAILED a::b'); print('1 failed'); exit(1)", "print('8 errors'); exit(1)"
    told = played("exit(3)", "print('no word of it')", crash, summary, plain).stderr
    assert "no word of it" not in told
    first, *others = told.splitlines()
    assert first == "-c exit(3): exits with 3"
    assert others[:3] == [
        f"-c {crash}: was ended by SIGSEGV",
        "  double free",
        "  ..Fatal Python error: Segmentation fault",
    ]
    assert any('File "<string>", line 1 in <module>' in line for line in others)
    assert others[-4:] == [
        f"-c {summary}: exits with 1",
        "  FAILED a::b",
        f"-c {plain}: exits with 1",
        "  8 errors",
    ]


@pytest.mark.parametrize("code", [0, 6])
def test_without_that_policy_one_plays_after_the_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int
) -> None:
    monkeypatch.setattr(play, "can_give_way", lambda: False)
    place = tmp_path / "said"
    line = f"print(open({str(place)!r}, 'a').write"
    assert (
        play.play(python(f"{line}('front '))"), [python(f"{line}('one '))\nexit({code})"), python(f"{line}('two '))")])
        == code
    )
    assert place.read_text() == "one two front "


def test_whoever_interrupts_it_leaves_nothing_behind(tmp_path: Path) -> None:
    """As Ctrl-C does where only the player hears it."""
    place = tmp_path / "pid"
    stays = f"import os, time; open({str(place)!r}, 'w').write(str(os.getpid())); time.sleep(600)"

    def interrupted() -> None:
        with (tmp_path / "said").open("w+b") as said, play.behind([python(stays)], said):
            while not (place.exists() and place.read_text()):
                time.sleep(0.01)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not Path(f"/proc/{place.read_text()}").exists()


def test_each_test_is_in_one_rank() -> None:
    """By the marks, and behind by the folder, that they are chosen by: none is in two of them, and none in no one."""

    def plays(command: list[str], marks: dict[str, bool], folder: str) -> bool:
        named = [word for word in command if word.startswith("tests/")]
        away = [word.removeprefix("--ignore=") for word in command if word.startswith("--ignore=")]
        chosen = eval(command[command.index("-m", 2) + 1], {}, marks)
        return chosen and (not named or folder in named) and folder not in away

    commands = [command for command in [play.FRONT, *play.BEHIND] if "pytest" in command]
    for folder in ("tests/core", play.SPARK):
        for timeless in (True, False):
            for brokers in (True, False):
                marks = {"timeless": timeless, "brokers": brokers}
                assert sum(plays(command, marks, folder) for command in commands) == (not brokers), (marks, folder)
