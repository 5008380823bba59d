"""KafkaFence on a real broker: what read_committed consumers see never goes back to an earlier term."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from kafka_tools import PATIENCE, client, new_topic
from pares.core.errors import ClosedError, ConfigError, ForkedError, LeadershipLost, LedgerUnavailable, Stale
from pares.dev import Kafka, Security
from pares.fence import KafkaFence, kafka_tokens
from pares.fence.kafka import PREFIX
from pares.fence.kafka_writer import Writer
from pares.ledger.kafka_seek import _Client  # pyright: ignore[reportPrivateUsage]
from planted_secret import SECRET


@dataclass(frozen=True)
class Term:
    role: str
    seat: int
    token: int
    holds: bool = True

    def __bool__(self) -> bool:
        return self.holds


@pytest.fixture(scope="module")
def broker() -> Iterator[Kafka]:
    """One that knows users, and ends transactions in time."""
    settings = {
        "transaction.max.timeout.ms": "20000",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    }
    with Kafka(security=Security(users={"ann": SECRET}), settings=settings) as kafka:
        yield kafka


@pytest.fixture
def fence(broker: Kafka) -> Iterator[KafkaFence]:
    with made(broker, name()) as fence:
        yield fence


@pytest.fixture(scope="module")
def topic(broker: Kafka) -> str:
    return new_topic(broker)


_numbers = iter(range(1_000_000))


def name() -> str:
    """Of a fence's topic that nobody has used."""
    return f"fence-{os.getpid()}-{next(_numbers)}"


def made(broker: Kafka, topic: str, group: str | None = None, user: str | None = None, **options: Any) -> KafkaFence:
    return KafkaFence(broker.topic_url(topic), group, options=broker.client(user), **{"timeout": 5.0, **options})


def twin(fence: KafkaFence, broker: Kafka, **options: Any) -> KafkaFence:
    """The same fence in another process, as far as the brokers can tell."""
    return made(broker, fence.url.split("/")[3].partition("?")[0], fence.group, **options)


def write(fence: KafkaFence, term: Term, topic: str, value: bytes) -> None:
    with fence.transaction(term) as out:
        out.produce(topic, value, partition=0)


def seen(broker: Kafka, topic: str, *, committed: bool = True) -> list[bytes]:
    """What a consumer sees of partition 0, from the start up to the end that it has now."""
    level = "read_committed" if committed else "read_uncommitted"
    settings = {"group.id": "judge", "enable.partition.eof": True, "isolation.level": level}
    consumer = Consumer({**client(broker), **settings})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[bytes] = []
        while (message := consumer.poll(PATIENCE)) is not None:
            error = message.error()
            if error is None:
                found.append(message.value() or b"")
            elif error.code() == KafkaError._PARTITION_EOF:
                return found
        raise TimeoutError(f"the end of {topic} was not reached in {PATIENCE} s")
    finally:
        consumer.close()


# Tokens --------------------------------------------------------------------------------------------------------------


def test_a_lower_token_is_refused(broker: Kafka, fence: KafkaFence, topic: str) -> None:
    assert fence.seen("r") is None
    write(fence, Term("r", 0, 5), topic, b"a5")
    write(fence, Term("r", 0, 5), topic, b"a5 again")
    write(fence, Term("r", 0, 7), topic, b"a7")
    for one in (fence, twin(fence, broker)):
        with pytest.raises(Stale) as stale:
            write(one, Term("r", 0, 6), topic, b"a6")
        assert (stale.value.token, stale.value.seen) == (6, 7)
        with pytest.raises(Stale):
            one.check(Term("r", 0, 5))
    write(fence, Term("r", 0, 7), topic, b"a7 again")
    assert fence.seen("r") == 7
    assert [value for value in seen(broker, topic) if value.startswith(b"a")] == [
        b"a5",
        b"a5 again",
        b"a7",
        b"a7 again",
    ]


def test_a_refused_term_harms_nobody(broker: Kafka, fence: KafkaFence, topic: str) -> None:
    """It is refused by a look, before it says anything that would shut the right one out."""
    with fence.transaction(Term("r", 0, 7)) as out:
        out.produce(topic, b"b7", partition=0)
        with pytest.raises(Stale):
            twin(fence, broker).check(Term("r", 0, 6))
    assert b"b7" in seen(broker, topic)


def test_seats_and_groups_are_fenced_apart(broker: Kafka, topic: str) -> None:
    shared = name()
    plain, grouped = made(broker, shared), made(broker, shared, "g")
    odd = "a/b%2F ü '\"" + "x" * 180
    for fence, role, seat in [(plain, "r", 0), (plain, "r", 1), (plain, "R", 0), (plain, odd, 0), (grouped, "r", 0)]:
        assert fence.seen(role, seat) is None
        fence.check(Term(role, seat, 9 - seat))
        with pytest.raises(Stale):
            made(broker, shared, fence.group).check(Term(role, seat, 1))
    ids = {
        plain.transactional_id("a/b"),
        plain.transactional_id("a", 0),
        made(broker, shared, "a").transactional_id("b"),
    }
    assert len(ids) == 3
    assert all(one.startswith(PREFIX) for one in ids)


def test_what_the_body_raises_aborts(broker: Kafka, fence: KafkaFence, topic: str) -> None:
    term = Term("r", 0, 1)
    write(fence, term, topic, b"c kept")
    for value in (b"c one", b"c two"):
        with pytest.raises(ZeroDivisionError), fence.transaction(term) as out:  # noqa: PT012
            out.produce(topic, value, partition=0)
            _ = 1 / 0
        with pytest.raises(ConfigError, match="over"):
            out.produce(topic, b"c late", partition=0)
    write(fence, term, topic, b"c kept too")
    assert [value for value in seen(broker, topic) if value.startswith(b"c")] == [b"c kept", b"c kept too"]


def test_records_have_all_that_a_producer_gives(broker: Kafka, fence: KafkaFence) -> None:
    topic = new_topic(broker, partitions=3)
    told: list[tuple[Any, int]] = []
    with fence.transaction(Term("r", 0, 1)) as out:
        out.produce(
            topic,
            "value",
            "key",
            partition=2,
            headers={"h": b"x"},
            timestamp=1_700_000_000_000,
            on_delivery=lambda error, message: told.append((error, message.partition() or 0)),
        )
        out.produce(topic, None, b"gone")
    assert told == [(None, 2)]
    consumer = Consumer({**client(broker), "group.id": "judge"})
    consumer.assign([TopicPartition(topic, 2, 0)])
    message = consumer.poll(PATIENCE)
    assert message is not None
    assert (message.value(), message.key(), message.headers()) == (b"value", b"key", [("h", b"x")])
    assert message.timestamp()[1] == 1_700_000_000_000
    consumer.close()


# Zombies -------------------------------------------------------------------------------------------------------------


def test_an_open_transaction_ends_when_a_successor_passes(broker: Kafka, fence: KafkaFence, topic: str) -> None:
    successor = twin(fence, broker)
    for at, value in enumerate((b"d at the end", b"d before")):
        old, new = Term("r", 0, 10 * at + 1), Term("r", 0, 10 * at + 2)
        with pytest.raises(Stale) as stale, fence.transaction(old) as out:  # noqa: PT012
            if at:
                out.produce(topic, value, partition=0)
            successor.check(new)
            if not at:
                out.produce(topic, value, partition=0)
        assert (stale.value.token, stale.value.seen) == (old.token, new.token)
        write(successor, new, topic, b"d of the successor")
    assert [value for value in seen(broker, topic) if value.startswith(b"d")] == [b"d of the successor"] * 2


def test_a_body_that_goes_on_after_stale_commits_nothing(broker: Kafka, fence: KafkaFence, topic: str) -> None:
    refused: list[Stale] = []
    with pytest.raises(Stale), fence.transaction(Term("r", 0, 1)) as out:  # noqa: PT012
        out.produce(topic, b"e one", partition=0)
        twin(fence, broker).check(Term("r", 0, 2))
        end = time.monotonic() + PATIENCE
        while not refused and time.monotonic() < end:
            try:
                out.produce(topic, b"e more", partition=0)
            except Stale as stale:
                refused.append(stale)
            time.sleep(0.02)
        assert refused
        with pytest.raises(Stale):
            out.produce(topic, b"e after", partition=0)
    assert not [value for value in seen(broker, topic) if value.startswith(b"e")]


def test_positions_of_a_consumer_count_only_with_the_transaction(broker: Kafka, fence: KafkaFence, topic: str) -> None:
    source = new_topic(broker)
    producer = Producer(client(broker))
    producer.produce(source, b"in", partition=0)
    producer.flush(PATIENCE)
    consumer = Consumer(
        {**client(broker), "group.id": source, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([source])
    assert consumer.poll(PATIENCE) is not None
    place, members = consumer.position([TopicPartition(source, 0)]), consumer.consumer_group_metadata()
    with pytest.raises(Stale), fence.transaction(Term("r", 0, 1)) as out:  # noqa: PT012
        out.send_offsets(place, members)
        twin(fence, broker).check(Term("r", 0, 2))
    assert consumer.committed([TopicPartition(source, 0)], PATIENCE)[0].offset < 0
    with fence.transaction(Term("r", 0, 3)) as out:
        out.send_offsets(place, members)
    assert consumer.committed([TopicPartition(source, 0)], PATIENCE)[0].offset == 1
    consumer.close()


def test_one_that_comes_late_is_refused_and_the_right_one_goes_on(
    broker: Kafka, fence: KafkaFence, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The brokers go by who came last. A process that stood still before its `init_transactions` shuts out its successor."""
    late, first = twin(fence, broker), Writer.init
    right, wrong = Term("r", 0, 7), Term("r", 0, 5)
    came: list[int] = []

    def init(writer: Writer, look: Callable[[], None]) -> None:
        came.append(writer.token)
        if came == [wrong.token]:
            fence.check(right)  # while it stands still, its successor passes
            waiting.set()
            assert go_on.wait(PATIENCE)
            first(writer, lambda: None)  # no look while it waits: so it comes as far as it can
        else:
            first(writer, look)

    def zombie() -> None:
        with pytest.raises(Stale) as stale:
            write(late, wrong, topic, b"f wrong")
        told.append(stale.value.seen)

    monkeypatch.setattr(Writer, "init", init)
    waiting, go_on = threading.Event(), threading.Event()
    told: list[int] = []
    thread = threading.Thread(target=zombie)
    thread.start()
    assert waiting.wait(PATIENCE)
    with pytest.raises(LedgerUnavailable, match="no higher token") as disturbed, fence.transaction(right) as out:  # noqa: PT012
        out.produce(topic, b"f aborted", partition=0)
        go_on.set()
        thread.join(PATIENCE)
    assert told == [7]
    assert disturbed.value.unknown is False or "only the answer was lost" in str(disturbed.value)
    write(fence, right, topic, b"f right")
    with pytest.raises(Stale):
        write(late, wrong, topic, b"f wrong again")
    write(fence, right, topic, b"f right again")
    assert came == [5, 7, 7]
    assert [value for value in seen(broker, topic) if value.startswith(b"f")] == [b"f right", b"f right again"]


def test_whatever_the_order_tokens_never_fall(broker: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """Terms in four processes at once, each slow at other places."""
    rounds = int(os.environ.get("PARES_ROUNDS", "6"))
    topic, shared, first = new_topic(broker), name(), Writer.init
    dice, lock = random.Random(0), threading.Lock()
    issued, over, committed = [0], threading.Event(), list[int]()

    def draw() -> float:
        with lock:
            return dice.choice([0.0, 0.0, 0.1, 0.6])

    def init(writer: Writer, look: Callable[[], None]) -> None:
        time.sleep(draw())
        first(writer, look)

    def work() -> None:
        fence = made(broker, shared)
        while not over.is_set():
            with lock:
                issued[0] += 1
                term = Term("r", 0, issued[0])
            time.sleep(draw())
            try:
                for _ in range(3):
                    write(fence, term, topic, b"%d" % term.token)
                    committed.append(term.token)
            except (Stale, LedgerUnavailable):
                continue
        fence.close()

    monkeypatch.setattr(Writer, "init", init)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + PATIENCE * max(1, rounds // 4)
    while len(committed) < rounds and time.monotonic() < end:
        time.sleep(0.05)
    over.set()
    for thread in threads:
        thread.join(PATIENCE * 2)
    values = [int(value) for value in seen(broker, topic)]
    assert len(committed) >= rounds
    assert values == sorted(values), "a lower token was committed after a higher one"
    for token in set(committed):
        assert values.count(token) >= committed.count(token), "committed, and not there"


# What can't be -------------------------------------------------------------------------------------------------------


def test_a_term_that_is_over_passes_no_more_but_may_end_its_work(broker: Kafka, fence: KafkaFence, topic: str) -> None:
    with pytest.raises(LeadershipLost, match="token 3 is over"):
        write(fence, Term("r", 0, 3, holds=False), topic, b"g")
    assert fence.seen("r") is None
    fence.check(Term("r", 0, 4))
    write(fence, Term("r", 0, 4, holds=False), topic, b"g in the barrier")
    assert b"g in the barrier" in seen(broker, topic)
    fence.check(Term("r", 0, 5))
    with pytest.raises(Stale):
        write(fence, Term("r", 0, 4, holds=False), topic, b"g")


def test_two_writers_for_one_term_shut_each_other_out(broker: Kafka, fence: KafkaFence, topic: str) -> None:
    other, term = twin(fence, broker), Term("r", 0, 1)
    write(fence, term, topic, b"h1")
    write(other, term, topic, b"h2")
    with pytest.raises(LedgerUnavailable, match="another one writes for this term too"):
        write(fence, term, topic, b"h3")
    write(fence, term, topic, b"h4")
    assert [value for value in seen(broker, topic) if value.startswith(b"h")] == [b"h1", b"h2", b"h4"]


def test_a_transaction_that_takes_too_long(broker: Kafka, topic: str) -> None:
    fence, term = made(broker, name(), transaction_timeout=1.0), Term("r", 0, 1)
    with pytest.raises(LedgerUnavailable, match="transaction_timeout=1 s"), fence.transaction(term) as out:  # noqa: PT012
        out.produce(topic, b"i slow", partition=0)
        time.sleep(2.5)
    write(fence, term, topic, b"i quick")
    assert [value for value in seen(broker, topic) if value.startswith(b"i")] == [b"i quick"]


def test_timeouts_that_can_t_be(broker: Kafka) -> None:
    for seconds in (0.9, 0.0, -1.0, float("nan"), 1e9):
        with pytest.raises(ConfigError, match="transaction_timeout="):
            made(broker, name(), transaction_timeout=seconds)
    fence = made(broker, name(), transaction_timeout=20.5)
    with pytest.raises(ConfigError, match=r"no transaction of 20\.5 s .*transaction\.max\.timeout\.ms"):
        fence.check(Term("r", 0, 1))


def test_urls_that_can_t_be(broker: Kafka) -> None:
    with pytest.raises(ConfigError, match="is no Kafka"):
        KafkaFence("memory://x")
    with pytest.raises(ConfigError, match="names no topic"):
        KafkaFence(f"kafka://{broker.bootstrap}")
    with pytest.raises(ConfigError, match="partitions=3"):
        KafkaFence(broker.topic_url("x", partitions=3))
    with pytest.raises(ConfigError, match="unknown option colour"):
        KafkaFence(broker.topic_url("x", colour="red"))
    log = new_topic(broker)
    with pytest.raises(
        ConfigError, match=r"cleanup\.policy=delete.*would forget them: name a topic for the fence alone"
    ):
        made(broker, log)


def test_no_broker_answers() -> None:
    with pytest.raises(LedgerUnavailable, match=r"no broker answers at 127\.0\.0\.1:1,127\.0\.0\.1:2"):
        KafkaFence("kafka://127.0.0.1:1,127.0.0.1:2/fence", timeout=0.5)


def allow(broker: Kafka, kind: ResourceType, what: str, *operations: AclOperation) -> None:
    admin = AdminClient(client(broker))
    pattern = ResourcePatternType.PREFIXED if kind is ResourceType.TRANSACTIONAL_ID else ResourcePatternType.LITERAL
    wanted = [AclBinding(kind, what, pattern, "User:ann", "*", each, AclPermissionType.ALLOW) for each in operations]
    for future in admin.create_acls(wanted).values():
        future.result(PATIENCE)


def test_rights_one_after_the_other(broker: Kafka) -> None:
    """Each error says what is missing; with all of it the user writes."""
    term, target, kept = Term("r", 0, 1), new_topic(broker), name()
    with pytest.raises(ConfigError, match="refuse these credentials"):
        KafkaFence(broker.topic_url(kept), options=broker.client("ann", "wrong"), timeout=5.0)
    with pytest.raises(ConfigError, match=rf"no right to make it.*--create --topic {kept} .*cleanup\.policy=compact"):
        made(broker, kept, user="ann")
    made(broker, kept).close()
    allow(broker, ResourceType.TOPIC, kept, AclOperation.READ, AclOperation.DESCRIBE)
    fence = made(broker, kept, user="ann")
    with pytest.raises(ConfigError, match=r"transactional id 'pares\.fence//r/0'.*--transactional-id pares\.fence/"):
        fence.check(term)
    allow(broker, ResourceType.TRANSACTIONAL_ID, PREFIX, AclOperation.WRITE, AclOperation.DESCRIBE)
    with pytest.raises(LedgerUnavailable, match=f"write to {kept}.*no right") as denied:
        fence.check(term)
    assert denied.value.unknown is False
    allow(broker, ResourceType.TOPIC, kept, AclOperation.WRITE)
    fence.check(term)
    with pytest.raises(LedgerUnavailable, match=f"write to {target}.*no right") as denied:
        write(fence, term, target, b"x")
    assert denied.value.unknown is False
    allow(broker, ResourceType.TOPIC, target, AclOperation.WRITE)
    write(fence, term, target, b"y")
    assert seen(broker, target) == [b"y"]
    assert SECRET not in str(denied.value)


def test_a_record_that_is_too_large(broker: Kafka, fence: KafkaFence) -> None:
    topic = new_topic(broker, settings={"max.message.bytes": "2000"})
    term = Term("r", 0, 1)
    with pytest.raises(ConfigError, match=rf"write to {topic}.*max\.message\.bytes"):
        write(fence, term, topic, os.urandom(5000))
    write(fence, term, topic, b"small")
    assert seen(broker, topic) == [b"small"]


def test_foreign_records_in_the_fence_s_topic(broker: Kafka, fence: KafkaFence) -> None:
    fence.check(Term("r", 0, 5))
    topic = fence.url.split("/")[3].partition("?")[0]
    producer = Producer(client(broker))
    for value in (b"\xff", b"{}", b"[" * 5000, b'{"group":null,"role":"r","seat":0,"token":1e99,"at_ms":0}'):
        producer.produce(topic, value, b"k", partition=0)
    producer.produce(topic, f'{{"group":null,"role":"r","seat":0,"token":{2**63},"at_ms":0}}', b"k", partition=0)
    producer.flush(PATIENCE)
    assert fence.seen("r") == 5
    fence.check(Term("r", 0, 6))


def test_compaction_keeps_the_highest_token_whatever_comes_after_it(broker: Kafka, fence: KafkaFence) -> None:
    """Records of a seat have keys of their own, so a late lower one is no reason to forget the higher one."""
    topic = fence.url.split("/")[3].partition("?")[0]
    for token in (5, 6, 7):
        fence.check(Term("r", 0, token))
    consumer = Consumer({**client(broker), "group.id": "judge", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    left: dict[bytes, bytes] = {}
    while (message := consumer.poll(PATIENCE)) is not None and message.error() is None:
        left[message.key() or b""] = message.value() or b""
    consumer.close()
    assert {key: value for key, value in left.items() if value}.keys() == {kafka_tokens.key(None, "r", 0, 7)}
    assert kafka_tokens.key(None, "r", 0, 5) in left, "deleted by its successor"


def test_one_transaction_of_a_seat_at_a_time(broker: Kafka, fence: KafkaFence, topic: str) -> None:
    term, order = Term("r", 0, 1), list[str]()

    def other() -> None:
        write(fence, term, topic, b"j second")
        order.append("second")

    with fence.transaction(term) as out:
        out.produce(topic, b"j first", partition=0)
        with pytest.raises(ConfigError, match="is open in this thread"):
            write(fence, term, topic, b"j nested")
        with pytest.raises(ConfigError, match="is open in this thread"):
            fence.close()
        write(fence, Term("r", 1, 1), topic, b"j of another seat")
        thread = threading.Thread(target=other)
        thread.start()
        time.sleep(0.2)
        order.append("first")
    thread.join(PATIENCE)
    assert order == ["first", "second"]


def test_a_fence_that_was_closed_or_inherited(broker: Kafka, topic: str) -> None:
    fence, term = made(broker, name()), Term("r", 0, 1)
    write(fence, term, topic, b"k")
    child = os.fork()
    if child == 0:
        try:
            write(fence, term, topic, b"k child")
        except ForkedError:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    fence.close()
    fence.close()
    for use in (lambda: fence.check(term), lambda: write(fence, term, topic, b"k"), lambda: fence.seen("r")):
        with pytest.raises(ClosedError):
            use()
    assert b"k child" not in seen(broker, topic)


@pytest.mark.processes
def test_brokers_that_are_gone_in_the_middle() -> None:
    with Kafka() as kafka:
        topic, term = new_topic(kafka), Term("r", 0, 1)
        fence = KafkaFence(kafka.topic_url("fence"), timeout=1.0, transaction_timeout=4.0)
        write(fence, term, topic, b"before")
        sent: list[tuple[bytes, bool]] = []
        for value, flushed in ((b"not sent", False), (b"sent", True)):
            arrived: list[object] = []
            with pytest.raises(LedgerUnavailable) as caught, fence.transaction(term) as out:  # noqa: PT012
                if not flushed:
                    kafka.freeze(1)
                out.produce(topic, value, partition=0, on_delivery=lambda *told, arrived=arrived: arrived.append(told))
                if flushed:
                    out._open()._producer.flush(PATIENCE)  # pyright: ignore[reportPrivateUsage, reportOptionalMemberAccess]
                    assert arrived
                    kafka.freeze(1)
            sent.append((value, caught.value.unknown))
            assert kafka.bootstrap in str(caught.value)
            with pytest.raises(LedgerUnavailable):
                fence.check(Term("r", 0, 2))
            kafka.thaw(1)
            write_again(fence, term, topic, b"after " + value)
        assert sent == [(b"not sent", False), (b"sent", True)]
        found = seen(kafka, topic)
        # A commit that was sent and not answered may have happened; in its place, before what came after it.
        wanted = [b"before", b"after not sent", b"after sent"]
        assert found in (wanted, [*wanted[:2], b"sent", wanted[2]])
        kafka.kill(1)
        with pytest.raises(LedgerUnavailable):
            write(fence, term, topic, b"to nobody")
        kafka.restart(1)
        write_again(fence, term, topic, b"at last")
        assert seen(kafka, topic) == [*found, b"at last"]
        fence.close()


def test_a_client_that_knows_no_broker_any_more_is_replaced(broker: Kafka) -> None:
    """A lone broker that was frozen may say for a moment that the cluster has none; then its clients have nobody to ask."""
    fence = made(broker, name(), timeout=1.0)
    fence.check(Term("r", 0, 5))
    seeker = fence._tokens._seeker  # pyright: ignore[reportPrivateUsage]
    lost = Consumer({**client(broker), "group.id": "lost", "bootstrap.servers": "127.0.0.1:1"})
    seeker._client = _Client(lost)  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(LedgerUnavailable):
        fence.seen("r")
    assert fence.seen("r") == 5
    fence.close()
    with pytest.raises(RuntimeError):  # it is closed
        lost.list_topics(timeout=0.1)


def write_again(fence: KafkaFence, term: Term, topic: str, value: bytes) -> None:
    end = time.monotonic() + 2 * PATIENCE
    while True:
        try:
            return write(fence, term, topic, value)
        except LedgerUnavailable as error:
            if error.unknown or time.monotonic() > end:  # a second one would stand beside it
                raise


def test_json_of_tokens() -> None:
    passed = kafka_tokens.Passed("g", "r", 0, 5, 17)
    assert kafka_tokens.decode(kafka_tokens.encode(passed)) == passed
    assert json.loads(kafka_tokens.encode(passed)) == {"group": "g", "role": "r", "seat": 0, "token": 5, "at_ms": 17}
    assert kafka_tokens.decode(b"") is None
