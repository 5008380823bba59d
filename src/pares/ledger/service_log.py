"""A log behind a service: its appends and reads. Its tail is followed by a thread; for all else the service is asked.

A caller that waits at the end of a partition reads from a `Window` that the thread fills; a caller that reads elsewhere, or
must know for certain, asks the service. An empty answer is at most as old as the window allows, and never misses what this
ledger has appended, or what its `end` has returned.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Final, Generic, Protocol, TypeVar

from pares.core.errors import CapabilityError, ConfigError, LedgerUnavailable
from pares.ledger import base
from pares.ledger.base import Bell, Entry
from pares.ledger.client_options import Usual
from pares.ledger.handle_state import Lifetime
from pares.ledger.window import TailBell, Window

LOOK: Final = 60.0
"""Seconds for which a log's identity is believed while its tail is followed: the tail hears at once if it is another one."""
_ASK_AGAIN: Final = 1.0
"""Seconds after which a waiting read asks the service, whether the tail says anything or not."""


class Gone(LedgerUnavailable):
    """The log is not there. The service answers, and says so."""


class Known:
    """What is known of the logs of one ledger: identity, partitions, and when that was asked."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, int, float]] = {}

    def get(self, topic: str) -> tuple[str, int, float] | None:
        return self._known.get(topic)

    def put(self, topic: str, identity: str, partitions: int, asked: float) -> bool:
        """Notes an answer of the service that was asked for at `asked`; one that is older than the known one is dropped.
        Returns whether the log was another one before."""
        before = self._known.get(topic)
        if before is not None and before[2] > asked:
            return False
        self._known[topic] = (identity, partitions, asked)
        return before is not None and before[0] != identity

    def doubt(self, topic: str) -> None:
        """It may be another log now: its identity has to be asked for."""
        known = self._known.get(topic)
        if known is not None:
            self._known[topic] = (known[0], known[1], -LOOK)

    def forget(self, topic: str) -> None:
        self._known.pop(topic, None)


class Clients(Protocol):
    """What a ledger and its topics have in common."""

    lifetime: Lifetime

    @property
    def settings(self) -> Usual: ...


S = TypeVar("S", bound=Clients)


class ServiceHandle(Generic[S]):
    """One log of a service, whatever is asked of that: open or closed, for writing or to look on only."""

    place: Path | None = None

    def __init__(self, service: S, topic: str, url: str) -> None:
        self._service = service
        self._topic = topic
        self._closed = False
        self.url = url

    @property
    def retention(self) -> float | None:
        return self._service.settings.retention

    @property
    def capabilities(self) -> base.Capabilities:
        return base.Capabilities(readonly=self._service.settings.readonly)

    def append(self, payload: bytes, partition: int = 0) -> int:
        base.check_payload(payload)
        return self._append((payload,), partition, True)[0]

    def append_many(self, payloads: Sequence[bytes], partition: int = 0, *, urgent: bool = True) -> list[int]:
        base.check_payloads(payloads)
        return self._append(payloads, partition, urgent)

    def _append(self, payloads: Sequence[bytes], partition: int, urgent: bool) -> list[int]:
        raise NotImplementedError

    def _may_write(self) -> None:
        if self._service.settings.readonly:
            raise CapabilityError(f"{self.url} was opened read-only: open it without readonly to write")

    def close(self) -> None:
        self._closed = True

    def _open(self) -> S:
        self._service.lifetime.check()
        if self._closed:
            raise Lifetime.closed_error(self.url)
        return self._service


class Service(Clients, Protocol):
    """The clients of the service. All methods may raise `LedgerUnavailable`."""

    known: Known

    def look(self, topic: str) -> tuple[str, int]:
        """A log's identity and number of partitions, by the service, now; put into `known`. Raises `Gone` if there is none."""
        ...

    def remake(self, topic: str, partitions: int) -> bool:
        """Make a log that is gone, with so many partitions. Returns whether it was made here: others look for it, too."""
        ...

    def replaced(self, topic: str) -> None:
        """It may be another log now."""
        ...

    def refresh(self, topic: str) -> None:
        """Have the clients look at the log again: it may have grown."""
        ...

    def ends(self, topic: str, partition: int, least: int = 0) -> tuple[int, int]:
        """The first offset and the next one, as the server that decides has them now.

        `least`: an end that the log is known to have reached. A server that has just begun to decide may not know of it yet:
        then it is asked again.
        """
        ...

    def fetch(self, topic: str, partition: int, offset: int, end: int, max_records: int) -> list[Entry]:
        """Entries from `offset` on, which is below `end`; none only if there is nothing but holes up to `end`."""
        ...

    def append(self, topic: str, payloads: Sequence[bytes], partition: int, urgent: bool) -> list[int]: ...

    def catch_up(self, window: Window) -> bool:
        """Read what follows a lazy window's end into it, at least all that is known to be in the log. False if that is not
        possible now: then the caller asks for the log's bounds."""
        ...

    def stuck(self, window: Window) -> None:
        """The tail does not bring an entry that is in the log: see to it that it goes on."""
        ...

    def trim(self, topic: str, partition: int, before: int) -> None:
        """Delete what is below `before`, which is above the start and not above the end."""
        ...

    def window(self, topic: str, partition: int) -> Window: ...

    def follow(self, window: Window, offset: int) -> None:
        """Fill the window, from `offset` on, unless it is filled already."""
        ...

    def follows(self, topic: str) -> bool:
        """Whether the tail would hear of it if the log were another one."""
        ...


class TailedLog(ServiceHandle[Service]):
    """One log of a service."""

    kind: str
    teller: ClassVar[logging.Logger]
    notes: ClassVar[bool] = False
    """Whether its arrivals are of use: a reader that no beat wakes must not have to ask the service each time it reads, because
    it has heard nothing of it lately."""

    def __init__(self, service: Service, topic: str, url: str) -> None:
        super().__init__(service, topic, url)
        self._had = 1
        """How many partitions there were, should the log have to be made anew."""

    @property
    def capabilities(self) -> base.Capabilities:
        return base.Capabilities(readonly=self._service.settings.readonly, arrivals=self.notes)

    @property
    def partitions(self) -> int:
        return self._open().look(self._topic)[1]

    def _append(self, payloads: Sequence[bytes], partition: int, urgent: bool) -> list[int]:
        self._may_write()
        service = self._there(partition)
        if not payloads:
            return []
        window = service.window(self._topic, partition)
        known = window.known  # now: the tail may bring what is appended before the append has returned
        try:
            offsets = service.append(self._topic, payloads, partition, urgent)
        except LedgerUnavailable:
            window.doubt()  # the tail may hear nothing either: readers have to ask the service
            raise
        if offsets[-1] < known:
            # The log was longer before: it is another one, and everything that was known of it is void.
            service.replaced(self._topic)
            window.expect(offsets[-1] + 1, at_least=False)
        else:
            window.expect(offsets[-1] + 1, at_least=True)
        return offsets

    def read(self, offset: int, partition: int = 0, max_records: int = 1000, timeout: float = 0.0) -> list[Entry]:
        base.check_records(max_records)
        service = self._there(partition)
        window = service.window(self._topic, partition)
        deadline = time.monotonic() + timeout
        while True:
            found = window.take(offset, max_records)
            if found is None and (window.comes(offset) or (window.lacks(offset) and service.catch_up(window))):
                found = window.take(offset, max_records)
            if found is None:
                found = self._look_up(window, offset, max_records)
            if found:
                return found
            left = deadline - time.monotonic()
            if left <= 0:
                return []
            service.follow(window, offset)
            window.wait(offset, min(left, _ASK_AGAIN))
            self._open()

    def read_whole(self, offset: int, partition: int, max_records: int) -> tuple[list[Entry], bool]:
        """See `window.Whole`."""
        service, since = self._there(partition), time.monotonic()
        window = service.window(self._topic, partition)
        life = window.life
        if window.is_behind(offset):
            # Then all comes at once. [each of many readers reads what others have brought, and then the little that came since]
            with suppress(LedgerUnavailable):  # what others have brought is there all the same
                service.catch_up(window)
        entries = self.read(offset, partition, max_records)
        return entries, not entries or window.ended(entries[-1].offset + 1, since, life)

    def arrivals(self, entries: Sequence[Entry], partition: int = 0) -> list[int | None]:
        """See `window.Noting`."""
        return self._open().window(self._topic, partition).arrivals(entries)

    def attend(self, partition: int, reader: object, *, closely: bool | None) -> None:
        """See `window.Noting`. Also of a log that was closed: there nothing comes any more."""
        self._service.window(self._topic, partition).attend(reader, closely=closely)

    def _look_up(self, window: Window, offset: int, max_records: int) -> list[Entry]:
        """Entries as the service has them now, whatever the tail knows."""
        service = self._open()
        first, end = self._bounds(window, offset)
        if offset < first:
            raise base.gap(self.url, window.partition, offset, first)
        if offset > end:
            raise base.rewound(self.url, window.partition, offset, end)
        if offset == end:
            if window.bells:
                service.follow(window, end)
            return []
        if window.reach(offset, service.settings.timeout):
            found = window.take(offset, max_records)
            if found:
                return found
        elif window.late(offset):
            service.stuck(window)
        return service.fetch(self._topic, window.partition, offset, end, max_records)

    def start(self, partition: int = 0) -> int:
        return self._ends(partition)[0]

    def end(self, partition: int = 0) -> int:
        return self._ends(partition)[1]

    def _ends(self, partition: int) -> tuple[int, int]:
        return self._bounds(self._there(partition).window(self._topic, partition))

    def _bounds(self, window: Window, least: int = 0) -> tuple[int, int]:
        """The log's first offset and the next one, by the service; the window hears of it."""
        service = self._service
        had, known = window.high if window.open else 0, window.known
        first, end = service.ends(self._topic, window.partition, least)
        if known > end:
            service.replaced(self._topic)
        if had > end:
            # The window has entries that are no longer in the log: no reader may get them.
            window.shut()
        # Another thread may have appended while the service answered: `known` counts too, unless the log was replaced.
        window.answered(end, at_least=known <= end)
        return first, end

    def trim(self, before: int, partition: int = 0) -> None:
        self._may_write()
        service = self._there(partition)
        first, end = self._ends(partition)
        if before > end:
            raise base.rewound(self.url, partition, before, end)
        if before > first:
            service.trim(self._topic, partition, before)
            service.window(self._topic, partition).trimmed(before)

    def identity(self) -> str:
        """A log that is gone is made anew here, unless this handle only looks on: the service that it is for must not wait
        until somebody opens it again. It is another log: members drop their beliefs (R12)."""
        try:
            found = self._identity()
        except Gone:
            service = self._service
            if service.settings.readonly:
                raise
            try:
                made = service.remake(self._topic, self._had)
            except ConfigError as error:
                # What was right when this was opened may come back: rights, a namespace, a table that somebody restores.
                raise LedgerUnavailable(f"the log is gone, and can't be made anew: {error}") from None
            if made:
                self.teller.warning("%s: the log was gone, and was made anew: it is another one", self.url)
            found = self._identity()
        known = self._service.known.get(self._topic)
        self._had = known[1] if known is not None else self._had
        return found

    def _identity(self) -> str:
        service = self._open()
        known = service.known.get(self._topic)
        if known is not None and time.monotonic() < known[2] + LOOK and service.follows(self._topic):
            return known[0]
        return service.look(self._topic)[0]

    def bell(self, partition: int = 0) -> Bell | None:
        service = self._there(partition)
        window = service.window(self._topic, partition)
        bell = TailBell(window)
        try:
            if not window.open:
                service.follow(window, service.ends(self._topic, partition)[1])
        except LedgerUnavailable:
            pass  # out of reach: the first read that reaches the log has it followed
        return bell

    def _there(self, partition: int) -> Service:
        """The clients; raises unless the log is open and has this partition."""
        service = self._open()
        known = service.known.get(self._topic)
        if known is None or not 0 <= partition < known[1]:
            there = service.look(self._topic)[1]
            if not 0 <= partition < there:
                raise base.no_such_partition(partition, there, self.url)
            service.refresh(self._topic)
        return service
