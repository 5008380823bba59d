"""`pares dev redis`: a server that outlives the command that started it, and is ended by another."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import pares

PATIENCE = 120.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "server"


def run(folder: Path, *words: str) -> str:
    command = [sys.executable, "-m", "pares", "dev", "redis", *words, "--folder", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_up_status_down(folder: Path) -> None:
    url = run(folder, "up").strip()
    try:
        with closing(pares.open(url)) as ledger:
            assert ledger.append(b"x") == 0
        status = json.loads(run(folder, "--json"))
        assert status["up"]
        assert status["url"] == url
        assert json.loads(run(folder, "up", "--json"))["was_up"]
        assert run(folder, "down") == ""
        assert not json.loads(run(folder, "--json"))["up"]
        assert run(folder, "up").strip() == url, "the same data, at the same port"
        with closing(pares.open(url)) as ledger:
            assert ledger.end() == 1
    finally:
        run(folder, "down", "--remove")
    assert not (folder / "node-1").exists()
