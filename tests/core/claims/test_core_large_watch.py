"""R16, R21: in a large group a watcher notes as it reads when it has to look at all the others again, and finds what it would
find if it looked each time."""

from __future__ import annotations

from copy import copy
from typing import TypeAlias

from core_authors import Pen, Plain, began
from hypothesis import given
from hypothesis import strategies as st

from pares.core.claims.chores.duties import EAGER
from pares.core.claims.silence import Stopwatches
from pares.core.lease import MS

MEMBERS = EAGER + 4
ROLES = 8

Step: TypeAlias = tuple[str, int, int, int]
"""What happens, of which member, with how many milliseconds and of what age; or how long nothing does."""
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "beat",
                "beat",
                "all but it beat",
                "all but it beat",
                "beat as a standby",
                "at once",
                "claim",
                "leave",
                "nothing",
            ]
        ),
        st.sampled_from([0, 1, ROLES, ROLES + 1]),
        st.sampled_from([0, 1, 30, 250, 400, 900, 1500]),
        st.sampled_from([0, 0, 0, 40, 300, -1]),
    ),
    max_size=60,
)


class Both:
    """One watcher that may rely on what it has noted, and one that may not."""

    def __init__(self) -> None:
        self.paper, (me, *others) = began("me~1", *(f"m{number}~1" for number in range(MEMBERS - 1)))
        self.pens: list[Pen] = [me, *others]
        for number in range(MEMBERS + ROLES):
            me.role(f"r{number}")
        self.plain = Plain()
        self.notes, self.looks = (Stopwatches("me~1", 0.1, 500 * MS) for _ in range(2))
        self.done = 0

    def read(self, now: int, age: int = 0) -> None:
        """What was written since was stamped so many milliseconds ago; -1: it has no stamp."""
        before = len(self.plain.changes)
        self.plain.read_all(self.paper.entries[self.done :])
        stamp = None if age < 0 else now - age * MS
        stamps = dict.fromkeys((entry[0] for entry in self.paper.entries[self.done :]), stamp)
        self.done = len(self.paper.entries)
        for watches in (self.notes, self.looks):
            watches.read(self.plain.world, self.plain.changes[before:], now, stamps=stamps)
            watches.looked_at = now

    def agree(self, now: int) -> None:
        world = self.plain.world
        silent = self.notes.silence(world, now)
        self.looks.read(copy(world), (), now)  # of another world nothing is noted yet
        assert silent == self.looks.silence(world, now)
        assert self.notes.alive(world, now) == self.looks.alive(world, now)
        assert self.notes.next_silent <= self.looks.next_silent, "no silence is found late"
        assert self.notes.next_overdue <= self.looks.next_overdue


@given(STEPS)
def test_r21_what_was_noted_finds_the_silent_and_the_overdue_as_soon_as_a_look_at_all(steps: list[Step]) -> None:
    both, now = Both(), 10_000 * MS
    both.read(now)
    for number in range(ROLES):
        both.pens[number].claim(f"r{number}")
    both.read(now)
    both.agree(now)
    assert len([seats for seats in both.plain.world.held.values() if seats]) == ROLES
    for what, number, wait, age in steps:
        now += wait * MS
        pen = both.pens[number]
        if what == "beat":
            pen.beat(s=250)
        elif what == "all but it beat":
            for other in both.pens:
                if other is not pen:
                    other.beat(s=250)
        elif what == "beat as a standby":
            pen.beat(s=1000)
        elif what == "at once":
            pen.beat(s=0)
        elif what == "claim":
            pen.claim(f"r{ROLES + number}")
        elif what == "leave" and number:
            pen.leave()
        both.read(now, age)
        both.agree(now)


def test_r21_of_a_large_group_that_beats_none_is_looked_at() -> None:
    """Twenty beats of each, four in a session, and no look at all of them but the first."""
    both, now = Both(), 10_000 * MS
    for number, pen in enumerate(both.pens):
        pen.claim(f"r{number}")
    both.read(now)
    both.notes.silence(both.plain.world, now)
    alive = both.notes.alive(both.plain.world, now)
    silent = both.notes.silence(both.plain.world, now)
    for _ in range(20):
        now += 250 * MS
        for pen in both.pens:
            pen.beat(s=250)
        both.read(now)
        assert both.notes.silence(both.plain.world, now) is silent
        assert both.notes.alive(both.plain.world, now) is alive
