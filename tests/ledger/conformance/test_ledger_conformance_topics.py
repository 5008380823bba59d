"""The conformance suite: topics and partitions are logs of their own, and what can be said of them."""

import pytest
from ledger_stages import Stage
from log_tools import HANG, payloads, rings

import pares.ledger
from pares.core.errors import ClosedError, ConfigError


def test_topics_are_logs_of_their_own(stage: Stage) -> None:
    ledger = stage.open()
    ledger.append(b"ledger")
    orders, bills = ledger.topic("orders", partitions=3), ledger.topic("bills/2024 ä", partitions=1)
    assert (orders.partitions, bills.partitions) == (3, 1)
    assert [orders.append(b"%d" % partition, partition) for partition in (0, 1, 2, 2)] == [0, 0, 0, 1]
    assert bills.append(b"bill") == 0
    assert payloads(orders, partition=2) == [b"2", b"2"]
    orders.trim(1, 2)
    assert [orders.start(partition) for partition in range(3)] == [0, 0, 1]
    same = stage.open().topic("orders", partitions=3)
    assert same.partitions == 3
    assert same.read(1, 2) == orders.read(1, 2)
    assert same.identity() == orders.identity() != bills.identity()
    assert payloads(ledger) == [b"ledger"]


def test_a_topic_keeps_its_number_of_partitions_or_grows(stage: Stage) -> None:
    ledger = stage.open()
    orders = ledger.topic("orders", partitions=2)
    orders.append(b"x", 1)
    grows = ledger.capabilities.topics
    assert stage.open().topic("orders", partitions=3).partitions == (3 if grows else 2)
    assert orders.partitions == (3 if grows else 2)
    assert payloads(orders, partition=1) == [b"x"]
    if grows:
        assert orders.append(b"y", 2) == 0
        with pytest.raises(ConfigError, match=r"has 3 partitions and can't shrink to partitions=1"):
            ledger.topic("orders", partitions=1)


def test_many_partitions(stage: Stage) -> None:
    ledger, other = stage.open(partitions=16), stage.open()
    bells = [ledger.bell(partition) for partition in range(16)]
    for turn in range(5):
        for partition in range(16):
            assert other.append(b"%d" % partition, partition) == turn
        for partition in range(16):
            assert [entry.payload for entry in ledger.read(turn, partition, timeout=HANG)] == [b"%d" % partition]
    for bell in bells:
        assert bell is not None
        bell.close()


def test_topics_share_handles_and_bells(stage: Stage) -> None:
    ledger = stage.open()
    topic, other = ledger.topic("a"), ledger.topic("b")
    bell = topic.bell(3)
    assert bell is not None
    bell.clear()
    stage.open().topic("a").append(b"x", 3)
    assert rings(bell.fileno(), HANG)
    bell.close()
    topic.close()
    topic.close()
    with pytest.raises(ClosedError):
        topic.append(b"x")
    other.append(b"y")
    ledger.append(b"z")
    ledger.close()
    with pytest.raises(ClosedError):
        other.append(b"y")


@pytest.mark.parametrize("name", ["", "x" * 201, "a\nb", "a\0b", "\x7f", "\x85", "\ud800", None, 5])
def test_bad_topic_names(stage: Stage, name: object) -> None:
    with pytest.raises(ConfigError, match="topic's name"):
        stage.open().topic(name)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("partitions", [0, -1, 10_001, True, 1.5])
def test_bad_numbers_of_partitions(stage: Stage, partitions: object) -> None:
    with pytest.raises(ConfigError, match=r"partitions="):
        stage.open().topic("t", partitions)  # pyright: ignore[reportArgumentType]


def test_longest_topic_name(stage: Stage) -> None:
    name = "€" * 200
    stage.open().topic(name).append(b"x")
    assert payloads(stage.open().topic(name)) == [b"x"]


def test_partitions_are_independent_and_can_grow(stage: Stage) -> None:
    ledger = stage.open(partitions=2)
    ledger.append(b"0", 0)
    ledger.append_many([b"1", b"1"], 1)
    assert (ledger.end(0), ledger.end(1)) == (1, 2)
    for use in (ledger.append, lambda payload, partition: ledger.read(0, partition)):
        for partition in (2, -1):
            with pytest.raises(ConfigError, match=f"no partition {partition}: it has partitions 0 to 1"):
                use(b"x", partition)
    assert stage.open(partitions=4).partitions == 4
    assert ledger.partitions == 4
    assert ledger.append(b"3", 3) == 0
    assert stage.open().partitions == 4
    with pytest.raises(ConfigError, match="can't shrink to partitions=3"):
        stage.open(partitions=3)


def test_the_url_says_which_partition_a_group_lives_in(stage: Stage) -> None:
    ledger = stage.open(partitions=2, partition=1)
    assert pares.ledger.partition_of(ledger.url) == 1
    assert pares.ledger.partition_of(ledger.topic("a?b#c").url) == 1
    again = pares.ledger.open(ledger.url)
    assert again.identity() == ledger.identity()
    again.close()
    with pytest.raises(ConfigError, match="partition 2, but the ledger has partitions 0 to 1"):
        stage.open(partition=2)


def test_options(stage: Stage) -> None:
    assert stage.open(retention=60).retention == 60.0
    assert stage.open(retention="none").retention is None
    for wrong in (0, -1, "x", float("nan"), float("inf"), True):
        with pytest.raises(ConfigError, match="retention="):
            stage.open(retention=wrong)
    with pytest.raises(ConfigError, match="unknown option colour"):
        stage.open(colour="red")
