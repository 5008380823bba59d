"""`pares dev nats`, as somebody types it: real servers, a home folder with nothing in it, one program after the other."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from dev_home import PATIENCE, Home, one_of_three_is_killed_and_comes_back, processes

import pares

pytestmark = pytest.mark.processes


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path, "nats")
    yield home
    home.run("down", "--remove")


def test_before_there_is_anything(home: Home) -> None:
    assert "pares dev nats up" in home.run("status").stderr
    nothing = {"folder": str(home.data), "nats": None, "url": None, "bootstrap": None, "up": False, "nodes": []}
    assert home.json() == nothing
    assert "there is no NATS" in home.run("down").stderr


def test_up_status_down(home: Home) -> None:
    ran = home.run("up")
    url = ran.stdout.strip()
    assert url.startswith("nats://127.0.0.1:")
    assert "/pares?monitor=127.0.0.1:" in url
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


def test_doctor_sees_on_it_whether_writes_are_synced(home: Home) -> None:
    url = home.run("--nodes", "3", "up").stdout.strip()
    pares.open(url).close()  # which makes the stream
    command = [sys.executable, "-m", "pares", "doctor", "--ledger", url, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.stdout.count("syncs each write to disk") == 3, done.stdout + done.stderr


def test_three_nodes_without_a_log_and_one_that_is_missing(home: Home) -> None:
    first = home.json("--nodes", "3", "up", "--no-jetstream")
    assert first["url"] == f"nats://{first['bootstrap']}"
    after = one_of_three_is_killed_and_comes_back(home, first)
    ran = home.run("up", "--nodes", "1", code=2)
    assert "pares dev nats down --remove" in ran.stderr
    assert sorted(home.json("down")["ended"]) == sorted(process.pid for process in after)


def test_a_folder_of_another_kind(home: Home) -> None:
    home.run("up")
    for command in ("status", "down", "up"):
        ran = home.run(command, "--folder", str(home.data), kind="kafka", code=2)
        assert "nats:// ledgers" in ran.stderr
    assert home.json("status")["up"] is True
