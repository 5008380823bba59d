"""`pares run` with real processes on a real ledger: commands of one role never run at the same time, whatever happens."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from run_tools import BRIEF, Runs, alive

from standstill import stop_between_writes

pytestmark = pytest.mark.processes


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    runs = Runs(tmp_path)
    yield runs
    runs.close()


def test_the_exit_code_and_the_environment_of_the_command(runs: Runs) -> None:
    wrapper = runs.start("sh", "-c", "env; exit 7", options=("--group", "g h"))
    out, error = wrapper.communicate(timeout=60)
    assert wrapper.returncode == 7
    given = dict(line.split("=", 1) for line in out.splitlines() if line.startswith("PARES_"))
    assert int(given.pop("PARES_TOKEN")) > 10**15
    assert given == {"PARES_ROLE": "r", "PARES_SEAT": "0", "PARES_GROUP": "g h"}
    assert "ended with 7" in error
    wrapper = runs.start("sh", "-c", "kill -9 $$")
    wrapper.communicate(timeout=60)
    assert wrapper.returncode == 137


def test_options_of_the_command_are_its_own(runs: Runs) -> None:
    wrapper = runs.start("printf", "%s", "--role", "--json", "-h")
    assert wrapper.communicate(timeout=60)[0] == "--role--json-h"


@pytest.mark.parametrize(
    ("command", "options", "said"),
    [
        (("no-such-command-anywhere",), (), "no command 'no-such-command-anywhere'"),
        (("/",), (), "no command '/'"),
        ((), (), "CMD"),
        (("true",), ("--session", "1", "--grace", "2"), "does not fit a session of 1 s"),
        (("true",), ("--grace", "nan"), "grace of nan"),
        (("true",), ("--session", "0.01"), "0.02 to 60"),
        (("true",), ("--role", "x" * 300), "characters"),
    ],
)
def test_wrong_usage_is_found_before_anything_is_joined(
    runs: Runs, command: tuple[str, ...], options: tuple[str, ...], said: str
) -> None:
    wrapper = runs.start(*command, options=options)
    out, error = wrapper.communicate(timeout=60)
    assert wrapper.returncode == 2, error
    assert out == ""
    assert said in " ".join(error.split())
    assert "Traceback" not in error
    assert not (runs.folder / "work.db").exists() or "characters" in said


def test_a_script_without_an_interpreter_is_wrong_usage(runs: Runs) -> None:
    script = runs.folder / "script"
    script.write_text("echo hello\n")
    script.chmod(0o755)
    wrapper = runs.start(str(script))
    out, error = wrapper.communicate(timeout=60)
    assert (wrapper.returncode, out) == (2, "")
    assert "Exec format error" in error


@pytest.mark.parametrize("mode", ["obey", "ignore"])
def test_after_kill_9_of_the_leader_the_next_runs_and_never_both(runs: Runs, mode: str) -> None:
    first = runs.beat(mode)
    runs.until_commands(1)
    runs.beat()
    runs.until_members(2)
    first.kill()
    runs.until_commands(2)
    runs.check()


@pytest.mark.parametrize("mode", ["obey", "ignore"])
def test_a_frozen_leaders_command_is_gone_before_the_next_one_runs(runs: Runs, mode: str) -> None:
    first = runs.beat(mode, options=BRIEF)
    runs.until_commands(1)
    runs.beat()
    runs.until_members(2)
    stop_between_writes(first, runs.folder / "work.db")
    runs.until_commands(2)
    os.kill(first.pid, signal.SIGCONT)
    assert first.stderr is not None
    while "the command was" not in first.stderr.readline():
        assert first.poll() is None
    time.sleep(0.5)
    assert len(runs.beats()) == 2, "the thawed one knows what has happened, and does not start another"
    runs.check()


def test_term_ends_command_and_wrapper_and_hands_over(runs: Runs) -> None:
    first = runs.beat("ignore", options=("--grace", "0.2"))
    runs.until_commands(1)
    second = runs.beat()
    runs.until_members(2)
    first.terminate()
    assert first.wait(60) == 143
    runs.until_commands(2)
    second.send_signal(signal.SIGINT)
    assert second.wait(60) == 130
    assert not any(alive(pid) for _, _, pid in runs.beats())
    runs.check()


def test_a_second_term_does_not_wait_for_the_grace(runs: Runs) -> None:
    code = (
        # In short sleeps: a signal that comes right before a sleep is heard behind it.
        "import os, signal, time\nsignal.signal(signal.SIGTERM, lambda *_: os.write(1, b'told\\n'))\n"
        "print('up', flush=True)\nwhile True: time.sleep(0.01)"
    )
    wrapper = runs.start(sys.executable, "-S", "-c", code, options=("--session", "60", "--grace", "20", "--json"))
    assert runs.line(wrapper) == "up\n"
    began = time.monotonic()
    wrapper.terminate()
    assert runs.line(wrapper) == "told\n"
    wrapper.terminate()
    assert wrapper.wait(60) == 143
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_who_waits_to_lead_ends_on_signals(runs: Runs, number: int) -> None:
    runs.beat()
    runs.until_commands(1)
    waiting = runs.beat()
    runs.until_members(2)
    waiting.send_signal(number)
    assert waiting.wait(60) == 128 + number
    assert len(runs.beats()) == 1


def test_a_planned_move_waits_until_the_command_is_gone_and_the_wrapper_leads_again_later(runs: Runs) -> None:
    from pares import Admin

    first = runs.beat("ignore", options=("--name", "one", "--grace", "0.2"))
    runs.until_commands(1)
    second = runs.beat(options=("--name", "two"))
    runs.until_members(2)
    with Admin(runs.ledger, group="default") as admin:
        admin.hand_over("r", to="two")
        runs.until_commands(2)
        runs.check()
        assert first.poll() is None
        second.terminate()
        assert second.wait(60) == 143
        runs.until_commands(3)
    runs.check()


def test_a_planned_move_leaves_the_command_its_grace(runs: Runs) -> None:
    from pares import Admin

    end = runs.folder / "ended in order"
    code = (
        "import signal, sys, time\nfrom pathlib import Path\n"
        "def end(*_): time.sleep(0.1), Path(sys.argv[1]).touch(), sys.exit()\n"
        "signal.signal(signal.SIGTERM, end)\nprint('up', flush=True)\nwhile True: time.sleep(600)"
    )
    first = runs.start(sys.executable, "-S", "-c", code, str(end), options=("--name", "one"))
    assert runs.line(first) == "up\n"
    runs.beat(options=("--name", "two"))
    runs.until_members(2)
    with Admin(runs.ledger, group="default") as admin:
        admin.hand_over("r", to="two")
        runs.until_commands(1)
    assert end.exists()


def test_once_ends_when_leadership_goes_and_json_says_what_happened(runs: Runs) -> None:
    from pares import Admin

    first = runs.beat(options=("--name", "one", "--once", "--json"))
    runs.until_commands(1)
    runs.beat(options=("--name", "two"))
    runs.until_members(2)
    with Admin(runs.ledger, group="default") as admin:
        admin.hand_over("r", to="two")
        _, error = first.communicate(timeout=60)
    assert first.returncode == 1
    lines: list[dict[str, Any]] = [json.loads(line) for line in error.splitlines()]
    assert [line["event"] for line in lines] == ["created", "leading", "stopped"]
    assert lines[0]["ledger"] == str(runs.folder / "work.db")
    assert lines[1]["token"] == lines[2]["token"] == int(min(os.listdir(runs.book)))
    assert lines[2]["why"]
    runs.until_commands(2)
    runs.check()


def test_with_json_what_is_logged_is_lines_of_json_too(runs: Runs) -> None:
    wrapper = runs.beat(options=("--json", *BRIEF))
    runs.until_commands(1)
    lines: list[dict[str, Any]] = []
    assert wrapper.stderr is not None

    def events() -> list[str]:
        return [line["event"] for line in lines if line["event"] != "log"]

    with contextlib.closing(sqlite3.connect(runs.folder / "work.db", timeout=60, isolation_level=None)) as other:
        other.execute("begin immediate")
        while "lost" not in events() or not any("out of reach" in line.get("message", "") for line in lines):
            lines.append(json.loads(wrapper.stderr.readline()))
    while events()[-1] != "leading":
        lines.append(json.loads(wrapper.stderr.readline()))
    wrapper.terminate()
    lines += [json.loads(line) for line in wrapper.communicate(timeout=60)[1].splitlines()]
    assert events()[:4] == ["created", "leading", "lost", "leading"]
    assert events()[-1] in ("stopped", "lost"), "on a busy machine the lease may run out again just then"
    logged = [line for line in lines if line["event"] == "log"]
    assert any(line["level"] == "WARNING" and "out of reach" in line["message"] for line in logged)
    assert all(line["logger"].startswith("pares") and line["at_ms"] for line in logged)


def test_who_may_wait_only_so_long_ends_without_having_run_anything(runs: Runs) -> None:
    leads = runs.beat(options=("--name", "one"))
    runs.until_commands(1)
    rival = runs.beat(options=("--name", "two", "--wait", "0.3"))
    _, error = rival.communicate(timeout=60)
    assert rival.returncode == 75
    assert "not leading r after 0.3 s (one does)" in error
    told = runs.beat(options=("--wait", "0.3", "--json"))
    _, error = told.communicate(timeout=60)
    assert told.returncode == 75
    line = json.loads(error)
    assert (line["event"], line["role"], line["leader"]) == ("not leading", "r", "one")
    assert len(runs.beats()) == 1
    leads.terminate()
    leads.wait(60)
    alone = runs.start("true", options=("--wait", "60"))
    assert alone.wait(60) == 0, "nobody leads, so it runs, and ends with the command's code"


def test_other_signals_are_passed_on(runs: Runs) -> None:
    code = (
        "import os, signal, time\n"
        "for n in (1, 3, 10, 12, 28): signal.signal(n, lambda n, _: os.write(1, b'%d\\n' % n))\n"
        "print('up', flush=True)\nwhile True: time.sleep(0.01)"
    )
    wrapper = runs.start(sys.executable, "-S", "-c", code, options=("--json",))
    assert runs.line(wrapper) == "up\n"
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH):
        wrapper.send_signal(number)
        assert runs.line(wrapper) == f"{int(number)}\n"
