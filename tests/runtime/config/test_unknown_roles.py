"""Waiting for a role that nobody has declared is refused in NELI, too, whose members lead whatever the group has."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from induction_tools import member
from runtime_tools import PATIENCE, Crew, Faulty, until

import pares
from pares.core.errors import ConfigError
from pares.runtime.config.protocols import ProtocolName

SAID = "has no role 'misspelt'; it has: 0; name it in a member's roles=, or add_role\\(\\) it"


@pytest.fixture(params=["fast-neli", "neli", "nele"])
def protocol(request: pytest.FixtureRequest) -> ProtocolName:
    return request.param


def test_a_role_that_nobody_has_declared_is_refused(crew: Crew, protocol: ProtocolName) -> None:
    """Also by whoever asks before the logs were read: then as soon as they are."""
    me = member(crew, "one", protocol, ("0",))
    with pytest.raises(ConfigError, match=SAID):
        next(me.terms("misspelt", timeout=PATIENCE))
    assert me.state == "live"
    with pytest.raises(ConfigError, match=SAID):
        me.wait("misspelt", timeout=PATIENCE)
    assert me.wait("0", PATIENCE), "it goes on"


def test_only_is_refused_too(crew: Crew, protocol: ProtocolName) -> None:
    """Decorated before the logs were read, it is the call that is refused."""
    me = member(crew, "one", protocol, ("0",))
    ran: list[str] = []
    early = None
    with suppress(ConfigError):  # the logs have been read by now
        early = me.only("later")(lambda: ran.append("early"))
    until(lambda: me.roles() and me.state == "live", "the logs have been read, and it is in its group")
    with pytest.raises(ConfigError, match=SAID):
        me.only("misspelt")
    if early is not None:
        with pytest.raises(ConfigError, match="has no role 'later'; it has: 0"):
            early()
    me.add_role("later")
    assert me.wait("later", PATIENCE)
    late = me.only("later")(lambda: ran.append("late"))
    late()
    assert ran == ["late"]
    me.remove_role("later")
    until(lambda: not me.holds("later"), "the term is over")
    assert late() is None, "it may come again"
    assert ran == ["late"]


def test_only_waits_for_a_ledger_that_is_away(faulty: Faulty, protocol: ProtocolName) -> None:
    me = member(Crew(faulty), "one", protocol, ("0",))  # type: ignore[arg-type]
    until(lambda: me.state == "live", "it is in its group")
    faulty.away()
    until(lambda: me.health().unreachable, "the ledger is away")
    assert me.only("later")(lambda: "ran")() is None, "nobody can say that there is none"


def test_only_of_asyncio(crew: Crew, protocol: ProtocolName) -> None:
    async def play() -> None:
        async def work() -> str:
            return "ran"

        async with pares.aio.Member(crew.ledger, group="g", roles=["0"], protocol=protocol) as me:
            early = None
            with suppress(ConfigError):  # the logs have been read by now
                early = me.only("later")(work)
            assert await me.wait("0", timeout=PATIENCE)
            with pytest.raises(ConfigError, match=SAID):
                me.only("misspelt")
            if early is not None:
                with pytest.raises(ConfigError, match="has no role 'later'"):
                    await early()
            assert await me.only("0")(work)() == "ran"

    asyncio.run(play())


def test_the_same_for_asyncio(crew: Crew, protocol: ProtocolName, caplog: pytest.LogCaptureFixture) -> None:
    async def play() -> None:
        ledger, runs = crew.ledger, asyncio.Event()

        async def work() -> None:
            runs.set()
            await asyncio.sleep(0.01)

        async with pares.aio.Member(ledger, group="g", roles=["0"], protocol=protocol) as me:
            early = None
            with suppress(ConfigError):  # the logs have been read by now
                early = me.background(work, "later")
            with pytest.raises(ConfigError, match=SAID):
                await me.wait("misspelt", timeout=PATIENCE)
            with pytest.raises(ConfigError, match=SAID):
                async for _ in me.terms("misspelt", timeout=PATIENCE):
                    pass
            if early is None:
                with pytest.raises(ConfigError, match="no role 'later'"):
                    me.background(work, "later")
            await me.add_role("later")
            task = early or me.background(work, "later")
            await asyncio.wait_for(runs.wait(), PATIENCE)
            task.cancel()

    asyncio.run(play())


def test_a_role_that_another_has_just_added_is_known(crew: Crew, protocol: ProtocolName) -> None:
    """What stands in the log by now is read before anybody is refused."""
    one, two = (member(crew, name, protocol, ("0",)) for name in ("one", "two"))
    until(lambda: one.state == two.state == "live", "both are in the group")
    for number in range(5):
        role = f"new-{number}"
        one.add_role(role)
        assert two.wait(role, 0.0) is None or two.holds(role)


def test_a_role_that_is_removed_is_waited_for_as_it_may_come_again(crew: Crew, protocol: ProtocolName) -> None:
    me = member(crew, "one", protocol, ("0",))
    assert me.wait("0", PATIENCE)
    me.remove_role("0")
    until(lambda: not me.holds("0"), "the term is over")
    assert me.roles() == {}
    assert me.wait("0", 0.1) is None, "it is not refused"
    me.add_role("0")
    assert me.wait("0", PATIENCE)


def test_while_the_ledger_is_away_nobody_can_say_that_there_is_none(faulty: Faulty, protocol: ProtocolName) -> None:
    crew = Crew(faulty)  # type: ignore[arg-type]
    me = member(crew, "one", protocol, ("0",))
    until(lambda: me.state == "live", "it is in its group")
    faulty.away()
    until(lambda: me.health().unreachable, "the ledger is away")
    assert me.wait("later", 0.1) is None
    faulty.back()
    until(lambda: me.health().unreachable is None, "the ledger is back")
    me.add_role("later")
    assert me.wait("later", PATIENCE)


def test_a_misspelt_role_of_claims_is_refused_as_before(crew: Crew) -> None:
    me = crew.member("one", ["0"])
    with pytest.raises(ConfigError, match="this member never leads 'misspelt'"):
        me.wait("misspelt")
