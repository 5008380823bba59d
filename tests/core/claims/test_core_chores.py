"""Rates (R16), who watches whom (R7), who writes snapshots and how often (R10)."""

from __future__ import annotations

import pytest
from core_authors import Paper, Pen, began, world_of
from hypothesis import given
from hypothesis import strategies as st

from pares.core.claims.chores.duties import (
    SNAPSHOT_TEXT,
    STANDBY_BUDGET,
    WATCHERS,
    beat_ms,
    snapshot_every_ns,
    snapshot_writer,
    to_watch,
)
from pares.core.lease import MS
from pares.core.wire import records as R
from pares.core.wire.world import World


def crowd(count: int, *, holders: int = 0, boots: int = 1, **join: object) -> World:
    """A group of `count` members, on `boots` hosts, the first of which hold a seat each."""
    paper = Paper()
    paper.genesis()
    pens: list[Pen] = []
    for i in range(count):
        lock = R.Lock(boot=f"boot{i % boots}", device="d", inode=str(i), file=f"f{i}")
        pens.append(Pen(paper, f"m{i:04}~1", **{"lock": lock, **join}).join())
    for i in range(holders):
        pens[i].role(f"R{i}")
        pens[i].claim(f"R{i}")
    return world_of(paper)


def test_r16_holders_beat_every_quarter_of_their_session() -> None:
    world = crowd(2, holders=1)
    assert beat_ms(world, "m0000~1", 1000, frozenset(world.members)) == 250
    assert beat_ms(world, "m0000~1", 20, frozenset()) == 5


@given(st.integers(1, 400), st.integers(0, 400), st.integers(20, 2000))
def test_r16_r20_standbys_together_stay_within_the_budget_and_the_dead_take_no_part_of_it(
    count: int, dead: int, session: int
) -> None:
    world = World()
    world.members = dict.fromkeys((f"m{i}" for i in range(count + dead)), None)  # type: ignore[assignment]
    world.held = {id: set() for id in world.members}
    each = beat_ms(world, "m0", session, frozenset(f"m{i}" for i in range(count)))
    assert each >= session, "standbys beat slowly"
    assert count * 1000 / each <= STANDBY_BUDGET * 1.05
    assert each <= max(session, count * 1000 // STANDBY_BUDGET), "and no slower than they need"


def test_r7_holders_are_watched_by_a_few_and_not_by_everybody() -> None:
    world = crowd(9, holders=3)
    alive = frozenset(world.members)
    watched: dict[str, list[str]] = {}
    for me in world.members:
        for id in to_watch(world, me, alive):
            watched.setdefault(id, []).append(me)
    assert watched.keys() == {"m0000~1", "m0001~1", "m0002~1"}
    assert all(len(watchers) == WATCHERS for watchers in watched.values())
    assert all(id not in watchers for id, watchers in watched.items())


def test_r7_of_many_that_were_named_one_after_the_other_and_die_together_most_are_watched_by_others() -> None:
    world = crowd(100, holders=100)
    everybody = frozenset(world.members)
    died = frozenset(sorted(world.members)[:50])
    watched = {id for me in everybody - died for id in to_watch(world, me, everybody)}
    assert 30 <= len(watched & died) < 50


def test_r7_only_the_living_watch_and_only_on_the_same_host() -> None:
    world = crowd(12, holders=1, boots=2)
    alive = frozenset(world.members) - {"m0002~1", "m0006~1"}
    watchers = [me for me in sorted(alive) if "m0000~1" in to_watch(world, me, alive)]
    assert watchers == ["m0004~1", "m0008~1"]
    assert to_watch(world, "m0001~1", alive) == {}


def test_r7_who_has_no_lock_proves_nothing_and_is_not_watched() -> None:
    paper, (a, _) = began("a~1", "b~1")
    a.claim("A")
    Pen(paper, "c~1", lock=R.Lock(boot="b", device="d", inode="i", file="f")).join()
    world = world_of(paper)
    assert to_watch(world, "a~1", frozenset(world.members)) == {}
    assert to_watch(world, "c~1", frozenset(world.members)) == {}


def test_r8_a_restart_watches_its_namesakes_that_came_before_it() -> None:
    world = crowd(4, name="same")
    assert to_watch(world, "m0003~1", frozenset(world.members)).keys() == {"m0000~1", "m0001~1", "m0002~1"}
    assert to_watch(world, "m0000~1", frozenset(world.members)) == {}


def test_r10_the_first_holder_that_is_not_overdue_writes_snapshots() -> None:
    world = crowd(5, holders=3)
    everybody = frozenset(world.members)
    assert snapshot_writer(world, everybody) == "m0000~1"
    assert snapshot_writer(world, everybody - {"m0000~1"}) == "m0001~1"
    assert snapshot_writer(crowd(5), everybody) == "m0000~1"


@pytest.mark.parametrize("session", [20, 1000, 60_000])
@pytest.mark.parametrize("sessions_kept", [10, 40, 10_000])
def test_r10_often_enough_that_retention_always_holds_one(session: int, sessions_kept: int) -> None:
    world = crowd(3, session=session)
    retention = sessions_kept * session * MS
    every = snapshot_every_ns(world, retention)
    # Due, then at the next place (five sessions of a lone holder's beats at most), and still whole in the log when the next is.
    assert 2 * session * MS <= every or every == retention // 4
    assert every <= max(retention // 4, 2 * session * MS)
    assert every + 5 * session * MS < retention


def test_r10_without_retention_they_are_seldom() -> None:
    assert snapshot_every_ns(crowd(2), None) >= 60_000 * MS


def test_r10_a_part_fits_a_record_whatever_is_in_it() -> None:
    for character in ("x", '"', "\\", "\N{GRINNING FACE}", "\x7f", "\u2028", "ä"):
        part = R.Snapshot(v=1, g="g" * 200, m="m" * 240, n=2**52, b=2**51, s=600_000, upto=2**52, id="i" * 60, part=0,
                          parts=1024, world=character * SNAPSHOT_TEXT)  # fmt: skip
        assert len(R.encode(part)) < R.MAX_SNAPSHOT
