"""What a member refuses to be made with, and that a refusal leaves nothing behind."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from runtime_tools import CALM, PATIENCE, Crew, descriptors, until, until_only

import pares
from pares.core.errors import CapabilityError, ConfigError, LedgerUnavailable

NAN, INFINITE = float("nan"), float("inf")

BAD: dict[str, tuple[dict[str, Any], str]] = {
    "session below 20 ms": ({"session": 0.0199}, "session is 0.0199: give seconds from 0.02 to 60"),
    "session of zero": ({"session": 0}, "session is 0"),
    "negative session": ({"session": -1.0}, "session is -1.0"),
    "session above a minute": ({"session": 60.001}, "session is 60.001"),
    "session nan": ({"session": NAN}, "session is nan"),
    "session infinite": ({"session": INFINITE}, "session is inf"),
    "session as text": ({"session": "1"}, "session is '1'"),
    "session as a flag": ({"session": True}, "session is True"),
    "group empty": ({"group": ""}, "group '' .* give 1 to 200 characters"),
    "group too long": ({"group": "g" * 201}, "201 characters"),
    "group with a newline": ({"group": "a\nb"}, "no control characters"),
    "group with a NUL": ({"group": "a\0b"}, "no control characters"),
    "group with a late control character": ({"group": "a\x9fb"}, "no control characters"),
    "group that is no text": ({"group": 5}, "group must be a string, not int"),
    "group with half a character": ({"group": "a\ud800"}, "group"),
    "name empty": ({"name": ""}, "name '' "),
    "name too long": ({"name": "n" * 201}, "201 characters"),
    "name with a tab": ({"name": "a\tb"}, "no control characters"),
    "name with half a character": ({"name": "\udfff"}, "name"),
    "role empty": ({"roles": [""]}, "a role's name ''"),
    "role too long": ({"roles": ["r" * 201]}, "201 characters"),
    "role with a control character": ({"roles": ["A\x1b[31m"]}, "no control characters"),
    "role that is no text": ({"roles": [7]}, "a role's name must be a string"),
    "roles that are no list": ({"roles": 7}, "roles"),
    "roles of lists": ({"roles": [["A"]]}, "role"),
    "eligible for what can't be a role": ({"eligible": ["A", "x" * 300]}, "eligible"),
    "eligible that is no list": ({"eligible": 3.5}, "eligible"),
    "too many eligible roles": ({"eligible": [f"{i:0200d}" for i in range(400)]}, "eligible='\\*' stands for all"),
    "no seats": ({"seats": 0}, "seats is 0: give a whole number from 1 to 100"),
    "too many seats": ({"seats": 101}, "seats is 101"),
    "half a seat": ({"seats": 1.5}, "seats is 1.5"),
    "negative rank": ({"rank": -1}, "rank is -1"),
    "rank beyond all": ({"rank": 2**60}, "rank is"),
    "weight of nothing": ({"weight": 0}, "weight is 0"),
    "weight nan": ({"weight": NAN}, "weight is nan"),
    "weight infinite": ({"weight": INFINITE}, "weight is inf"),
    "overlap negative": ({"overlap": -0.1}, "overlap is -0.1"),
    "barrier_timeout nan": ({"barrier_timeout": NAN}, "barrier_timeout is nan"),
    "settle negative": ({"settle": -1}, "settle is -1"),
    "drift beyond half": ({"drift": 0.51}, "drift is 0.51"),
    "drift negative": ({"drift": -0.1}, "drift is -0.1"),
    "host that is no text": ({"host": 5}, "host|join"),
    "host endless": ({"host": "h" * 2000}, "host"),
    "host with half a character": ({"host": "\ud800"}, "host|join"),
    "zone endless": ({"zone": "z" * 2000}, "zone"),
    "labels that are no mapping": ({"labels": ["a"]}, "labels"),
    "labels of numbers": ({"labels": {"a": 5}}, "label"),
    "labels endless": ({"labels": {str(i): "v" * 900 for i in range(80)}}, "labels"),
    "a barrier that can't be called": ({"barrier": 5}, "barrier"),
    "an on_lost that can't be called": ({"on_lost": "x"}, "on_lost"),
    "a ready that can't be called": ({"ready": True}, "ready"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_settings_are_refused_by_name(memory: str, what: str) -> None:
    settings, message = BAD[what]
    before, threads = descriptors(), threading.enumerate()
    given: dict[str, Any] = {"group": "g"} | settings
    with pytest.raises(ConfigError, match=message):
        pares.Member(memory, **given)
    assert descriptors() == before
    until_only(threads)


GOOD: dict[str, dict[str, Any]] = {
    "names at their limit": {"name": "n" * 200, "roles": ["A", "r" * 200]},
    "names of any kind": {"name": "größe/1 \u4e16\u754c \U0001f600", "roles": ["A", "a/b c", "*", "~", "'\"\\"]},
    "the shortest session": {"session": 0.02},
    "the longest session": {"session": 60},
    "one role as a string": {"roles": "A"},
    "no drift": {"drift": 0},
    "much drift": {"drift": 0.5},
    "labels": {"labels": {"version": "1.2", "ü": ""}},
    "all hosts empty": {"host": "", "zone": ""},
    "a generator of roles": {"roles": (role for role in ("A", "A", "B"))},
}


@pytest.mark.parametrize("what", GOOD)
def test_settings_at_their_limits_work(memory: str, what: str) -> None:
    with pares.Member(memory, **({"group": "g", "roles": ["A"], "session": CALM} | GOOD[what])) as me:
        assert me.wait("A", PATIENCE)


def test_a_group_at_its_limit_works(memory: str) -> None:
    with pares.Member(memory, group="ü" * 200, roles=["A"], session=CALM) as me:
        assert me.wait("A", PATIENCE)


def test_a_join_as_large_as_a_record_works(sqlite: str) -> None:
    """What is checked beforehand is the whole join, its lock included."""
    labels = {f"{i:03d}": "v" * 990 for i in range(64)}
    for size in range(990, 0, -7):
        labels["063"] = "v" * size
        try:
            me = pares.Member(sqlite, group="g", roles=["A"], session=CALM, labels=labels)
            break
        except ConfigError:
            continue
    else:
        raise AssertionError("none of these fits")
    with me:
        assert me.wait("A", PATIENCE)


@pytest.mark.parametrize(
    ("url", "error", "message"),
    [
        ("", ConfigError, "ledger URL"),
        ("group.db", ConfigError, "sqlite:///group.db"),
        ("nosuch://x", ConfigError, "no scheme known here"),
        ("sqlite://host/x.db", ConfigError, "names a host"),
        ("memory://x?colour=red", ConfigError, "unknown option colour"),
        ("memory://x?partition=7", ConfigError, "partition 7"),
        (None, ConfigError, "ledger"),
        (5, ConfigError, "ledger"),
    ],
)
def test_bad_ledgers(url: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        pares.Member(url, group="g", roles=["A"])


def test_a_file_that_is_no_ledger(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are notes, and no ledger " * 1000)
    before = descriptors()
    with pytest.raises(ConfigError, match=r"notes\.txt"):
        pares.Member(f"sqlite:///{path}", group="g", roles=["A"])
    assert descriptors() == before
    assert path.read_text().startswith("these are notes")


def test_a_folder_that_isnt_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises((ConfigError, LedgerUnavailable), match="file"):
        pares.Member(f"sqlite:///{tmp_path}/file/x.db", group="g", roles=["A"])


def test_a_read_only_ledger_is_for_observers(sqlite: str) -> None:
    pares.open(sqlite).close()
    before = descriptors(), threading.active_count()
    with pytest.raises(CapabilityError, match="read-only"):
        pares.Member(f"{sqlite}?readonly=1", group="g", roles=["A"])
    assert (descriptors(), threading.active_count()) == before
    with pares.Observer(f"{sqlite}?readonly=1", group="g") as observer:
        assert observer.leader("A") is None


def test_protocols_of_later_versions(memory: str) -> None:
    for protocol in ("paxos", "raft"):
        with pytest.raises(CapabilityError, match=f"protocol '{protocol}' is not in this version.*claims"):
            pares.Member(memory, group="g", protocol=protocol)  # type: ignore[arg-type]


def test_unknown_roles(crew: Crew) -> None:
    me = crew.leader("a", ["A"])
    assert me.holds("nosuch") is False
    assert me.leader("nosuch") is None
    assert me.leaders("nosuch") == []
    with pytest.raises(ConfigError, match="never leads 'nosuch': it is eligible for 'A'"):
        me.term("nosuch")
    with pytest.raises(ConfigError, match="never leads 'nosuch'"):
        me.wait("nosuch", 1)
    with pytest.raises(ConfigError, match="never leads 'nosuch'"):
        next(me.terms("nosuch"))
    for call in (me.hand_over, me.step_down, me.only):
        with pytest.raises(ConfigError, match="never leads 'nosuch'"):
            call("nosuch")
    with pytest.raises(ConfigError, match="never leads 'nosuch'"):
        me.background(lambda: None, "nosuch")
    with pytest.raises(ConfigError, match="no role 'nosuch'; it has: A"):
        me.remove_role("nosuch")
    with pytest.raises(ConfigError, match="no role 'nosuch'"):
        me.pause("nosuch", seconds=1)
    with pytest.raises(ConfigError, match="no member 'nobody'; it has: a"):
        me.hand_over("A", to="nobody")
    assert me.holds("A")


@pytest.mark.parametrize(
    "call",
    [
        lambda me: me.add_role("x", weight=0),
        lambda me: me.add_role("x", weight=NAN),
        lambda me: me.add_role("x", weight=INFINITE),
        lambda me: me.add_role("x", weight="much"),
        lambda me: me.add_role("x", seats=0),
        lambda me: me.add_role("x", seats=101),
        lambda me: me.add_role("x", spread="galaxy"),
        lambda me: me.add_role("x\n"),
        lambda me: me.add_role("\ud800"),
        lambda me: me.pause(seconds=0),
        lambda me: me.pause(seconds=NAN),
        lambda me: me.pause(seconds=8 * 24 * 3600),
        lambda me: me.mark(me.term("A"), -1),
        lambda me: me.mark(me.term("A"), 2**53),
    ],
)
def test_bad_requests_hurt_nobody_but_who_makes_them(crew: Crew, call: Any) -> None:
    """A value that no record can carry is the caller's error. The member, and the terms it holds, know nothing of it."""
    me = crew.leader("a")
    crew.standby("b", settle=3600)
    term = me.term("A")
    with pytest.raises(ConfigError):
        call(me)
    me.add_role("after")
    until(lambda: "after" in me.roles(), "it goes on")
    assert me.state == "live"
    assert term


@pytest.mark.parametrize("why", ["x" * 5000, "half a character: \ud800", "a\nb\0c", "größe \U0001f600" * 300])
def test_any_reason_will_do(crew: Crew, why: str) -> None:
    """What can't be written down of it is left out."""
    me, other = crew.leader("a"), crew.standby("b")
    me.hand_over("A", to="b", why=why)
    assert other.wait("A", PATIENCE)
    assert me.state == "live"
