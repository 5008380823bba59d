"""`pares audit --follow`: a process that follows a log that is written to, until it is told to end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from histories import broken
from scribe import story
from tests.spark.follow.growing import Growing
from typer.testing import CliRunner

from pares.cli.app import app
from pares.core.errors import ConfigError

FOLLOW = [sys.executable, "-m", "pares", "audit", "--follow", "--engine", "python", "--json"]


@pytest.mark.processes
@pytest.mark.parametrize("broken_", [True, False], ids=["broken", "kept"])
def test_it_tells_alarms_line_by_line_and_ends_by_int(broken_: bool, tmp_path: Path) -> None:
    play = broken(3) if broken_ else story(3, roles=3, steps=40)
    log = Growing(tmp_path / "log.db")
    log.append(play.entries[:20])
    more = ["--ledger", log.url, "--group", play.group, "--history", str(tmp_path / "kept")]
    more += [
        "--checkpoint",
        str(tmp_path / "mark"),
        "--alert",
        "console",
        "--alert",
        f"topic:sqlite:///{tmp_path}/a.db",
    ]
    lines: list[dict[str, object]] = []
    with subprocess.Popen([*FOLLOW, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            log.append(play.entries[20:])
            assert process.stdout is not None
            if broken_:
                lines.append(json.loads(process.stdout.readline()))
            else:
                _wait_for(tmp_path / "mark")
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=120)
        finally:
            process.kill()
    log.close()
    lines += [json.loads(line) for line in out.splitlines()]
    *alarms, end = lines
    assert end["exit_code"] == process.returncode, err
    assert "Traceback" not in err
    if broken_:
        assert process.returncode == 3
        assert alarms[0]["what"] == "raised"
        assert alarms[0]["evidence"]
        assert end["raised"]
    else:
        assert process.returncode == 0
        assert alarms == []
    assert (tmp_path / "kept" / "manifests").is_dir()
    assert list((tmp_path / "mark").glob("state-*"))


def _wait_for(folder: Path) -> None:
    end = time.monotonic() + 120
    while not list(folder.glob("state-*")):
        assert time.monotonic() < end, "no state was written"
        time.sleep(0.02)


@pytest.mark.timeless
def test_what_does_not_go_together_is_said(tmp_path: Path) -> None:
    log = Growing(tmp_path / "log.db")
    log.append(broken(1).entries)
    log.close()
    wrong = {
        "--follow --out x": "--follow goes without",
        "--follow --all-groups --group h": "--all-groups goes without --group",
        "--alert console": "--alert and --checkpoint go with --follow",
        "--follow --engine python --alert mail:x": "--alert mail:x: give console",
        "--follow --engine python --window soon": "--window 'soon'",
    }
    for options, said in wrong.items():
        found = CliRunner().invoke(app, ["audit", "--ledger", log.url, *options.split()])
        assert isinstance(found.exception, ConfigError), options
        assert said in str(found.exception)
