"""What is wrong with an ALLCALL group, in sentences: as far as it can be heard, for there is no log to look through."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pares.view.allcall import heard_state
from pares.view.checkup import GOOD, NOTE, PROBLEM, WARNING, Finding

if TYPE_CHECKING:
    from pares.runtime.allcall.observer import AllCallObserver

Found = Iterator[tuple[str, str]]


def examine_heard(observer: AllCallObserver, where: str, listened: float) -> tuple[list[Finding], dict[str, Any]]:
    """Findings about what was heard in `listened` seconds, and the state that they are about."""
    state = heard_state(observer, where)
    with observer.lock:
        bad, others = dict(observer.overheard.bad), sorted(observer.overheard.others)
    findings: list[Finding] = []
    for check, look in _CHECKS.items():
        findings += [Finding(level, check, text) for level, text in look(state)]
    findings += [Finding(level, "calls", text) for level, text in _calls(state, bad, others, listened)]
    return findings, state


def _calls(state: dict[str, Any], bad: dict[str, int], others: list[str], listened: float) -> Found:
    count, members = state["messages"], len(state["members"])
    yield GOOD, f"{count} calls and answers of {members} members heard in {listened:g} s"
    for reason, times in sorted(bad.items()):
        yield WARNING, f"{times} messages are no calls, and everybody drops them: {reason}"
    if others:
        yield NOTE, f"other groups speak on the same subject: {', '.join(others[:10])}"


def _members(state: dict[str, Any]) -> Found:
    members: list[dict[str, Any]] = state["members"]
    if not members:
        yield WARNING, "nobody was heard: look whether members run there, and whether messages reach this host"
        return
    names = Counter(member["name"] for member in members)
    for name, times in names.items():
        if times > 1:
            yield PROBLEM, f"{times} live members are called {name!r}: give each process its own name="
    ranks = Counter(member["rank"] for member in members)
    tied = [str(rank) for rank, times in sorted(ranks.items()) if times > 1]
    if tied:
        yield (
            NOTE,
            f"rank {', '.join(tied)} has more than one member: among them the id decides, which a restart changes",
        )
    waiting = [member["name"] for member in members if member["phase"] == "init"]
    if waiting:
        yield NOTE, f"{', '.join(waiting)} can't be elected yet: a member listens for lease + skew after its start"
    if not tied and not waiting and len(names) == len(members):
        yield GOOD, f"{len(members)} members, each with its own name and rank"


def _leaders(state: dict[str, Any]) -> Found:
    roles: list[dict[str, Any]] = state["roles"]
    for role in roles:
        if role["leader"] is None:
            who = (
                f"{len(role['may_lead'])} members may"
                if role["may_lead"]
                else "nobody may: all are starting or stepped down"
            )
            yield WARNING, f"nobody leads {role['role']!r}; {who}. It takes lease + skew after a crash or a cold start"
        elif role["other_claims"]:
            also = ", ".join(claim["leader"] for claim in role["other_claims"])
            yield (
                PROBLEM,
                f"{role['role']!r} has live claims of {role['leader']} and of {also}: messages between them don't pass, or "
                "did not until a moment ago, and both may hold a token. Behind a fence only one of them can write",
            )
    if roles and all(role["leader"] is not None and not role["other_claims"] for role in roles):
        yield GOOD, f"each role has one leader: {', '.join(role['role'] for role in roles[:10])}"


def _agreement(state: dict[str, Any]) -> Found:
    for role in state["disagreement"]:
        told = "; ".join(f"{', '.join(view['says'])} say {view['leader'] or 'nobody'}" for view in role["views"])
        yield WARNING, f"about {role['role']!r} members differ: {told}"
    if state["members"] and not state["disagreement"]:
        yield GOOD, "all members name the same leaders"


def _settings(state: dict[str, Any]) -> Found:
    """All should have the same: a lease is as long as its holder says, but others wait for it by their own skew."""
    members: list[dict[str, Any]] = state["members"]
    orders = {member["order"] for member in members}
    if len(orders) > 1:
        who = "; ".join(f"{order}: {_names(members, 'order', order)}" for order in sorted(orders))
        yield (
            PROBLEM,
            f"members order claims differently, so after a split they don't agree who leads ({who}): give all one order=",
        )
    for what in ("heartbeat", "lease", "skew"):
        values = {member[what] for member in members}
        if len(values) > 1:
            who = "; ".join(f"{value:g} s: {_names(members, what, value)}" for value in sorted(values))
            yield WARNING, f"{what} is not the same for all ({who})"
    if members and not any(
        len({member[what] for member in members}) > 1 for what in ("heartbeat", "lease", "skew", "order")
    ):
        first = members[0]
        yield GOOD, f"heartbeat {first['heartbeat']:g} s, lease {first['lease']:g} s, skew {first['skew']:g} s for all"


def _names(members: list[dict[str, Any]], what: str, value: object) -> str:
    return ", ".join(member["name"] for member in members if member[what] == value)


def _clocks(state: dict[str, Any]) -> Found:
    """By this host's wall clock, and a message's way is in it."""
    fine = True
    for member in state["members"]:
        ahead = member["clock_ahead"]
        if abs(ahead) <= max(member["skew"], 0.5):
            continue
        fine = False
        far = abs(ahead) > member["lease"]
        what = "more than a lease: calls look old at first" if far else "more than skew"
        yield (
            WARNING,
            f"the wall clock of {member['name']} is {ahead:+.1f} s from this host's, {what}; by these clocks claims are "
            "ordered after a split: set it right",
        )
    if state["members"] and fine:
        yield GOOD, "wall clocks are close to this host's"


_CHECKS = {"members": _members, "leaders": _leaders, "agreement": _agreement, "settings": _settings, "clocks": _clocks}
