"""Where a run takes place: topics, a group's log, and faults that can be made there. On files, or on three Kafka brokers."""

from __future__ import annotations

import contextlib
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Self

import pares
from chaos.brokers import Brokers
from chaos.delivery.crew import Crew
from chaos.delivery.faults import OF_WORKERS
from chaos.delivery.judge import Begin, Place, Term
from chaos.delivery.plan import GROUP, PLAIN, TOPIC, Plan, Task, Way
from chaos.faults import KINDS
from pares.core.consume.names import WHOLE, Partition
from pares.core.wire.changes import SeatChanged
from pares.core.wire.divided.ranges import position
from pares.core.wire.reader import Reader
from pares.core.wire.records import Take, decode
from pares.core.wire.world import World
from pares.dev.kafka.settings import QUICK_RETURN
from pares.ledger import open_source, open_topic

ON_BROKERS: Final = (
    *("member-cut", "member-mute", "leader-cut", "slow-link"),
    *("broker-kill", "broker-freeze", "broker-split", "controller-loss", "all-restart"),
)
"""Faults of `chaos.faults` that concern those that consume."""
CHUNK: Final = 2000


def key_of(number: int) -> bytes | None:
    """Of a record; some have none."""
    return b"customer %d" % (number % 101) if number % 7 else None


class Ground(ABC):
    """`crew`: the workers of the way that is under way."""

    folder: Path
    crew: Crew
    kinds: Sequence[str]
    """What faults can be made here."""

    @abstractmethod
    def make_topic(self, way: Way, topic: str, partitions: int) -> None:
        """With the group's log."""

    @abstractmethod
    def urls(self, way: Way) -> tuple[str, str]:
        """Of the group's log; and where the topic is, if that is elsewhere."""

    @abstractmethod
    def producing(self, topic: str, plan: Plan) -> contextlib.AbstractContextManager[None]:
        """Records come while it lasts."""

    @abstractmethod
    def ends(self, topic: str, partitions: int) -> list[int]: ...

    @abstractmethod
    def fault(self, kind: str) -> contextlib.AbstractContextManager[str]: ...

    @abstractmethod
    def calm(self) -> bool:
        """Whether the next fault may come."""

    def command(self, task: Task, place: str) -> list[str]:
        """What runs a worker."""
        return [sys.executable, "-m", "chaos.delivery.worker", task_json(task)]

    # What came of it -----------------------------------------------------------------------------------------------------

    def records(self, way: Way, topic: str, partitions: int) -> Iterator[Place]:
        """All that stands in the topic."""
        log, where = self.urls(way)
        with contextlib.closing(open_source(where or log, topic)) as source:
            for number in range(partitions):
                at, end = source.start(number), source.end(number)
                while at < end:
                    found = source.fetch(number, at, max_records=CHUNK, max_bytes=1 << 24, timeout=5.0)
                    yield from ((number, record.offset) for record in found.records)
                    at = found.next

    def worked_off(self, way: Way, topic: str, partitions: int) -> bool:
        """Whether the group's positions have come to the ends."""
        ends = self.ends(topic, partitions)
        with pares.Observer(self.urls(way)[0], group=GROUP) as observer:
            world = observer.world
            there = {
                partition.number: position(world, seat)
                for seat in world.seats.values()
                if (partition := Partition.of(seat.role)) is not None and partition.slot == WHOLE
            }
        return len(there) == partitions and all(there[number] >= end for number, end in enumerate(ends))

    def begins(self, way: Way) -> dict[Term, Begin]:
        """Where each term began, as the group's log has it at that place, and what was taken in it."""
        found: dict[Term, Begin] = {}
        with contextlib.closing(pares.open(self.urls(way)[0])) as ledger:
            reader = Reader(GROUP)
            reader.attach(ledger.start(), 0)
            while entries := ledger.read(reader.position, 0, CHUNK):
                for entry in entries:
                    for change in reader.feed([entry]):
                        partition = Partition.of(change.seat[0]) if isinstance(change, SeatChanged) else None
                        if not isinstance(change, SeatChanged) or partition is None or change.holder is None:
                            continue
                        seat, ahead = reader.world.seats[change.seat], reader.world.ahead.get(change.seat)
                        done = () if ahead is None else ahead.done
                        name = reader.world.members[change.holder].name
                        begin = Begin(max(seat.mark, seat.taken), done, name=name, slot=partition.slot)
                        found[partition.number, change.token] = begin
                    _note_take(reader.world, entry.payload, found)
        return found


def _note_take(world: World, payload: bytes, begins: dict[Term, Begin]) -> None:
    """If what was just folded is a take that had its effect."""
    record = decode(payload)
    if not isinstance(record, Take):
        return
    seat, partition = world.seats.get(record.seat), Partition.of(record.seat[0])
    if (
        seat is None
        or partition is None
        or (seat.holder, seat.token, seat.taken)
        != (
            record.m,
            record.token,
            record.last + 1,
        )
    ):
        return
    took = begins[partition.number, record.token].took
    if not took or took[-1][1] <= record.first:
        took.append((record.first, record.last + 1))


def task_json(task: Task) -> str:
    import msgspec

    return msgspec.json.encode(task).decode()


class Files(Ground):
    """A folder, and processes of one host: kills and freezes."""

    kinds = tuple(OF_WORKERS)

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._topic: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left but files."""

    def urls(self, way: Way) -> tuple[str, str]:
        return f"file:{self.folder / way}", ""

    def make_topic(self, way: Way, topic: str, partitions: int) -> None:
        self._where = self.urls(way)[0]
        self._topic = (topic, partitions)
        with self._open():
            """It is there now."""

    @contextlib.contextmanager
    def _open(self) -> Iterator[Any]:
        with (
            contextlib.closing(pares.open(self._where)) as ledger,
            contextlib.closing(open_topic(ledger, *self._topic)) as topic,
        ):
            yield topic

    @contextlib.contextmanager
    def producing(self, topic: str, plan: Plan) -> Iterator[None]:
        over = threading.Event()

        def produce() -> None:
            number = 0
            with self._open() as orders:
                while not over.wait(0.05):
                    for _ in range(max(1, plan.rate // 20)):
                        orders.append(b"order %d" % number, partition=number % plan.partitions, key=key_of(number))
                        number += 1

        with _beside(produce, over):
            yield

    def ends(self, topic: str, partitions: int) -> list[int]:
        with self._open() as orders:
            return [orders.end(number) for number in range(partitions)]

    def fault(self, kind: str) -> contextlib.AbstractContextManager[str]:
        return OF_WORKERS[kind].make(self.crew)

    def calm(self) -> bool:
        return True


@contextlib.contextmanager
def _beside(run: Any, over: threading.Event) -> Iterator[None]:
    """`run` on a thread, until the end. What it raises is raised then."""
    errors: list[BaseException] = []

    def go() -> None:
        try:
            run()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=go, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    if errors:
        raise errors[0]


class OnKafka(Brokers, Ground):
    """Three brokers and the workers, each in a network of its own."""

    kinds = (*OF_WORKERS, *ON_BROKERS)
    topic = TOPIC
    settings = QUICK_RETURN

    def __init__(self, folder: Path, workers: int, seed: int) -> None:
        super().__init__(folder, [f"w{number + 1}" for number in range(workers)], seed)

    def _begin(self) -> None:
        self._made: dict[str, int] = {}

    def a_leading_member(self) -> str:
        return self.crew.one_that_runs()

    def command(self, task: Task, place: str) -> list[str]:
        return [*self.net.prefix(place), *super().command(task, place)]

    def urls(self, way: Way) -> tuple[str, str]:
        if way == PLAIN:
            return "", self.kafka.bootstrap
        return self.kafka.topic_url(f"log-{way}"), f"kafka://{self.kafka.bootstrap}"

    def make_topic(self, way: Way, topic: str, partitions: int) -> None:
        from confluent_kafka.cimpl import NewTopic

        self.topic = topic

        def make() -> bool:
            if topic not in self.admin.list_topics(timeout=5).topics:
                made = NewTopic(topic, partitions, config={"min.insync.replicas": "2"})
                self.admin.create_topics([made], request_timeout=10)[topic].result(20)
            return len(self.admin.list_topics(topic, timeout=5).topics[topic].partitions) == partitions

        self.until(make, f"the topic {topic} is made")
        log, _ = self.urls(way)
        if log:
            # By workers that come all at once it would be made eight times.
            self.until(lambda: bool(_identity(log)), "the group's log is made")

    @contextlib.contextmanager
    def producing(self, topic: str, plan: Plan) -> Iterator[None]:
        from confluent_kafka import Producer

        over = threading.Event()
        writer = Producer({"bootstrap.servers": self.kafka.bootstrap, "enable.idempotence": True, "log_level": 0})

        def produce() -> None:
            self.net.enter("desk")
            number = 0
            while not over.wait(0.05):
                for _ in range(max(1, plan.rate // 20)):
                    with contextlib.suppress(BufferError):
                        place = {"partition": number % plan.partitions, "key": key_of(number)}
                        writer.produce(topic, b"order %d" % number, **place)
                    number += 1
                writer.poll(0)
            writer.flush(60)

        with _beside(produce, over):
            yield

    def ends(self, topic: str, partitions: int) -> list[int]:
        with contextlib.closing(open_source(f"kafka://{self.kafka.bootstrap}", topic)) as source:
            return [source.end(number) for number in range(partitions)]

    def records(self, way: Way, topic: str, partitions: int) -> Iterator[Place]:
        if way != PLAIN:
            yield from super().records(way, topic, partitions)
        else:
            yield from super().records("at-least-once", topic, partitions)

    def worked_off(self, way: Way, topic: str, partitions: int) -> bool:
        if way != PLAIN:
            return super().worked_off(way, topic, partitions)
        from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

        places = [TopicPartition(topic, number) for number in range(partitions)]
        asked = ConsumerGroupTopicPartitions(GROUP, places)
        answer = self.admin.list_consumer_group_offsets([asked], request_timeout=5)[GROUP].result(10)
        there = {place.partition: place.offset for place in answer.topic_partitions}
        return all(there[number] >= end for number, end in enumerate(self.ends(topic, partitions)))

    def fault(self, kind: str) -> contextlib.AbstractContextManager[str]:
        return OF_WORKERS[kind].make(self.crew) if kind in OF_WORKERS else KINDS[kind].make(self)

    def calm(self) -> bool:
        return self.whole()


def _identity(url: str) -> str:
    with contextlib.closing(pares.open(url)) as ledger:
        return ledger.identity()
