"""Positions: however batches are done, the position is the end of the run that is done without a gap (C3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pares.core.consume.progress import Progress, Span


@given(st.integers(0, 1000), st.lists(st.tuples(st.booleans(), st.integers(1, 20), st.integers(0, 30)), max_size=60))
def test_c3_the_position_is_the_end_of_what_is_done_without_a_gap_and_only_rises(
    begin: int, steps: list[tuple[bool, int, int]]
) -> None:
    progress, spans, done = Progress(begin), list[Span](), set[int]()
    for opens, length, which in steps:
        before = progress.position
        if opens or not spans:
            span = progress.open(progress.next + length)
            spans.append(span)
        else:
            span = spans[which % len(spans)]
            moved = progress.done(span)
            done.update(range(span.first, span.next))
            assert moved == (progress.position > before)
        expected = begin
        while expected in done:
            expected += 1
        assert progress.position == expected
        assert before <= progress.position <= progress.next
        assert progress.unfinished == sum(not span.done for span in spans)


def test_a_span_goes_on_where_the_last_one_ended() -> None:
    progress = Progress(5)
    span = progress.open(9)
    assert (span.first, span.next, progress.next) == (5, 9, 9)
    with pytest.raises(ValueError, match="does not go on from 9"):
        progress.open(9)


def test_what_is_skipped_waits_for_what_is_before_it() -> None:
    progress = Progress(0)
    span = progress.open(3)
    assert not progress.skip(10)
    assert (progress.position, progress.next) == (0, 10)
    assert progress.done(span)
    assert progress.position == 10
    assert not progress.skip(4), "nothing goes backwards"
    assert not progress.done(span), "done twice is done once"
