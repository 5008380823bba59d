"""What else `pares run` can be told: what to run after a term, where to answer probes, seats, ranks, and to make a folder."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_log import pares
from run_tools import BRIEF, Runs, alive, until

pytestmark = pytest.mark.processes

NOTE = """
import json, os, sys
with open(sys.argv[1], "a") as file:
    file.write(json.dumps({name: value for name, value in os.environ.items() if name.startswith("PARES_")}) + "\\n")
"""


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    runs = Runs(tmp_path)
    yield runs
    runs.close()


def hook(folder: Path, code: str = NOTE) -> tuple[str, ...]:
    """The option for a hook that notes what it is given."""
    (folder / "hook.py").write_text(code)
    return "--on-lost", f"'{sys.executable}' -S {folder / 'hook.py'} '{folder / 'noted'}'"


def noted(folder: Path) -> list[dict[str, str]]:
    path = folder / "noted"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def ask(url: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


# --on-lost -----------------------------------------------------------------------------------------------------------


def test_a_hook_is_told_why_the_term_ended(runs: Runs) -> None:
    wrapper = runs.start("sh", "-c", "exit 7", options=hook(runs.folder))
    wrapper.communicate(timeout=60)
    assert wrapper.returncode == 7
    (told,) = noted(runs.folder)
    assert int(told.pop("PARES_TOKEN")) > 10**15
    assert told.pop("PARES_REASON") == "the command ended with 7"
    assert told == {"PARES_ROLE": "r", "PARES_SEAT": "0", "PARES_GROUP": "default", "PARES_WHY": "ended"}


def test_a_hook_runs_when_nothing_of_the_command_is_left(runs: Runs) -> None:
    """A planned move: the command ignores TERM, so it is there until its grace is over; nothing of it runs beside the hook."""
    from pares import Admin

    code = NOTE + "import time\nopen(sys.argv[1] + '.at', 'w').write(str(time.clock_gettime_ns(time.CLOCK_BOOTTIME)))\n"
    runs.beat("ignore", options=("--name", "one", "--grace", "0.3", *hook(runs.folder, code)))
    runs.until_commands(1)
    runs.beat(options=("--name", "two"))
    runs.until_members(2)
    with Admin(runs.ledger, group="default") as admin:
        admin.hand_over("r", to="two")
        runs.until_commands(2)
        until(lambda: (runs.folder / "noted.at").exists() and (runs.folder / "noted.at").read_text())
    (told,) = noted(runs.folder)
    (_, last, pid), *_ = runs.beats()
    assert told["PARES_WHY"] == "stopped"
    assert last < int((runs.folder / "noted.at").read_text())
    assert not alive(pid)
    runs.check()


def test_a_hook_that_hangs_holds_up_neither_the_kill_nor_the_successor(runs: Runs) -> None:
    """The hook hangs for as long as it may; meanwhile the successor runs, and the wrapper that lost is not ended by it."""
    code = NOTE + "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(600)\n"
    first = runs.beat("ignore", options=("--name", "one", *BRIEF, "--json", *hook(runs.folder, code)))
    runs.until_commands(1)
    second = runs.beat(options=("--name", "two"))
    runs.until_members(2)
    began = time.monotonic()
    first.send_signal(signal.SIGTERM)
    runs.until_commands(2)
    assert first.poll() is None, "it is beside its hook, and the other one runs"
    runs.check()
    _, error = first.communicate(timeout=60)
    assert first.returncode == 143
    assert time.monotonic() - began > 5, "the hook had its time"
    lines = [json.loads(line) for line in error.splitlines()]
    assert any(line["event"] == "on-lost" and "longer than 10 s" in line["message"] for line in lines)
    assert second.poll() is None


def test_a_second_term_ends_the_hook_too(runs: Runs) -> None:
    code = NOTE + "import time\ntime.sleep(600)\n"
    wrapper = runs.beat(options=hook(runs.folder, code))
    runs.until_commands(1)
    wrapper.terminate()
    until(lambda: noted(runs.folder))
    began = time.monotonic()
    wrapper.terminate()
    assert wrapper.wait(60) == 143
    assert time.monotonic() - began < 8


def test_a_hook_that_can_not_be_run_is_wrong_usage(runs: Runs) -> None:
    for given, said in (("", "is empty"), ("'x", "split into words"), ("no-such-command -x", "no command 'no-such")):
        wrapper = runs.start("true", options=("--on-lost", given))
        _, error = wrapper.communicate(timeout=60)
        assert wrapper.returncode == 2, error
        assert said in error
    assert not (runs.folder / "work.db").exists()


# Probes --------------------------------------------------------------------------------------------------------------


def test_probes_are_answered_on_loopback(runs: Runs) -> None:
    leads = runs.beat(options=("--name", "one", "--probe-port", "0", "--json"))
    runs.until_commands(1)  # whichever begins first leads
    stands_by = runs.start("sleep", "600", options=("--name", "two", "--probe-port", "0", "--json"))
    urls: list[str] = []
    for wrapper in (leads, stands_by):
        assert wrapper.stderr is not None
        while (line := json.loads(wrapper.stderr.readline()))["event"] != "probes":
            pass
        assert line["host"] == "127.0.0.1"
        urls.append(f"http://127.0.0.1:{line['port']}")
    runs.until_members(2)
    until(lambda: all(ask(f"{url}/readyz")[0] == 200 for url in urls))
    assert [ask(f"{url}/livez")[0] for url in urls] == [200, 200]
    until(lambda: ask(f"{urls[1]}/leader")[1].get("leader"))
    answers = [ask(f"{url}/leader") for url in urls]
    assert [status for status, _ in answers] == [200, 503]
    assert [told["leader"]["name"] for _, told in answers] == ["one", "one"]
    assert ask(f"{urls[0]}/leader?role=other")[0] == 404
    assert ask(f"{urls[0]}/metrics")[0] == 404
    assert ask(f"{urls[0]}/livez")[1]["leads"] == ["r"]


def test_a_port_that_is_taken_is_wrong_usage(runs: Runs) -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = str(taken.getsockname()[1])
        wrapper = runs.start("true", options=("--probe-port", port))
        _, error = wrapper.communicate(timeout=60)
    assert wrapper.returncode == 2
    assert f"port {port}" in error
    assert "choose another" in error
    assert not (runs.folder / "work.db").exists(), "nothing was joined"


# Seats, ranks and zones ----------------------------------------------------------------------------------------------


def test_seats_ranks_and_zones_reach_the_group(runs: Runs) -> None:
    from pares import Observer

    shape = ("--seats", "2")
    for name, rank, zone in (("one", "5", "a"), ("two", "0", "b"), ("three", "3", "c")):
        runs.beat(options=("--name", name, "--rank", rank, "--zone", zone, *shape))
        runs.until_members(len(runs.wrappers))
    with Observer(runs.ledger, group="default") as observer:
        until(lambda: sorted(holder.name for holder in observer.leaders("r")) == ["three", "two"])
        world = observer.world
        zones = {member.name: (member.rank, member.zone) for member in world.members.values()}
    assert zones == {"one": (5, "a"), "two": (0, "b"), "three": (3, "c")}
    assert world.roles["r"].seats == 2


# Where the ledger is -------------------------------------------------------------------------------------------------


def test_a_mistyped_folder_is_no_second_world(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/typo/deeper/work.db"
    run = ("run", "--role", "r", "--ledger", url)
    ran = pares(*run, "--", "true")
    assert ran.code == 2
    assert f"there is no folder {tmp_path}/typo/deeper" in ran.one_line
    assert "--create" in ran.one_line
    assert os.listdir(tmp_path) == []
    ran = pares("demo", "--ledger", url, "--no-audit", "--json")
    assert ran.code == 2
    assert "--create" in ran.one_line
    assert os.listdir(tmp_path) == []
    ran = pares(*run, "--create", "--", "true")
    assert ran.code == 0, ran.err
    assert f"began a new ledger, {tmp_path}/typo/deeper/work.db" in ran.err
    ran = pares(*run, "--", "true")
    assert ran.code == 0
    assert "began a new ledger" not in ran.err


def test_the_default_ledgers_folder_is_made(tmp_path: Path) -> None:
    env = {"XDG_STATE_HOME": str(tmp_path / "state"), "HOME": str(tmp_path)}
    ran = pares("run", "--role", "r", "--", "true", env=env)
    assert ran.code == 0, ran.err
    assert (tmp_path / "state" / "pares" / "ledger" / "ledger").exists()


# --json --------------------------------------------------------------------------------------------------------------


def test_with_json_nothing_but_json_is_said() -> None:
    """Also what no logger of pares says: warnings, other libraries' logs, what kills a thread, and errors."""
    code = """
import logging, threading, warnings
from pares.cli.common.running import lines_only
with lines_only():
    warnings.warn("old")
    logging.getLogger("else.where").error("it %s", "failed")
    try:
        raise KeyError("k")
    except KeyError:
        logging.getLogger("pares.member").exception("caught")
    thread = threading.Thread(target=lambda: 1 / 0, name="t")
    thread.start(), thread.join()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["event"] for line in lines] == ["log"] * 4
    assert "old" in lines[0]["message"]
    assert (lines[1]["logger"], lines[1]["message"]) == ("else.where", "it failed")
    assert lines[2]["exception"] == "KeyError('k')"
    assert "ZeroDivisionError" in lines[3]["exception"]


def test_with_json_errors_are_json(tmp_path: Path) -> None:
    for options, code in ((["--ledger", f"sqlite:///{tmp_path}/no/x.db"], 2), (["--grace", "99"], 2)):
        ran = pares("run", "--role", "r", "--json", *options, "--", "true")
        assert ran.code == code
        (line,) = [json.loads(text) for text in ran.err.splitlines()]
        assert line["event"] == "error"
        assert line["message"]
