"""Ranges that are folded by themselves, and joined: the facts are those of one fold over the whole log."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from histories import ACTS, _Play
from scribe import Entries, Scribe

from pares.core.wire import records as r
from pares.ledger import open as open_ledger
from pares.spark.facts import cuts, folding
from pares.spark.facts.base import Fact
from pares.spark.facts.cuts import Cut
from pares.spark.facts.folding import Partition
from pares.spark.facts.frozen import freeze, thaw
from pares.spark.facts.joined import Joined, Range

Rows = Counter[tuple[str | None, Fact]]


class Folds:
    """The entries of a log, folded at once, and in ranges."""

    def __init__(self, entries: Entries, origin: int = 0, group: str | None = None) -> None:
        self.entries, self.origin, self.group = entries, origin, group
        self.again = 0
        self.defects: list[Fact] = []
        self.alone = 0

    def whole(self) -> Rows:
        fold = Partition(self.group, 0, self.origin, claims=True)
        return rows([*fold.feed(self.between(self.origin, None)), *fold.finish()])

    def ranges(self, cuts: Sequence[tuple[int, int]]) -> Rows:
        """`cuts`: where the lead-in of each range but the first begins, and where the range does."""
        ends = [cut for _, cut in cuts[1:]] + [None]
        first = Partition(self.group, 0, self.origin, claims=True)
        found = rows(first.feed(self.between(self.origin, cuts[0][1] if cuts else None)))
        joined = Joined(thaw(freeze(first)))
        for (since, cut), end in zip(cuts, ends, strict=bool(cuts)):
            part = Range(self.group, 0, since, origin=self.origin, claims=True)
            part.lead_in(self.between(since, cut))
            part.cut()
            told = list(part.feed(self.between(cut, end)))
            again = joined.join(thaw(freeze(part)))
            groups = {group for group, _ in again}
            self.again += len(groups)
            self.alone += sum(fold is not None for fold in part.folds.values()) - len(groups)
            self.defects += [defect for _, defect in again if defect is not None]
            found += rows((group, facts) for group, facts in told if group is None or group not in groups)
            if groups:
                anew = thaw(freeze(joined.of(groups)))
                found += rows((g, facts) for g, facts in anew.feed(self.between(cut, end)) if g is not None)
                joined.again(anew)
        for kind, group in joined.over:
            told = sorted(fact.offset or 0 for name, fact in found if (fact.kind, name) == (kind, group))[
                : folding.HOLES
            ]
            kept = {
                row: n for row, n in found.items() if row[1].kind != kind or row[0] != group or row[1].offset in told
            }
            found = Counter(kept)
        return found + rows(joined.finish())

    def between(self, low: int, high: int | None) -> Entries:
        return [e for e in self.entries if e[0] >= low and (high is None or e[0] < high)]


def rows(told: object) -> Rows:
    return Counter((group, fact) for group, facts in told for fact in facts)  # type: ignore[attr-defined]


class Play(_Play):
    """The random history of one group in a log, with snapshots in whole, in parts, late, incomplete and false."""

    def __init__(self, group: str, dice: random.Random, entries: Entries) -> None:
        roles = [f"r{i}" for i in range(dice.choice([1, 2, 3]))]
        super().__init__(Scribe(group, entries=entries), dice, roles)
        self.log.role(*roles, seats=dice.choice([1, 1, 2]))
        self.members += [self.log.join(f"m{self.number()}") for _ in range(3)]
        self._late: list[tuple[int, str]] = []

    def act(self, act: str) -> None:
        log, dice = self.log, self.dice
        if act != "snapshot":
            return super().act(act)
        member, taken = dice.choice(self.members), log._newest_place()
        if taken is None:
            return log.beat(member)
        upto, text = taken.upto, taken.text
        self._late.append((upto, text))
        if dice.random() < 0.15:
            upto, text = dice.choice(self._late)
        if dice.random() < 0.1:
            text = text.replace('"mark":0', '"mark":7', 1)
        parts = dice.choice([1, 1, 2])
        for part in range(parts if dice.random() < 0.9 else parts - 1):
            half = [text, text[: len(text) // 2], text[len(text) // 2 :]][part + parts - 1]
            log.put(r.Snapshot, member, upto=upto, id=f"s{len(log.entries) - part}", part=part, parts=parts, world=half)
        return None


def random_log(seed: int, acts: int = 80) -> Entries:
    dice, entries = random.Random(seed), Entries()
    plays = [Play(name, dice, entries) for name in ("g", "h")[: dice.choice([1, 1, 2])]]
    some = [*dice.sample(ACTS, 14), "beat", "beat", "take", "take"]
    for _ in range(acts):
        play = dice.choice(plays)
        play.log.now = max(one.log.now for one in plays) + dice.choice([1, 5, 40, 150, 400])
        play.act("snapshot" if dice.random() < 0.12 else dice.choice(some))
        for _ in range(dice.choice([0, 0, 0, 8])):
            play.log.beat(dice.choice(play.members))
    return entries


def random_cuts(entries: Entries, dice: random.Random) -> list[tuple[int, int]]:
    offsets = range(entries[0][0] + 1, entries[-1][0])
    cuts = sorted(dice.sample(offsets, dice.choice([1, 2, 3, 6])))
    return [(max(entries[0][0], cut - dice.choice([10, 60, 150, 300])), cut) for cut in cuts]


@pytest.mark.parametrize("seed", range(60))
def test_ranges_come_to_the_facts_of_one_fold(seed: int) -> None:
    entries, dice = random_log(seed), random.Random(seed)
    folds = Folds(entries[dice.choice([0, 0, len(entries) // 3]) :], group=dice.choice([None, None, "g"]))
    folds.origin = folds.entries[0][0]
    whole = folds.whole()
    for _ in range(4):
        folds.defects = []
        found = folds.ranges(random_cuts(folds.entries, dice))
        assert without(found, folds.defects) == without(whole, folds.defects)


def without(rows: Rows, defects: Sequence[Fact]) -> Rows:
    """But for defects that the ranges alone have come upon."""
    return Counter({row: count for row, count in rows.items() if row[1] not in defects})


def steady(snapshots: Sequence[int] = (), *, wrong: int = -1, length: int = 900) -> Scribe:
    """A lawful log of four members that beat, one after the other, with snapshots near some offsets."""
    log = Scribe()
    log.role("r", "s")
    members = [log.join(f"m{number}") for number in range(4)]
    for role, member in zip(("r", "s"), members, strict=False):
        log.lead(log.claim(member, role))
    left = list(snapshots)
    while len(log.entries) < length:
        log.sleep(20)
        log.beat(members[len(log.entries) % 4])
        if left and len(log.entries) >= left[0]:
            log.snapshot(members[0], wrong=left.pop(0) == wrong)
    return log


def test_a_range_begins_behind_a_snapshot() -> None:
    log = steady((200, 500))
    folds = Folds(log.entries)
    assert folds.ranges([(150, 400), (450, 700)]) == folds.whole()
    assert folds.again == 0
    assert folds.alone == 2


def test_a_range_without_a_snapshot_is_folded_in_sequence() -> None:
    log = steady((200,))
    folds = Folds(log.entries)
    assert folds.ranges([(150, 400), (450, 700)]) == folds.whole()
    assert (folds.alone, folds.again) == (1, 1)


def test_a_false_snapshot_is_a_defect_and_its_range_is_folded_in_sequence() -> None:
    log = steady((200, 500), wrong=200)
    folds = Folds(log.entries)
    found = folds.ranges([(150, 400), (450, 700)])
    assert found == folds.whole()
    (defect,) = folds.defects
    assert (defect.kind, defect.other) == ("defect", "m0~0")
    assert found["g", defect] == 1
    assert (folds.alone, folds.again) == (1, 1)


def test_a_defect_that_the_fold_does_not_come_upon_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A false snapshot of a place so far back that no reader has kept its hash."""
    log = steady((100,), length=140)
    upto, text = false_world(log)
    goes_on(log, 400)
    late = log.put(r.Snapshot, "m0~0", upto=upto, id="late", part=0, parts=1, world=text)
    goes_on(log, 200)
    monkeypatch.setattr("pares.core.wire.reader.KEPT_PLACES", 3)
    folds = Folds(log.entries)
    whole, found = folds.whole(), folds.ranges([(upto, late + 20)])
    assert Fact("defect", late, other="m0~0") not in [fact for _, fact in whole]
    assert found - whole == Counter({("g", Fact("defect", late, other="m0~0")): 1})
    assert not whole - found


def goes_on(log: Scribe, beats: int = 100, members: int = 3) -> int:
    """All but the last member beat; returns where the log ends then."""
    for at in range(beats):
        log.sleep(20)
        log.beat(f"m{at % members}~0")
    return len(log.entries)


@pytest.mark.parametrize("said", ["nothing", "stop"])
def test_what_is_older_than_a_lead_in_is_asked_of_the_range_before(said: str) -> None:
    """A holder that was heard last before the lead-in loses its seat behind it. Of a world that is right, its row is not."""
    log = steady(length=120)
    log.role("s2")
    term = log.claim("m3~0", "s2")
    log.lead(term)
    heard = log.now
    goes_on(log)
    log.snapshot("m0~0")
    goes_on(log, 300)
    if said == "stop":
        log.stop(term, at=log.now)
    else:
        log.claim("m0~0", "s2")
    folds = Folds(log.entries)
    whole = folds.whole()
    told = [(fact.clock_ms, fact.sign_ms) for _, fact in whole if fact.kind in ("lost", "stop")]
    assert told == [(log.now, heard) if said == "stop" else (heard, None)]
    since = log.places[0]
    assert folds.ranges([(since, since + 200)]) == whole
    assert (folds.again, folds.defects) == (1, [])
    assert folds.ranges([(0, since + 200)]) == whole
    assert folds.again == 1


def test_a_stamp_that_is_ahead_from_before_a_lead_in_is_not_forgotten() -> None:
    log = steady(length=120)
    log.now += 60_000
    log.beat("m0~0")
    log.now -= 60_000
    goes_on(log)
    log.snapshot("m0~0")
    goes_on(log)
    folds = Folds(log.entries)
    assert folds.ranges([(log.places[0], len(log.entries) - 50)]) == folds.whole()
    assert (folds.again, folds.defects) == (1, [])


def false_world(log: Scribe) -> tuple[int, str]:
    """A place, and a world that is not the one there."""
    taken = log._newest_place()
    assert taken is not None
    return taken.upto, taken.text.replace('"mark":0', '"mark":7', 1)


@pytest.mark.parametrize("ranges", [2, 3])
@pytest.mark.parametrize("parts", [1, 2])
def test_a_false_snapshot_of_a_place_before_a_lead_in_is_found(ranges: int, parts: int) -> None:
    """The one that knows the place is a range before; of one in two parts, the first stands there too."""
    log = steady(length=120)
    upto, text = false_world(log)
    rest = {"id": "late", "upto": upto, "parts": parts}
    if parts == 2:
        log.put(r.Snapshot, "m2~0", part=0, world=text[:50], **rest)
    made: list[tuple[int, int]] = []
    for _ in range(ranges - 1):
        goes_on(log)
        log.snapshot("m0~0")
        made.append((log.places[-1], goes_on(log)))
    goes_on(log)
    late = log.put(r.Snapshot, "m2~0", part=parts - 1, world=text[50:] if parts == 2 else text, **rest)
    goes_on(log)
    folds = Folds(log.entries)
    whole = folds.whole()
    assert whole["g", Fact("defect", late, other="m2~0")] == 1
    assert folds.ranges(made) == whole
    assert folds.defects == []


def test_a_defect_in_a_lead_in_is_told_by_the_range_before() -> None:
    log = steady((200,), length=300)
    log.snapshot("m0~0", wrong=True)
    goes_on(log)
    folds = Folds(log.entries)
    whole = folds.whole()
    assert [fact.kind for _, fact in whole].count("defect") == 1
    assert folds.ranges([(150, 350)]) == whole
    assert (folds.again, folds.alone) == (0, 1)


def test_of_holes_and_steps_no_more_are_told_than_by_one_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("folding.HOLES", "joined.HOLES", "claims.STEPS", "joined.STEPS", "ranged.STEPS"):
        monkeypatch.setattr(f"pares.spark.facts.{place}", 4)
    log = steady(length=60)
    for at in range(600):
        log.sleep(20)
        log.beat(f"m{at % 4}~0")
        if at % 100 == 99:
            log.raw(b"taken away")
            log.now -= 150
            log.beat("m0~0")
            log.now += 150
        if at in (90, 290):
            log.snapshot("m0~0")
    folds = Folds([entry for entry in log.entries if entry[2] != b"taken away"])
    whole = folds.whole()
    assert Counter(fact.kind for _, fact in whole) >= Counter(hole=4, step=4)
    assert folds.ranges([(log.places[0], 350), (log.places[1], 550)]) == whole
    assert folds.alone == 2


def test_a_log_is_cut_behind_its_snapshots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuts, "LEAD_IN", 50)
    log = steady((150, 500), length=900)
    log.save(tmp_path / "some.db")
    steady(length=900).save(tmp_path / "none.db")
    with closing(open_ledger(f"sqlite:///{tmp_path / 'some.db'}?readonly=1")) as ledger:
        found = cuts.cuts(ledger, 0, 0, 900, 3)
        assert cuts.cuts(ledger, 0, 0, 900, 1) == []
    assert [cut.since for cut in found] == log.places
    assert all(cut.since + 50 <= cut.at <= number * 300 for number, cut in enumerate(found, 1))
    with closing(open_ledger(f"sqlite:///{tmp_path / 'none.db'}?readonly=1")) as ledger:
        assert cuts.cuts(ledger, 0, 0, 900, 3) == []


def _moved(payload: bytes, groups: int, group: int) -> bytes:
    """A record of a group by itself as it stands in a log of so many, which write in turn."""
    told = {**msgspec.json.decode(payload), "g": f"g{group}"}
    return msgspec.json.encode({**told, **({"upto": groups * told["upto"]} if "upto" in told else {})})


def _cuts(path: Path, payloads: Sequence[bytes], ranges: int, groups: str | None = None) -> list[Cut]:
    with closing(open_ledger(f"sqlite:///{path / 'log.db'}")) as ledger:
        if not ledger.end(0):
            for at in range(0, len(payloads), 1000):
                ledger.append_many(payloads[at : at + 1000])
        return cuts.cuts(ledger, 0, 0, len(payloads), ranges, groups)


def test_a_log_is_not_cut_where_most_of_it_is_of_groups_that_cannot_be_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be folded again from there."""
    monkeypatch.setattr(cuts, "LEAD_IN", 50)
    alone = steady(range(50, 600, 50), length=600).entries
    others = [r.encode(r.Beat(v=1, g=f"g{at % 3}", m="m~0", n=at, b=1, s=9)) for at in range(1800)]
    payloads = [other if at % 3 else _moved(alone[at // 3][2], 3, 0) for at, other in enumerate(others)]
    assert _cuts(tmp_path, payloads, 3) == []
    assert len(_cuts(tmp_path, payloads, 3, "g0")) == 2
    monkeypatch.setattr(cuts, "COVERED", 0.3)
    assert len(_cuts(tmp_path, payloads, 3)) == 2


def test_of_many_groups_lead_ins_are_longer_and_ranges_fewer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them writes as often as one of few, so that it takes more entries until all have been heard."""
    monkeypatch.setattr(cuts, "LEAD_IN", 100)
    logs = [steady(range(50, 900, 50), length=900).entries for _ in range(4)]
    payloads = [
        _moved(entry[2], 4, group) for entries in zip(*logs, strict=True) for group, entry in enumerate(entries)
    ]
    found = dict[int, list[Cut]]()
    for few in (50, 1):
        monkeypatch.setattr(cuts, "GROUPS", few)
        found[few] = _cuts(tmp_path, payloads, 8)
    assert len(found[50]) > len(found[1]) > 0
    assert all(cut.at - cut.since >= 300 for cut in found[1])
    monkeypatch.setattr(cuts, "LEAD_IN", 500)
    assert _cuts(tmp_path, payloads, 8) == []


def test_a_few_that_cannot_be_begun_do_not_keep_a_log_from_being_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuts, "LEAD_IN", 50)
    payloads = [entry[2] for entry in steady((150, 500), length=900).entries]
    for at in range(10, 900, 100):
        payloads[at] = r.encode(r.Beat(v=1, g=f"g{at}", m="m~0", n=at, b=1, s=9))
    assert len(_cuts(tmp_path, payloads, 3)) == 2


def test_groups_that_came_lately_do_not_keep_a_log_from_being_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuts, "LEAD_IN", 50)
    monkeypatch.setattr(cuts, "LOOKED_AT", 200)
    payloads = [entry[2] for entry in steady(range(50, 900, 50), length=900).entries]
    payloads[800:] = [r.encode(r.Beat(v=1, g=f"late{at}", m="m~0", n=at, b=1, s=9)) for at in range(800, 900)]
    assert len(_cuts(tmp_path, payloads, 3)) == 2


def test_a_snapshot_in_parts_that_stand_far_apart_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One look back has the last parts, and the next one the first."""
    monkeypatch.setattr(cuts, "LEAD_IN", 50)
    monkeypatch.setattr(cuts, "LOOKED_AT", 16)
    log = steady(length=300)
    text = "a world"
    for part, at in enumerate((120, 160, 220)):
        what = {"upto": 100, "id": "100.1", "part": part, "parts": 3, "world": text}
        payload = r.encode(r.Snapshot(v=1, g="g", m="m0~0", n=1, b=1, s=9, **what))
        log.entries[at] = (at, 0, payload)
    assert _cuts(tmp_path, [entry[2] for entry in log.entries], 1) == []
    look = cuts._near  # pyright: ignore[reportPrivateUsage]
    with closing(open_ledger(f"sqlite:///{tmp_path / 'log.db'}")) as ledger:
        found = look(cuts._Where(ledger, 0, None), 0, 300, 50)  # pyright: ignore[reportPrivateUsage]
    assert found == Cut(100, 271)
