"""The consumer that should hold each partition (C6), and what a consumer says of itself."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from core_authors import Pen, Plain, began
from hypothesis import given
from hypothesis import strategies as st

from pares.core.consume.names import Partition, Terms, consumers, tag_of
from pares.core.consume.sharing import share
from pares.core.wire.records import Ask, Join
from pares.core.wire.world import World

TAG = tag_of("orders:1")


def roles(count: int, topic: str = "orders") -> list[str]:
    return [Partition(topic, TAG, number).role for number in range(count)]


class Group:
    """Consumers whose terms stand in the log, and partitions without holders."""

    def __init__(self, partitions: int = 4, *topics: str, **terms: dict[str, Any]) -> None:
        self.paper, [self.founder] = began("founder~1")
        for topic in topics or ("orders",):
            for role in roles(partitions, topic):
                self.founder.role(role)
        self.pens: dict[str, Pen] = {}
        for name, stated in terms.items():
            self.join(name, **stated)

    def join(self, name: str, incarnation: int = 1, **given: Any) -> Pen:
        weight = given.pop("weight", 1.0)
        terms = Terms(frozenset(given.pop("topics", ("orders",))), **given)
        pen = Pen(self.paper, f"{name}~{incarnation}")
        pen.write(Join, name=name, session=1000, reads=2, labels=terms.labels(), weight=weight)
        self.pens[name] = pen
        return pen

    @property
    def world(self) -> World:
        return Plain().read_all(self.paper.entries).world

    def give(self, name: str, *wanted: str) -> None:
        for role in wanted:
            self.pens[name].claim(role)

    def shared(self, *dead: str) -> dict[str, str | None]:
        world = self.world
        alive = frozenset(world.members) - {f"{name}~1" for name in dead}
        return {seat[0]: member for seat, member in share(world, alive).items()}

    def loads(self, *dead: str) -> dict[str | None, int]:
        return dict(Counter(self.shared(*dead).values()))


def test_a_partition_is_told_by_its_role() -> None:
    partition = Partition("a/b@c", TAG, 12)
    assert Partition.of(partition.role) == partition
    for other in ("orders/3", "orders@12345678/x", "orders@1234567/1", "@12345678/1", "orders@12345678/01", "A", ""):
        assert Partition.of(other) is None


@given(
    st.frozensets(st.text("abc/@", min_size=1, max_size=5), min_size=1),
    st.none() | st.integers(1, 9999),
    st.booleans(),
    st.sampled_from(("partitions", "topics", "ranges")),
)
def test_terms_come_back_from_their_labels(topics: frozenset[str], most: int | None, greedy: bool, claim: str) -> None:
    terms = Terms(topics, most, greedy, claim == "topics", "at-most-once", claim == "ranges")
    assert Terms.of(terms.labels()) == terms


def test_a_member_that_is_no_consumer_is_given_nothing() -> None:
    group = Group(4, a={})
    assert consumers(group.world.members.values()).keys() == {"a~1"}
    assert group.loads() == {"a~1": 4}
    assert Group(3).loads() == {None: 3}


def test_c6_partitions_are_shared_out_within_one() -> None:
    assert sorted(Group(7, a={}, b={}, c={}).loads().values()) == [2, 2, 3]


def test_c6_only_the_surplus_moves_to_a_newcomer() -> None:
    group = Group(6, a={})
    group.give("a", *roles(6))
    group.join("b")
    assert group.loads() == {"a~1": 3, "b~1": 3}
    after = group.shared()
    moved = [role for role in roles(6) if after[role] == "b~1"]
    assert moved == roles(6)[3:], "those that came last"


def test_c6_nobody_is_given_more_than_it_takes() -> None:
    assert Group(6, a={"most": 1}, b={"most": 2}).loads() == {"a~1": 1, "b~1": 2, None: 3}
    assert Group(6, a={"most": 1}, b={}).loads() == {"a~1": 1, "b~1": 5}


def test_c6_topics_that_a_consumer_does_not_name_go_to_others() -> None:
    group = Group(2, "orders", "bills", a={"topics": ("orders",)}, b={"topics": ("bills",)})
    assert all((member == "a~1") == role.startswith("orders") for role, member in group.shared().items())


def test_c6_a_greedy_consumer_hands_nothing_over_for_balance() -> None:
    group = Group(6, a={"greedy": True})
    group.give("a", *roles(6))
    group.join("b")
    assert group.loads() == {"a~1": 6}


def test_c6_whole_topics_go_together_to_the_holder_of_the_first_partition() -> None:
    group = Group(3, "orders", "bills", a={"topics": ("orders", "bills"), "whole": True})
    group.join("b", topics=("orders", "bills"), whole=True)
    shared = group.shared()
    for topic in ("orders", "bills"):
        assert len({shared[role] for role in roles(3, topic)}) == 1
    assert len(set(shared.values())) == 2
    group.give("b", roles(3)[0])
    group.give("a", *roles(3)[1:])
    assert {group.shared()[role] for role in roles(3)} == {"b~1"}


def test_c6_whole_topics_are_counted_as_such() -> None:
    group = Group(3, "orders", "bills", a={"topics": ("orders", "bills"), "whole": True, "most": 1})
    assert sorted(group.loads().values(), key=str) == [3, 3]
    assert None in group.loads()


def test_r8_what_a_dead_consumer_held_goes_to_its_namesake() -> None:
    group = Group(4, a={}, b={})
    group.give("a", *roles(4)[:2])
    group.give("b", *roles(4)[2:])
    group.join("a", 2)
    group.join("c")
    shared = group.shared("a")
    assert [shared[role] for role in roles(4)[:2]] == ["a~2", "a~2"]


def test_r13_a_seat_that_was_asked_for_goes_where_it_is_wanted() -> None:
    group = Group(2, a={}, b={})
    group.give("a", roles(2)[0])
    group.give("b", roles(2)[1])
    group.founder.write(Ask, seat=(roles(2)[0], 0), to="b~1")
    assert group.shared()[roles(2)[0]] == "b~1"


@pytest.mark.parametrize("what", ["pause", "removal"])
def test_seats_that_take_no_holder_are_not_shared_out(what: str) -> None:
    group = Group(2, a={})
    if what == "pause":
        group.founder.pause(roles(2)[0])
    else:
        group.founder.role(roles(2)[0], removed=True)
    assert group.shared() == {roles(2)[1]: "a~1"}


@given(
    st.lists(st.tuples(st.none() | st.integers(1, 3), st.booleans(), st.floats(0.5, 3)), min_size=1, max_size=5),
    st.integers(0, 9),
    st.lists(st.integers(0, 4), max_size=9),
)
def test_whatever_is_held_what_follows_is_stable_and_within_the_terms(
    members: list[tuple[int | None, bool, float]], partitions: int, held: list[int]
) -> None:
    group = Group(partitions)
    for number, (most, greedy, weight) in enumerate(members):
        group.join(f"m{number}", most=most, greedy=greedy, weight=weight)
    for role, number in zip(roles(partitions), held, strict=False):
        if number < len(members):
            group.give(f"m{number}", role)
    once = share(group.world, group.world.members.keys())
    loads = Counter(once.values())
    for number, (most, _, _) in enumerate(members):
        assert most is None or loads[f"m{number}~1"] <= most
    world = group.world
    for seat, member in once.items():  # everybody has followed it
        world.seats[seat].holder = member
        world.seats[seat].token = world.seats[seat].token or 10_000
    world.refresh()
    assert share(world, world.members.keys()) == once
    free = sum(1 for member in once.values() if member is None)
    assert not free or all(most is not None and loads[f"m{n}~1"] == most for n, (most, _, _) in enumerate(members))


def test_consumers_are_asked_once_for_all_partitions_of_a_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand partitions are placed anew after many of a thousand claims: by each consumer, for all consumers."""
    group = Group(60, "orders", "trades", **{f"m{n}": {"topics": ("orders", "trades")[: 1 + n % 2]} for n in range(6)})
    asked: list[Partition] = []
    real = Terms.takes

    def takes(self: Terms, partition: Partition) -> bool:
        asked.append(partition)
        return real(self, partition)

    monkeypatch.setattr(Terms, "takes", takes)
    loads = group.loads()
    assert len(asked) == 2 * 6, "of each topic, each consumer"
    assert {loads[f"m{n}~1"] for n in range(6)} == {20}
