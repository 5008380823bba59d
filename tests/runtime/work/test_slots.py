"""Hash slots: where keys belong, who owns them, and how little moves, beside consistent hashing."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runtime_tools import Crew, until

import pares
from pares.core.errors import ConfigError
from pares.core.wire.hashes import stable_hash
from pares.testing import Stage

GUIDE = (Path(__file__).parents[3] / "docs" / "guide.md").read_text()
SLOTS = 128
VECTORS = [
    ("", 16476032584258269876, 692),
    ("user:42", 15647646390214308482, 642),
    ("pricing/AAPL", 6093064016376468983, 503),
    ("ключ", 5536099946253895712, 32),
    (b"\x00\xff", 12738201167342902500, 228),
]
"""Key, hash, slot of 1024: as in docs/guide.md."""


@pytest.mark.parametrize(("key", "hashed", "slot"), VECTORS)
def test_the_hash_of_a_key_is_fixed(key: str | bytes, hashed: int, slot: int) -> None:
    assert stable_hash(key) == hashed
    assert hashed % 1024 == slot


@given(st.text(max_size=50).filter(lambda t: t.isprintable()))
def test_text_and_its_bytes_are_one_key(key: str) -> None:
    assert stable_hash(key) == stable_hash(key.encode())


@pytest.mark.parametrize("protocol", ["claims", "fast-neli"])
def test_each_key_has_one_owner(memory: str, protocol: str) -> None:
    crew = Crew(memory + "?partitions=4")
    names = pares.Slots.names("cache", SLOTS)
    one, two = (crew.member(name, names, protocol=protocol, eligible=None) for name in ("one", "two"))
    slots = [pares.Slots(me, "cache", SLOTS) for me in (one, two)]

    # Also where partitions are dealt out, and not slots: the log numbers the slots' names, so each carries as many.
    half = SLOTS // 2
    until(lambda: [len(s.owned()) for s in slots] == [half, half], "all is owned, and nothing is on its way")
    for number in range(200):
        key = f"key-{number}"
        assert [s.mine(key) for s in slots].count(True) == 1
        assert [s.term(key) is not None for s in slots] == [s.mine(key) for s in slots]
        assert slots[0].role(key) == f"cache/{slots[1].slot(key)}"
    name = "one" if slots[0].mine("key-1") else "two"

    def known() -> list[str | None]:
        return [holder and holder.name for holder in (s.owner("key-1") for s in slots)]

    # As far as each has read: the one that handed it over may not have read that yet.
    until(lambda: known() == [name, name], "both know the owner")
    one.close()
    until(lambda: len(slots[1].owned()) == SLOTS, "the other owns all")


def test_who_leads_no_slots_is_told_how_to(memory: str) -> None:
    crew = Crew(memory)
    with pytest.raises(ConfigError, match=r"roles=Slots\.names\('cache', 8\)"):
        pares.Slots(crew.member("a", ("A",)), "cache", 8)
    assert pares.Slots(crew.member("b", (), eligible="*"), "cache", 8).owner("x") is None
    for wrong in (0, -1, 10_001, 2.5):
        with pytest.raises(ConfigError, match="slots is"):
            pares.Slots.names("cache", wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="use at most"):
        pares.Slots.names("x" * 200, 8)


# How much moves ----------------------------------------------------------------------------------------------------------

Owners = dict[int, str]


def by_claims(steps: Iterable[Iterable[str]]) -> list[Owners]:
    """The owner of each slot after each step, on a stage where these members are there, one after the other."""
    stage, found = Stage(), list[Owners]()
    roles = pares.Slots.names("s", SLOTS)
    for names in steps:
        wanted = set(names)
        for actor in list(stage.actors.values()):
            if actor.name not in wanted and actor.state == "live":
                stage.stop(actor)
        for name in sorted(wanted):
            if name not in stage.actors:
                stage.member(name, roles=roles)
            elif stage.actors[name].state != "live":
                stage.restart(name)
        stage.run(6)
        leaders = {number: stage.leader(role) for number, role in enumerate(roles)}
        found.append({number: leader for number, leader in leaders.items() if leader is not None})
    return found


def by_ring(steps: Iterable[Iterable[str]], points: int = 100, slots: int = SLOTS) -> list[Owners]:
    """The same by consistent hashing: the next of so many points of each member on a ring."""
    found: list[Owners] = []
    for names in steps:
        ring = sorted((stable_hash(f"{name}#{i}"), name) for name in names for i in range(points))
        places = [place for place, _ in ring]
        owners = {n: ring[bisect_right(places, stable_hash(f"s/{n}")) % len(ring)][1] for n in range(slots)}
        found.append(owners)
    return found


def moved(before: Owners, after: Owners) -> int:
    return sum(before.get(number) != owner for number, owner in after.items())


def spread(owners: Owners) -> int:
    counts = [list(owners.values()).count(name) for name in set(owners.values())]
    return max(counts) - min(counts)


GROWING = [["a"], ["a", "b"], ["a", "b", "c"], ["a", "b", "c", "d"]]
SHRINKING = [["a", "b", "c"], ["a", "b"], ["a"]]


def test_a_newcomer_gets_its_share_and_nothing_else_moves() -> None:
    steps = by_claims(GROWING)
    assert [len(owners) for owners in steps] == [SLOTS] * 4
    for before, after, names in zip(steps, steps[1:], GROWING[1:], strict=False):
        new = names[-1]
        assert moved(before, after) == list(after.values()).count(new)
        assert spread(after) <= 1


def test_what_a_leaver_had_is_all_that_moves() -> None:
    steps = by_claims([GROWING[-1], *SHRINKING])
    for before, after in pairwise(steps):
        gone = set(before.values()) - set(after.values())
        assert moved(before, after) == sum(owner in gone for owner in before.values())
        assert spread(after) <= 1


def test_a_rolling_restart_moves_what_each_in_turn_has_and_no_more() -> None:
    """One after the other they leave and come back: what the leaver had goes, what it gets comes; in between all is even."""
    everybody = GROWING[-1]
    steps: list[list[str]] = [everybody]
    for name in everybody:
        steps += [[other for other in everybody if other != name], everybody]
    found = by_claims(steps)
    for number, (before, after) in enumerate(pairwise(found)):
        name = everybody[number // 2]
        leaves = number % 2 == 0
        share = list((before if leaves else after).values()).count(name)
        assert moved(before, after) == share
        assert share == SLOTS // len(everybody)
        assert len(after) == SLOTS
        assert spread(after) <= 1


def test_the_guides_table_of_what_moves() -> None:
    """Its figures of the ring are computed anew. Ours follow from what the tests above hold: shares within one, and a move for
    each slot that a newcomer gets or a leaver had."""
    steps = [*GROWING, GROWING[2], GROWING[3]]
    ring, total = by_ring(steps, slots=1024), 1024
    table = GUIDE.split("| step | slots that move |")[1].split("\n\n")[0].splitlines()[2:]
    assert len(table) == len(steps) - 1
    for line, (before, after), count in zip(table, pairwise(ring), [2, 3, 4, 3, 4], strict=True):
        step, ours, shares, theirs, ring_shares = (cell.strip() for cell in line.strip("|").split("|"))
        counts = [list(after.values()).count(name) for name in set(after.values())]
        assert int(theirs) == moved(before, after)
        assert ring_shares == f"{min(counts)} to {max(counts)}"
        assert shares == f"{total // count} to {-(-total // count)}"
        gets_or_had = 4 if "leaves" in step else count
        assert int(ours) in {total // gets_or_had, -(-total // gets_or_had)}


def test_less_is_out_of_balance_than_by_consistent_hashing() -> None:
    """A ring moves about as little, and leaves members with very different shares."""
    for play, most in ((by_claims, 1), (by_ring, SLOTS)):
        everything: Callable[[Iterable[Iterable[str]]], list[Owners]] = play
        assert max(spread(owners) for owners in everything(GROWING)) <= most
    assert max(spread(owners) for owners in by_ring(GROWING)) > 4
