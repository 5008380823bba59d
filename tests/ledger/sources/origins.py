"""What the conformance suite of sources needs to know of where records come from: one class and one line in `ORIGINS` each.

An origin makes a topic of its kind, fresh for each test, writes to it by whatever writes to such topics, and does to it what
can be done to it from outside. The suite itself, test_source_conformance*.py, names no kind.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path

import pares.ledger
from pares.ledger import Ledger, Source, open_source, open_topic
from pares.ledger.file.frame import SEAL, frame
from pares.ledger.file.segment import JUMP
from pares.ledger.memory import drop
from pares.ledger.topics.keyed import Topic

TOPIC = "orders"


class Origin(ABC):
    """One topic to be consumed."""

    grows = True
    """Whether its topics may have more than one partition, and get more."""
    holes = False
    """Whether `hole` leaves offsets without a record."""
    tells_at_once = True
    """Whether no record of a topic that was created anew can come before its reader is told."""
    kept_keys = True
    """Whether a record without a key comes back without one, and an empty key as an empty one."""
    shared = True
    """Whether other processes can read it."""
    largest = pares.ledger.MAX_PAYLOAD

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._opened: list[Source] = []

    @property
    @abstractmethod
    def url(self) -> str:
        """What `open_source` takes."""

    @property
    def name(self) -> str:
        return TOPIC

    def open(self, name: str | None = None) -> Source:
        """A source of the topic, closed at the end of the test."""
        source = open_source(self.url, name or self.name)
        self._opened.append(source)
        return source

    @abstractmethod
    def make(self, partitions: int = 1, name: str | None = None) -> None:
        """The topic, with so many partitions; more of them if it is there already."""

    @abstractmethod
    def append(self, payloads: Sequence[bytes], partition: int = 0, keys: Sequence[bytes | None] | None = None) -> None:
        """Append these, each acknowledged when this returns."""

    @abstractmethod
    def forget(self, before: int, partition: int = 0) -> None:
        """Everything below this offset goes, as retention has it go."""

    @abstractmethod
    def hole(self, partition: int = 0) -> None:
        """Leave some offsets behind the last record without one, if that can be here (`holes`)."""

    @abstractmethod
    def vanish(self) -> None:
        """The topic goes."""

    def close(self) -> None:
        for source in self._opened:
            source.close()


class Kept(Origin):
    """A topic that a ledger keeps."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._ledger: Ledger | None = None

    @property
    def ledger(self) -> Ledger:
        if self._ledger is None:
            self._ledger = pares.ledger.open(self.url)
        return self._ledger

    @property
    def topic(self) -> Topic:
        return open_topic(self.ledger, self.name)

    def make(self, partitions: int = 1, name: str | None = None) -> None:
        open_topic(self.ledger, name or self.name, partitions)

    def append(self, payloads: Sequence[bytes], partition: int = 0, keys: Sequence[bytes | None] | None = None) -> None:
        self.topic.append_many(payloads, partition, keys=keys)

    def forget(self, before: int, partition: int = 0) -> None:
        self.topic.trim(before, partition)

    def reopen(self) -> None:
        """Use another handle from now on: what stands behind the URL may be another ledger."""
        ledger, self._ledger = self._ledger, None
        if ledger is not None:
            ledger.close()

    def close(self) -> None:
        super().close()
        self.reopen()


class InMemory(Kept):
    shared = False

    def hole(self, partition: int = 0) -> None:
        """It has none."""

    @property
    def url(self) -> str:
        return f"memory://{self.folder.name}"

    def vanish(self) -> None:
        self.reopen()
        drop(self.folder.name)

    def close(self) -> None:
        super().close()
        drop(self.folder.name)


class InFiles(Kept):
    holes = True

    @property
    def url(self) -> str:
        return f"file://{self.folder / 'ledger'}?segment=65536&sync=never"

    def hole(self, partition: int = 0) -> None:
        """As a process of a later boot seals a segment: nobody knows what a power cut has taken, so it leaves offsets out."""
        (home,) = (self.folder / "ledger" / "topics").iterdir()
        with max((home / str(partition)).glob("*.log")).open("ab") as last:
            last.write(
                frame(SEAL, [b"boot %d" % JUMP], (0, 0), time.time_ns() // 1000, 0, b"-", urgent=False).encoded()
            )

    def vanish(self) -> None:
        """The ledger's folder is moved away: a handle that still has files open reads nothing of the next one."""
        self.reopen()
        place = self.folder / "ledger"
        place.rename(self.folder / f"was-{len(list(self.folder.iterdir()))}")


class InSqlite(Kept):
    def hole(self, partition: int = 0) -> None:
        """It has none."""

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder / 'ledger.db'}?busy_timeout=20&synchronous=normal"

    def vanish(self) -> None:
        self.reopen()
        (self.folder / "ledger.db").unlink()


ORIGINS: dict[str, Callable[[Path], Origin]] = {"memory": InMemory, "file": InFiles, "sqlite": InSqlite}
