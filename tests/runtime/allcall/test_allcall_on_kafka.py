"""Members that run ALLCALL over a Kafka topic: their calls are records that all of them tail."""

from __future__ import annotations

import uuid

import pytest
from allcall_tools import CALM, PATIENCE, band, settle
from runtime_tools import Crew

import pares
from kafka_tools import read
from pares.dev import Kafka

pytestmark = pytest.mark.brokers


def test_three_lead_one_after_the_other(kafka: Kafka) -> None:
    topic = f"t-{uuid.uuid4().hex}"
    crew = Crew(f"kafka://{kafka.bootstrap}/{topic}")
    a, b, c = members = band(crew, **CALM)
    first = a.term("x")
    assert first is not None

    a.hand_over("x")
    second = b.wait("x", PATIENCE)
    assert second is not None
    assert second.token > first.token
    settle(members)  # at the end of that term, for a has the lowest rank
    third = a.term("x")
    assert third is not None
    assert third.token > second.token

    a.close()
    fourth = b.wait("x", PATIENCE)
    assert fourth is not None
    assert fourth.token > third.token
    settle([b, c])
    b.close()
    assert c.wait("x", PATIENCE)
    assert c.health().bad_records == c.health().uncounted_records == 0

    assert all(b"\n" in record for record in read(kafka, f"{topic}.pares.bus")), "calls, each with its subject"
    ledger = pares.open(str(crew.ledger))
    assert ledger.end() == 0, "the log itself stays empty"
    ledger.close()


def test_an_administrator_of_it_is_refused_by_name(kafka: Kafka) -> None:
    """And makes no topic for a bus where there is none."""
    url = f"kafka://{kafka.bootstrap}/t-{uuid.uuid4().hex}"
    crew = Crew(url)
    band(crew, "a", **CALM)
    with pytest.raises(pares.CapabilityError, match="group 'g' runs 'allcall'"):
        pares.Admin(url, group="g")
    with pares.Admin(f"{url}?partitions=1", group="other") as admin:
        admin.add_role("y")
        assert admin.roles() == {"y": 1}
