"""`pares dev postgres | redis | rabbitmq | pulsar`: a server that outlives the command that started it, and is ended
by another."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import pares

PATIENCE = 900.0


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that the server's user may enter, whoever plays the test."""
    with tempfile.TemporaryDirectory(prefix="pares-test-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder) / "server"


def run(folder: Path, kind: str, *words: str) -> str:
    command = [sys.executable, "-m", "pares", "dev", kind, *words, "--folder", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", ["postgres", "redis", "rabbitmq", "pulsar"])
def test_up_status_down(folder: Path, kind: str) -> None:
    url = run(folder, kind, "up").strip()
    try:
        with closing(pares.open(url)) as ledger:
            assert ledger.append(b"x") == 0
        status = json.loads(run(folder, kind, "--json"))
        assert status["up"]
        assert status["url"] == url
        assert json.loads(run(folder, kind, "up", "--json"))["was_up"]
        assert run(folder, kind, "down") == ""
        assert not json.loads(run(folder, kind, "--json"))["up"]
        assert run(folder, kind, "up").strip() == url, "the same data, at the same port"
        with closing(pares.open(url)) as ledger:
            assert ledger.end() == 1
    finally:
        run(folder, kind, "down", "--remove")
    assert not (folder / "node-1").exists()
