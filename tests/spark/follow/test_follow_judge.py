"""Following a log tells in portions what a whole audit finds: no more, no less, each once."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import msgspec
import pytest
from histories import ACTS, broken, facts_of
from scribe import Scribe, Truth
from tests.spark.facts.test_calls import STORIES, Bus, simulated
from tests.spark.follow.cuts import again, folded, follow, follow_parts, named, portions, told, whole, whole_row
from tests.spark.follow.tenures import induced

from pares.spark.facts.claims import History, history
from pares.spark.follow import groups, seats
from pares.spark.follow.judge import Alarm, Judge
from pares.spark.rules.base import Allowed
from pares.spark.rules.registry import RULES

pytestmark = pytest.mark.timeless
SEEDS = range(120)
FINAL = {"second_opinion"}
"""Decided by a record: told once, and not found again."""


@pytest.mark.parametrize("bent", [False, True], ids=["as folded", "as no fold says"])
def test_what_is_told_in_portions_is_what_a_whole_audit_finds(bent: bool) -> None:
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        log, dice = broken(seed), random.Random(seed)
        facts = facts_of(seed) if bent else history(log.group, log.entries)
        judge, alarms = follow(portions(facts, log.entries, log.group, dice), log.group)
        expected = whole(log.group, facts)
        assert told(alarms) == Counter(map(named, expected)), f"seed {seed}"
        _each_once(alarms)
        now = {whole_row(msgspec.to_builtins(alarm)) for alarm in again(judge)}
        assert {whole_row(row) for row in expected if row["rule"] not in FINAL} == now, f"seed {seed}"
        seen.update(row["rule"] for row in expected)
    rare = {"prolonged", "worlds_differ"} | (set() if bent else {"two_holders", "second_opinion", "token_fell"})
    assert seen.keys() >= {rule.name for rule in RULES} - rare


def test_every_rule_finds_the_same_by_the_facts_that_it_has_declared() -> None:
    """What a rule is not to be told of, it does not miss."""
    for seed in range(40):
        log = broken(seed)
        facts = history(log.group, log.entries)
        expected = whole(log.group, facts)
        for rule in RULES:
            kinds = rule.reach.facts | {"first", "last"}
            some = [fact for fact in facts if fact.kind in kinds]
            found = [row for row in whole(log.group, some) if row["rule"] == rule.name]
            assert set(map(whole_row, found)) == {whole_row(row) for row in expected if row["rule"] == rule.name}, (
                f"{rule.name}, seed {seed}"
            )


@pytest.mark.parametrize("bus_", [*STORIES, 0, 1, -1, -2], ids=str)
def test_calls_on_a_bus(bus_: Any) -> None:
    if isinstance(bus_, int):
        seed, group = abs(bus_), f"s{abs(bus_)}"
        entries = simulated(seed, ("split",) if bus_ < 0 else ())
    else:
        bus, group = Bus(bus_.__name__), bus_.__name__
        bus_(bus)
        entries = bus.entries
    facts, parts = folded({0: entries}, group, bus=True, dice=random.Random(1))
    judge, alarms = follow_parts(parts, group, allowed=Allowed())
    expected = whole(group, facts, Allowed())
    assert told(alarms) == Counter(map(named, expected))
    assert {whole_row(row) for row in expected if row["rule"] != "prolonged"} == {
        whole_row(msgspec.to_builtins(alarm)) for alarm in again(judge)
    }
    _each_once(alarms)


def test_tenures_in_several_partitions() -> None:
    seen: Counter[str] = Counter()
    for seed in range(40):
        facts, parts = folded(induced(seed), "g", dice=random.Random(seed))
        judge, alarms = follow_parts(parts, "g")
        expected = whole("g", facts)
        assert told(alarms) == Counter(map(named, expected)), f"seed {seed}"
        now = {whole_row(msgspec.to_builtins(alarm)) for alarm in again(judge)}
        assert {whole_row(row) for row in expected} == now, f"seed {seed}"
        _each_once(alarms)
        seen.update(row["rule"] for row in expected)
    assert seen.keys() >= {"overlap", "late"}


LATE = {"step", "late stop", "ghost", "phantom", "stranger", "unready", "early", "again"}
PUNCTUAL = [act for act in ACTS if act not in LATE]
"""Acts of which no word is about a term that ended before the window."""


def test_what_is_kept_is_bounded_and_nothing_certain_is_missed_or_invented(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a window of a few seconds in histories of minutes. What differs are beliefs of which nobody says when they began:
    they may have begun with the log, and what ended before the window is not held against them."""
    monkeypatch.setattr(groups, "SWEEP_MS", 500)
    monkeypatch.setattr(seats, "ENDED", 12)
    missed, invented, found = Counter[str](), Counter[str](), 0
    for seed in range(10):
        log = broken(seed, acts=PUNCTUAL, length=200)
        facts, parts = folded({0: log.entries}, log.group, dice=random.Random(seed))
        judge, alarms = follow_parts(parts, log.group, window_ms=4000)
        expected, got = Counter(map(named, whole(log.group, facts))), told(alarms)
        missed.update(f"{row[0]} {row[1]}" for row in expected - got)
        invented.update(f"{row[0]} {row[1]}" for row in got - expected)
        found += got.total()
        assert judge.kept()["terms"] < len({fact.token for fact in facts if fact.token is not None})
    assert set(missed) <= {"overlap possible"}, missed
    assert set(invented) <= {"late possible"}, invented
    assert found > 20 * (missed + invented).total(), (missed, invented, found)


def test_a_seat_that_changes_hands_again_and_again_keeps_what_its_window_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seats, "ENDED", 8)
    monkeypatch.setattr(groups, "SWEEP_MS", 100)
    log = Scribe()
    log.role("r")
    members = [log.join(f"m{number}") for number in range(3)]
    fold, judge, low, most = History("g"), Judge(Allowed()), 0, 0
    for turn in range(400):
        for member in members:
            log.beat(member)
        term = log.claim(members[turn % 3], "r")
        log.lead(term)
        log.sleep(50)
        log.stop(term, "asked")
        log.release(term, "asked", "handover")
        judge.feed([("g", fold.feed(log.entries[low:]))])
        low = len(log.entries)
        judge.at_end(0, [("g", fold.finish())])
        assert judge.alarms(float(turn)) == []
        most = max(most, judge.kept()["terms"])
    assert most <= 12
    log.lead(Truth("r", log.truths[0].token, members[0]))
    judge.feed([("g", fold.feed(log.entries[low:]))])
    judge.at_end(0, [("g", fold.finish())])
    assert judge.alarms(1e6) == []
    assert judge.kept()["unjudged"] == 1, "a word about a term that is no longer kept is counted"


def test_beliefs_that_the_log_did_not_give_are_let_go_of_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member leads on and on, and says again and again that it leads by another token, too."""
    monkeypatch.setattr(seats, "ENDED", 8)
    monkeypatch.setattr(groups, "SWEEP_MS", 100)
    log = Scribe()
    log.role("r")
    member = log.join("m")
    log.lead(log.claim(member, "r"))
    fold, judge, low, alarms = History("g"), Judge(Allowed()), 0, list[Alarm]()
    for turn in range(100):
        stray = Truth("r", 10**9 + turn, member)
        log.lead(stray)
        log.sleep(20)
        log.stop(stray)
        log.sleep(200)
        log.beat(member)
        judge.feed([("g", fold.feed(log.entries[low:]))])
        low = len(log.entries)
        judge.at_end(0, [("g", fold.finish())])
        alarms += judge.alarms(float(turn))
        assert judge.kept()["terms"] <= 12
    assert [(alarm.rule, alarm.what) for alarm in alarms] == [("no_such_term", "raised")] * 100


def _each_once(alarms: list[Alarm]) -> None:
    verdicts: dict[str, str | None] = {}
    for alarm in alarms:
        assert alarm.before == verdicts.get(alarm.id), "what was told last is said with each change"
        assert alarm.verdict != alarm.before, "nothing is told twice"
        verdicts[alarm.id] = None if alarm.verdict == "none" else alarm.verdict
