"""Three brokers, each in a network of its own, and places for other processes beside them: what faults of links and of brokers
need."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from chaos.net import Net, mount_memory, require_rights, sweep, unmount
from pares.core.errors import CapabilityError, ParesError
from pares.dev import Kafka
from pares.dev.kafka import jars
from pares.dev.kafka.settings import QUICK_RETURN

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

T = TypeVar("T")

BROKERS: Final = 3
DISK_MB: Final = 320
DESK: Final = "desk"
"""Where this process is: a place from where it reaches every node."""
_LOOK: Final = 0.05


class Brokers(ABC):
    """In a `with` statement they are brought up, and taken down whatever happens, with what `_begin` has started.

    While they are up, this thread (and each that it starts) is in a network from where it reaches every node.
    """

    topic: str
    """The one whose first partition faults are about."""
    settings: Mapping[str, str] = QUICK_RETURN

    def __init__(self, folder: Path, members: Sequence[str], seed: int) -> None:
        """`members`: places for processes that faults may strike."""
        self.folder = folder
        self.dice = random.Random(seed)
        self.net = Net()
        self.brokers = [f"b{number + 1}" for number in range(BROKERS)]
        self.members = list(members)
        self.notes: list[str] = []
        """What is not a fault of pares, but should be known of the run."""
        self.kafka: Kafka
        self._admin: AdminClient | None = None
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        require_rights()
        sweep()
        try:
            self._open()
            self._begin()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _open(self, *others: str) -> None:
        """`others`: more places."""
        self._stack.callback(self.net.close)
        self.net.open()
        hosts = [self.net.add(node) for node in self.brokers]
        for node in [*self.members, *others, DESK]:
            self.net.add(node)
        jars.fetch()  # from in there nobody reaches anything
        self.net.enter(DESK)
        place = self.folder / "kafka"
        for number in range(1, BROKERS + 1):
            data = place / f"node-{number}" / "data"
            self._stack.callback(unmount, data)
            mount_memory(data, DISK_MB)
        prefix = {number + 1: self.net.prefix(node) for number, node in enumerate(self.brokers)}
        self.kafka = Kafka(nodes=BROKERS, folder=place, host=hosts, prefix=prefix, settings=self.settings)
        self._stack.callback(self._end_kafka)
        self.kafka.start()

    @abstractmethod
    def _begin(self) -> None:
        """Starts what the brokers are there for."""

    @abstractmethod
    def a_leading_member(self) -> str:
        """The place of a member that has something to lose now, picked by chance."""

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

    def leader(self, topic: str = "", partition: int = 0) -> int:
        """The broker that leads a partition."""
        topic = topic or self.topic

        def look() -> int:
            found = self.admin.list_topics(topic, timeout=2).topics[topic].partitions
            return max(0, found[partition].leader) if partition in found else 0

        return self.until(look, f"partition {partition} of {topic} has a leader")

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
