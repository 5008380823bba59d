"""Settings values of the protocols: what each says about itself, what it refuses, and where the keywords of 0.1 have gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import pytest
from induction_tools import ROLES
from runtime_tools import CALM, PATIENCE, Crew, binding

import pares
from pares.core.errors import ConfigError
from pares.ledger import Capabilities, Log
from pares.runtime.config.protocols import PROTOCOLS, protocol_of
from pares.runtime.neli import settings

BAD: dict[str, tuple[Callable[[], object], str]] = {
    "T no number": (lambda: pares.Neli(T="long"), "T is 'long': give seconds from 0.001 to 120"),  # type: ignore[arg-type]
    "T zero": (lambda: pares.Nele(T=0), "T is 0: give seconds"),
    "clock_error": (lambda: pares.Neli(clock_error=-1), "clock_error is -1: give seconds from 0 to 60"),
    "interval": (lambda: pares.Nele(interval=0), "interval is 0"),
    "heartbeat_timeout": (lambda: pares.FastNeli(heartbeat_timeout=True), "heartbeat_timeout is True"),
    "poll_interval": (lambda: pares.FastNeli(poll_interval=0.0), "poll_interval is 0.0"),
    "lease and beats": (
        lambda: pares.AllCall(lease=2.0, heartbeat=1.0),
        "lease 2 s is less than 3 heartbeats, 3 x 1 s = 3 s",
    ),
    "skew": (lambda: pares.AllCall(lease=2.0, skew=3.0, heartbeat=0.1), r"lease \+ skew = 5 s"),
    "skew below 0": (lambda: pares.AllCall(skew=-1), "skew is -1: give seconds"),
    "lease": (lambda: pares.AllCall(lease="long"), "lease is 'long'"),  # type: ignore[arg-type]
    "heartbeat": (lambda: pares.AllCall(heartbeat=0), "heartbeat is 0"),
    "order": (lambda: pares.AllCall(order="age"), "order is 'age': give 'lease' or 'rank'"),  # type: ignore[arg-type]
    "when_isolated": (lambda: pares.AllCall(when_isolated="panic"), "give 'lead' or 'step_down'"),  # type: ignore[arg-type]
    "silence": (lambda: pares.AllCall(silence=-0.1), "silence is -0.1"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_value_that_cannot_be_is_refused_where_it_is_made(what: str) -> None:
    make, says = BAD[what]
    with pytest.raises(ConfigError, match=says):
        make()


def test_settings_are_values() -> None:
    assert pares.Neli(T=2.0) == pares.Neli(T=2.0) != pares.Neli(T=3.0)
    assert len({pares.Nele(), pares.Nele(), pares.AllCall()}) == 2
    with pytest.raises(AttributeError):
        pares.Neli().T = 3.0  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_name_stands_for_its_settings_with_nothing_set(name: str) -> None:
    found, own = protocol_of(name)
    assert found == name
    assert (own is None) == (name == "claims")
    if own is not None:
        assert protocol_of(own) == (name, own)
        assert own == type(own)()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (5, "protocol is 5: give one of 'claims', 'nele'"),
        (None, "protocol is None"),
        (pares.AllCall, r"protocol is the class AllCall: make one, protocol=pares.AllCall\(\)"),
    ],
)
def test_what_is_no_protocol(memory: str, given: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        pares.Member(memory, group="g", protocol=given)


MOVED = {
    "T": "protocol=pares.Neli(T=7) or protocol=pares.Nele(T=7)",
    "interval": "protocol=pares.Neli(interval=7) or protocol=pares.Nele(interval=7)",
    "clock_error": "protocol=pares.Neli(clock_error=7)",
    "heartbeat_timeout": "protocol=pares.FastNeli(heartbeat_timeout=7)",
    "poll_interval": "protocol=pares.FastNeli(poll_interval=7)",
    "heartbeat": "protocol=pares.AllCall(heartbeat=7)",
    "lease": "protocol=pares.AllCall(lease=7)",
    "skew": "protocol=pares.AllCall(skew=7)",
    "order": "protocol=pares.AllCall(order=7)",
    "when_isolated": "protocol=pares.AllCall(when_isolated=7)",
}


@pytest.mark.parametrize("what", MOVED)
@pytest.mark.parametrize("make", [pares.Member, pares.aio.Member], ids=["Member", "aio.Member"])
def test_a_keyword_of_0_1_names_its_new_place(memory: str, what: str, make: Callable[..., object]) -> None:
    with pytest.raises(ConfigError) as refused:
        make(memory, group="g", roles=["x"], **{what: 7})
    assert str(refused.value) == f"{what}= moved: {MOVED[what]}"


@pytest.mark.parametrize("make", [pares.Member, pares.aio.Member], ids=["Member", "aio.Member"])
def test_a_keyword_that_never_was_is_refused_where_it_is_written(memory: str, make: Callable[..., object]) -> None:
    with pytest.raises(TypeError, match="grup"):
        make(memory, group="g", grup=1)
    with pytest.raises(TypeError, match="group"):
        make(memory)


@dataclass(frozen=True)
class Topic:
    """As much of a ledger as settings are checked against."""

    partitions: int = 1
    kind: str = "kafka"
    retention: float | None = None
    url: str = "kafka://h/t"
    capabilities: ClassVar = Capabilities()

    def broker_time(self) -> bool:
        return True


# In force ------------------------------------------------------------------------------------------------------------


def config(member: pares.Member) -> Any:
    return binding(member).core.config  # type: ignore[attr-defined]  # pyright: ignore


def test_neles_threshold_is_three_sessions_unless_something_else_is_said(crew: Crew) -> None:
    def threshold(name: str, protocol: Any, **more: Any) -> int:
        me = crew.member(name, ROLES, protocol=protocol, session=2.0, **more)
        assert not config(me).exclusive
        return config(me).threshold_ms

    assert threshold("usual", "nele") == 6000
    assert threshold("overlap", "nele", overlap=1.5) == 3500
    assert threshold("said", pares.Nele(T=30.0)) == 30_000
    assert threshold("both", pares.Nele(T=3.5), overlap=1.5) == 3500, "they agree"


def test_neles_threshold_beyond_what_a_record_can_say_is_refused_in_the_users_numbers(crew: Crew) -> None:
    says = r"T is 3 sessions of 41 s each .*, 123 s, and it can be 120 s at the most: use a session of 40 s .*Nele\(T=120\)"
    with pytest.raises(ConfigError, match=says):
        crew.member("usual", ROLES, protocol="nele", session=41.0)
    with pytest.raises(ConfigError, match=r"session \+ overlap = 60 s \+ 61 s, 121 s, .* shorter session or overlap"):
        crew.member("overlap", ROLES, protocol="nele", session=60.0, overlap=61.0)
    assert config(crew.member("said", ROLES, protocol=pares.Nele(T=120), session=60.0)).threshold_ms == 120_000


def test_neles_threshold_is_within_what_a_record_can_say_also_where_brokers_allow_a_long_session() -> None:
    """As Kafka's do, by session.timeout.ms."""
    topic = cast(Log, Topic())
    checked = {
        "group": "g",
        "name": "a",
        "host": "",
        "roles": (),
        "drift": 0.1,
        "barrier_ms": 1000,
        "overlap_ms": 0,
        "seats": 1,
    }
    usual = settings.config(pares.Neli(clock_error=1.0), checked, topic, 300.0)
    assert usual.threshold_ms + usual.error_ms == 120_000
    with pytest.raises(ConfigError, match=r"T is 120 s and clock_error 1 s.*use T=119 or less"):
        settings.config(pares.Neli(T=120, clock_error=1.0), checked, topic, 300.0)
    with pytest.raises(ConfigError, match=r"3 sessions of 300 s each .*: use a session of 40 s at the most$"):
        settings.config(pares.Nele(), checked, topic, 300.0)


def test_neles_own_example_runs(crew: Crew) -> None:
    """A session of 10 s and T of 30 s, as the paper has them."""
    me = crew.member("a", ROLES, protocol=pares.Nele(T=30), session=10)
    assert all(me.wait(role, PATIENCE) for role in ROLES)
    assert me.session == 10.0


def test_the_remedy_for_a_threshold_above_the_session_is_named(memory: str) -> None:
    says = r"T is 30 s .* the session is 10 s.*protocol=pares\.Nele\(T=30\)"
    with pytest.raises(ConfigError, match=says):
        pares.Member(memory, group="g", roles=["x"], protocol=pares.Neli(T=30), session=10)


def test_settings_reach_the_protocol(crew: Crew) -> None:
    fast = config(crew.member("f", ROLES, protocol=pares.FastNeli(heartbeat_timeout=2.0, poll_interval=0.3)))
    assert (fast.threshold_ms, fast.interval_ms, fast.exclusive) == (2000, 300, True)
    neli = config(crew.member("n", ROLES, protocol=pares.Neli(T=2.0, clock_error=0.2, interval=0.25)))
    assert (neli.threshold_ms, neli.error_ms, neli.interval_ms) == (2000, 200, 250)


def test_a_member_of_allcall_listens_for_the_silence_that_was_asked_for(memory: str) -> None:
    """With the usual one, lease + skew, it would take 11 s."""
    times = pares.AllCall(silence=0.3)
    with pares.Member(memory, group="g", roles=["x"], protocol=times) as me:
        assert me.wait("x", 9.0)


def test_an_asyncio_member_takes_settings(memory: str) -> None:
    async def play() -> bool:
        own = pares.AllCall(heartbeat=0.1, lease=CALM, skew=0.1, silence=0)
        async with pares.aio.Member(memory, group="g", roles=["x"], protocol=own) as me:
            return bool(await me.wait("x", PATIENCE))

    assert asyncio.run(play())
