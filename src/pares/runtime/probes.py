"""Answers to probes over HTTP: `answer` says what, `HealthApp` says it as an ASGI application of its own, without a framework.
(`pares.supervise.probe_server` says it without ASGI.)"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec

from pares.core.errors import ConfigError, ForkedError
from pares.runtime.member import Member
from pares.runtime.views import Health, Holder

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Answer = tuple[int, Mapping[str, object]]

PATHS: Final = ("/livez", "/readyz", "/leader")


class HealthApp:
    """What `health_app` returns: an ASGI application."""

    def __init__(self, member: Callable[[], object]) -> None:
        self._member = member

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
        elif scope["type"] == "http":
            status, said = self._answer(scope)
            headers, body = rendered(status, said, scope["method"])
            raw = [(name.encode(), value.encode()) for name, value in headers]
            await send({"type": "http.response.start", "status": status, "headers": raw})
            await send({"type": "http.response.body", "body": body})

    def _answer(self, scope: Scope) -> Answer:
        path: str = scope["path"]
        root: str = scope.get("root_path", "")
        # Mounted below a path, newer servers and frameworks give the whole path, older ones the rest of it.
        path = path.removeprefix(root) if root and path.startswith(root + "/") else path
        return answer(self._member, scope["method"], path, scope.get("query_string", b"").decode("latin-1"))


def answer(member: Callable[[], object], method: str, path: str, query: str, *, role: str | None = None) -> Answer:
    """The status and the body of one probe; see `health_app` for what they mean. `query`: as it stands in the URL, without the
    question mark. `role`: the one that /leader is about when the query names none."""
    if path not in PATHS:
        return 404, {"error": f"there is {', '.join(PATHS)}"}
    if method not in ("GET", "HEAD"):
        return 405, {"error": "GET or HEAD"}
    found = _plain(member())
    if found is None:
        return 503, {"ok": False, "ready": False, "state": "not made yet"}
    if path == "/leader":
        return _leader(found, query, role)
    health = found.health()
    return (200 if (health.ok if path == "/livez" else health.ready) else 503), _told(health)


def rendered(status: int, said: Mapping[str, object], method: str) -> tuple[list[tuple[str, str]], bytes]:
    """The headers and the body that carry an answer to a request by `method`."""
    body = msgspec.json.encode(said)
    headers = [("content-type", "application/json"), ("content-length", str(len(body))), ("cache-control", "no-store")]
    if status == 405:
        headers.append(("allow", "GET, HEAD"))
    return headers, b"" if method == "HEAD" else body


def health_app(member: object) -> HealthApp:
    """An ASGI application that answers probes for `member`: a `Member` or a `Consumer`, one of `pares.aio`, or a callable that
    returns one (or None, as long as there is none). Serve it by itself, or mount it below a path of yours.

    - `/livez` is 200 while `health().ok`: its loop runs, has read the ledger lately or knows why not, no work is stuck, and
      what it holds it leads. 503: the loop died or stands still, work hangs, the member failed or was closed, or it was
      inherited by a fork: start the process anew.
    - `/readyz` is 200 while `health().ready`: it is in its group and the ledger is in reach. 503: not yet, or not now.
    - `/leader?role=R` is 200 while this process leads R. 503: it does not; the body says who does, as far as it has read.

    404: there is no such path, or no such role in the group; 400: no `role` was given; 405: neither GET nor HEAD. Bodies are
    JSON: what health says in states and numbers, but none of its texts, which may name hosts and files; these are for logs.

    Promised: answers look at the member from outside and never wait for its thread or the ledger. Not promised: that a leader
    still leads when its 200 arrives; for that, `Term.token` and a fence. Raises `ConfigError` for what is no member.
    """
    if callable(member):
        return HealthApp(member)
    if member is None:
        raise ConfigError("health_app got None: give a Member, one of pares.aio, or a callable that returns one")
    _plain(member)
    return HealthApp(lambda: member)


def _plain(member: Any) -> Member | None:
    """The member below, if it is one for asyncio, or a consumer: None as long as the first has not been entered."""
    if member is None or isinstance(member, Member):
        return member
    from pares.runtime import aio
    from pares.runtime.consume.consumer import Consumer

    if isinstance(member, aio.Member | aio.Consumer):
        return _plain(member._made)  # pyright: ignore[reportPrivateUsage]
    if isinstance(member, Consumer):
        return member._member  # pyright: ignore[reportPrivateUsage]
    raise ConfigError(
        f"health_app got {member!r}: give a Member or a Consumer, one of pares.aio, or a callable that returns one"
    )


async def _live(receive: Receive, send: Send) -> None:
    """Served by itself it is asked whether it has started."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


def _told(health: Health) -> Mapping[str, object]:
    work = health.consumption
    consumes = {} if work is None else {"load": work.load, "lag": work.lag}
    return {
        **consumes,
        "ok": health.ok,
        "ready": health.ready,
        "state": health.state,
        "name": health.name,
        "group": health.group,
        "leads": health.leads,
        "stuck": health.stuck,
        "unled": health.unled,
        "thread_alive": health.thread_alive,
        "ledger_in_reach": health.unreachable is None,
        "read_age": round(health.read_age, 3),
        "lease_left": round(health.lease_left, 3),
    }


def _leader(member: Member, query: str, usual: str | None) -> Answer:
    given = parse_qs(query).get("role", [] if usual is None else [usual])
    if len(given) != 1:
        return 400, {"error": "ask for /leader?role=NAME"}
    role = given[0]
    try:
        there, holder = role in member.roles(), member.leader(role)
    except ForkedError:
        return 503, {"role": role, "leads": False, "leader": None}
    leads = member.holds(role)
    if not there and not leads:
        return 404, {"error": "the group has no such role", "role": role}
    return (200 if leads else 503), {"role": role, "leads": leads, "leader": _holder(holder)}


def _holder(holder: Holder | None) -> Mapping[str, object] | None:
    if holder is None:
        return None
    return {"member": holder.member, "name": holder.name, "host": holder.host, "token": holder.token}
