"""The probe server without ASGI: what it says, and that no client can hold it up."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from runtime_tools import PATIENCE, until

import pares
from pares.core.errors import ConfigError
from pares.supervise.probe_server import AT_ONCE, ProbeServer

Made = list[pares.Member]


@pytest.fixture
def made() -> Made:
    return []


@pytest.fixture
def server(made: Made) -> Iterator[ProbeServer]:
    with contextlib.closing(ProbeServer(lambda: made[0] if made else None, 0, role="A")) as server:
        yield server


def ask(server: ProbeServer, path: str, method: str = "GET") -> tuple[int, Any, dict[str, str]]:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)) as connection:
        connection.request(method, path)
        answer = connection.getresponse()
        body = answer.read()
        return answer.status, json.loads(body) if body else None, {k.lower(): v for k, v in answer.getheaders()}


def test_it_answers_before_there_is_a_member_and_after(server: ProbeServer, made: Made) -> None:
    assert ask(server, "/livez")[:2] == (503, {"ok": False, "ready": False, "state": "not made yet"})
    with pares.Member("memory://probed", group="g", roles=["A"], name="ann") as me:
        made.append(me)
        assert me.wait("A", PATIENCE)
        status, said, headers = ask(server, "/readyz?x=1")
        assert (status, said["leads"], headers["content-type"]) == (200, ["A"], "application/json")
        assert "Python" not in headers["server"]
        assert ask(server, "/leader")[1]["leader"]["name"] == "ann"
        assert ask(server, "/leader?role=B")[0] == 404
        assert ask(server, "/nothing")[0] == 404
        assert ask(server, "/livez", "HEAD")[:2] == (200, None)
        status, _, headers = ask(server, "/livez", "POST")
        assert (status, headers["allow"]) == (405, "GET, HEAD")
    assert ask(server, "/livez")[0] == 503


def test_clients_that_say_nothing_hold_nobody_up(server: ProbeServer) -> None:
    with contextlib.ExitStack() as silent:
        for _ in range(AT_ONCE - 1):
            silent.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        assert ask(server, "/livez")[0] == 503
        for _ in range(2 * AT_ONCE):
            silent.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        # Too many: for a few seconds new ones are turned away, and then the silent ones are.

        def answered() -> bool:
            try:
                return ask(server, "/livez")[0] == 503
            except (OSError, http.client.HTTPException):
                return False

        until(answered, "it answers again")


def test_where_it_can_not_listen(server: ProbeServer) -> None:
    with pytest.raises(ConfigError, match=f"port {server.port}: .*choose another"):
        ProbeServer(lambda: None, server.port)
    with pytest.raises(ConfigError, match="give 1 to 65535"):
        ProbeServer(lambda: None, 70_000)
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return  # a host without IPv6
    with contextlib.closing(ProbeServer(lambda: None, 0, host="::1")) as six:
        connection = http.client.HTTPConnection("::1", six.port, timeout=PATIENCE)
        connection.request("GET", "/livez")
        assert connection.getresponse().status == 503
        connection.close()
