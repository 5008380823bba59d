"""`pares.dev.Postgres`: a real server that comes, serves and goes."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from pares.core.errors import CapabilityError, ConfigError
from pares.dev import Postgres, ports, postgres

PATIENCE = 60.0


def test_it_comes_serves_and_goes() -> None:
    with Postgres({"max_connections": 17}) as server:
        folder, port = server.folder, server.port
        with psycopg.connect(server.url) as connection:
            assert connection.execute("SHOW max_connections").fetchone() == ("17",)
            assert connection.execute("SHOW listen_addresses").fetchone() == ("127.0.0.1",)
        assert folder is not None
        assert folder.exists()
        server_twice = server
    server_twice.close()
    assert not folder.exists()
    assert ports.is_free("127.0.0.1", port)


def test_it_dies_with_its_program() -> None:
    script = "import sys; from pares.dev import Postgres; print(Postgres().start().port, flush=True); sys.stdin.read()"
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
    with pytest.raises(CapabilityError, match=r"(?s)ended with 1.*max_connections"):
        Postgres({"max_connections": "many"}).start()
    with pytest.raises(ConfigError, match="no setting"):
        Postgres({"a b": 1})


def test_the_wheel_will_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(postgres, "_PLACES", ())
    if importlib.util.find_spec("pgserver") is None:
        with pytest.raises(CapabilityError, match="apt install postgresql"):
            Postgres().start()
    elif os.geteuid() == 0 and not all(folder.stat().st_mode & 0o001 for folder in Path(sys.prefix).resolve().parents):
        with pytest.raises(CapabilityError, match="may not be run"):
            Postgres().start()
    else:
        with Postgres() as server, psycopg.connect(server.url) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)


def test_programs_that_the_servers_user_may_not_reach(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        return  # then there is no other user
    for name in ("postgres", "initdb"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CapabilityError, match="may not be run"):
        Postgres().start()


def test_none_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(postgres, "_PLACES", ())
    monkeypatch.setattr(postgres.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CapabilityError, match="apt install postgresql"):
        Postgres().start()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's server runs as somebody else")
def test_a_folder_that_the_servers_user_may_not_enter_is_named(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    with pytest.raises(CapabilityError, match=r"may not enter /.*: name a folder that everybody may enter.*--folder"):
        Postgres(folder=home / "state" / "postgres").start()
