"""NELI and Fast NELI on a real Kafka: its own consumer group shares the partitions out."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from induction_tools import ROLES
from runtime_tools import Crew, Recorder, until

import pares
from pares.core.errors import CapabilityError
from pares.dev import Kafka

pytestmark = pytest.mark.brokers
PATIENCE = 60.0


def new_group() -> str:
    """It is also the id of a consumer group, of which there is one in all the cluster."""
    return f"g-{uuid.uuid4().hex[:8]}"


@pytest.fixture(params=["fast-neli", "neli", "nele"])
def mode(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Settings of a member."""
    return {"protocol": "nele", "overlap": 1.0} if request.param == "nele" else {"protocol": request.param}


@pytest.fixture
def ledger(kafka: Kafka) -> Iterator[Any]:
    url = f"kafka://{kafka.bootstrap}/t-{uuid.uuid4().hex}?partitions=2"
    made = pares.open(url, options=kafka.client())
    yield made
    made.close()


def test_two_members_share_and_one_follows_the_other(ledger: Any, mode: dict[str, Any]) -> None:
    crew, barrier = Crew(ledger, new_group()), Recorder()
    one = crew.member("one", ROLES, barrier=barrier, **mode)
    assert all(one.wait(role, PATIENCE) for role in ROLES)
    two = crew.member("two", ROLES, **mode)
    until(lambda: any(two.holds(role) for role in ROLES), "the second has its share", PATIENCE)
    moved = next(role for role in ROLES if two.holds(role))
    until(lambda: not one.holds(moved), "the first has stopped", PATIENCE)
    until(lambda: "Revoked" in barrier.kinds(), "its barrier is called, on a thread of its own", PATIENCE)
    one.close()
    assert one.state == "closed"
    assert all(two.wait(role, PATIENCE) for role in ROLES)


def test_a_member_that_is_gone_is_followed_after_the_groups_session(ledger: Any, mode: dict[str, Any]) -> None:
    crew = Crew(ledger, new_group())
    one = crew.member("one", ROLES, **mode)
    term = one.wait("0", PATIENCE)
    assert term is not None
    two = crew.member("two", ROLES, **mode)
    until(lambda: any(two.holds(role) for role in ROLES), "the second has its share", PATIENCE)
    kept = next(role for role in ROLES if one.holds(role))
    before = one.term(kept)
    assert before is not None
    until(lambda: two.leader(kept) is not None, "the second knows who leads", PATIENCE)
    assert two.health().ok
    time.sleep(0.5)
    one.close(timeout=0)
    follower = two.wait(kept, PATIENCE)
    assert follower is not None
    assert follower.token > before.token


def test_a_topic_with_its_writers_times_carries_no_exclusive_neli(kafka: Kafka) -> None:
    from kafka_tools import new_topic

    topic = new_topic(kafka, partitions=2, settings={"message.timestamp.type": "CreateTime"})
    url = f"kafka://{kafka.bootstrap}/{topic}"
    with pytest.raises(CapabilityError, match=r"message\.timestamp\.type=LogAppendTime"):
        pares.Member(url, group=new_group(), roles=ROLES, protocol="neli", options=kafka.client())
    with pares.Member(url, group=new_group(), roles=ROLES, protocol="fast-neli", options=kafka.client()) as me:
        assert me.wait("0", PATIENCE)
