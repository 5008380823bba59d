"""Everything a fault needs: the network, three brokers, the members, the probe, and what the brokers say of themselves."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import pares
from chaos.net import Net, mount_memory, require_rights, sweep, unmount
from chaos.probe import Acks
from chaos.processes import Crew
from chaos.verdict.kept import copy
from pares.core.errors import CapabilityError, ParesError
from pares.core.wire.changes import MemberJoined, MemberLeft, SeatChanged
from pares.dev import Kafka
from pares.dev.kafka import jars
from pares.dev.kafka.settings import QUICK_RETURN
from pares.dev.process import Started, start
from pares.ledger.batches import batches
from pares.runtime.detect import newest

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

T = TypeVar("T")

GROUP: Final = "g"
TOPIC: Final = "chaos"
BROKERS: Final = 3
DISK_MB: Final = 320
_LOOK: Final = 0.05
_OFFSETS: Final = "__consumer_offsets"
_FAKETIME: Final = ("/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib*/faketime/libfaketimeMT.so.1")


class Scene:
    """One run's world. In a `with` statement it is brought up, and taken down whatever happens.

    While it is up, this thread (and each that it starts) is in a network from where it reaches every node.
    """

    def __init__(
        self,
        folder: Path,
        session: float,
        members: int,
        seed: int,
        faketime: Path | None = None,
        script: Sequence[str] = (),
        protocol: str = "claims",
    ) -> None:
        self.folder, self.session, self._script, self.protocol = folder, session, script, protocol
        self.dice = random.Random(seed)
        self.faketime = faketime or find_faketime()
        self.net = Net()
        self.brokers = [f"b{number + 1}" for number in range(BROKERS)]
        self.members = [f"m{number + 1}" for number in range(members)]
        self.notes: list[str] = []
        """What is not a fault of pares, but should be known of the run."""
        self.tokens: dict[tuple[str, int], str] = {}
        """(role, token) -> name of the holder, as the log has decided it."""
        self.kept: list[str] = []
        """URLs of copies of the logs that were deleted, in their order."""
        self.stepped: set[int] = set()
        """Which logs have records that a stepped clock has stamped, counted from 0."""
        self.stamped = 0
        """How many records of the group those are."""
        self.kafka: Kafka
        self.crew: Crew
        self.acks: Acks
        self._probe: Started | None = None
        self._admin: AdminClient | None = None
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        require_rights()
        sweep()
        try:
            self._open()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _open(self) -> None:
        self._stack.callback(remove_shared_clocks, shared_clocks())
        self._stack.callback(self.net.close)
        self.net.open()
        hosts = [self.net.add(node) for node in self.brokers]
        for node in [*self.members, "probe", "desk"]:
            self.net.add(node)
        jars.fetch()  # from in there nobody reaches anything
        self.net.enter("desk")
        place = self.folder / "kafka"
        for number in range(1, BROKERS + 1):
            data = place / f"node-{number}" / "data"
            self._stack.callback(unmount, data)
            mount_memory(data, DISK_MB)
        prefix = {number + 1: self.net.prefix(node) for number, node in enumerate(self.brokers)}
        self.kafka = Kafka(nodes=BROKERS, folder=place, host=hosts, prefix=prefix, settings=QUICK_RETURN)
        self._stack.callback(self._end_kafka)
        self.kafka.start()
        self.make_topic()
        self._there: set[str] = set()
        """The members of the group, as far as the log was read."""
        self._observer = self._stack.enter_context(pares.Observer(self.url, group=GROUP))
        self._make_offsets()
        self.acks = Acks(self.folder / "probe.acks")
        self._begin_probe()
        self._begin_crew()

    def make_topic(self) -> None:
        """The group's topic, if it is not there."""

        def make() -> bool:
            with contextlib.closing(pares.open(self.url)) as ledger:
                return bool(ledger.identity())

        self.until(make, "the topic is made")

    def delete_topic(self) -> None:
        # All of it, from the search for the controller on, may take so long: by default the client waits two seconds.
        self.admin.delete_topics([TOPIC], operation_timeout=20, request_timeout=20)[TOPIC].result(30)

    def _begin_crew(self) -> None:
        self.crew = Crew(self.folder, self.net, self.members, self.url, self.session, self._script)
        self._stack.callback(self.crew.end)
        self.crew.begin()

    @property
    def url(self) -> str:
        return self.kafka.topic_url(TOPIC)

    def _begin_probe(self) -> None:
        path = self.folder / "probe.acks"
        path.touch()
        command = [sys.executable, "-m", "chaos.probe", self.kafka.bootstrap, TOPIC, str(path)]
        root = Path(__file__).resolve().parent.parent
        process = start(
            [*self.net.prefix("probe"), *command], log=self.folder / "probe.log", folder=root, survive=False
        )
        self._probe = process
        self._stack.callback(self._end_probe)

    def _end_probe(self) -> None:
        if self._probe is not None:
            self._probe.identity.signal(9)
            self._probe.wait(10)

    def _end_kafka(self) -> None:
        for node in self.kafka.nodes:
            if node.running:
                self.kafka.kill(node.id)  # its data goes too: no need for an orderly stop
        self.kafka.close()
        for number in range(1, BROKERS + 1):
            log = self.folder / "kafka" / f"node-{number}" / "broker.log"
            if log.exists():
                shutil.copy(log, self.folder / f"broker-{number}.log")

    def revive(self) -> list[int]:
        """Starts brokers that have ended by themselves; which ones."""
        ended = [node.id for node in self.kafka.nodes if not node.running]
        for number in ended:
            self.kafka.restart(number)
        return ended

    # What the brokers say --------------------------------------------------------------------------------------------

    @property
    def admin(self) -> AdminClient:
        if self._admin is None:
            from confluent_kafka.admin import AdminClient

            settings: dict[str, Any] = {"bootstrap.servers": self.kafka.bootstrap, "log_level": 0}
            settings |= {"socket.timeout.ms": 2000, "reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 200}
            settings["error_cb"] = lambda error: None
            self._admin = AdminClient(settings)
        return self._admin

    def _make_offsets(self) -> None:
        """Has the brokers make the topic in which groups are kept: its leaders are the groups' coordinators."""
        from confluent_kafka import Consumer, KafkaException, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.kafka.bootstrap, "group.id": GROUP, "log_level": 0})
        try:
            end = time.monotonic() + 30
            while True:
                try:
                    consumer.commit(offsets=[TopicPartition(TOPIC, 0, 0)], asynchronous=False)
                    return
                except KafkaException:
                    if time.monotonic() > end:
                        raise
                    time.sleep(0.2)
        finally:
            consumer.close()

    def leader(self, topic: str = TOPIC, partition: int = 0) -> int:
        """The broker that leads a partition."""

        def look() -> int:
            found = self.admin.list_topics(topic, timeout=2).topics[topic].partitions
            return max(0, found[partition].leader) if partition in found else 0

        return self.until(look, f"partition {partition} of {topic} has a leader")

    def preferred(self) -> int:
        """The broker that Kafka would have lead the group's partition: the first of those that have a copy."""

        def look() -> int:
            return self.admin.list_topics(TOPIC, timeout=2).topics[TOPIC].partitions[0].replicas[0]

        return self.until(look, f"the topic {TOPIC} has replicas")

    def hand_over(self, broker: int) -> None:
        """Has the preferred broker lead the group's partition. It must be in step."""
        from confluent_kafka import ElectionType, KafkaException, TopicPartition

        def look() -> bool:
            if self.leader() != broker:
                # Without keywords: confluent-kafka 2.16 names one too few of them and raises a SystemError for any.
                asked = self.admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(TOPIC, 0)])
                with contextlib.suppress(KafkaException):
                    asked.result(6)
            return self.leader() == broker

        self.until(look, f"b{broker} leads the partition", 30)

    def coordinator(self, group: str = GROUP) -> int:
        """The broker that coordinates a consumer group: by Kafka's rule, the leader of the partition of
        `__consumer_offsets` that the hash of the group's name picks."""
        number = 0
        for letter in group:
            number = (31 * number + ord(letter)) & 0xFFFFFFFF
        count = self.until(
            lambda: len(self.admin.list_topics(_OFFSETS, timeout=2).topics[_OFFSETS].partitions), _OFFSETS
        )
        return self.leader(_OFFSETS, (number & 0x7FFFFFFF) % count)

    def controller(self) -> int:
        """The active controller, by what the nodes have written down of their last election."""

        def look() -> int:
            known: list[tuple[int, int]] = []
            for node in self.kafka.nodes:
                path = node.folder / "data" / "__cluster_metadata-0" / "quorum-state"
                with contextlib.suppress(OSError, ValueError):
                    state = json.loads(path.read_text())
                    known.append((state["leaderEpoch"], state["leaderId"]))
            return max(0, max(known, default=(0, 0))[1])

        return self.until(look, "there is a controller")

    def whole(self) -> bool:
        """Whether all brokers are there and every replica of every partition has caught up."""
        found = self.admin.list_topics(timeout=2)
        partitions = [part for topic in found.topics.values() for part in topic.partitions.values()]
        return len(found.brokers) == BROKERS and all(
            part.leader > 0 and len(part.isrs) == len(part.replicas) for part in partitions
        )

    def joined(self) -> bool:
        """Whether all members that run are in the group, and the group knows of no other."""
        if not self.crew.all_begun():
            return False
        if self.protocol == "claims":
            self.read_log()
            return {member.partition("~")[0] for member in self._there} >= set(self.crew.names().values())
        from confluent_kafka import ConsumerGroupState, KafkaException

        try:
            found = self.admin.describe_consumer_groups([GROUP], request_timeout=2)[GROUP].result()
        except KafkaException:
            self._admin = None  # a client that knows a coordinator goes on asking it, though another one is meanwhile
            raise
        return found.state == ConsumerGroupState.STABLE and len(found.members) == len(self.crew.names())

    def other_broker(self, than: int) -> int:
        return self.dice.choice([node.id for node in self.kafka.nodes if node.id != than])

    # Waiting ---------------------------------------------------------------------------------------------------------

    def until(self, look: Callable[[], T], what: str, patience: float = 60.0) -> T:
        """What `look` finds once it finds something. Raises `CapabilityError` if that takes longer than `patience` seconds:
        the run can't go on then."""
        from confluent_kafka import KafkaException

        end, trouble = time.monotonic() + patience, ""
        while True:
            try:
                if found := look():
                    return found
            except (KafkaException, ParesError, KeyError) as error:
                trouble = f" ({error})"
            if time.monotonic() >= end:
                raise CapabilityError(f"not within {patience:g} s: {what}{trouble}")
            time.sleep(_LOOK)

    def a_leading_member(self) -> str:
        """The place of a member that leads something now, picked by chance."""
        return self.until(lambda: self.dice.choice([*self.crew.leaders().values()] or [""]), "somebody leads")

    # The log ---------------------------------------------------------------------------------------------------------

    def log_end(self) -> int:
        """Where the log ends now."""

        def look() -> tuple[int]:
            with contextlib.closing(pares.open(self.url, readonly=True)) as ledger:
                return (ledger.end(0),)

        return self.until(look, "the log's end is known")[0]

    def stamps(self, offset: int, step: float, near: float) -> tuple[int, int]:
        """Of the members' records from an offset on: how many have a time that is `step` seconds from now, give or take `near`,
        and how many another."""

        def look() -> list[bool]:
            with contextlib.closing(pares.open(self.url, readonly=True)) as ledger:
                end = ledger.end(0)
                entries = [entry for part in batches(ledger, 0, offset, end, 2000) for entry in part]
            return [
                abs(entry.timestamp_ms / 1000 - time.time() - step) < near
                for entry in entries
                if newest([entry], GROUP) is not None
            ]

        found = self.until(look, "members write", 10)
        return sum(found), len(found) - sum(found)

    def keep_log(self) -> None:
        """Copies the log, which is about to be deleted, for the audit."""

        def look() -> str:
            path = self.folder / f"log-{len(self.kept) + 1}.db"
            for left in self.folder.glob(f"{path.name}*"):
                left.unlink()  # of a copy that was broken off
            with contextlib.closing(pares.open(self.url, readonly=True)) as ledger:
                return copy(ledger, path)

        self.kept.append(self.until(look, "the log can be copied"))

    def read_log(self) -> None:
        """Takes note of whom the log has given which token, and who is there, up to its end."""

        def look() -> bool:
            for change in self._observer.read():
                if isinstance(change, SeatChanged) and change.holder is not None:
                    self.tokens[change.seat[0], change.token] = change.holder.partition("~")[0]
                elif isinstance(change, MemberJoined):
                    self._there.add(change.member)
                elif isinstance(change, MemberLeft):
                    self._there.discard(change.member)
            return True

        self.until(look, "the log can be read")


def find_faketime() -> Path | None:
    """The library that shows a process another time, if it is installed."""
    for pattern in _FAKETIME:
        for path in Path("/").glob(pattern.lstrip("/")):
            return path
    return None


def shared_clocks() -> set[Path]:
    """The shared memory that libfaketime keeps for each process; those of one that was killed stay."""
    return {*Path("/dev/shm").glob("faketime_shm_*"), *Path("/dev/shm").glob("sem.faketime_sem_*")}


def remove_shared_clocks(others: set[Path]) -> None:
    """Removes those that were not there before the run, and whose process is gone."""
    for path in shared_clocks() - others:
        if not Path("/proc", path.name.rpartition("_")[2]).exists():
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def scratch(out: Path | None) -> Iterator[Path]:
    """The folder of a run: the one asked for, or one that is gone afterwards."""
    import tempfile

    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise CapabilityError(f"{out} is not empty: name a new folder for the run's files")
        yield out.absolute()
        return
    folder = Path(tempfile.mkdtemp(prefix="pares-chaos-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
