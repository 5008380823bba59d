"""The world as data: its hash covers all of it, and a snapshot carries all of it (promise 5, R10)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from core_authors import Paper, Pen, Plain, began

from pares.core.wire import records as R
from pares.core.wire.records import MAX_SEATS
from pares.core.wire.tidy import tidy
from pares.core.wire.world import World
from pares.spark.facts.frozen import freeze

LOCK = R.Lock(boot="b", device="d", inode="i", file="f")


def a_full_world() -> World:
    """One of everything."""
    paper, (a, b) = began("a~1", "b~1", roles=("A", "B"), lock=LOCK, labels={"x": "y"}, eligible=("A", "B"))
    Pen(paper, "c~1").join().leave()
    a.claim("A")
    b.pause("B")
    a.write(R.Ask, seat=("A", 0), to="b~1")
    return Plain().read_all(paper.entries).world


def other(value: Any) -> Any:
    """Another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, tuple):
        return (*value[:-1], other(value[-1]))
    if isinstance(value, dict):
        return {**value, "new": "entry"}
    return None if isinstance(value, R.Lock) else "x"


def _fields(part: msgspec.Struct) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(part)


def test_r23_a_snapshot_has_the_same_list_of_roles_read_once() -> None:
    paper, _ = began("a~1", "b~1", roles=("A", "B"), eligible=("A", "B"))
    text = Plain().read_all(paper.entries).world.dump()
    a, b = World.load(text).members.values()
    assert a.eligible == ("A", "B")
    assert a.eligible is b.eligible
    assert World.load(text).dump() == text
    for bad in ('"A"', '["A",1]', "[[]]", "{}"):
        with pytest.raises(ValueError, match="not a world"):
            World.load(text.replace('["A","B"]', bad, 1))


FIELDS = [
    (table, field.name)
    for table in ("members", "seats", "roles", "pauses")
    for field in _fields(next(iter(getattr(a_full_world(), table).values())))
]


@pytest.mark.parametrize(("table", "field"), FIELDS)
def test_r10_every_field_of_the_world_is_in_its_hash(table: str, field: str) -> None:
    world = a_full_world()
    part = next(iter(getattr(world, table).values()))
    before = world.digest()
    setattr(part, field, other(getattr(part, field)))
    world.changed(*((table, key) for key in getattr(world, table)))
    assert world.digest() != before


@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize(("table", "field"), FIELDS)
def test_r10_another_field_is_seen_where_worlds_are_compared_part_by_part(
    table: str, field: str, lasting: bool
) -> None:
    mine, theirs = (World.load(a_full_world().dump(), lasting=lasting) for _ in range(2))
    before = mine.digest()
    assert World.load(mine.dump(), lasting=lasting, like=mine).digest() == before
    part = next(iter(getattr(theirs, table).values()))
    setattr(part, field, other(getattr(part, field)))
    try:
        alone = World.load(theirs.dump(), lasting=lasting).digest()
    except ValueError:
        return  # no fold leads there, and it is not compared
    assert World.load(theirs.dump(), lasting=lasting, like=mine).digest() == alone != before


@pytest.mark.parametrize("field", ["base", "last", "count", "placed", "highest"])
def test_r10_so_is_what_stands_at_its_head(field: str) -> None:
    world = a_full_world()
    before = world.digest()
    setattr(world, field, getattr(world, field) + 1)
    assert world.digest() != before


def test_r10_so_is_who_is_gone() -> None:
    world = a_full_world()
    before = world.digest()
    world.gone["c~1"] += 1
    world.changed(("gone", "c~1"))
    assert world.digest() != before
    del world.gone["c~1"]
    world.changed(("gone", "c~1"))
    assert world.digest() not in (before, a_full_world().digest())


def test_r10_a_snapshot_carries_all_of_it() -> None:
    world = a_full_world()
    again = World.load(world.dump())
    assert again.dump() == world.dump()
    assert again.digest() == world.digest()
    assert again.held == world.held
    for table in ("members", "seats", "roles", "pauses", "gone"):
        assert getattr(again, table) == getattr(world, table)


@pytest.mark.parametrize("name", ["\N{GRINNING FACE}", 'quote" and \\ back', "\u2028", "null", "a/b"])
def test_r10_names_of_any_kind_survive(name: str) -> None:
    paper = Paper()
    paper.genesis()
    pen = Pen(paper, f"{name}~1", host="h\x00\x1f", labels={name: name}).join()
    pen.role(name)
    pen.claim(name)
    world = Plain().read_all(paper.entries).world
    again = World.load(world.dump())
    assert again.seats[name, 0].holder == f"{name}~1"
    assert again.digest() == world.digest()


@pytest.mark.parametrize("others", [0, MAX_SEATS + 20])
def test_who_holds_a_seat_of_a_role_is_known_however_many_it_holds(others: int) -> None:
    paper, (a,) = began("a~1", roles=())
    for i in range(others):
        a.role(f"R{i}")
        a.claim(f"R{i}")
    a.role("wide", seats=MAX_SEATS)
    world = Plain().read_all(paper.entries).world
    assert not world.holds_in_role("a~1", "wide")
    assert not world.holds_in_role("nobody~1", "wide")
    a.claim("wide", index=MAX_SEATS - 1)
    world = Plain().read_all(paper.entries).world
    assert world.holds_in_role("a~1", "wide")
    a.role("wide", seats=1)
    assert Plain().read_all(paper.entries).world.holds_in_role("a~1", "wide"), "also one that the role no longer has"


def test_r10_a_tidied_world_is_a_loaded_one_to_its_last_field() -> None:
    """Also in the order of its tables, which follows from the world and not from who has folded it."""
    paper, (z, a) = began("z~1", "a~1", roles=("B", "A"))
    z.claim("B")
    a.beat()
    z.role("C")
    z.role("C", removed=True)
    world = Plain().read_all(paper.entries).world
    loaded = World.load(world.dump())
    assert list(loaded.members) == list(world.members) == ["z~1", "a~1"]
    assert list(loaded.seats) != list(world.seats)
    assert freeze(loaded) != freeze(world)
    tidy(world)
    assert freeze(loaded) == freeze(world)
    assert world.digest() == loaded.digest()
