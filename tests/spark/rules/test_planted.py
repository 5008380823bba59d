"""What a review planted in histories and the audit passed over, or had no verdict for: each a log of its own.

Each group is one story, so one pass judges all. What is looked for is the rule (or the kind of anomaly) and its verdict.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import pytest
from scribe import BASE, Scribe, Truth
from tests.spark.rules.compare import Judged, judge
from tests.spark.rules.folds import FOLDS, Fold
from tests.spark.rules.mutants import PLANTED, PLANTED_VIEWS

from pares.core.wire import records as r
from pares.spark.facts.base import Fact, arrow_schema, batches
from pares.spark.facts.claims import history
from pares.spark.facts.folding import Partition
from pares.spark.rules.base import Allowed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def _led(log: Scribe, *others: str) -> tuple[Truth, list[str]]:
    """A member leads `r`; others could."""
    log.role("r")
    term = log.claim(log.join("a"), "r")
    log.lead(term)
    return term, [log.join(name) for name in others]


def _beats(log: Scribe, members: list[str], ms: int) -> None:
    for _ in range(ms // 200):
        log.sleep(200)
        for member in members:
            log.beat(member)


def lawful(log: Scribe) -> None:
    term, (b,) = _led(log, "b")
    _beats(log, [term.member, b], 2000)
    log.stop(term, "asked")
    log.lead(log.transfer(term, b, "asked", "handover"))
    _beats(log, [b], 600)


def a_late_word(log: Scribe) -> None:
    """Sent before the member stopped, of unknown outcome, and appended behind that: not believed again."""
    log.role("r")
    a, b = log.join("a"), log.join("b")
    term = log.claim(a, "r")
    log.lead(term)
    late = log.entries.pop()[2]
    _beats(log, [term.member, b], 600)
    log.stop(term, "asked")
    log.raw(late)
    log.lead(log.transfer(term, b, "asked", "handover"))
    _beats(log, [b], 600)


def words_told_again(log: Scribe) -> None:
    """The member never heard that they were appended."""
    term, (b,) = _led(log, "b")
    _beats(log, [term.member, b], 600)
    log.stop(term, "asked")
    start, end = term.start, log.now
    log.sleep(40)
    log.lead(term, at=start)
    log.stop(term, "asked", at=end)
    log.lead(log.transfer(term, b, "asked", "handover"))
    _beats(log, [b], 600)


def believed_again(log: Scribe) -> None:
    """It says so, also if its clock went back meanwhile, or its first word was lost."""
    term, (b,) = _led(log, "b")
    _beats(log, [term.member, b], 600)
    log.stop(term, "asked")
    log.lead(term, at=log.now - 300)
    log.stop(term, "asked")
    log.lead(log.transfer(term, b, "asked", "handover"))
    _beats(log, [b], 600)


def overlap_with_a_stamp_back(log: Scribe) -> None:
    term, (b,) = _led(log, "b")
    _beats(log, [b], 1200)
    after = log.claim(b, "r")
    log.lead(after)
    log.sleep(40)
    log.stop(term, at=log.now - 10)
    log.stop(after)  # its own word: what rests on stamps alone is not certain where stamps go back
    log.now -= 3_600_000
    log.beat(b)


def false_obituary(log: Scribe) -> None:
    term, (b,) = _led(log, "b")
    log.obituary(b, term.member)
    log.lead(log.claim(b, "r"))
    _beats(log, [b], 3000)
    log.stop(term)


def lower_base(log: Scribe) -> None:
    term, (b,) = _led(log, "b")
    low = {"b": BASE - 1000}
    log.put(r.Genesis, "x~0", base=BASE - 1000, **low)
    log.put(r.Join, "x~0", name="x", session=1000, **low)
    log.put(r.Did, "x~0", seat=("r", 0), token=BASE - 990, what="lead", at=log.now, **low)
    _beats(log, [term.member, b], 600)


def past_its_lease(log: Scribe) -> None:
    term, _ = _led(log)
    log.sleep(4400 + log.lease)
    log.stop(term)


def through_a_pause(log: Scribe) -> None:
    term, _ = _led(log)
    log.pause("r", 60_000)
    _beats(log, [term.member], 3000)


def twins(log: Scribe) -> None:
    term, _ = _led(log)
    log.twin(term.member)
    _beats(log, [term.member], 400)


def lost(log: Scribe) -> None:
    term, _ = _led(log)
    log.skip(term.member, 3)
    _beats(log, [term.member], 400)


def six_seconds_late(log: Scribe) -> None:
    _, (b,) = _led(log, "b")
    _beats(log, [b], 6000)
    log.lead(log.claim(b, "r"))


def nobody_else(log: Scribe) -> None:
    """The same, and the log tells that nobody could have led."""
    _led(log)
    log.sleep(6000)
    b = log.join("b")
    log.lead(log.claim(b, "r"))


def never_taken_over(log: Scribe) -> None:
    _, (b,) = _led(log, "b")
    _beats(log, [b], 8000)


def idle(log: Scribe) -> None:
    log.role("r")
    _beats(log, [log.join("b")], 4000)


def idle_under_a_pause(log: Scribe) -> None:
    log.role("r")
    b = log.join("b")
    log.pause(None, 60_000)
    _beats(log, [b], 4000)


def idle_and_not_ready(log: Scribe) -> None:
    log.role("r")
    b = log.join("b")
    log.put(r.Ready, b, ready=False)
    _beats(log, [b], 4000)


def idle_and_ready_again(log: Scribe) -> None:
    log.role("r")
    b, c = log.join("b"), log.join("c")
    log.put(r.Ready, b, ready=False)
    _beats(log, [b], 400)
    log.put(r.Ready, b, ready=True)
    log.put(r.Leave, c)
    log.lead(log.claim(b, "r"))
    _beats(log, [b], 400)
    d = log.join("d")
    log.put(r.Ready, d, ready=False)
    log.put(r.Ready, d, ready=True)
    _beats(log, [d], 6000)


def led_for_less_than_a_millisecond(log: Scribe) -> None:
    """Neither before this nor after it nobody led for longer than is promised."""
    log.role("r")
    a, b = log.join("a"), log.join("b")
    _beats(log, [a, b], 1200)
    term = log.claim(a, "r")
    log.lead(term)
    log.stop(term, "drained")
    log.release(term, "drained", "drain")
    _beats(log, [a, b], 1200)
    log.lead(log.claim(b, "r"))
    _beats(log, [a, b], 400)


def slow_handover(log: Scribe) -> None:
    term, (b,) = _led(log, "b")
    log.stop(term, "asked")
    after = log.transfer(term, b, "asked", "handover")
    _beats(log, [b, term.member, log.join("c")], 8000)
    log.lead(after)


def one_token_two_believers(log: Scribe) -> None:
    term, (b,) = _led(log, "b")
    log.lead(Truth("r", term.token, b))
    _beats(log, [term.member, b], 600)


def worlds_differ(log: Scribe) -> None:
    term, _ = _led(log)
    log.snapshot(term.member)
    log.snapshot(term.member, wrong=True)


def without_its_beginning() -> list[Fact]:
    """The log has lost its first records, a snapshot stands for them, and later the group begins anew: what the fold says of
    the time before that can't be held against records that nobody has."""
    log = Scribe(group="without_its_beginning")
    term, (b,) = _led(log, "b")
    lost = len(log.entries) - 2
    _beats(log, [term.member, b], 400)
    log.snapshot(b)
    _beats(log, [term.member, b], 400)
    log.stop(term)
    log.lead(log.transfer(term, b, "asked", "handover"))
    anew = {"b": BASE + 1_000_000}
    log.put(r.Genesis, b, base=BASE + 1_000_000, over=len(log.entries) - 1, **anew)
    log.put(r.Join, "c~0", name="c", session=1000, **anew)
    facts = history(log.group, log.entries[lost:], lost)
    assert [fact.cause for fact in facts if fact.kind == "gained"] == ["snapshot", "transfer"]
    assert [fact.cause for fact in facts if fact.kind == "lost"] == ["transfer", "genesis"]
    return facts


def holes() -> list[Fact]:
    """Entries are missing at two places, of three offsets and of one: said of the log partition, whosever they were."""
    log = Scribe(group="holes")
    term, (b,) = _led(log, "b")
    _beats(log, [term.member, b], 800)
    there = [entry for entry in log.entries if entry[0] not in HOLES]
    fold = Partition("holes", 0, 0, claims=True)
    return [fact for _, facts in [*fold.feed(there), *fold.finish()] for fact in facts]


HOLES: Final = (7, 8, 9, 11)
Story = Callable[[Scribe], None]
STORIES: Final[dict[Story, set[tuple[str, str]]]] = {
    lawful: set(),
    words_told_again: set(),
    believed_again: {("believed_again", "certain")},
    a_late_word: {("uncounted_evidence", ""), ("lost_numbers", "")},
    overlap_with_a_stamp_back: {("overlap", "certain"), ("past_lease", "possible"), ("clock_step", "")},
    false_obituary: {
        ("overlap", "certain"), ("false_death", "certain"), ("past_lease", "certain"), ("uncounted_evidence", ""),
    },
    lower_base: {("no_such_term", "certain"), ("overlap", "possible"), ("uncounted_evidence", ""), ("stranger_world", "")},
    past_its_lease: {("past_lease", "certain")},
    through_a_pause: {("through_pause", "certain")},
    twins: {("twin", ""), ("uncounted_evidence", "")},
    lost: {("lost_numbers", "")},
    six_seconds_late: {("late", "certain")},
    nobody_else: set(),
    never_taken_over: {("late", "certain")},
    idle: {("late", "certain")},
    idle_under_a_pause: set(),
    idle_and_not_ready: set(),
    idle_and_ready_again: {("late", "certain")},
    led_for_less_than_a_millisecond: set(),
    slow_handover: {("late", "certain")},
    worlds_differ: {("worlds_differ", "certain"), ("defect", "")},
    one_token_two_believers: {("no_such_term", "certain"), ("overlap", "certain")},
}  # fmt: skip


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> Judged:
    import pyarrow as pa

    parts: list[pa.RecordBatch] = []
    for tell in STORIES:
        log = Scribe(group=tell.__name__)
        tell(log)
        parts += batches(log.group, history(log.group, log.entries))
    for fold in FOLDS:
        parts += batches(fold.__name__, fold(Scribe(group=fold.__name__)))
    parts += batches("without_its_beginning", without_its_beginning())
    parts += batches("holes", holes())
    return judge(spark, pa.Table.from_batches(parts, arrow_schema()), Allowed(), PLANTED, PLANTED_VIEWS)


@pytest.mark.parametrize("tell", STORIES, ids=lambda tell: tell.__name__)
def test_what_is_planted_is_found(tell: Story, judged: Judged) -> None:
    rows = [row for row in judged.by_sql["violations"] if row["g"] == tell.__name__]
    odd = [row for row in judged.by_sql["anomalies"] if row["g"] == tell.__name__]
    assert {(row["rule"], row["verdict"]) for row in rows} | {(row["kind"], "") for row in odd} == STORIES[tell], (
        rows + odd
    )


@pytest.mark.parametrize("fold", FOLDS, ids=lambda fold: fold.__name__)
def test_what_no_log_can_show_is_told_by_the_second_opinion(fold: Fold, judged: Judged) -> None:
    rows = [row for row in judged.by_sql["violations"] if row["g"] == fold.__name__]
    assert {(row["rule"], row["verdict"]) for row in rows} == {("second_opinion", "certain")}, rows


def test_there_is_no_second_opinion_of_what_stands_before_the_records(judged: Judged) -> None:
    rows = [row for row in judged.by_sql["violations"] if row["g"] == "without_its_beginning"]
    assert [row for row in rows if row["rule"] == "second_opinion"] == []


def test_each_hole_in_the_offsets_is_a_row(judged: Judged) -> None:
    for rows in (judged.by_sql["anomalies"], judged.without_spark["anomalies"]):
        found = [row for row in rows if row["g"] == "holes" and row["kind"] == "offset_hole"]
        found.sort(key=lambda row: row["from_offset"])
        assert [(row["from_offset"], row["to_offset"], row["count"], row["member"]) for row in found] == [
            (7, 9, 3, None),
            (11, 11, 1, None),
        ]
        assert {row["detail"] for row in found} == {"no entries at these offsets"}


def test_both_engines_say_the_same_and_find_out_what_is_weakened(judged: Judged) -> None:
    assert judged.differences() == []
    assert judged.survivors() == []
