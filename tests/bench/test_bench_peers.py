"""The harness on real servers, in its smallest form: one kill, one handover, one thaw of each kind of contender.

What peers say after a thaw depends on their threads, so only what can't be otherwise is asked for: a lock that nobody told
keeps saying yes, a server that is asked says no, and pares says no.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from bench.part import sent
from bench.peers import __main__ as command
from bench.peers import servers
from bench.peers.contenders import CONTENDERS, Contender
from bench.peers.measure import Cast, Result, Rounds, Yes, measure
from bench.processes import Troupe

import pares
from pares.core.errors import CapabilityError
from pares.dev import Kafka
from pares.dev.process import identify

BUSY_WRITER = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
print("ready r 0", flush=True)
while True:
    connection.execute("BEGIN IMMEDIATE")
    time.sleep(0.005)
    connection.execute("ROLLBACK")
    time.sleep(0.002)
"""
ONCE = Rounds(kills=1, hands=1, thaws=1, idle=1.0, look=0.5)
ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.processes
on_servers = pytest.mark.brokers
"""For what runs on somebody else's server."""


def once(contender: Contender, **changes: object) -> Result:
    contender = replace(contender, **({"quiet": 0.4} | changes))
    result = measure(contender, ONCE, print)
    assert [len(result.crash), len(result.handover), len(result.cpu)] == [1, 1, 3]
    assert min(*result.crash, *result.handover) > 0
    assert result.yes.keys() == contender.forms.keys()
    return result


@on_servers
def test_redis_locks() -> None:
    result = once(CONTENDERS["redis-1"], session=0.4)
    assert result.yes["owned"] == [Yes(0, 0.0)]
    assert result.sent is not None
    assert result.sent > 5
    assert result.records is None


@on_servers
def test_kazoo_locks() -> None:
    result = once(CONTENDERS["kazoo-1"])
    (alone,) = result.yes["is_acquired"]
    assert alone.count > 0
    assert alone.ms is None
    assert result.sent is not None
    assert result.sent > 1


@on_servers
def test_consumer_groups(kafka: Kafka) -> None:
    here = contextlib.nullcontext(
        kafka.bootstrap
    )  # a dev broker grants short sessions, and a group on it starts at once
    result = once(CONTENDERS["group-6"], session=1.0, quiet=1.5, stage=lambda: here)
    assert result.sent is not None
    assert result.sent > 1


@on_servers
def test_pares_on_kafka(kafka: Kafka) -> None:
    result = once(CONTENDERS["pares-kafka-0.3"], stage=lambda: contextlib.nullcontext(kafka.bootstrap))
    assert result.yes["holds()"] == [Yes(0, 0.0)]
    assert result.records is not None
    assert result.records > 1


@pytest.mark.parametrize("where", ["file", "sqlite"])
def test_pares_without_a_server_has_nobody_to_send_to(where: str) -> None:
    result = once(CONTENDERS[f"pares-{where}-1-proof"], session=0.3)
    assert result.yes["holds()"] == [Yes(0, 0.0)]
    assert result.sent is None
    assert result.records is not None
    assert result.records > 1


def test_pares_on_a_file_by_silence() -> None:
    result = once(CONTENDERS["pares-file-0.3"])
    assert result.crash[0] > 50, "no death was proven"


def test_pares_is_measured_alike_on_each_ledger() -> None:
    forms = {"1", "0.3", "1-proof"}
    assert {key for key in CONTENDERS if key.startswith("pares-")} == {
        f"pares-{where}-{form}" for where in ("kafka", "file", "sqlite") for form in forms
    }


def test_nobody_is_frozen_in_the_middle_of_a_write(tmp_path: Path) -> None:
    """Here to one that hardly does anything else: all others would wait for it, and nobody would lead."""
    url = f"sqlite:///{tmp_path}/work.db"
    pares.open(url).close()
    with Troupe(url) as troupe:
        writer = troupe.cast("w", [sys.executable, "-c", BUSY_WRITER, str(tmp_path / "work.db")])
        troupe.hear("ready")
        for _ in range(10):
            writer.freeze(url)
            with contextlib.closing(sqlite3.connect(tmp_path / "work.db", timeout=0, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                other.execute("ROLLBACK")
            writer.signal(signal.SIGCONT)
            time.sleep(0.02)
        writer.kill()


def test_a_contender_that_falls_over_is_reported_and_not_waited_for() -> None:
    contender = replace(CONTENDERS["pares-sqlite-1"], module="bench.no_such_worker", quiet=0.1)
    with pytest.raises(ChildProcessError, match=r"pares-sqlite-1: m\d ended with 1"):
        measure(contender, ONCE, print)


@on_servers
def test_servers_are_gone_when_they_are_left() -> None:
    with servers.redis() as address:
        host, port = address.split(":")
        socket.create_connection((host, int(port)), 5).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), 5)


def test_a_server_that_does_not_start_quotes_its_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "redis-server"
    broken.write_text("#!/bin/sh\necho out of luck\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CapabilityError, match=r"ended with 3(.|\n)*out of luck"), servers.redis():
        pass


def test_what_is_not_installed_is_named_and_the_others_are_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setitem(command.CONTENDERS, "pares-sqlite-0.3", replace(CONTENDERS["pares-sqlite-0.3"], quiet=0.4))
    monkeypatch.setattr(command, "rounds_of", lambda contender, quick: Rounds(1, 0, 0, idle=0.1))
    results: list[Result] = []
    missing: list[tuple[str, str]] = []
    steps = command.run(["redis-1", "kazoo-1", "pares-sqlite-0.3"], True, results, missing)
    assert len(list(steps)) == 3
    assert [result.contender.key for result in results] == ["pares-sqlite-0.3"]
    assert [name for name, _ in missing] == ["redis-py Lock, Redis, 1 s", "kazoo Lock, ZooKeeper, 1 s"]
    assert "pip install 'pares[redis-server]'" in missing[0][1]
    assert "not measured" in capsys.readouterr().out


@on_servers
def test_nothing_outlives_a_harness_that_is_killed(tmp_path: Path) -> None:
    """Not even a member that is frozen, which could not see that its input has ended."""
    program = """
import signal, time
from bench.peers.contenders import CONTENDERS
from bench.peers.measure import Cast
contender = CONTENDERS["redis-1"]
with contender.stage() as address, Cast(contender, address) as cast:
    leader = cast.settled()
    cast.players[leader].signal(signal.SIGSTOP)
    print(address, *(player.process.pid for player in cast.players.values()), flush=True)
    time.sleep(600)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},  # whoever is killed leaves his folders
        stdout=subprocess.PIPE,
        text=True,
    ) as harness:
        assert harness.stdout is not None
        address, *pids = harness.stdout.readline().split()
        members = [identify(int(pid)) for pid in pids]
        assert len(members) == 3
        assert all(member.alive() for member in members)
        os.kill(harness.pid, signal.SIGKILL)
    assert all(member.wait(20) for member in members)
    host, port = address.split(":")
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            socket.create_connection((host, int(port)), 5).close()
        except ConnectionRefusedError:
            return
        time.sleep(0.05)
    pytest.fail(f"the server at {address} is still there")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a connection has sent")
def test_segments_are_counted_also_those_of_closed_connections() -> None:
    before = sent()
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as client:
            accepted, _ = server.accept()
            with accepted:
                for _ in range(5):
                    client.sendall(b"x")
                    assert accepted.recv(10) == b"x"
                assert sent() - before >= 5  # others in this process may send as well
        assert sent() - before >= 5


def test_the_leader_that_was_killed_is_forgotten() -> None:
    contender = replace(CONTENDERS["pares-sqlite-1-proof"], session=3.0)
    with contender.stage() as address, Cast(contender, address) as cast:
        first = cast.settled()
        killed = cast.lose(first)
        heir, at = cast.until("lead", killed, but=first)
        assert heir != first
        assert at > killed
        cast.add()
        assert cast.settled() == heir
