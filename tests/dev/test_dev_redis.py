"""`pares.dev.Redis`: real servers that come, serve and go."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import redis

from pares.core.errors import CapabilityError, ConfigError
from pares.dev import Redis, ports
from pares.dev import redis as dev_redis

PATIENCE = 60.0


def test_it_comes_serves_and_goes() -> None:
    with Redis({"maxclients": 77}) as server:
        folder, port = server.folder, server.port
        client = redis.Redis(port=port)
        assert client.config_get("maxclients") == {"maxclients": "77"}
        assert client.config_get("bind") == {"bind": "127.0.0.1"}
        assert client.config_get("appendonly") == {"appendonly": "yes"}
        client.close()
        assert folder is not None
        assert folder.exists()
        server_twice = server
    server_twice.close()
    assert not folder.exists()
    assert ports.is_free("127.0.0.1", port)


def test_replicas_follow_and_are_promoted() -> None:
    with Redis(replicas=2) as servers:
        assert servers.url == "redis://" + ",".join(node.place.address for node in servers.nodes) + "/0"
        assert servers.ask("SET", "k", "v") == b"+OK\r\n"
        end = time.monotonic() + PATIENCE
        while servers.ask("GET", "k", node=3) != b"$1\r\nv\r\n":
            assert time.monotonic() < end
            time.sleep(0.02)
        servers.kill(1)
        servers.promote(2)
        assert servers.port == servers.nodes[1].port
        assert servers.ask("SET", "k", "w", node=2) == b"+OK\r\n"
        servers.restart(1)
        assert servers.ask("GET", "k", node=1) == b"$1\r\nw\r\n", "it follows the new one"


def test_it_dies_with_its_program() -> None:
    script = "import sys; from pares.dev import Redis; print(Redis().start().port, flush=True); sys.stdin.read()"
    program = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    port = int(program.stdout.readline())
    assert not ports.is_free("127.0.0.1", port)
    os.kill(program.pid, signal.SIGKILL)
    program.communicate()
    end = time.monotonic() + PATIENCE
    while not ports.is_free("127.0.0.1", port):
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_server_that_does_not_come_up_says_why() -> None:
    with pytest.raises(CapabilityError, match=r"(?s)ended with 1.*maxclients"):
        Redis({"maxclients": "many"}).start()
    with pytest.raises(ConfigError, match="no setting"):
        Redis({"a b": 1})
    with pytest.raises(ConfigError, match="settings dir, port follow"):
        Redis({"dir": "/", "port": 1})


def test_none_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(dev_redis.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CapabilityError, match=r"pares\[redis-server\].*apt install redis-server"):
        Redis().start()
