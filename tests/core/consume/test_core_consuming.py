"""A consumer's side of the protocol: where terms begin, takes, marks, rewinds, health (C2 to C5, C7), on a log held in the
hand."""

from __future__ import annotations

from typing import Any

import pytest
from core_authors import Pen, began
from core_driver import Solo
from hypothesis import given, settings
from hypothesis import strategies as st

from pares.core import events as ev
from pares.core.claims.protocol import Config, RoleSpec
from pares.core.consume.names import Partition, Terms, tag_of
from pares.core.consume.protocol import Consume
from pares.core.consume.shares import COOL_DOWN
from pares.core.reasons import STUCK
from pares.core.wire import records as R

ROLES = tuple(Partition("orders", tag_of("orders:1"), number).role for number in range(3))
P0 = (ROLES[0], 0)
LABELS = Terms(frozenset({"orders"})).labels()


def consumer(count: int = 1, *, paper: Any = None, terms: Terms | None = None, **config: Any) -> Solo:
    """A consumer of so many partitions."""
    solo = Solo(paper=paper)
    labels = LABELS if terms is None else terms.labels()
    given: dict[str, Any] = {"group": "g", "id": "a~1", "name": "a", "labels": labels, "eligible": None}
    given["roles"] = tuple(RoleSpec(role) for role in ROLES[:count])
    solo.claims = Consume(Config(**{**given, **config}))
    return solo


def holding(count: int = 1, **config: Any) -> Solo:
    solo = consumer(count, **config)
    solo.run(0.3)
    assert {seat for seat, state in solo.world.seats.items() if state.holder == solo.me} == {
        (r, 0) for r in ROLES[:count]
    }
    return solo


def told(solo: Solo, kind: type) -> list[Any]:
    return [effect for effect in solo.effects if type(effect) is kind]


def token(solo: Solo, seat: tuple[str, int] = P0) -> int:
    return solo.world.seats[seat].token


def others(**more: Any) -> tuple[Any, Pen]:
    """A log with a consumer `b~1` in it, and the partition's role."""
    paper, [b] = began("b~1", roles=ROLES[:1], labels=LABELS, eligible=None, **more)
    return paper, b


# Where a term begins ---------------------------------------------------------------------------------------------------


def test_c2_a_term_begins_at_the_mark_that_the_log_has_and_says_so_with_the_lead() -> None:
    paper, b = others()
    held = 1000 + b.claim(ROLES[0])
    b.release(ROLES[0], held, mark=42)
    b.leave()
    solo = consumer(paper=paper)
    solo.run(0.3)
    assert told(solo, ev.Begins) == [ev.Begins(P0, token(solo), 42, False)]
    kinds = [type(effect) for effect in solo.effects]
    assert kinds[kinds.index(ev.Begins) - 1] is ev.Lead


def test_c2_what_is_taken_is_not_given_out_again_in_whatever_delivery() -> None:
    paper, b = others()
    held = 1000 + b.claim(ROLES[0])
    b.write(R.Take, seat=P0, token=held, first=0, last=99)
    b.release(ROLES[0], held, mark=42)
    b.leave()
    solo = consumer(paper=paper)
    solo.run(0.3)
    assert told(solo, ev.Begins)[0].position == 100


def test_c2_a_seat_that_nobody_has_held_is_told_apart_from_one_without_a_position() -> None:
    assert told(holding(), ev.Begins)[0].first
    paper, b = others()
    b.release(ROLES[0], 1000 + b.claim(ROLES[0]))
    b.leave()
    solo = consumer(paper=paper)
    solo.run(0.3)
    assert not told(solo, ev.Begins)[0].first


# Takes ---------------------------------------------------------------------------------------------------------------


def test_c4_a_take_is_told_when_it_was_read_back_and_not_before() -> None:
    solo = holding()
    solo.fate = lambda records: "deaf"
    solo.step(ev.Took(P0, token(solo), 0, 9))
    solo.run(0.05)
    assert [r.last for r in solo.sent if isinstance(r, R.Take)] == [9], "it stands in the log"
    assert told(solo, ev.Taken) == []
    solo.fate, solo.reading = lambda records: "lands", True
    solo.run(0.02)
    assert told(solo, ev.Taken) == [ev.Taken(P0, token(solo), 10)]


@pytest.mark.parametrize("fate", ["lost", "late", "fails"])
def test_c4_a_take_whose_append_failed_is_written_again_with_the_same_bounds(fate: str) -> None:
    solo = holding()
    fates = iter([fate, fate])
    solo.fate = lambda records: next(fates, "lands") if any(isinstance(r, R.Take) for r in records) else "lands"
    solo.step(ev.Took(P0, token(solo), 0, 9))
    solo.run(0.6)
    takes = [(r.first, r.last, r.token) for r in solo.sent if isinstance(r, R.Take)]
    assert len(takes) >= (1 if fate == "late" else 2)
    assert len(set(takes)) == 1
    assert told(solo, ev.Taken) == [ev.Taken(P0, token(solo), 10)], "told once"
    assert solo.world.seats[P0].taken == 10


@pytest.mark.parametrize("fate", ["lands", "lost", "late", "fails"])
def test_c4_takes_that_are_written_ahead_go_in_one_append_and_are_told_in_order(fate: str) -> None:
    solo = holding()
    fates = iter([fate])
    solo.fate = lambda records: next(fates, "lands") if any(isinstance(r, R.Take) for r in records) else "lands"
    for first in (0, 10, 20):
        solo.step(ev.Took(P0, token(solo), first, first + 9))
    solo.run(0.6)
    assert [(r.first, r.last) for r in solo.sent if isinstance(r, R.Take)][:3] == [(0, 9), (10, 19), (20, 29)]
    assert [word.upto for word in told(solo, ev.Taken)] == [10, 20, 30], "each once, in order"
    assert told(solo, ev.Untaken) == []
    assert solo.world.seats[P0].taken == 30


def test_c4_of_takes_written_ahead_those_that_landed_before_the_term_ended_are_told_and_the_others_never() -> None:
    paper, b = others()
    solo = consumer(paper=paper)
    while not (solo.attached and P0 in solo.world.seats and solo.world.seats[P0].holder == solo.me):
        b.beat()
        solo.run(0.1)
    before, solo.reading = token(solo), False
    for first in (0, 10):
        solo.step(ev.Took(P0, before, first, first + 9))
    solo.run(0.02)
    takes = [offset for offset, _, payload in paper.entries if b'"k":"take"' in payload]
    assert len(takes) == 2
    # The second one is not there yet when the seat is lost: it lands behind the claim, and has no effect.
    late = paper.entries.pop()[2]
    paper.end -= 1
    mine = 1000 + b.claim(ROLES[0], over=(solo.me, takes[0]))
    paper.put(late)
    b.write(R.Take, seat=P0, token=mine, first=10, last=19)
    solo.reading = True
    solo.run(0.3)
    assert solo.world.seats[P0].holder == "b~1"
    assert told(solo, ev.Taken) == [ev.Taken(P0, before, 10)]
    assert told(solo, ev.Untaken) == [ev.Untaken(P0, before, 20)]


@pytest.mark.parametrize("landed", ["before", "after", "never"])
def test_c4_what_landed_before_the_term_ended_is_told_though_both_are_read_at_once(landed: str) -> None:
    """It reads again after an outage, and has lost the seat meanwhile. What it took is its own, whatever others took since."""
    paper, b = others()
    solo = consumer(paper=paper)
    while not (solo.attached and P0 in solo.world.seats and solo.world.seats[P0].holder == solo.me):
        b.beat()
        solo.run(0.1)
    before = token(solo)
    solo.reading = False
    if landed == "before":
        solo.step(ev.Took(P0, before, 0, 9))
        solo.run(0.02)
        assert any(isinstance(r, R.Take) for r in solo.sent)
    last = paper.end - 1 if landed == "before" else solo.world.members[solo.me].offset
    mine = 1000 + b.claim(ROLES[0], over=(solo.me, last))
    if landed == "after":
        solo.step(ev.Took(P0, before, 0, 9))
        solo.run(0.02)
        assert any(isinstance(r, R.Take) for r in solo.sent)
    elif landed == "never":
        solo.fate = lambda records: "lost" if any(isinstance(r, R.Take) for r in records) else "lands"
        solo.step(ev.Took(P0, before, 0, 9))
    first = 10 if landed == "before" else 0
    b.write(R.Take, seat=P0, token=mine, first=first, last=first + 9)
    solo.reading = True
    solo.run(0.3)
    assert (solo.world.seats[P0].holder, solo.world.seats[P0].taken) == ("b~1", first + 10)
    assert told(solo, ev.Taken) == ([ev.Taken(P0, before, 10)] if landed == "before" else [])


def test_c4_a_term_that_is_over_takes_nothing() -> None:
    solo = holding()
    before = token(solo)
    solo.step(ev.StepDown(ROLES[0]))
    solo.step(ev.Took(P0, before, 0, 9))
    solo.run(0.1)
    assert told(solo, ev.Taken) == []
    solo.step(ev.Took(P0, before, 0, 9))
    solo.run(0.5)
    assert not any(isinstance(r, R.Take) and r.token == before for r in solo.sent)


@settings(max_examples=50)
@given(st.lists(st.sampled_from(["lands", "lost", "late", "fails", "lose", "beat", "three"]), min_size=1, max_size=25))
def test_c4_no_two_terms_are_told_of_one_offset(steps: list[str]) -> None:
    """However appends end and seats move: what is told as taken never overlaps."""
    paper, b = others()
    solo = consumer(paper=paper)
    solo.run(0.3)
    given_out: list[range] = []
    asked: list[tuple[int, int]] = []
    position = {}
    for step in steps:
        solo.fate = lambda records, step=step: step if step in ("lost", "late", "fails") else "lands"
        for begins in told(solo, ev.Begins):
            position.setdefault(begins.token, begins.position)
        state = solo.world.seats[P0]
        if step == "lose" and state.holder == solo.me:
            solo.step(ev.StepDown(ROLES[0]))
        elif step == "beat":
            b.beat()
        elif state.holder == "b~1":
            b.write(R.Take, seat=P0, token=state.token, first=state.taken, last=state.taken + 4)
            b.release(ROLES[0], state.token)
        elif state.holder == solo.me and state.token in position:
            first = max(position[state.token], state.taken)
            for at in range(first, first + (15 if step == "three" else 5), 5):
                solo.step(ev.Took(P0, state.token, at, at + 4))
                asked.append((state.token, at + 5))
        solo.run(0.03)
        solo.fate = lambda records: "lands"
        solo.run(0.6)
        found = told(solo, ev.Taken)[len(given_out) :]
        given_out += [range(taken.upto - 5, taken.upto) for taken in found]
    taken = [offset for each in given_out for offset in each]
    assert len(taken) == len(set(taken))
    solo.run(3)
    words = [(word.token, word.upto) for kind in (ev.Taken, ev.Untaken) for word in told(solo, kind)]
    assert sorted(words) == sorted(asked), "of each there is one word"


# Marks ---------------------------------------------------------------------------------------------------------------


def test_marks_go_with_the_next_beat_or_at_once_when_flushed() -> None:
    solo = holding()
    solo.step(ev.Marked(P0, token(solo), 7))
    solo.tick()
    assert solo.world.seats[P0].mark == 0
    solo.step(ev.Flush())
    solo.tick()
    assert solo.world.seats[P0].mark == 7
    solo.step(ev.Marked(P0, token(solo), 9))
    solo.run(0.3)
    assert solo.world.seats[P0].mark == 9


def test_a_release_keeps_the_position_and_the_next_term_begins_there() -> None:
    solo = holding()
    solo.step(ev.Marked(P0, token(solo), 7))
    solo.step(ev.StepDown(ROLES[0]))
    solo.run(0.5)
    assert solo.world.seats[P0].mark == 7
    assert [begins.position for begins in told(solo, ev.Begins)] == [0, 7]


def test_r15_the_mark_of_an_earlier_term_moves_nothing() -> None:
    solo = holding()
    before = token(solo)
    solo.step(ev.StepDown(ROLES[0]))
    solo.run(0.5)
    assert token(solo) > before
    solo.step(ev.Marked(P0, before, 99))
    solo.step(ev.Flush())
    solo.run(0.5)
    assert solo.world.seats[P0].mark == 0


def test_c5_under_a_pause_positions_move_and_the_next_term_begins_there() -> None:
    paper, [root] = began("root~1", roles=ROLES[:1], eligible=())
    solo = consumer(paper=paper)
    solo.run(0.3)
    solo.step(ev.Marked(P0, token(solo), 50))
    solo.run(0.3)
    root.rewind((*P0, 3))
    solo.run(0.1)
    assert solo.world.seats[P0].mark == 50, "it is held, and there is no pause"
    pause = root.pause()
    solo.run(0.1)
    assert solo.world.seats[P0].holder is None
    root.rewind((*P0, 3))
    root.resume(pause)
    solo.run(0.3)
    assert [begins.position for begins in told(solo, ev.Begins)] == [0, 3]


# Claims, and health ----------------------------------------------------------------------------------------------------


def test_c6_it_claims_no_more_than_it_takes_and_nothing_that_its_source_has_not() -> None:
    solo = consumer(3, terms=Terms(frozenset({"orders"}), most=2))
    solo.run(1)
    assert len(solo.world.held[solo.me]) == 2
    paper, [b] = began("b~1", roles=ROLES, labels=LABELS, eligible=())
    solo = consumer(2, paper=paper)
    solo.run(1)
    assert {seat[0] for seat in solo.world.held[solo.me]} == set(ROLES[:2])
    solo.step(ev.Willing(ROLES))
    for _ in range(4):
        b.beat()
        solo.run(0.3)
    assert len(solo.world.held[solo.me]) == 3


def test_c6_a_greedy_consumer_claims_at_once_what_others_should_have() -> None:
    paper, _ = others()
    pen = Pen(paper, "b~2", name="b2", labels=LABELS, eligible=None).join()
    for role in ROLES[1:]:
        pen.role(role)
    solo = consumer(3, paper=paper, terms=Terms(frozenset({"orders"}), greedy=True))
    solo.run(0.1)
    assert len(solo.world.held[solo.me]) == 3


def test_c7_what_it_cannot_keep_up_with_goes_to_another_and_is_left_alone_for_a_while() -> None:
    paper, b = others()
    solo = consumer(paper=paper)
    while solo.world.seats.get(P0) is None or solo.world.seats[P0].holder != solo.me:
        b.beat()
        solo.run(0.1)
        if solo.world.seats[P0].holder == "b~1":
            b.release(ROLES[0], token(solo))
    b.beat()
    solo.run(0.02)
    solo.step(ev.Marked(P0, token(solo), 12))
    solo.step(ev.Unhealthy(P0, token(solo), STUCK))
    solo.run(0.05)
    state = solo.world.seats[P0]
    assert (state.holder, state.mark) == ("b~1", 12)
    began_at = solo.now
    b.release(ROLES[0], state.token)
    solo.run(0.02)
    while solo.now < began_at + COOL_DOWN + 5_000_000_000 and solo.world.seats[P0].holder is None:
        b.beat()
        solo.run(0.25, every=0.05)
    assert solo.world.seats[P0].holder == solo.me
    assert solo.now >= began_at + COOL_DOWN - 500_000_000


def test_c7_alone_it_keeps_what_it_cannot_keep_up_with() -> None:
    solo = holding()
    solo.step(ev.Unhealthy(P0, token(solo), STUCK))
    solo.run(0.3)
    assert solo.world.seats[P0].holder == solo.me
    assert [report.kind for report in told(solo, ev.Report)] == ["alone"]


def test_c7_of_a_whole_topic_everything_goes() -> None:
    whole = Terms(frozenset({"orders"}), whole=True)
    paper, [b] = began("b~1", roles=ROLES, labels=whole.labels(), eligible=None)
    solo = consumer(3, paper=paper, terms=whole)
    for _ in range(30):
        b.beat()
        for role in ROLES:
            if solo.attached and solo.world.seats[(role, 0)].holder == "b~1":
                b.release(role, token(solo, (role, 0)))
        solo.run(0.1)
        if solo.attached and len(solo.world.held.get(solo.me, ())) == 3:
            break
    assert len(solo.world.held[solo.me]) == 3
    b.beat()
    solo.run(0.02)
    solo.step(ev.Unhealthy((ROLES[1], 0), token(solo, (ROLES[1], 0)), STUCK))
    solo.run(0.1)
    assert not solo.world.held[solo.me]
