"""R20: a silence from which others come back is no sign of death."""

from __future__ import annotations

from core_authors import Paper, Pen, began, world_of
from hypothesis import given
from hypothesis import strategies as st

from pares.core.claims.comebacks import HEEDED, Comebacks
from pares.core.claims.silence import Stopwatches
from pares.core.lease import MS

SESSION = 1000 * MS


@given(st.lists(st.tuples(st.integers(0, 4 * SESSION), st.integers(1, 50 * SESSION)), max_size=60))
def test_r20_the_longest_silence_of_the_last_sessions_is_known(came: list[tuple[int, int]]) -> None:
    """As a list of all of them would have it."""
    comebacks, now, all_of_them = Comebacks(), SESSION, list[tuple[int, int]]()
    for wait, silence in came:
        now += wait
        comebacks.note(silence, now, 1000)
        all_of_them.append((now, silence))
        assert comebacks.longest(now) == max(s for at, s in all_of_them if now < at + HEEDED * SESSION)
    assert comebacks.longest(now + HEEDED * SESSION) == 0


def looked(watches: Stopwatches, paper: Paper, now: int) -> None:
    """All that stands on the paper was read by then, and nothing more was there."""
    world = world_of(paper)
    watches.read(world, (), now)
    watches.looked_at = now
    watches.alive(world, now)


def silent(watches: Stopwatches, paper: Paper, now: int) -> set[str]:
    looked(watches, paper, now)
    return {id for _, id in watches.silent(world_of(paper), now, 0, 0)}


def four(watches: Stopwatches) -> tuple[Paper, Pen]:
    paper, (_, back, *_) = began("me~1", "back~1", "dead~1", "gone~1")
    for seconds in range(7):
        looked(watches, paper, seconds * SESSION)
    return paper, back


def test_r20_whoever_comes_back_has_the_others_waited_for_twice_as_long_as_it_was_silent() -> None:
    watches = Stopwatches("me~1", 0.0, 0)
    paper, back = four(watches)
    assert silent(watches, paper, 6 * SESSION) == {"back~1", "dead~1", "gone~1"}
    back.beat()
    assert silent(watches, paper, 7 * SESSION) == set()
    back.beat()
    assert silent(watches, paper, 12 * SESSION - MS) == set(), "the silence counts from look to look: six sessions"
    back.beat()
    assert silent(watches, paper, 12 * SESSION) == {"dead~1", "gone~1"}


def test_r20_a_member_that_stood_still_itself_takes_nobody_for_one_that_came_back() -> None:
    watches = Stopwatches("me~1", 0.0, 0)
    paper, (_, back, *_) = began("me~1", "back~1", "dead~1")
    looked(watches, paper, 0)
    back.beat()
    looked(watches, paper, 100 * SESSION)
    back.beat()
    assert silent(watches, paper, 101 * SESSION) == {"dead~1"}
