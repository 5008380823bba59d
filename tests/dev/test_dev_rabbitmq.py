"""`pares.dev.RabbitMQ`: a real server that comes, serves and goes, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

import pares
from pares.core.errors import CapabilityError, ConfigError
from pares.dev import RabbitMQ, ports
from pares.dev import rabbitmq as dev_rabbitmq

PATIENCE = 120.0


def until_free(port: int) -> None:
    end = time.monotonic() + PATIENCE
    while not ports.is_free("127.0.0.1", port):
        assert time.monotonic() < end
        time.sleep(0.02)


def test_it_comes_serves_and_goes() -> None:
    with RabbitMQ({"stream.initial_credits": 1000}) as server:
        folder, port, epmd = server.folder, server.port, server.nodes[0].peer_port
        with closing(pares.open(server.url)) as ledger:
            assert ledger.append(b"x") == 0
        server.restart(1)  # in good order: one that is killed right after its first stream may not find it again
        with closing(pares.open(server.url)) as ledger:
            assert ledger.append(b"y") == 1
        server.kill(1)
        server.restart(1)
        with closing(pares.open(server.url)) as ledger:
            assert ledger.append(b"z") == 2
        assert folder is not None
        assert folder.exists()
    assert not folder.exists()
    until_free(port)
    until_free(epmd)


def test_it_dies_with_its_program() -> None:
    script = (
        "import sys; from pares.dev import RabbitMQ; s = RabbitMQ().start(); "
        "print(s.port, s.nodes[0].peer_port, flush=True); sys.stdin.read()"
    )
    program = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    found = [int(word) for word in program.stdout.readline().split()]
    assert len(found) == 2
    os.kill(program.pid, signal.SIGKILL)
    program.communicate()
    for port in found:
        until_free(port)


def test_a_server_that_does_not_come_up_says_why() -> None:
    with pytest.raises(CapabilityError, match=r"(?s)ended with.*frame_max"):
        RabbitMQ({"stream.frame_max": "many"}).start()
    with pytest.raises(ConfigError, match="no setting"):
        RabbitMQ({"a b": 1})
    with pytest.raises(ConfigError, match="no plugin"):
        RabbitMQ(plugins=["a, b"])
    with pytest.raises(ConfigError, match=r"settings listeners\.tcp follow"):
        RabbitMQ({"listeners.tcp": 1})


def test_none_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(dev_rabbitmq, "_PLACES", ())
    with pytest.raises(CapabilityError, match=r"apt install rabbitmq-server"):
        RabbitMQ().start()
