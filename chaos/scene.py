"""Everything a fault of leadership needs: the brokers, the members, the probe, and the log."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pares
from chaos.brokers import Brokers
from chaos.probe import Acks
from chaos.processes import Crew
from chaos.verdict.kept import copy
from pares.core.errors import CapabilityError
from pares.core.wire.changes import MemberJoined, MemberLeft, SeatChanged
from pares.dev.process import Started, start
from pares.ledger.batches import batches
from pares.runtime.detect import newest

GROUP: Final = "g"
TOPIC: Final = "chaos"
_OFFSETS: Final = "__consumer_offsets"
_FAKETIME: Final = ("/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib*/faketime/libfaketimeMT.so.1")


class Scene(Brokers):
    """One run's world: the brokers, the members, the probe, and the log."""

    topic = TOPIC

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
        super().__init__(folder, [f"m{number + 1}" for number in range(members)], seed)
        self.session, self._script, self.protocol = session, script, protocol
        self.faketime = faketime or find_faketime()
        self.tokens: dict[tuple[str, int], str] = {}
        """(role, token) -> name of the holder, as the log has decided it."""
        self.kept: list[str] = []
        """URLs of copies of the logs that were deleted, in their order."""
        self.stepped: set[int] = set()
        """Which logs have records that a stepped clock has stamped, counted from 0."""
        self.stamped = 0
        """How many records of the group those are."""
        self.crew: Crew
        self.acks: Acks
        self._probe: Started | None = None

    def _open(self, *others: str) -> None:
        self._stack.callback(remove_shared_clocks, shared_clocks())
        super()._open("probe", *others)

    def _begin(self) -> None:
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

    # What the brokers say --------------------------------------------------------------------------------------------

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
