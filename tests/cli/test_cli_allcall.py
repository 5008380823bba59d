"""`watch` and `doctor` for groups that run ALLCALL: they listen, say what they heard, and what is wrong with it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cli_log import pares as run

import pares
from pares.core.allcall.messages import Call, Claim, encode
from pares.ledger import open_bus

HANG = 60.0
TIMES: dict[str, Any] = {"heartbeat": 0.6, "lease": 3.0, "skew": 0.3}
"""A member that was not heard for two and a half beats is not there; so long, a busy machine may keep a process waiting."""
LISTEN = 1.6
"""Seconds: two beats, and what it takes to be heard."""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/work.db"


@dataclass
class Group:
    """Two members, of which the first leads "x"."""

    url: str
    members: list[pares.Member]


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    """Of one group for all tests: these only listen."""
    url = f"sqlite:///{tmp_path_factory.mktemp('group')}/work.db"
    made = [
        pares.Member(url, group="g", roles=["x"], name=name, rank=rank, protocol=pares.AllCall(**TIMES), host="h")
        for rank, name in enumerate("ab")
    ]
    try:
        assert made[0].wait("x", HANG)
        end = time.monotonic() + HANG
        while not all(_knows(member, made) for member in made):
            assert time.monotonic() < end, "not all know each other, and who leads"
            time.sleep(0.01)
        yield Group(url, made)
    finally:
        for member in made:
            member.close(timeout=5)


def _knows(member: pares.Member, everybody: list[pares.Member]) -> bool:
    holder = member.leader("x")
    return holder is not None and holder.name == "a" and len(member.members()) == len(everybody)


def listen(command: str, url: str, *more: str, seconds: float = LISTEN) -> Any:
    return run(command, "--ledger", url, "--group", "g", "--protocol", "allcall", "--listen", str(seconds), *more)


def test_watch_tells_members_ranks_leases_and_views(group: Group) -> None:
    ran = listen("watch", group.url, "--json")
    assert ran.code == 0, ran.err
    now = ran.json
    (role,) = now["roles"]
    term = group.members[0].term("x")
    assert term is not None
    assert (role["leader"], role["member"], role["rank"], role["token"]) == ("a", group.members[0].id, 0, term.token)
    assert 0 < role["lease_left"] <= 3.0
    assert role["agreed"] is True
    assert role["other_claims"] == []
    assert sorted(role["may_lead"]) == sorted(member.id for member in group.members)
    assert [(m["name"], m["rank"], m["phase"], m["views"], m["leads"], m["host"]) for m in now["members"]] == [
        ("a", 0, "ping", {"x": "a"}, ["x"], "h"),
        ("b", 1, "ping", {"x": "a"}, [], "h"),
    ]
    assert now["disagreement"] == []
    shown = listen("watch", group.url, "--once")
    assert shown.code == 0
    assert f"group g on {group.url}, ALLCALL" in shown.out
    assert "b~" in shown.out


def call(member: str, rank: int, claims: list[Claim], n: int = 1, **more: Any) -> bytes:
    given = {"h": "h", "t": [60_000, 100_000, 1000], "o": "lease", "s": time.time_ns() // 1_000_000} | more
    return encode(
        Call(1, "ping", "g", member, n, given["s"], rank, "ping", ["x"], claims, given["h"], given["t"], given["o"])
    )


@pytest.fixture
def split(url: str) -> Iterator[None]:
    """Two who don't hear each other, as their calls tell; each goes on to say so."""
    bus = open_bus(url)
    over = threading.Event()

    def speak() -> None:
        n = 0
        while not over.wait(0.1):
            n += 1
            a = Claim("x", "a~1", 0, 5, n, 90_000, 1_000 + n)
            b = Claim("x", "b~1", 1, 6, n, 90_000, 2_000 + n)
            bus.publish("g", call("a~1", 0, [a], n))
            bus.publish("g", call("b~1", 1, [b], n, o="rank"))
            bus.publish("g", call("b~2", 1, [b], n, t=[60_000, 200_000, 1000], s=1))
            bus.publish("g", b"no call")

    thread = threading.Thread(target=speak)
    thread.start()
    yield
    over.set()
    thread.join()
    bus.close()


def test_watch_shows_disagreement_while_it_lasts(url: str, split: None) -> None:
    now = listen("watch", url, "--json").json
    (role,) = now["roles"]
    assert role["agreed"] is False
    assert {role["leader"], role["other_claims"][0]["leader"]} == {"a", "b"}
    (split_,) = now["disagreement"]
    assert split_["role"] == "x"
    assert split_["claims"] == 2
    assert {view["leader"]: view["says"] for view in split_["views"]} == {"a": ["a"], "b": ["b", "b"]}
    shown = listen("watch", url, "--once")
    assert "no agreement on x (2 live claims): a: a; b, b: b" in shown.out


def test_doctor_says_what_is_wrong(url: str, split: None) -> None:
    ran = listen("doctor", url, "--json")
    assert ran.code == 1
    told = {(finding["level"], finding["check"]): finding["text"] for finding in ran.json["findings"]}
    assert "2 live members are called 'b'" in told["problem", "members"]
    assert "rank 1 has more than one member" in told["note", "members"]
    assert "live claims" in told["problem", "leaders"]
    assert "members differ: a say a; b, b say b" in told["warning", "agreement"]
    assert "(lease: a, b; rank: b)" in told["problem", "settings"]
    assert "lease is not the same for all" in told["warning", "settings"]
    assert "wall clock of b is" in told["warning", "clocks"]
    assert "are no calls" in told["warning", "calls"]
    assert ran.json["sound"] is False


def test_doctor_finds_a_sound_group_sound(group: Group) -> None:
    ran = listen("doctor", group.url, "--json")
    assert ran.code == 0, ran.out
    assert {finding["level"] for finding in ran.json["findings"]} == {"good"}, ran.json["findings"]
    shown = listen("doctor", group.url)
    assert "each role has one leader: x" in shown.out
    assert "heartbeat 0.6 s, lease 3 s, skew 0.3 s for all" in shown.out


def test_where_nobody_speaks_it_says_so(group: Group) -> None:
    ran = run("watch", "--ledger", group.url, "--group", "h", "--protocol", "allcall", "--listen", "0.3", "--once")
    assert ran.code == 2
    assert "nobody of a group 'h' was heard" in ran.one_line


def test_a_protocol_that_is_none(url: str) -> None:
    pares.open(url).close()
    ran = run("watch", "--ledger", url, "--protocol", "paxos")
    assert ran.code == 2
    assert "--protocol is 'paxos'" in ran.one_line


def test_doctor_hears_a_group_in_its_first_silence(url: str) -> None:
    """Nobody calls for lease + skew: it found nobody, and said that it was used wrongly (exit 2)."""
    times = pares.AllCall(heartbeat=0.3, lease=30.0, skew=1.0)
    with pares.Member(url, group="g", roles=["x"], name="new", rank=0, protocol=times):
        time.sleep(0.5)
        done = run("doctor", "--ledger", url, "--group", "g", "--protocol", "allcall", "--listen", str(LISTEN))
    assert done.code == 0, done.out + done.err
    assert "new can't be elected yet: a member listens for lease + skew after its start" in " ".join(done.out.split())
