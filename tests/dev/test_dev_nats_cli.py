"""`pares dev nats`, as somebody types it: real servers, a home folder with nothing in it, one program after the other."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pares.dev.process import Identity, identify

PATIENCE = 60.0
pytestmark = pytest.mark.processes


@dataclass
class Home:
    folder: Path

    def run(self, *arguments: str, kind: str = "nats", code: int = 0) -> subprocess.CompletedProcess[str]:
        env = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "PARES_"))}
        done = subprocess.run(
            [sys.executable, "-m", "pares", "dev", kind, *arguments],
            env={**env, "HOME": str(self.folder)},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == code, done
        return done

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json").stdout)

    @property
    def data(self) -> Path:
        return self.folder / ".local" / "state" / "pares" / "dev" / "nats"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    yield home
    home.run("down", "--remove")


def processes(status: Any) -> list[Identity]:
    return [identify(node["pid"]) for node in status["nodes"]]


def test_before_there_is_anything(home: Home) -> None:
    assert "pares dev nats up" in home.run("status").stderr
    nothing = {"folder": str(home.data), "nats": None, "url": None, "bootstrap": None, "up": False, "nodes": []}
    assert home.json() == nothing
    assert "there is no NATS" in home.run("down").stderr


def test_up_status_down(home: Home) -> None:
    ran = home.run("up")
    url = ran.stdout.strip()
    assert url.startswith("nats://127.0.0.1:")
    assert url.endswith("/pares")
    assert "NATS 2." in ran.stderr
    status = home.json("status")
    assert (status["up"], status["url"]) == (True, url)
    (process,) = processes(status)
    assert process.alive()  # though the program that started it has ended
    again = home.run("up")
    assert again.stdout.strip() == url
    assert "was up already" in again.stderr
    assert "runs with JetStream: end it first" in home.run("up", "--no-jetstream", code=2).stderr
    process.signal(signal.SIGSTOP)
    assert home.json()["nodes"][0]["state"] == "silent"
    assert home.json("down") == {"folder": str(home.data), "ended": [process.pid], "killed": [], "removed": False}
    assert not process.alive()
    assert [node["state"] for node in home.json("status")["nodes"]] == ["down"]
    assert home.json("up")["url"] == url
    assert "its data is removed" in home.run("down", "--remove").stderr
    assert not home.data.exists()


def test_three_nodes_without_a_log_and_one_that_is_missing(home: Home) -> None:
    first = home.json("--nodes", "3", "up", "--no-jetstream")
    assert [node["state"] for node in first["nodes"]] == ["serving"] * 3
    assert first["url"] == f"nats://{first['bootstrap']}"
    before = processes(first)
    before[1].signal(signal.SIGKILL)
    assert before[1].wait(PATIENCE)
    second = home.json("up")
    assert second["up"] is True
    assert second["url"] == first["url"]
    after = processes(second)
    assert (after[0], after[2]) == (before[0], before[2])
    assert after[1] != before[1]
    ran = home.run("up", "--nodes", "1", code=2)
    assert "pares dev nats down --remove" in ran.stderr
    assert sorted(home.json("down")["ended"]) == sorted(process.pid for process in after)


def test_a_folder_of_another_kind(home: Home) -> None:
    home.run("up")
    for command in ("status", "down", "up"):
        ran = home.run(command, "--folder", str(home.data), kind="kafka", code=2)
        assert "nats:// ledgers" in ran.stderr
    assert home.json("status")["up"] is True
