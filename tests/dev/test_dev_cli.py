"""`pares dev kafka`, as somebody types it: real brokers, a home folder with nothing in it, one program after the other."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from dev_home import Home, one_of_three_is_killed_and_comes_back, processes

from pares.dev.kafka import jars, probe
from pares.dev.kafka.settings import Security
from pares.dev.place import Place
from pares.dev.process import identify


@pytest.fixture
def home(tmp_path: Path, kafka: object) -> Iterator[Home]:
    """Nothing is there but Kafka's jars. `kafka` is asked for because with it they are."""
    home = Home(tmp_path, "kafka", {"XDG_CACHE_HOME": str(jars.place().parent.parent)})
    yield home
    home.run("down", "--remove")


def test_before_there_is_anything(home: Home) -> None:
    ran = home.run("status")
    assert ran.stdout == ""
    assert "pares dev kafka up" in ran.stderr
    nothing = {"folder": str(home.data), "kafka": None, "url": None, "bootstrap": None, "up": False, "nodes": []}
    assert home.json("status") == nothing
    assert home.json() == nothing
    assert "there is no Kafka" in home.run("down").stderr
    assert home.json("down") == {"folder": str(home.data), "ended": [], "killed": [], "removed": False}
    assert list(home.folder.iterdir()) == []


def test_up_status_down(home: Home) -> None:
    ran = home.run("up")
    url = ran.stdout.strip()
    assert url.startswith("kafka://127.0.0.1:")
    assert "Kafka 4.3.1 is up after" in ran.stderr
    status = home.json("status")
    assert (status["up"], status["url"], status["kafka"]) == (True, url, jars.VERSION)
    (node,) = status["nodes"]
    assert node["state"] == "serving"
    assert Path(node["log"]).is_relative_to(home.data)
    host, port = node["address"].split(":")
    assert probe.look(Place(1, host, int(port), 0), Security(), 5.0).brokers == {1}
    (process,) = processes(status)
    assert process.alive()  # though the program that started it has ended

    again = home.run("up")
    assert again.stdout.strip() == url
    assert "was up already" in again.stderr
    assert processes(home.json()) == [process]
    shown = home.run("status").stdout
    assert "serving" in shown
    assert shown.splitlines()[-1] == url

    assert home.json("down") == {"folder": str(home.data), "ended": [process.pid], "killed": [], "removed": False}
    assert not process.alive()
    status = home.json("status")
    assert (status["up"], status["url"]) == (False, url)
    assert [(node["pid"], node["state"]) for node in status["nodes"]] == [(None, "down")]
    assert "no node was running" in home.run("down").stderr

    assert home.json("up")["url"] == url
    ran = home.run("down", "--remove")
    assert "its data is removed" in ran.stderr
    assert not home.data.exists()


def test_three_nodes_and_one_that_is_missing(home: Home) -> None:
    first = home.json("--nodes", "3", "up")
    assert first["was_up"] is False
    after = one_of_three_is_killed_and_comes_back(home, first)
    ran = home.run("up", "--nodes", "1", code=2)
    assert "holds a cluster of 3, not of 1" in ran.stderr
    assert "pares dev kafka down --remove" in ran.stderr
    assert [process.alive() for process in after] == [True] * 3
    assert sorted(home.json("down")["ended"]) == sorted(process.pid for process in after)
    assert [process.alive() for process in after] == [False] * 3


def test_a_frozen_one_is_silent_and_can_be_ended(home: Home) -> None:
    (process,) = processes(home.json("up"))
    process.signal(signal.SIGSTOP)
    assert home.json("status")["nodes"][0]["state"] == "silent"
    assert home.json("down")["ended"] == [process.pid]
    assert not process.alive()


def test_down_ends_nobody_else(home: Home) -> None:
    """The record names a process that has ended, and whose number somebody else has by now."""
    home.run("up")
    record = home.data / "cluster.json"
    kept = json.loads(record.read_text())
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as bystander:
        try:
            kept["running"]["1"] |= {"pid": bystander.pid}
            real, started = json.loads(record.read_text()), kept["running"]["1"]["started"]
            assert identify(bystander.pid).started != started
            record.write_text(json.dumps(kept))
            assert home.json("down")["ended"] == []
            assert bystander.poll() is None
            record.write_text(json.dumps(real))
            assert home.json("down")["ended"] == [real["running"]["1"]["pid"]]
        finally:
            bystander.kill()


def test_a_folder_and_a_port_of_one_s_own(home: Home, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    (place / "mine.txt").write_text("not Kafka's")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = home.run("up", "--folder", str(place), "--port", str(port), code=2)
        assert f"port {port} is in use" in ran.stderr
        assert "Traceback" not in ran.stderr
        assert home.json("status", "--folder", str(place))["nodes"] == []
    up = home.json("up", "--folder", str(place), "--port", str(port))
    assert up["bootstrap"] == f"127.0.0.1:{port}"
    assert home.json("status")["nodes"] == []
    home.run("--folder", str(place), "down", "--remove")
    assert [path.name for path in place.iterdir()] == ["mine.txt"]


def test_help_and_wrong_usage(home: Home) -> None:
    assert "up" in home.run("--help").stdout
    home.run("up", "--nodes", "0", code=2)
    home.run("sideways", code=2)
