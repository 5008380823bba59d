"""Settings from the environment: what is read, what wins, and what is said of a value that can't be."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from runtime_tools import PATIENCE

import pares
from pares.core.errors import CapabilityError, ConfigError
from pares.runtime.config.environment import VARIABLES, Environment, variable_of

ALL = {
    "PARES_LEDGER": "memory://unused",
    "PARES_GROUP": "pricing",
    "PARES_ROLES": "AAPL, MSFT",
    "PARES_SEATS": "2",
    "PARES_NAME": "east-1",
    "PARES_HOST": "h",
    "PARES_ZONE": "z",
    "PARES_LABELS": "tier=gold, rack=7",
    "PARES_RANK": "3",
    "PARES_WEIGHT": "1.5",
    "PARES_ELIGIBLE": "*",
    "PARES_SESSION": "2",
    "PARES_OVERLAP": "0.5",
    "PARES_PROTOCOL": "nele",
    "PARES_BARRIER_TIMEOUT": "9",
    "PARES_SETTLE": "0.25",
    "PARES_DRIFT": "0.05",
    "PARES_LOCK_FOLDER": "locks",
    "PARES_WITNESS": "yes",
    "PARES_CONNECT": "background",
}


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("PARES_")]:
        monkeypatch.delenv(name)


def says(monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(f"PARES_{name}", value)


def test_every_variable_is_read() -> None:
    found = Environment(None, {}, ALL)
    assert found.ledger == "memory://unused"
    assert found.settings == {
        "group": "pricing",
        "roles": ["AAPL", "MSFT"],
        "seats": 2,
        "name": "east-1",
        "host": "h",
        "zone": "z",
        "labels": {"tier": "gold", "rack": "7"},
        "rank": 3,
        "weight": 1.5,
        "eligible": "*",
        "session": 2.0,
        "overlap": 0.5,
        "protocol": "nele",
        "barrier_timeout": 9.0,
        "settle": 0.25,
        "drift": 0.05,
        "lock_folder": "locks",
        "witness": True,
        "connect": "background",
    }
    assert ALL.keys() == {"PARES_LEDGER", *map(variable_of, VARIABLES)}


def test_arguments_win() -> None:
    found = Environment("memory://mine", {"group": "mine", "session": 5.0, "zone": None}, ALL)
    assert found.ledger == "memory://mine"
    assert (found.settings["group"], found.settings["session"], found.settings["zone"]) == ("mine", 5.0, None)
    assert found.settings["roles"] == ["AAPL", "MSFT"], "nobody said otherwise"


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("fast-neli", "fast-neli"),
        ("neli:T=2,clock_error=0.1", pares.Neli(T=2.0, clock_error=0.1)),
        ("fast-neli: heartbeat_timeout=2", pares.FastNeli(heartbeat_timeout=2.0)),
        (
            "allcall:lease=3,heartbeat=0.5,skew=0.1,order=rank",
            pares.AllCall(lease=3, heartbeat=0.5, skew=0.1, order="rank"),
        ),
    ],
)
def test_a_protocol_may_bring_its_settings(text: str, own: object) -> None:
    assert Environment("memory://x", {"group": "g"}, {"PARES_PROTOCOL": text}).settings["protocol"] == own


BAD: dict[str, tuple[dict[str, str], type[Exception], str]] = {
    "no number": ({"SESSION": "soon"}, ConfigError, r"PARES_SESSION is 'soon': give it seconds, such as 1\.5"),
    "not a number": ({"SESSION": "nan"}, ConfigError, "PARES_SESSION is 'nan'"),
    "out of range": ({"SESSION": "900"}, ConfigError, r"session is 900\.0: .*environment: PARES_SESSION='900'\)"),
    "connect": ({"CONNECT": "later"}, ConfigError, "PARES_CONNECT is 'later': give it now or background"),
    "not whole": ({"RANK": "1.5"}, ConfigError, "PARES_RANK is '1.5': give it a whole number"),
    "empty": ({"ZONE": ""}, ConfigError, "PARES_ZONE is set, but empty"),
    "empty name": ({"ROLES": "a,,b"}, ConfigError, "PARES_ROLES is 'a,,b': give it names with commas"),
    "labels": ({"LABELS": "gold"}, ConfigError, "PARES_LABELS is 'gold': give it labels such as"),
    "protocol": ({"PROTOCOL": "nely"}, ConfigError, "PARES_PROTOCOL is 'nely': protocol 'nely' is not in this version"),
    "setting": (
        {"PROTOCOL": "neli:t=2"},
        ConfigError,
        "PARES_PROTOCOL is 'neli:t=2': 't' is no setting of neli, which has T",
    ),
    "value": ({"PROTOCOL": "neli:T=0"}, ConfigError, "PARES_PROTOCOL is 'neli:T=0': T is 0"),
    "none": ({"PROTOCOL": "claims:T=2"}, ConfigError, "protocol 'claims' has no settings of its own"),
    "sum": ({"PROTOCOL": "neli:T=30"}, ConfigError, r"T is 30 s.*environment: PARES_PROTOCOL='neli:T=30'\)"),
    "not for it": (
        {"PROTOCOL": "neli", "ELIGIBLE": "*"},
        CapabilityError,
        r"eligible is given.*environment: PARES_ELIGIBLE='\*', PARES_PROTOCOL='neli'\)",
    ),
    "no ledger's": ({"LEDGER": ""}, ConfigError, "PARES_LEDGER is set, but empty"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_value_that_cannot_be_is_told_by_its_variable(
    monkeypatch: pytest.MonkeyPatch, memory: str, what: str
) -> None:
    variables, error, words = BAD[what]
    says(monkeypatch, **variables)
    ledger = None if "LEDGER" in variables else memory
    with pytest.raises(error, match=words):
        pares.Member.from_env(ledger, group="g")


def test_neither_says_which_ledger_or_which_group(monkeypatch: pytest.MonkeyPatch, memory: str) -> None:
    with pytest.raises(
        ConfigError,
        match=r"no ledger: set PARES_LEDGER to its URL, such as file:///srv/work, .*a member has no default",
    ):
        pares.Member.from_env(group="g")
    says(monkeypatch, LEDGER=memory)
    with pytest.raises(ConfigError, match="no group: set PARES_GROUP"):
        pares.Member.from_env()


def test_an_error_that_is_the_programs_own_names_no_variable(memory: str) -> None:
    with pytest.raises(ConfigError) as refused:
        pares.Member.from_env(memory, group="g", session=900)
    assert "environment" not in str(refused.value)


def test_a_member_by_the_environment_alone(monkeypatch: pytest.MonkeyPatch, memory: str) -> None:
    says(monkeypatch, LEDGER=memory, GROUP="g", ROLES="x,y", SESSION="3", NAME="n")
    with pares.Member.from_env() as me:
        assert (me.group, me.name, me.session) == ("g", "n", 3.0)
        assert me.wait("x", PATIENCE)
        assert me.wait("y", PATIENCE)


def test_an_asyncio_member_by_the_environment(monkeypatch: pytest.MonkeyPatch, memory: str) -> None:
    says(monkeypatch, LEDGER=memory, GROUP="g", ROLES="x", SESSION="3")

    async def play() -> Any:
        made = pares.aio.Member.from_env(name="n")
        monkeypatch.setenv("PARES_SESSION", "4")  # too late
        async with made as me:
            assert await me.wait("x", PATIENCE)
            return me.session, me.name

    assert asyncio.run(play()) == (3.0, "n")
    says(monkeypatch, SESSION="900")
    with pytest.raises(ConfigError, match=r"environment: PARES_SESSION='900'\)"):
        asyncio.run(play())


def test_the_guide_lists_every_variable() -> None:
    page = (Path(__file__).parents[3] / "docs" / "guide.md").read_text()
    for keyword in VARIABLES:
        assert f"`{variable_of(keyword)}`" in page, variable_of(keyword)
