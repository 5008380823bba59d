"""The fold as rows: the same whatever portions it is fed in, and from wherever it may begin."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from itertools import repeat

import pytest
from scribe import BASE, Scribe, Truth, story

from pares.spark.facts.base import Fact, arrow_schema, batches
from pares.spark.facts.claims import KEPT_PAYLOAD, History, history
from pares.spark.facts.folding import Partition


def _portions(group: str, log: Scribe, dice: random.Random, start: int = 0) -> list[Fact]:
    entries = [entry for entry in log.entries if entry[0] >= start]
    folding, facts, at = History(group, start), list[Fact](), 0
    while at < len(entries):
        size = dice.choice([1, 2, 7, 100])
        facts += folding.feed(entries[at : at + size])
        at += size
    return [*facts, *folding.finish()]


def _in_order(facts: list[Fact]) -> list[Fact]:
    """Bad records are told apart from the rest, so only their place among them depends on the portions."""
    return [f for f in facts if f.kind == "bad"] + [f for f in facts if f.kind != "bad"]


@pytest.mark.parametrize("seed", range(8))
def test_portions_do_not_matter(seed: int) -> None:
    log, dice = story(seed, roles=8, steps=150), random.Random(seed)
    for _ in range(10):
        log.raw(b"junk")
        log.beat("admin~0")
    assert _in_order(_portions("g", log, dice)) == _in_order(history("g", log.entries))


def test_terms_and_beliefs_are_those_that_were() -> None:
    log = story(1)
    facts = history("g", log.entries)
    gained = [(f.role, f.token, f.member, f.offset) for f in facts if f.kind == "gained"]
    assert gained == [(t.role, t.token, t.member, t.token - BASE) for t in log.truths]
    led = {f.token: f.clock_ms for f in facts if f.kind == "lead"}
    assert led == {t.token: t.start for t in log.truths if t.start is not None}
    assert Counter(f.kind for f in facts)["lost"] > 100


def test_the_last_sign_of_life_is_the_last_that_counted() -> None:
    log = Scribe()
    log.role("r", "s")
    a, b = log.join("a"), log.join("b")
    log.claim(a, "r")
    log.sleep(10)
    log.beat(a)
    sign = log.now
    late = log.entries[-1][2]
    log.sleep(10)
    log.raw(late)  # a doubled copy: it counts for nothing
    log.sleep(1000)
    log.claim(b, "r")
    log.release(log.claim(b, "s"), "drained", "drain")
    lost = {f.role: f for f in history("g", log.entries) if f.kind == "lost"}
    assert (lost["r"].member, lost["r"].clock_ms, lost["r"].name) == (a, sign, b)
    assert (lost["s"].clock_ms, lost["s"].why, lost["s"].name) == (log.now, "drained", None)


def test_bad_records_are_told_of_wherever_they_stand() -> None:
    log = Scribe()
    log.role("r")
    a = log.join("a")
    log.beat(a)
    place = log.raw(b"x" * 1000)
    log.beat(a)
    facts = history("g", log.entries)
    (bad,) = [f for f in facts if f.kind == "bad"]
    assert (bad.offset, bad.payload) == (place, b"x" * KEPT_PAYLOAD)
    (last,) = [f for f in facts if f.kind == "last"]
    assert last.offset == place + 1


def test_seats_come_and_go_with_their_role() -> None:
    log = Scribe()
    log.role("r", seats=2)
    a = log.join("a")
    term = log.claim(a, "r")
    log.put_role("r", seats=1)
    log.put_role("r", removed=True)
    log.release(term, "role removed", "removed")
    kinds = [(f.kind, f.seat, f.offset) for f in history("g", log.entries) if f.kind in ("opened", "shut")]
    opened = term.token - BASE - 2
    assert kinds == [("opened", 0, opened), ("opened", 1, opened), ("shut", 1, opened + 3), ("shut", 0, opened + 5)]


@pytest.mark.parametrize("seed", range(4))
def test_a_cut_log_is_entered_by_its_oldest_snapshot(seed: int) -> None:
    """From a snapshot on, everything is as in the whole log; of what was before, only what still holds is known."""
    log = story(seed, roles=6, steps=120)
    log.snapshot("admin~0")
    upto = log.places[-1]
    log = _go_on(log, seed)
    log.snapshot("admin~0")
    whole = history("g", log.entries)
    cut = _portions("g", log, random.Random(seed), start=upto)
    (first,) = [f for f in cut if f.kind == "first"]
    assert first.token == BASE + upto
    after = _after(whole, upto, log.entries[upto][1])
    assert _after(cut, upto, log.entries[upto][1]) == after
    assert len(after) > 10
    held = {f.token: f.member for f in cut if f.kind == "gained" and f.cause == "snapshot"}
    lost = {f.token for f in whole if f.kind == "lost" and f.offset is not None and f.offset < upto}
    given = {f.token: f.member for f in whole if f.kind == "gained" and f.offset is not None and f.offset < upto}
    assert held == {token: member for token, member in given.items() if token not in lost}


def _after(facts: list[Fact], upto: int, since_ms: int) -> list[Fact]:
    """What happened from `upto` on; signs of life from before are not known to who begins there."""
    kept = [f for f in facts if f.kind not in ("first", "last", "seen", "bad") and (f.offset or 0) >= upto]
    kept = [f._replace(sign_ms=None) for f in kept]
    return [f._replace(clock_ms=None) if f.kind == "lost" and (f.clock_ms or 0) <= since_ms else f for f in kept]


def _go_on(log: Scribe, seed: int) -> Scribe:
    dice = random.Random(seed)
    for role in ("r000", "r001", "r002", "r003"):
        member = log.join(f"n{role}")
        term = log.holder(role)
        if term is None:
            term = log.claim(member, role)
            log.lead(term)
        elif term.end is None and not _gone(log, term):
            log.stop(term, "asked")
            log.lead(log.transfer(term, member, "asked", "handover"))
        log.sleep(dice.randrange(20))
        log.beat(member)
        log.beat(member)
    return log


def _gone(log: Scribe, term: Truth) -> bool:
    return not any(f.member == term.member and f.kind == "member" for f in history("g", log.entries))


def test_a_cut_log_without_a_snapshot_tells_nothing() -> None:
    log = story(2, roles=3, steps=60)
    facts = _portions("g", log, random.Random(1), start=20)
    assert facts == [Fact("adrift", 20)]


def test_a_snapshot_of_nobody_is_not_believed() -> None:
    """A hostile snapshot, written by no member of the world that it tells of, must not rewrite history."""
    log = Scribe()
    log.role("r")
    for _ in range(60):
        log.beat("admin~0")
    log.snapshot("admin~0")
    stranger = log.entries[-1][2].replace(b'"m":"admin~0"', b'"m":"ghost~0"').replace(b'"id":"s', b'"id":"t')
    log.entries[-1] = (*log.entries[-1][:2], stranger)
    log.beat("admin~0")
    cut = _portions("g", log, random.Random(1), start=log.places[-1])
    assert [f.kind for f in cut if f.kind != "bad"] == ["adrift"]
    log.snapshot("admin~0")
    assert "adrift" not in {f.kind for f in _portions("g", log, random.Random(1), start=log.places[-2])}


def test_facts_survive_the_way_through_arrow() -> None:
    facts = history("g", story(4, roles=4, steps=80).entries)
    rows = [row for batch in batches("g", facts) for row in batch.to_pylist()]
    assert {row.pop("g") for row in rows} == {"g"}
    assert [Fact(**row) for row in rows] == facts
    assert list(batches("g", [])) == []
    assert arrow_schema().names == ["g", *Fact._fields]


def test_stamps_that_go_back_hide_nobody() -> None:
    """The latest stamp says how long the log goes on and when a member lived, not the last one."""
    log = Scribe()
    log.role("r")
    a = log.join("a")
    log.sleep(500)
    log.beat(a)
    latest = log.now
    log.now -= 3_600_000
    log.beat(a)
    facts = history("g", log.entries)
    (last,) = [f for f in facts if f.kind == "last"]
    assert (last.at_ms, last.sign_ms) == (latest, 3_600_000)
    assert [f.clock_ms for f in facts if f.kind == "seen" and f.member == a] == [latest]
    assert [(f.clock_ms, f.at_ms) for f in facts if f.kind == "step"] == [(latest, log.now)]


def test_a_word_that_comes_behind_a_later_one_is_evidence() -> None:
    """The append of the first was of unknown outcome, and came to be once the server had worked off what it had been sent."""
    log = Scribe()
    log.role("r")
    a = log.join("a")
    term = log.claim(a, "r")
    log.lead(term)
    late = log.entries.pop()[2]
    log.sleep(500)
    log.stop(term)
    log.raw(late)
    told = [(f.kind, f.cause, f.clock_ms) for f in history("g", log.entries) if f.kind in ("lead", "stop")]
    assert told == [("stop", None, term.end), ("lead", "uncounted", term.start)]


def test_what_does_not_count_is_evidence_once() -> None:
    """The dead who say that they lead; a late copy of what was said before says nothing new."""
    log = Scribe()
    log.role("r")
    a, b = log.join("a"), log.join("b")
    term = log.claim(a, "r")
    log.lead(term)
    copy = log.entries[-1][2]
    log.obituary(b, a)
    log.raw(copy)
    log.sleep(3000)
    log.stop(term)
    log.raw(log.entries[-1][2])
    told = [(f.kind, f.cause, f.clock_ms) for f in history("g", log.entries) if f.kind in ("lead", "stop")]
    assert told == [("lead", None, term.start), ("stop", "uncounted", term.end)]
    counted = [f.counted for f in history("g", log.entries) if f.kind == "record"]
    assert counted[-4:] == [True, False, False, False]


def test_a_log_without_beginning_or_snapshot_is_not_held_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what waits for a snapshot so much is kept as a reader goes back; and one that comes later is entered by."""
    monkeypatch.setattr("pares.spark.facts.claims.WAITING", 120)
    log = story(3, roles=4, steps=300)
    folding = History("g", 20)
    entries = [entry for entry in log.entries if entry[0] >= 20]
    assert len(entries) > 400
    for at in range(0, len(entries), 50):
        folding.feed(entries[at : at + 50])
        assert len(folding._waiting) <= 170
    assert [f.kind for f in folding.finish()] == ["adrift"]
    log.snapshot("admin~0")
    log.beat("admin~0")
    kinds = {f.kind for f in _portions("g", log, random.Random(1), start=20)}
    assert "first" in kinds


def test_all_groups_of_a_partition_are_folded_in_one_pass() -> None:
    ours, theirs = story(11, roles=4, steps=80), story(12, roles=4, steps=80)
    entries = [*ours.entries]
    for _, at_ms, payload in theirs.entries:
        entries.append((len(entries), at_ms, payload.replace(b'"g":"g"', b'"g":"other"')))
    entries.append((len(entries) + 3, 0, b"junk"))
    both = Partition(None, 0, 0, claims=True)
    found: dict[str | None, list[Fact]] = {}
    for at in range(0, len(entries), 100):
        for group, facts in both.feed(entries[at : at + 100]):
            found.setdefault(group, []).extend(facts)
    for group, facts in both.finish():
        found.setdefault(group, []).extend(facts)
    assert found["g"] == history("g", ours.entries)
    assert [f.kind for f in found["other"]] == [f.kind for f in history("other", entries[len(ours.entries) : -1])]
    assert [(f.kind, f.offset, f.ref) for f in found[None]] == [
        ("hole", len(entries) - 1, len(entries) + 2),
        ("bad", len(entries) + 2, None),
    ]


@pytest.mark.parametrize("seed", range(8))
def test_a_partition_tells_the_same_whatever_its_portions(seed: int) -> None:
    """Of portions in which nothing is amiss not each entry is looked at: what is amiss stands in some, and between others."""
    rng, at = random.Random(seed), 0
    entries: list[tuple[int, int, bytes]] = []
    for _, at_ms, payload in story(30 + seed, roles=3, steps=120).entries:
        at += 3 if rng.random() < 0.02 else 1
        entries.append((at, at_ms, payload))
        for extra in (b"junk", payload.replace(b'"g":"g"', b'"g":"other"')):
            if rng.random() < 0.02:
                at += 1
                entries.append((at, at_ms, extra))

    def told(sizes: Iterator[int]) -> dict[str | None, list[Fact]]:
        fold, begin = Partition(frozenset(("g",)), 0, 0, claims=True), 0
        found: dict[str | None, list[Fact]] = {}
        while begin < len(entries):
            size = next(sizes)
            for group, facts in fold.feed(entries[begin : begin + size]):
                found.setdefault(group, []).extend(facts)
            begin += size
        for group, facts in fold.finish():
            found.setdefault(group, []).extend(facts)
        return found

    single = told(repeat(1))
    assert {fact.kind for fact in single[None]} == {"hole", "bad"}
    assert told(repeat(len(entries))) == single
    assert told(iter(lambda: rng.randint(1, 9), 0)) == single
