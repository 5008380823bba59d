"""`pares log`: the records as they stand in a log, of any kind of ledger."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from cli_log import HandLog, pares

from pares.ledger import open as open_ledger


def test_shows_the_records_of_a_group(tmp_path: Path) -> None:
    log = HandLog(tmp_path / "work.db")
    log.join("ann")
    log.claim("ann", "feed")
    shown = pares("log", log.url)
    assert shown.code == 0
    assert [line.split()[0] for line in shown.out.splitlines()] == ["0", "1", "2", "3"]
    assert '"k":"claim"' in shown.out.splitlines()[-1]
    assert pares("log", "--ledger", log.url, "--from", "2").out == "".join(shown.out.splitlines(keepends=True)[2:])
    assert pares("log", log.url, "--last", "1").out == shown.out.splitlines(keepends=True)[-1]
    assert pares("log", log.url, "--last", "0").out == ""
    rows = [json.loads(line) for line in pares("log", log.url, "--json").out.splitlines()]
    assert [row["offset"] for row in rows] == [0, 1, 2, 3]
    assert rows[3]["payload"]["k"] == "claim"


def test_shows_a_folder_with_holes_and_what_is_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pares.ledger.file import appending

    monkeypatch.chdir(tmp_path)
    with closing(open_ledger("file:x y")) as ledger:
        ledger.append_many([b"one\x1b[31m", b"\xff"])
    monkeypatch.setattr(appending, "boot", lambda: "ffffffff")
    with closing(open_ledger("file:x%20y")) as ledger:
        ledger.append(b"three")
    lines = pares("log", "x y").out.splitlines()
    assert [line.split()[0] for line in lines] == ["0", "1", str(1 << 32)]
    assert "one\\x1b[31m" in lines[0]
    assert [line.split()[0] for line in pares("log", "x y", "--last", "2").out.splitlines()] == ["1", str(1 << 32)]
    rows = [json.loads(line) for line in pares("log", "x y", "--json").out.splitlines()]
    assert [{*row} - {"offset", "at_ms"} for row in rows] == [{"text"}, {"base64"}, {"text"}]
    assert pares("log", "nowhere").code != 0
    assert not (tmp_path / "nowhere").exists()
    assert pares("log", "x y", "--partition", "3").code != 0


@pytest.mark.processes
def test_follows(tmp_path: Path) -> None:
    with closing(open_ledger(f"file:{tmp_path}/x")) as ledger:
        ledger.append(b"first")
        command = [sys.executable, "-m", "pares", "log", str(tmp_path / "x"), "--follow"]
        following = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "200"})
        assert following.stdout is not None
        with following.stdout:
            assert following.stdout.readline().split()[-1] == "first"
            ledger.append(b"second")
            assert following.stdout.readline().split()[-1] == "second"
            following.send_signal(signal.SIGINT)
            assert following.wait(60) in (0, 130)
