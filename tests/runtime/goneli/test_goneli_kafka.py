"""goNELI's integration tests and its weaknesses on the broker's side, on a real Kafka (docs/from-goneli.md has the list)."""

from __future__ import annotations

import re
import time
import uuid
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from induction_tools import ROLE, OneAtATime, node
from runtime_tools import Crew, Recorder, binding, until

import pares
from pares.core.errors import ConfigError
from pares.dev import Kafka
from pares.dev.kafka.jars import VERSION

pytestmark = pytest.mark.brokers
PATIENCE = 60.0
PAGE = Path(__file__).parents[3] / "docs" / "from-goneli.md"


def new(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def admin(kafka: Kafka) -> AdminClient:
    return AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0, **kafka.client()})


def described(admin: AdminClient, group: str) -> Any:
    return admin.describe_consumer_groups([group], request_timeout=10)[group].result(PATIENCE)


def test_a_topic_that_is_not_there_is_made(kafka: Kafka, admin: AdminClient) -> None:
    """W8: without the topic there was never a leader, and no error. The broker makes none by itself."""
    topic = new("t")
    assert topic not in admin.list_topics(timeout=10).topics
    with pares.Member(f"kafka://{kafka.bootstrap}/{topic}", group=new("g"), roles=[ROLE], protocol="fast-neli") as me:
        assert me.wait(ROLE, PATIENCE)
        config: Any = binding(me).core.config  # type: ignore[union-attr]  # pyright: ignore
        # With nothing set: a deadline of a third of the session, as goNELI's 5 s of 15 s, and a fifth of it between two beats.
        assert (config.session_ms, config.threshold_ms, config.interval_ms) == (6000, 2000, 400)
    assert topic in admin.list_topics(timeout=10).topics


def test_who_comes_or_goes_does_not_move_the_leader(kafka: Kafka, admin: AdminClient) -> None:
    """W13: every join or leave revoked the leader."""
    barrier = Recorder()
    crew = Crew(f"kafka://{kafka.bootstrap}/{new('t')}?partitions=1", new("g"))
    one = node(crew, "one", barrier=barrier)
    term = one.wait(ROLE, PATIENCE)
    assert term is not None
    two, three = node(crew, "two"), node(crew, "three")
    until(lambda: len(described(admin, crew.group).members) == 3, "all are in the group", PATIENCE)
    until(lambda: described(admin, crew.group).state == confluent_kafka.ConsumerGroupState.STABLE, "it rests", PATIENCE)
    two.close()
    three.close()
    until(lambda: len(described(admin, crew.group).members) == 1, "they are gone", PATIENCE)
    assert term
    assert barrier.kinds() == ["Acquired"]


def test_the_group_is_a_classic_one_and_its_session_is_the_one_that_was_asked_for(
    kafka: Kafka, admin: AdminClient
) -> None:
    """W16: a group of the new protocol takes its session from the broker, and refuses one that is given."""
    crew = Crew(f"kafka://{kafka.bootstrap}/{new('t')}", new("g"))
    me = node(crew, "one", session=4.0)
    assert me.wait(ROLE, PATIENCE)
    assert me.session == 4.0
    assert binding(me).core.config.session_ms == 4000  # type: ignore[union-attr]  # pyright: ignore
    groups = admin.list_consumer_groups(request_timeout=10).result(PATIENCE).valid
    (found,) = (listing for listing in groups if listing.group_id == crew.group)
    assert found.type == confluent_kafka.ConsumerGroupType.CLASSIC
    with pytest.raises(ConfigError, match=r"session is 4 s, and the client settings say session\.timeout\.ms=5000"):
        node(crew, "two", session=4.0, options={"options": {"session.timeout.ms": 5000}})
    with pytest.raises(ConfigError, match=r"group\.protocol is the ledger's own"):
        node(crew, "two", options={"options": {"group.protocol": "consumer"}})


def test_it_runs_with_this_client_on_this_broker(kafka: Kafka) -> None:
    """W17: a client of 2021, and a protocol of which Kafka 4 has dropped the old versions."""
    assert confluent_kafka.libversion()[1] >= 0x02000000
    assert VERSION >= "4"
    crew = Crew(f"kafka://{kafka.bootstrap}/{new('t')}", new("g"))
    assert node(crew, "one").wait(ROLE, PATIENCE)


def test_the_document_shows_what_works(kafka: Kafka) -> None:
    """Its first example, but for where the broker is and what it is called."""
    example = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[0]
    assert "localhost:9092" in example
    code = example.replace("localhost:9092", kafka.bootstrap).replace("my-app-name", new("app"))
    events, runs = Recorder(), list[float]()
    names: dict[str, Any] = {"pares": pares, "on_event": events}
    names["do_important_leader_stuff"] = lambda: (runs.append(time.monotonic()), time.sleep(0.01))
    exec(code, names)
    me: pares.Member = names["me"]
    try:
        until(lambda: runs, "the task runs", PATIENCE)
        assert me.pulse(1.0)
        assert me.state == "live"
        config: Any = binding(me).core.config  # type: ignore[union-attr]  # pyright: ignore
        assert (config.session_ms, config.threshold_ms, config.interval_ms) == (15000, 5000, 100)
    finally:
        me.close()
    assert me.state == "closed"
    count = len(runs)
    assert events.kinds() == ["Acquired", "Revoked"]
    time.sleep(0.1)
    assert len(runs) == count


def test_settings_that_leadership_rests_on_are_refused_by_name(kafka: Kafka) -> None:
    """ErrorDuringConsumerConfiguration, ErrorDuringProducerConfiguration: the user's group.id and linger.ms."""
    for name in ("group.id", "linger.ms", "enable.auto.commit", "bootstrap.servers"):
        with pytest.raises(ConfigError, match=f"{name} is the ledger's own"):
            pares.Member(
                f"kafka://{kafka.bootstrap}/{new('t')}", group="g", roles=[ROLE], options={"options": {name: "7"}}
            )


def test_what_was_begun_is_closed_again(kafka: Kafka) -> None:
    """ErrorDuringSubscribe, ErrorDuringProducerInitialisation: the ledger was open when the settings were refused."""

    def clients() -> int:
        return [path.read_text() for path in Path("/proc/self/task").glob("*/comm")].count("rdk:main\n")

    url = f"kafka://{kafka.bootstrap}/{new('t')}?partitions=1"
    pares.open(url).close()
    before = clients()
    for _ in range(3):
        own = pares.FastNeli(poll_interval=2.0, heartbeat_timeout=1.0)
        with pytest.raises(ConfigError, match="does not fit"):
            pares.Member(url, group=new("g"), roles=[ROLE], protocol=own)
    until(lambda: clients() <= before, "no client of theirs is left", PATIENCE)
    crew = Crew(url, new("g"))
    assert node(crew, "next").wait(ROLE, PATIENCE)


def test_four_nodes_one_leader(kafka: Kafka) -> None:
    """TestFourNodes: one of four leads, at each event; closed one after the other, each is followed; all end clean."""
    crew = Crew(f"kafka://{kafka.bootstrap}/{new('t')}?partitions=1", new("g"))
    seen = OneAtATime()
    nodes = [node(crew, name, barrier=seen.barrier(name)) for name in ("one", "two", "three", "four")]
    tokens: list[int] = []
    while nodes:
        led = until(lambda: [t for n in nodes if (t := n.term(ROLE)) is not None], "one leads", PATIENCE)
        tokens.append(led[0].token)
        closed = nodes.pop(0)
        closed.close()
        assert closed.state == "closed"
        assert not closed.holds(ROLE)
    assert tokens == sorted(tokens)
    assert seen.wrong == []
    assert seen.leading == set()
    assert [kinds for kinds in seen.kinds.values() if kinds not in ([], ["Acquired", "Revoked"])] == []
