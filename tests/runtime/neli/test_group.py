"""One suite for every `Group`: by claims on memory and SQLite, Kafka's own; and what only the one by claims can be asked."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from runtime_tools import PATIENCE, fresh_url

import pares
from pares.core.errors import ClosedError, ConfigError, LedgerUnavailable
from pares.ledger import Group, Ledger, Membership
from pares.ledger.memory import MemoryLedger
from pares.runtime.driver.kit import contends
from pares.runtime.neli.claims_group import ClaimsGroup, group_of

M = 4
QUICK = 0.5


class Joined:
    """One member of a group, and what it was told."""

    def __init__(self, group: Group, name: str, partitions: int = M) -> None:
        self.held: set[int] = set()
        self.told: list[tuple[str, list[int]]] = []
        self.threads: set[int] = set()
        self.while_revoked: Callable[[], None] = lambda: None
        self.membership: Membership = group.join(name, partitions, self.assigned, self.revoked, self.lost)

    def note(self, what: str, numbers: Sequence[int]) -> None:
        self.threads.add(threading.get_ident())
        self.told.append((what, [*numbers]))

    def assigned(self, numbers: Sequence[int]) -> None:
        assert self.held.isdisjoint(numbers)
        self.held.update(numbers)
        self.note("assigned", numbers)

    def revoked(self, numbers: Sequence[int]) -> None:
        assert self.held.issuperset(numbers)
        self.while_revoked()
        self.held.difference_update(numbers)
        self.note("revoked", numbers)

    def lost(self, numbers: Sequence[int]) -> None:
        assert self.held.issuperset(numbers)
        self.held.difference_update(numbers)
        self.note("lost", numbers)


class GroupStage:
    """A ledger with a group, and the members that a test made."""

    def __init__(self, ledger: Ledger, **settings: Any) -> None:
        self.ledger = ledger
        self.group = group_of(ledger, contends(pares.Member), **settings)
        self.name = f"g-{uuid.uuid4().hex[:8]}"
        self.members: list[Joined] = []

    def join(self) -> Joined:
        member = Joined(self.group, self.name)
        self.members.append(member)
        return member

    def poll_until(self, what: Callable[[], bool], *members: Joined) -> None:
        """Polls these members, in turn, until something has come about; in between nobody may have what another has."""
        end = time.monotonic() + 2 * PATIENCE
        while not what():
            assert time.monotonic() < end, [member.told for member in self.members]
            for member in members:
                member.membership.poll(0.02)
                held = [number for m in self.members for number in m.held]
                assert len(held) == len(set(held)), [m.told for m in self.members]

    def shared_out(self, *members: Joined) -> None:
        def balanced() -> bool:
            counts = [len(member.held) for member in members]
            return sum(counts) == M and max(counts) <= min(counts) + 1

        self.poll_until(balanced, *members)

    def close(self) -> None:
        for member in self.members:
            member.while_revoked = lambda: None
            member.membership.leave()
        self.ledger.close()


@pytest.fixture(params=["memory", "sqlite", "kafka"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[GroupStage]:
    """Every kind of group in turn."""
    if request.param == "kafka":
        kafka = request.getfixturevalue("kafka")
        url = f"kafka://{kafka.bootstrap}/t-{uuid.uuid4().hex}?partitions={M}"
        made = GroupStage(pares.open(url, options=kafka.client()))
    else:
        made = GroupStage(pares.open(fresh_url(request.param, tmp_path)), settle=0.05)
    yield made
    made.close()


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[GroupStage]:
    made = GroupStage(pares.open(fresh_url("memory", tmp_path)), settle=0.05, session=QUICK)
    yield made
    made.close()


def test_one_member_gets_everything(stage: GroupStage) -> None:
    one = stage.join()
    stage.shared_out(one)
    assert {what for what, _ in one.told} == {"assigned"}
    assert one.membership.reassignment_bound > 0


def test_a_newcomer_gets_its_share_and_the_rest_stays(stage: GroupStage) -> None:
    one = stage.join()
    stage.shared_out(one)
    two = stage.join()
    stage.shared_out(one, two)
    moved = [number for what, numbers in one.told if what == "revoked" for number in numbers]
    assert sorted(moved) == sorted(two.held)


def test_who_leaves_is_told_first_and_others_get_its_share(stage: GroupStage) -> None:
    one, two = stage.join(), stage.join()
    stage.shared_out(one, two)
    held = sorted(one.held)
    one.membership.leave()
    assert one.told[-1] == ("revoked", held)
    one.membership.leave()
    with pytest.raises(ClosedError):
        one.membership.poll()
    stage.shared_out(two)


def test_callbacks_run_in_poll_and_nowhere_else(stage: GroupStage) -> None:
    one, two = stage.join(), stage.join()
    time.sleep(0.3)
    assert not one.told
    stage.shared_out(one, two)
    assert one.threads | two.threads == {threading.get_ident()}


def test_nobody_gets_a_partition_before_its_revocation_callback_has_returned(stage: GroupStage) -> None:
    one = stage.join()
    stage.shared_out(one)
    two = stage.join()
    seen: list[set[int]] = []

    def slow() -> None:
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            two.membership.poll(0.02)
            seen.append(set(two.held) & one.held)

    one.while_revoked = slow
    stage.poll_until(lambda: any(what == "revoked" for what, _ in one.told), one, two)
    assert seen
    assert not any(seen)
    one.while_revoked = lambda: None
    stage.shared_out(one, two)


def poll_for_long(membership: Membership) -> None:
    for _ in range(int(PATIENCE / 0.05)):
        membership.poll(0.05)


def test_what_a_callback_raises_comes_out_of_poll(stage: GroupStage) -> None:
    def fails(numbers: Sequence[int]) -> None:
        raise ValueError(f"no use for {list(numbers)}")

    membership = stage.group.join(stage.name, M, fails, lambda _: None, lambda _: None)
    try:
        with pytest.raises(ValueError, match="no use for"):
            poll_for_long(membership)
    finally:
        membership.leave()


def test_groups_of_other_names_share_nothing(stage: GroupStage) -> None:
    one = stage.join()
    stage.shared_out(one)
    other = Joined(stage.group, f"other-{uuid.uuid4().hex[:8]}")
    end = time.monotonic() + 2 * PATIENCE
    while len(other.held) < M:
        assert time.monotonic() < end
        other.membership.poll(0.02)
    assert len(one.held) == M
    other.membership.leave()


# Only by claims ----------------------------------------------------------------------------------------------------------


def test_who_cannot_reach_the_ledger_is_told_that_it_has_lost_everything(memory: GroupStage) -> None:
    ledger = memory.ledger
    assert isinstance(ledger, MemoryLedger)
    one = memory.join()
    memory.shared_out(one)
    ledger.cut()
    end = time.monotonic() + PATIENCE
    while one.held:
        assert time.monotonic() < end
        with pytest.raises(LedgerUnavailable):
            one.membership.poll(0.3)
    assert {what for what, _ in one.told} == {"assigned", "lost"}
    ledger.heal()
    end = time.monotonic() + PATIENCE
    while len(one.held) < M:
        assert time.monotonic() < end
        try:
            one.membership.poll(0.05)
        except LedgerUnavailable:
            time.sleep(0.02)


def test_a_ledger_with_a_group_of_its_own_is_asked_for_it(memory: GroupStage) -> None:
    assert isinstance(memory.group, ClaimsGroup)
    assert group_of(memory.ledger, contends(pares.Member)) is not memory.ledger
    assert isinstance(memory.group, Group)


def test_a_name_that_is_too_long_for_its_assignment_is_refused(memory: GroupStage) -> None:
    with pytest.raises(ConfigError, match="use at most 189"):
        memory.group.join("x" * 190, 1, lambda _: None, lambda _: None, lambda _: None)
