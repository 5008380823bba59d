"""NELI and Fast NELI on a real Kafka's topic: it grows while a group lives, and several groups share it."""

from __future__ import annotations

import threading
import time
import uuid
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions
from runtime_tools import Crew, binding, until

import pares
from kafka_tools import new_topic
from pares.core.neli.classic import BEACONS, Neli
from pares.core.wire.neli_records import Beacon, Pulse, decode
from pares.dev import Kafka
from pares.runtime.config.protocols import Protocol
from pares.runtime.neli import settings

pytestmark = pytest.mark.brokers
ROLES = ("0", "1", "2", "3")
PATIENCE = 90.0
MODES: dict[str, dict[str, Any]] = {
    "fast-neli": {"protocol": "fast-neli"},
    "neli": {"protocol": "neli"},
    "nele": {"protocol": "nele", "overlap": 1.0},
}


def new_group() -> str:
    return f"g-{uuid.uuid4().hex[:8]}"


class Look:
    """Asks all members of a group again and again who leads what; keeps what two of them said of one role at once."""

    def __init__(self) -> None:
        self.members: list[pares.Member] = []
        self.twice: list[str] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self) -> None:
        while not self._over.wait(0.002):
            for role in ROLES:
                led = [member for member in list(self.members) if member.holds(role)]
                # Asked one after the other: who is asked again and still says yes believed at the same instant as the next.
                if len(led) > 1 and led[0].holds(role):
                    self.twice.append(f"{role}: {[member.name for member in led]}")

    def end(self) -> None:
        self._over.set()
        self._thread.join()


@pytest.mark.parametrize("how", ["by the broker's tools", "by a member's URL"])
@pytest.mark.parametrize("mode", MODES)
def test_a_topic_that_grows_under_a_living_group(kafka: Kafka, mode: str, how: str) -> None:
    """M: the paper forbids it. Everybody says its number in every partition, and the larger one takes the others along."""
    topic = new_topic(kafka, partitions=2, settings={"message.timestamp.type": "LogAppendTime"})
    url = f"kafka://{kafka.bootstrap}/{topic}"
    crew, look = Crew(url, new_group()), Look()
    try:
        one = crew.member("one", ROLES, **MODES[mode])
        look.members.append(one)
        before = {role: one.wait(role, PATIENCE) for role in ROLES}
        assert all(before.values())
        assert before["0"] is not None
        assert before["2"] is not None
        assert before["0"].token == before["2"].token, "of one partition"
        wider: dict[str, Any] = {"ledger": f"{url}?partitions=4"}
        if how == "by the broker's tools":
            admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0, **kafka.client()})
            admin.create_partitions([NewPartitions(topic, 4)])[topic].result(PATIENCE)
            other = pares.open(url)
            until(lambda: other.partitions == 4, "the topic has grown", PATIENCE)
            other.close()
            time.sleep(1.0)
            assert all(before.values()), "nobody minds a topic that has more partitions than the group shares out"
            wider = {}
        two = crew.member("two", ROLES, **wider, **MODES[mode])
        look.members.append(two)
        until(lambda: one.health().restarts == 1, "who shared out fewer began anew", PATIENCE)
        everybody = (one, two)

        def led() -> dict[str, pares.Term] | None:
            found = {role: t for role in ROLES for m in everybody if (t := m.term(role)) is not None}
            return found if len(found) == len(ROLES) else None

        after = until(led, "every role is led", PATIENCE)
        assert not any(before.values()), "no term by the smaller number is left"
        assert after is not None
        assert len({term.token for term in after.values()}) >= 2, "of more partitions than one"
        for role in ROLES:
            old = before[role]
            assert old is not None
            assert after[role].token > old.token
        one.close()
        until(lambda: all(two.holds(role) for role in ROLES), "the other leads all", PATIENCE)
    finally:
        look.end()
    if mode != "nele":
        assert look.twice == []


@pytest.mark.parametrize(
    ("protocol", "budget"), [(pares.Nele(interval=0.5), 3), (pares.FastNeli(poll_interval=0.15), 10)], ids=repr
)
def test_groups_that_share_a_topic_divide_its_beats(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch, protocol: Protocol, budget: int
) -> None:
    """Topic reuse: each group leads for itself, sees the others' beats, and beats more seldom for them. In NELE T follows; Fast
    NELI's deadline does not, and bears no interval much longer than this one (0.6 s of 2 s). Three groups want F / 3, which is
    more than the budget has for them."""
    groups = 3
    monkeypatch.setattr(settings, "BUDGET", budget)
    topic = new_topic(kafka, partitions=2, settings={"message.timestamp.type": "LogAppendTime"})
    url = f"kafka://{kafka.bootstrap}/{topic}?partitions=2"
    members = [Crew(url, new_group()).member(f"m{number}", ("0", "1"), protocol=protocol) for number in range(groups)]
    terms = [member.wait(role, PATIENCE) for member in members for role in ("0", "1")]
    assert all(terms), "each group has leaders of its own"

    def core(member: pares.Member) -> Any:
        return binding(member).core  # pyright: ignore[reportPrivateUsage,reportAttributeAccessIssue]

    share = groups * 2 * 1_000_000_000 // budget
    until(lambda: all(core(m).rules.share.interval_ns == share for m in members), "all see all", PATIENCE)
    ledger = pares.open(url)
    since = [ledger.end(partition) for partition in range(2)]
    time.sleep(6.0)
    written = 0
    for partition, offset in enumerate(since):
        seen = [decode(entry.payload) for entry in ledger.read(offset, partition, 10_000)]
        beacons = [record for record in seen if isinstance(record, Beacon | Pulse)]
        assert {record.g for record in beacons} == {member.group for member in members}, "no group dries up"
        written += len(beacons)
    assert 0 < written <= budget * 6.0 + groups * 2
    assert all(terms), "and T follows: nobody has lost anything by it"
    for member in members:
        assert not isinstance(core(member).rules, Neli) or core(member).rules.threshold_ns >= BEACONS * share
    ledger.close()
    members[0].close()
    assert all(member.holds("0") for member in members[1:]), "a group that ends is nobody else's end"
