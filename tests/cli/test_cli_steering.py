"""The commands that steer, each against real members on a real ledger."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from cli_log import pares

from pares.runtime import Member

HANG_SECONDS = 60.0
SESSION = 20.0
"""Seconds: so long that nobody's lease runs out by itself, on however busy a machine. Nothing here waits for one."""


def until(condition: Callable[[], bool], what: str) -> None:
    """Waits for something that must come; the limit only ends what hangs."""
    deadline = time.monotonic() + HANG_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {HANG_SECONDS} s: {what}"
        time.sleep(0.01)


class Group:
    """Members of one process, by name."""

    def __init__(self, url: str, stack: ExitStack) -> None:
        self.url, self.stack = url, stack
        self.members: dict[str, Member] = {}

    def start(self, name: str, roles: tuple[str, ...] = ("feed", "book")) -> Member:
        member = Member(self.url, group="g", name=name, roles=roles, session=SESSION, settle=60.0, eligible="*")
        self.members[name] = self.stack.enter_context(member)
        return member

    def leader(self, role: str) -> str | None:
        return next((name for name, member in self.members.items() if member.holds(role)), None)

    def run(self, *arguments: str):
        return pares(*arguments, "--ledger", self.url, "--group", "g")


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    """ann and bob; `settle` is so long that nothing moves by itself."""
    with ExitStack() as stack:
        group = Group(f"sqlite:///{tmp_path}/work.db", stack)
        group.start("ann")
        until(lambda: group.leader("feed") == group.leader("book") == "ann", "ann leads")
        group.start("bob")
        until(lambda: len(group.members["ann"].members()) == 2, "bob is there")
        yield group


def health(group: Group) -> dict[str, str]:
    return {m["name"]: m["health"] for m in group.run("watch", "--json").json["members"]}


def test_handover_to_a_named_member(group: Group) -> None:
    before = group.members["ann"].term("feed")
    assert before is not None
    ran = group.run("handover", "feed", "--to", "bob", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["leader"] == "bob"
    assert ran.json["token"] > before.token
    until(lambda: group.leader("feed") == "bob", "bob leads")
    assert not before
    assert group.leader("book") == "ann", "only what was asked for has moved"
    again = group.run("handover", "feed", "--to", "bob")
    assert again.code == 0
    assert "already" in again.out
    history = group.run("history", "--role", "feed", "--json").json["moves"]
    assert [(m["from"], m["to"], m["cause"]) for m in history][-1] == ("ann", "bob", "handover")


def test_handover_to_anybody_else(group: Group) -> None:
    ran = group.run("handover", "book")
    assert ran.code == 0, ran.err
    assert "ann → bob" in ran.out


def test_handover_of_what_is_not_there(group: Group) -> None:
    for arguments, word in (
        (["handover", "nope"], "no role 'nope'"),
        (["handover", "feed", "--to", "zoe"], "no member 'zoe'"),
        (["drain", "zoe"], "no member 'zoe'"),
        (["pause", "--role", "nope"], "no role 'nope'"),
        (["roles", "remove", "nope"], "no role 'nope'"),
        (["roles", "add", "x" * 201], "201 characters"),
        (["roles", "add", "x", "--spread", "moon"], "--spread"),
    ):
        ran = group.run(*arguments)
        assert ran.code == 2, arguments
        assert word in ran.one_line
    assert group.leader("feed") == "ann"


def test_handover_to_who_is_not_eligible(group: Group, tmp_path: Path) -> None:
    other = Member(group.url, group="g", name="cyd", roles=(), eligible=["book"], session=SESSION, settle=60.0)
    group.stack.enter_context(other)
    until(lambda: len(group.members["ann"].members()) == 3, "cyd is there")
    ran = group.run("handover", "feed", "--to", "cyd")
    assert ran.code == 2
    assert "not eligible" in ran.one_line


def test_drain_hands_everything_over_and_takes_nothing_more(group: Group) -> None:
    ran = group.run("drain", "ann", "--json")
    assert ran.code == 0, ran.err
    assert (ran.json["handed_over"], ran.json["left"]) == (2, 0)
    until(lambda: group.leader("feed") == group.leader("book") == "bob", "bob leads both")
    refused = group.run("handover", "feed", "--to", "ann")
    assert refused.code == 1
    assert "draining" in refused.one_line
    until(lambda: health(group)["ann"] == "draining", "watch shows that ann drains")
    assert health(group)["bob"] == "live"


def test_pause_and_resume(group: Group) -> None:
    ran = group.run("pause", "--seconds", "600", "--role", "feed")
    assert ran.code == 0, ran.err
    until(lambda: group.leader("feed") is None, "nobody leads feed")
    assert group.leader("book") == "ann"
    nobody = group.run("handover", "feed")
    assert nobody.code == 1
    assert "nobody leads" in nobody.one_line
    whole = group.run("resume")
    assert whole.code == 1
    assert "--role" in whole.one_line
    assert group.run("resume", "--role", "feed").code == 0
    until(lambda: group.leader("feed") is not None, "somebody leads feed again")
    assert group.run("pause").code == 0
    until(lambda: group.leader("book") is None, "nobody leads")
    assert group.run("resume", "--json").json["done"] is True
    assert group.run("resume").code == 1


def test_roles_come_and_go(group: Group) -> None:
    ran = group.run("roles", "add", "news", "--seats", "2")
    assert ran.code == 0, ran.err
    until(lambda: all(member.holds("news") for member in group.members.values()), "both hold a seat of news")
    rows = [row for row in group.run("roles", "--json").json["roles"] if row["role"] == "news"]
    assert {row["leader"] for row in rows} == {"ann", "bob"}
    assert group.run("roles", "remove", "news").code == 0
    assert "news" not in {row["role"] for row in group.run("roles", "--json").json["roles"]}
    assert not any(member.holds("news") for member in group.members.values())


def test_what_is_not_done_in_time_fails_and_says_so(tmp_path: Path) -> None:
    """A barrier that does not return holds the handover back: the command must not report it as done."""
    url = f"sqlite:///{tmp_path}/work.db"
    released = False

    def barrier(event: object) -> None:
        while type(event).__name__ == "Revoked" and not released:
            time.sleep(0.01)

    with ExitStack() as stack:
        ann = stack.enter_context(
            Member(url, group="g", name="ann", roles="feed", session=SESSION, settle=60.0, barrier=barrier)
        )
        until(lambda: ann.holds("feed"), "ann leads")
        bob = stack.enter_context(Member(url, group="g", name="bob", roles="feed", session=SESSION, settle=60.0))
        until(lambda: len(ann.members()) == 2, "bob is there")
        ran = pares("handover", "feed", "--ledger", url, "--group", "g", "--timeout", "0.3")
        assert ran.code == 1
        assert "has not moved" in ran.one_line
        asked = pares("handover", "feed", "--ledger", url, "--group", "g", "--timeout", "0")
        assert asked.code == 0
        assert "asked" in asked.out
        released = True
        until(lambda: bob.holds("feed"), "bob leads once the barrier has returned")
