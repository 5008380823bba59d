"""`health_app` on a real uvicorn: what a probe hears, also when the member has died inside."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import logging
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import uvicorn
from runtime_tools import CALM, PATIENCE, Crew, Faulty, binding, in_child, until
from starlette.applications import Starlette
from starlette.routing import Mount

import pares
from pares.core.errors import ConfigError


class Said(NamedTuple):
    status: int
    body: Any
    headers: dict[str, str]


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode() or None


class Server:
    """A real HTTP server around an ASGI application."""

    def __init__(self, app: Any) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on"))
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), daemon=True)
        self._thread.start()
        until(lambda: self._server.started or not self._thread.is_alive(), "the server is up")
        assert self._server.started

    def ask(self, path: str, method: str = "GET") -> Said:
        request = urllib.request.Request(self.url + path, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                status, body, headers = answer.status, answer.read(), dict(answer.headers)
        except urllib.error.HTTPError as error:
            status, body, headers = error.code, error.read(), dict(error.headers)
        return Said(status, _parsed(body), {key.lower(): value for key, value in headers.items()})

    def status(self, path: str) -> int:
        return self.ask(path).status

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(PATIENCE)
        self._socket.close()


@contextlib.contextmanager
def served(app: Any) -> Iterator[Server]:
    server = Server(app)
    try:
        yield server
    finally:
        server.close()


def kill_inside(me: pares.Member) -> None:
    """What a bug in the loop would do: an exception out of nowhere, on its thread."""
    thread = me._loop.thread
    assert thread.ident is not None
    assert ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit)) == 1
    binding(me).bells.ring()


def test_a_member_that_is_well(crew: Crew) -> None:
    me, other = crew.leader("a", host="here"), crew.standby("b")
    with served(pares.health_app(me)) as server, served(pares.health_app(lambda: other)) as second:
        for probe in (server, second):
            assert probe.status("/livez") == 200
            assert probe.status("/readyz") == 200
        said = server.ask("/livez")
        assert said.headers["content-type"] == "application/json"
        assert said.body["leads"] == ["A"]
        assert said.body["state"] == "live"
        leads = server.ask("/leader?role=A")
        assert (leads.status, leads.body["leads"]) == (200, True)
        held = me.term("A")
        assert held is not None
        holder = {"member": me.id, "name": "a", "host": "here", "token": held.token}
        stands_by = second.ask("/leader?role=A")
        assert (stands_by.status, stands_by.body) == (503, {"role": "A", "leads": False, "leader": holder})
        me.step_down("A")
        assert other.wait("A", PATIENCE)
        assert server.status("/leader?role=A") == 503
        assert second.status("/leader?role=A") == 200


def test_what_is_asked_wrongly(crew: Crew) -> None:
    me = crew.leader("a", roles=["A", "x/y ü"])
    with served(pares.health_app(me)) as server:
        assert server.status("/leader") == 400
        assert server.status("/leader?role=") == 400
        assert server.status("/leader?role=A&role=B") == 400
        assert server.status("/leader?role=B") == 404
        assert server.status("/leader?role=x%2Fy+%C3%BC") == 200
        assert server.status("/leader?role=%ff%00") == 404
        assert server.status("/") == 404
        assert server.status("/livez/") == 404
        post = server.ask("/livez", "POST")
        assert (post.status, post.headers["allow"]) == (405, "GET, HEAD")
        head = server.ask("/livez", "HEAD")
        assert (head.status, head.body) == (200, None)


def test_it_can_be_mounted_below_a_path(crew: Crew) -> None:
    me = crew.leader("a")
    with served(Starlette(routes=[Mount("/pares", pares.health_app(me))])) as server:
        assert server.status("/pares/livez") == 200
        assert server.status("/pares/leader?role=A") == 200
        assert server.status("/pares/other") == 404
        assert server.status("/livez") == 404


def test_a_loop_that_is_killed_inside_fails_the_probe(crew: Crew, caplog: pytest.LogCaptureFixture) -> None:
    me, other = crew.leader("a", session=1.0), crew.standby("b")
    term = me.term("A")
    found: list[pares.Term | None] = []
    waiting = threading.Thread(target=lambda: found.append(_or_none(me)))
    with served(pares.health_app(me)) as server:
        assert server.status("/livez") == 200
        waiting.start()
        with caplog.at_level(logging.CRITICAL, "pares.member"):
            kill_inside(me)
            until(lambda: server.status("/livez") == 503, "the probe fails")
        until(lambda: not server.ask("/livez").body["thread_alive"], "its thread has ended")
        said = server.ask("/livez").body
        assert (said["ok"], said["leads"]) == (False, [])
        assert server.status("/readyz") == 503
        assert server.status("/leader?role=A") == 503
    assert "SystemExit" in caplog.text
    assert me.state == "failed"
    assert "SystemExit" in str(me.health().failure)
    assert not term
    waiting.join(PATIENCE)
    assert not waiting.is_alive(), "nobody waits for a member that is no more"
    with pytest.raises(pares.ParesError, match="its loop failed"):
        me.wait("A", PATIENCE)
    assert other.holds("A") or other.wait("A", PATIENCE), "its seats are free when its session is over"


def _or_none(me: pares.Member) -> pares.Term | None:
    try:
        return list(me.terms("A"))[-1]
    except pares.ParesError:
        return None


@pytest.mark.parametrize("protocol", ["claims", "fast-neli"])
def test_a_loop_whose_last_words_fail_too_dies_no_silent_death(
    memory: str, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state machine raises whatever it is asked, also when the loop wants to end its beliefs with it."""
    crew = Crew(memory)
    me = crew.leader("a", protocol=protocol)
    term = me.term("A")

    def broken(*_: object) -> Any:
        raise RuntimeError("planted by the test")

    core: Any = binding(me).core  # type: ignore[attr-defined]  # pyright: ignore
    with served(pares.health_app(me)) as server:
        monkeypatch.setattr(core, "step", broken)
        binding(me).bells.ring()
        until(lambda: server.status("/livez") == 503, "the probe fails")
    until(lambda: me.state == "failed", "it says so")
    assert "planted" in str(me.health().failure)
    assert not term
    assert not me.holds("A")
    with pytest.raises(pares.ParesError, match="planted by the test"):
        next(me.events())
    me.close(1)


def test_a_loop_of_allcall_that_fails_dies_no_silent_death(memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    me = pares.Member(memory, group="g", roles=["A"], protocol=pares.AllCall(heartbeat=0.1, lease=1.0, skew=0.1))
    term = me.wait("A", PATIENCE)
    assert term is not None

    def broken(*_: object) -> Any:
        raise RuntimeError("planted by the test")

    with served(pares.health_app(me)) as server:
        assert server.status("/livez") == 200
        core: Any = binding(me).core  # type: ignore[attr-defined]  # pyright: ignore
        monkeypatch.setattr(core, "step", broken)  # at its next beat
        until(lambda: server.status("/livez") == 503, "the probe fails")
        assert server.status("/leader?role=A") == 503
    until(lambda: me.state == "failed", "it says so")
    assert "planted" in str(me.health().failure)
    assert not term
    assert not me.holds("A")
    me.close(1)


def test_a_loop_that_stands_still_fails_the_probe(faulty: Faulty) -> None:
    """An append that never returns: the thread is alive, and nothing else is."""
    crew = Crew(faulty)
    me = crew.leader("a", session=1.0)
    with served(pares.health_app(me)) as server:
        faulty.hold_appends()
        assert faulty.held.wait(PATIENCE)
        until(lambda: server.status("/livez") == 503, "the probe fails")
        assert server.ask("/livez").body["thread_alive"]
        faulty.free.set()
        until(lambda: server.status("/livez") == 200, "and is well again")


def test_a_ledger_out_of_reach_is_no_reason_to_die(faulty: Faulty) -> None:
    crew = Crew(faulty)
    me = crew.leader("a", session=0.5)
    with served(pares.health_app(me)) as server:
        faulty.away()
        until(lambda: server.status("/readyz") == 503, "it is not ready")
        assert server.status("/livez") == 200
        assert not server.ask("/livez").body["ledger_in_reach"]
        assert "by the test" not in str(server.ask("/readyz").body), "texts may name hosts: they are for logs"
        faulty.back()
        until(lambda: server.status("/readyz") == 200, "and is again")


def test_a_closed_member_is_not_alive(crew: Crew) -> None:
    me = crew.leader("a")
    with served(pares.health_app(me)) as server:
        me.close()
        assert server.status("/livez") == 503
        assert server.ask("/livez").body["state"] == "closed"


def test_a_member_inherited_by_a_fork_is_not_alive(crew: Crew) -> None:
    me = crew.leader("a")
    app = pares.health_app(me)

    def ask(path: str) -> int:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            return {}

        target, _, query = path.partition("?")
        scope = {"type": "http", "method": "GET", "path": target, "query_string": query.encode()}
        asyncio.run(app(scope, receive, send))
        return sent[0]["status"]

    assert [ask(path) for path in ("/livez", "/readyz", "/leader?role=A")] == [200, 200, 200]
    assert in_child(lambda: [ask(path) for path in ("/livez", "/readyz", "/leader?role=A")]) == "[503, 503, 503]"


def test_members_for_asyncio_and_members_to_come(memory: str) -> None:
    async def run() -> None:
        me = pares.aio.Member(memory, group="g", roles=["A"], session=CALM)
        made: list[pares.aio.Member] = []
        with (
            served(pares.health_app(me)) as server,
            served(pares.health_app(lambda: made[0] if made else None)) as late,
        ):
            assert await asyncio.to_thread(server.status, "/livez") == 503
            assert (await asyncio.to_thread(late.ask, "/livez")).body["state"] == "not made yet"
            async with me:
                made.append(me)
                assert await me.wait("A", PATIENCE)
                for probe in (server, late):
                    assert await asyncio.to_thread(probe.status, "/leader?role=A") == 200

    asyncio.run(run())


def test_what_is_no_member() -> None:
    for wrong in (None, 1, "member"):
        with pytest.raises(ConfigError, match="health_app got"):
            pares.health_app(wrong)
