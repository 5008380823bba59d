"""`connect="background"` (U8): a program starts also while its ledger is away; whatever waits just waits."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from runtime_tools import PATIENCE, Crew, in_child, until

import pares
from pares import aio
from pares.core.errors import LedgerUnavailable
from pares.ledger import open_bus

OPENS = {"open_ledger": pares.open, "open_any_bus": open_bus}


class Away:
    """Ledgers that can't be opened for now."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gone, self.slow = True, threading.Event()
        self.slow.set()
        self.error: Exception = LedgerUnavailable("no broker answers, by the test")
        self.attempts = 0
        self.opened: list[Any] = []
        for name, real in OPENS.items():
            monkeypatch.setattr(f"pares.runtime.os_host.{name}", partial(self._open, real))

    def _open(self, real: Callable[..., Any], url: str, **options: Any) -> Any:
        self.attempts += 1
        self.slow.wait(PATIENCE)
        if self.gone:
            raise self.error
        ledger = real(url, **options)
        self.opened.append(ledger)
        return ledger


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> Iterator[Away]:
    away = Away(monkeypatch)
    yield away
    away.slow.set()


PROTOCOLS: dict[str, Any] = {
    "claims": "claims",
    "neli": "neli",
    "fast-neli": "fast-neli",
    "allcall": pares.AllCall(heartbeat=0.05, lease=1.0, skew=0.05),
}


def member(crew: Crew, name: str = "a", **settings: Any) -> pares.Member:
    return crew.member(name, connect="background", **settings)


def made(ledger: Any, **settings: Any) -> pares.Member:
    return pares.Member(ledger, group="g", roles="A", name="a", connect="background", **settings)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_it_is_there_at_once_and_leads_when_its_ledger_is(crew: Crew, away: Away, protocol: str) -> None:
    settings = {"protocol": PROTOCOLS[protocol]}
    me = made(crew.ledger, **settings)
    crew.members.append(me)
    until(lambda: away.attempts >= 2, "it keeps trying")
    assert me.state == "joining"
    health = me.health()
    assert health.ok
    assert not health.ready
    assert health.unreachable is not None
    assert "no broker answers" in health.unreachable
    assert me.wait("A", 0.05) is None
    assert not me.holds("A")
    assert me.term("A") is None
    assert me.members() == []
    assert me.leader("A") is None
    terms = me.terms("A", timeout=PATIENCE)
    found: list[pares.Term] = []
    threading.Thread(target=lambda: found.append(next(terms)), daemon=True).start()
    runs: list[bool] = []
    task = me.background(lambda: runs.append(me.holds("A")), "A", every=0.01)
    time.sleep(0.1)
    assert not found
    away.gone = False
    until(lambda: found and runs, "what waited for a term has it")
    assert me.state == "live"
    assert me.health().ready
    assert "~" in me.id
    task.stop()
    terms.close()
    me.close()
    assert me.state == "closed"
    assert all(closed(ledger) for ledger in away.opened), "what was opened is closed"


def closed(ledger: Any) -> bool:
    try:
        ledger.identity() if hasattr(ledger, "identity") else ledger.publish("x", b"")
    except pares.ClosedError:
        return True
    return False


@pytest.mark.parametrize("slow", [False, True], ids=["refused", "hanging"])
def test_it_can_be_closed_while_its_ledger_is_away(crew: Crew, away: Away, slow: bool) -> None:
    """Also while the client hangs in its attempt; what that opens in the end is closed."""
    if slow:
        away.slow.clear()
        away.gone = False
    me = member(crew)
    until(lambda: away.attempts, "it tries")
    waiting: list[object] = []
    waits = threading.Thread(target=lambda: waiting.append(me.wait("A")), daemon=True)
    waits.start()
    events = me.events()
    me.close()
    assert me.state == "closed"
    waits.join(PATIENCE)
    assert waiting == [None]
    assert list(events) == []
    assert not me.health().ok
    with pytest.raises(pares.ClosedError):
        me.drain()
    away.slow.set()
    if slow:
        until(lambda: away.opened and all(map(closed, away.opened)), "what came too late is closed")


def test_what_needs_a_ledger_says_that_there_is_none(crew: Crew, away: Away) -> None:
    me = member(crew)
    until(lambda: away.attempts, "it tries")
    for call in (lambda: me.hand_over("A"), lambda: me.pause(seconds=1), lambda: me.remove_role("A")):
        with pytest.raises(pares.LedgerUnavailable, match="no ledger yet"):
            call()


def test_what_was_asked_meanwhile_is_done(crew: Crew, away: Away) -> None:
    me = member(crew, roles=["A"])
    until(lambda: away.attempts, "it tries")
    done: list[object] = []
    adding = threading.Thread(target=lambda: done.append(me.add_role("B")), daemon=True)
    adding.start()
    time.sleep(0.1)
    assert not done
    away.gone = False
    adding.join(PATIENCE)
    assert done == [None]
    assert "B" in me.roles()


@pytest.mark.parametrize("kind", [pares.ConfigError, pares.CapabilityError, ZeroDivisionError])
def test_a_ledger_that_can_never_work_fails_the_member(crew: Crew, away: Away, kind: type[Exception]) -> None:
    away.error = kind("it will not do, by the test")
    me = member(crew)
    expected = pares.ParesError if kind is ZeroDivisionError else kind
    with pytest.raises(expected, match="it will not do"):
        me.wait("A", PATIENCE)
    assert me.state == "failed"
    assert "it will not do" in me.health().why


def test_a_check_of_readiness_is_asked_when_there_is_a_ledger(crew: Crew, away: Away) -> None:
    ready = threading.Event()
    me = member(crew, ready=ready.is_set)
    until(lambda: away.attempts, "it tries")
    away.gone = False
    until(lambda: me.state == "live", "it is in its group")
    assert me.wait("A", 0.2) is None
    ready.set()
    assert me.wait("A", PATIENCE)


def test_a_forked_child_has_no_such_member(crew: Crew, away: Away) -> None:
    me = member(crew)
    until(lambda: away.attempts, "it tries")
    assert in_child(lambda: me.wait("A", 1)).startswith("ForkedError")
    away.gone = False
    assert me.wait("A", PATIENCE)


def test_asyncio(memory: str, away: Away) -> None:
    async def main() -> None:
        async with aio.Member(memory, group="g", roles="A", connect="background") as me:
            assert me.state == "joining"
            waiting = asyncio.ensure_future(me.wait("A"))
            await asyncio.sleep(0.1)
            assert not waiting.done()
            away.gone = False
            assert await asyncio.wait_for(waiting, PATIENCE)
        away.gone = True
        async with aio.Member(memory, group="g", roles="A", connect="background") as me:
            assert await me.wait("A", 0.05) is None
        assert me.state == "closed"

    asyncio.run(main())


def test_now_is_the_default_and_other_words_are_refused(crew: Crew, away: Away) -> None:
    with pytest.raises(pares.LedgerUnavailable):
        crew.member()
    with pytest.raises(pares.ConfigError, match="connect is 'later'"):
        crew.member(connect="later")
