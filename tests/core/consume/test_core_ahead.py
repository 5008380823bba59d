"""What is done above a position: as runs of a term (C9), in records, and in the world that all readers share."""

from __future__ import annotations

import pytest
from core_authors import Paper, Pen, began, world_of
from hypothesis import given
from hypothesis import strategies as st
from test_core_consuming import LABELS, P0, ROLES, consumer, token, told

from pares.core import events as ev
from pares.core.consume.progress import Progress, Span
from pares.core.wire import records as R
from pares.core.wire.ahead import above, clipped, fields_of, resumed, state_of
from pares.core.wire.states import NOTHING_AHEAD, AheadState
from pares.core.wire.world import World

ENVELOPE = {"v": 2, "g": "g", "m": "m", "n": 1, "b": 0, "s": 0, "seat": ("r", 0), "token": 1}
offsets = st.integers(0, 300)
states = st.builds(
    lambda done, tries: AheadState(runs_of(done), tuple(sorted((at, n) for at, n in tries.items() if at not in done))),
    st.sets(offsets, max_size=80),
    st.dictionaries(offsets, st.integers(1, 9), max_size=20),
)


def runs_of(offsets: set[int]) -> tuple[tuple[int, int], ...]:
    """The runs of a set of offsets, the plain way."""
    runs: list[tuple[int, int]] = []
    for at in sorted(offsets):
        if runs and runs[-1][1] == at:
            runs[-1] = (runs[-1][0], at + 1)
        else:
            runs.append((at, at + 1))
    return tuple(runs)


def offsets_of(state: AheadState) -> set[int]:
    return {at for first, upto in state.done for at in range(first, upto)}


# The record ------------------------------------------------------------------------------------------------------------


@given(states, st.integers(0, 320))
def test_c9_a_record_says_what_is_above_its_position_and_nothing_else(state: AheadState, mark: int) -> None:
    record = R.Ahead(**ENVELOPE, **fields_of(state, mark))
    assert isinstance(R.decode(R.encode(record)), R.Ahead)
    read = state_of(record)
    assert offsets_of(read) == {at for at in offsets_of(state) if at >= mark}
    assert read.tries == tuple(each for each in state.tries if each[0] >= mark)
    assert read == above(state, mark)


@given(st.lists(st.integers(0, 2**53 - 1), max_size=12), st.integers(0, 2**53 - 1), st.data())
def test_c9_whatever_numbers_a_record_has_the_world_gets_runs_in_order(
    done: list[int], mark: int, data: st.DataObject
) -> None:
    small = data.draw(st.lists(st.integers(0, 3), max_size=12))
    tries = data.draw(st.lists(st.tuples(st.integers(0, 2**53 - 1), st.integers(0, 3)), max_size=5))
    state = state_of(R.Ahead(**ENVELOPE, mark=mark, done=(*small, *done), tries=tuple(tries)))
    edges = [edge for run in state.done for edge in run]
    assert edges == sorted(set(edges)), "in order, none empty, and none touches the next"
    assert all(mark <= edge < R.MAX_INT for edge in edges)
    assert [at for at, _ in state.tries] == sorted({at for at, _ in state.tries})
    assert all(times for _, times in state.tries)


@given(states, st.integers(0, 320))
def test_c9_a_term_begins_behind_a_run_that_touches_its_position(state: AheadState, mark: int) -> None:
    position, known = resumed(state, mark)
    expected = mark
    while expected in offsets_of(state):
        expected += 1
    assert position == expected
    assert offsets_of(known) == {at for at in offsets_of(state) if at > position}


def test_c9_what_is_too_much_for_a_record_is_left_out_and_the_rest_fits() -> None:
    far = 2**53 - 10_000_000
    state = AheadState(
        tuple((far + 1000 * n, far + 1000 * n + 500) for n in range(R.MAX_RUNS + 50)),
        tuple((far + 1000 * n + 700, 1 + n % 3) for n in range(R.MAX_TRIES + 50)),
    )
    assert clipped(state).done == state.done[: R.MAX_RUNS]
    assert sorted(times for _, times in clipped(state).tries)[0] == 1
    assert sum(times == 3 for _, times in clipped(state).tries) == sum(times == 3 for _, times in state.tries)
    payload = R.encode(R.Ahead(**ENVELOPE, **fields_of(clipped(state), 0)))
    assert len(payload) < R.MAX_RECORD


# Of a term ---------------------------------------------------------------------------------------------------------------


@given(
    st.sets(st.integers(0, 120), max_size=40),
    st.lists(st.tuples(st.booleans(), st.integers(1, 6), st.integers(0, 30)), max_size=80),
)
def test_c9_runs_are_what_is_done_above_the_position(before: set[int], steps: list[tuple[bool, int, int]]) -> None:
    begin, known = resumed(AheadState(runs_of(before)), 0)
    progress, spans = Progress(begin, known.done), list[Span]()
    passed = set(range(begin))
    """What lies in spans that are done."""
    for opens, length, which in steps:
        if opens or not spans:
            if progress.was_done(progress.next):
                assert progress.next in before
                passed.add(progress.next)
                progress.skip(progress.next + 1)
            else:
                assert progress.next not in before
                spans.append(progress.open(progress.next + length))  # a batch may leave out what was done before
        else:
            span = spans[which % len(spans)]
            progress.done(span)
            passed.update(range(span.first, span.next))
        expected = begin
        while expected in passed and expected < progress.next:
            expected += 1
        assert progress.position == expected
        # What was done before and is not passed yet stays known: else a restart would repeat it.
        assert progress.ahead() == runs_of({at for at in passed | before if at >= progress.position})
        assert progress.runs == len(runs_of({at for at in passed if progress.position < at}))
        assert progress.head == progress.position
        assert progress.unfinished == sum(not span.done for span in spans)


# In the log -----------------------------------------------------------------------------------------------------------


def holding_with(ahead: AheadState, mark: int = 3) -> tuple[Paper, Pen]:
    """A log in which `b~1` has released with that above its mark."""
    paper, [b] = began("b~1", roles=ROLES[:1], labels=LABELS, eligible=None, reads=2)
    held = 1000 + b.claim(ROLES[0])
    b.write(R.Ahead, v=2, seat=P0, token=held, **fields_of(ahead, mark))
    b.release(ROLES[0], held, mark=mark)
    b.leave()
    return paper, b


def test_c9_the_next_term_is_told_what_is_done_above_where_it_begins() -> None:
    paper, _ = holding_with(AheadState(((5, 9),), ((4, 2),)))
    solo = consumer(paper=paper)
    solo.run(0.3)
    assert told(solo, ev.Begins) == [ev.Begins(P0, token(solo), 3, False, AheadState(((5, 9),), ((4, 2),)))]
    solo.step(ev.Marked(P0, token(solo), 5))
    solo.step(ev.StepDown(ROLES[0]))
    solo.run(0.5)
    assert told(solo, ev.Begins)[1].position == 9, "what touches the mark is behind it"


def test_c9_it_goes_with_beats_and_before_the_record_that_gives_the_term_up() -> None:
    solo = consumer()
    solo.run(0.3)
    one, two = AheadState(((5, 9),)), AheadState(((5, 9), (11, 12)), ((10, 3),))
    solo.step(ev.Marked(P0, token(solo), 2, one))
    solo.tick()
    assert P0 not in solo.world.ahead
    solo.run(0.3)
    assert (solo.world.seats[P0].mark, solo.world.ahead[P0]) == (2, one)
    written = len([r for r in solo.sent if isinstance(r, R.Ahead)])
    solo.run(1.0)
    assert len([r for r in solo.sent if isinstance(r, R.Ahead)]) == written, "once is enough"
    solo.step(ev.Marked(P0, token(solo), 2, two))
    solo.step(ev.StepDown(ROLES[0]))
    solo.run(0.02)
    kinds = [type(record) for record in solo.sent]
    assert kinds[kinds.index(R.Release) - 1] is R.Ahead
    assert solo.world.ahead[P0] == two


def test_c9_what_a_mark_has_passed_is_forgotten() -> None:
    solo = consumer()
    solo.run(0.3)
    solo.step(ev.Marked(P0, token(solo), 2, AheadState(((5, 9),))))
    solo.run(0.3)
    solo.step(ev.Marked(P0, token(solo), 8))
    solo.run(0.3)
    assert solo.world.ahead[P0].upto == 9
    solo.step(ev.Marked(P0, token(solo), 9))
    solo.run(0.3)
    assert not solo.world.ahead


@pytest.mark.parametrize("what", ["earlier term", "version 1", "another member"])
def test_c9_of_another_term_member_or_version_it_changes_nothing(what: str) -> None:
    paper, [b, c] = began("b~1", "c~1", roles=ROLES[:1], labels=LABELS, eligible=None, reads=2)
    held = 1000 + b.claim(ROLES[0])
    pen = c if what == "another member" else b
    seat_token = held - 1 if what == "earlier term" else held
    world = world_of(paper)
    pen.write(R.Ahead, v=1 if what == "version 1" else 2, seat=P0, token=seat_token, mark=3, done=(2, 2))
    after = world_of(paper)
    assert after.ahead == world.ahead == {}
    assert after.seats[P0].mark == 0
    assert after.count == world.count + 1, "it counts, and has no effect"


def test_c5_a_rewind_forgets_what_was_done_above() -> None:
    paper, _ = holding_with(AheadState(((5, 9),)))
    root = Pen(paper, "root~1", name="root", eligible=(), reads=2).join()
    pause = root.pause()
    root.rewind((*P0, 0))
    root.resume(pause)
    solo = consumer(paper=paper)
    solo.run(0.3)
    assert told(solo, ev.Begins) == [ev.Begins(P0, token(solo), 0, False, NOTHING_AHEAD)]


def test_c9_a_snapshot_carries_it_and_worlds_that_differ_in_it_differ() -> None:
    paper, _b = holding_with(AheadState(((5, 9),), ((4, 2),)))
    world = world_of(paper)
    again = World.load(world.dump())
    assert again.ahead == world.ahead != {}
    assert again.digest() == world.digest()
    again.keep(P0, AheadState(((5, 8),), ((4, 2),)))
    assert again.digest() != world.digest()
    lost = world.dump().replace(f'["{ROLES[0]}",0,', '["nothing",0,')
    assert lost != world.dump()
    with pytest.raises(ValueError, match="done of a seat"):
        World.load(lost)
