"""Kafka's consumer groups: who gets what, and who is told when it is taken away."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from kafka_stages import Cluster, opened
from log_tools import until

from pares.core.errors import LedgerUnavailable
from pares.ledger import Group, Membership

HANG = 60.0
PROGRAM = Path(__file__).with_name("kafka_group_member.py")


class Member:
    """One member of a group, and what it was told."""

    def __init__(self, ledger: Group, group: str, partitions: int) -> None:
        self.held: set[int] = set()
        self.told: list[tuple[str, list[int]]] = []
        self.membership: Membership = ledger.join(group, partitions, self.assigned, self.revoked, self.lost)

    def assigned(self, numbers: Sequence[int]) -> None:
        self.held.update(numbers)
        self.told.append(("assigned", [*numbers]))

    def revoked(self, numbers: Sequence[int]) -> None:
        assert self.held.issuperset(numbers)
        self.held.difference_update(numbers)
        self.told.append(("revoked", [*numbers]))

    def lost(self, numbers: Sequence[int]) -> None:
        self.held.difference_update(numbers)
        self.told.append(("lost", [*numbers]))


def balance(members: list[Member], partitions: int) -> None:
    end = time.monotonic() + HANG
    while sorted(number for member in members for number in member.held) != list(range(partitions)) or not all(
        member.held for member in members
    ):
        assert time.monotonic() < end, [member.told for member in members]
        for member in members:
            member.membership.poll(0.02)


def poll(*members: Member) -> None:
    """Let them run for a while."""
    end = time.monotonic() + HANG / 4
    while time.monotonic() < end:
        for member in members:
            member.membership.poll(0.05)


def test_a_group_shares_out_the_partitions(cluster: Cluster, topic: str) -> None:
    ledger = opened(cluster, topic, partitions=6)
    one = Member(ledger, topic, 6)
    balance([one], 6)
    assert one.told == [("assigned", [0, 1, 2, 3, 4, 5])]
    two = Member(ledger, topic, 6)
    balance([one, two], 6)
    assert sorted(map(len, (one.held, two.held))) == [3, 3]
    assert one.membership.reassignment_bound == 6.0
    held = sorted(one.held)
    one.membership.leave()
    one.membership.leave()
    assert one.told[-1] == ("revoked", held)
    balance([two], 6)
    two.membership.leave()
    ledger.close()


def test_a_group_of_other_size_than_the_log(cluster: Cluster, topic: str) -> None:
    ledger = opened(cluster, topic)
    one = Member(ledger, topic, 3)
    balance([one], 3)
    one.membership.leave()
    ledger.close()


def test_more_members_than_a_group_may_have(cluster: Cluster, topic: str) -> None:
    ledger = opened(cluster, topic, partitions=4)
    members = [Member(ledger, topic, 4) for _ in range(3)]
    balance(members, 4)
    surplus = Member(ledger, topic, 4)
    with pytest.raises(LedgerUnavailable, match=r"group\.max\.size"):
        poll(surplus, *members)
    for member in [surplus, *members]:
        member.membership.leave()
    ledger.close()


def test_what_a_callback_raises_comes_out_of_poll(cluster: Cluster, topic: str) -> None:
    ledger = opened(cluster, topic)

    def fails(numbers: Sequence[int]) -> None:
        raise ValueError(f"no use for {numbers}")

    membership = ledger.join(topic, 1, fails, lambda _: None, lambda _: None)
    with pytest.raises(ValueError, match="no use for"):
        membership.poll(HANG)
    membership.leave()
    ledger.close()


# Lost, not revoked ---------------------------------------------------------------------------------------------------


class Elsewhere:
    """A member in a process of its own."""

    def __init__(self, url: str, group: str, partitions: int, settings: dict[str, Any]) -> None:
        command = [sys.executable, str(PROGRAM), url, group, str(partitions), json.dumps(settings)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def hears(self) -> list[Any]:
        """What it was told next: a name and partitions."""
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def end(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.communicate(timeout=HANG)


@pytest.mark.processes
def test_a_member_that_stood_still_has_lost_what_others_got_meanwhile(cluster: Cluster, topic: str) -> None:
    url = f"kafka://{cluster.bootstrap}/{topic}"
    quick = {"session.timeout.ms": 1000}
    ledger = opened(cluster, topic, partitions=2, options=quick)
    zombie = Elsewhere(url, topic, 2, quick)
    try:
        assert zombie.hears() == ["assigned", [0, 1]]
        os.kill(zombie.process.pid, signal.SIGSTOP)
        other = Member(ledger, topic, 2)
        assert other.membership.reassignment_bound == 1.0
        balance([other], 2)
        os.kill(zombie.process.pid, signal.SIGCONT)
        # Too late for a barrier: another one has had them since. So it is not told that they are being revoked.
        assert zombie.hears() == ["lost", [0, 1]]
        until(lambda: other.membership.poll(0.05) or len(other.held) == 1, HANG)
        assert other.told[-1][0] == "revoked"
        said, numbers = zombie.hears()
        assert said == "assigned"
        assert sorted([*numbers, *other.held]) == [0, 1]
        other.membership.leave()
    finally:
        zombie.end()
        ledger.close()


def test_a_member_that_does_not_poll_is_out_and_is_told_so(cluster: Cluster, topic: str) -> None:
    ledger = opened(cluster, topic, options={"session.timeout.ms": 1000, "max.poll.interval.ms": 1000})
    lazy = Member(ledger, topic, 1)
    balance([lazy], 1)
    busy = Member(ledger, topic, 1)
    end = time.monotonic() + HANG
    while not busy.held:
        assert time.monotonic() < end, busy.told
        busy.membership.poll(0.05)
    assert lazy.held == {0}, "nothing is told but in poll"
    end = time.monotonic() + HANG
    while lazy.held and time.monotonic() < end:
        try:
            lazy.membership.poll(0.05)
        except LedgerUnavailable as error:
            assert "max.poll.interval.ms" in str(error)  # noqa: PT017
        busy.membership.poll(0.0)
    assert lazy.told == [("assigned", [0]), ("lost", [0])]
    for member in (lazy, busy):
        member.membership.leave()
    ledger.close()


def test_a_member_without_partitions_leaves_at_once_too(cluster: Cluster, topic: str) -> None:
    """The client says nothing of its own accord then, and the next rebalance would wait for it, a session long."""
    session = 30.0
    settings = {"session.timeout.ms": int(session * 1000), "heartbeat.interval.ms": 500}
    ledger = opened(cluster, topic, options=settings)
    group = cluster.name()
    members = [Member(ledger, group, 1), Member(ledger, group, 1)]
    end = time.monotonic() + HANG
    while cluster.members(group) != 2 or not any(member.held for member in members):
        assert time.monotonic() < end, [member.told for member in members]
        for member in members:
            member.membership.poll(0.05)
    end = time.monotonic() + 3.0
    while time.monotonic() < end:  # a client that has just joined does say it
        for member in members:
            member.membership.poll(0.05)
    (idle,) = (member for member in members if not member.held)
    (owner,) = (member for member in members if member.held)
    left = time.monotonic()
    idle.membership.leave()
    while cluster.members(group) != 1:
        assert time.monotonic() < left + session / 2, "the group does not wait for its session"
        owner.membership.poll(0.05)
    owner.membership.leave()
    ledger.close()
