"""One partition, followed and appended to: what comes fills its window, and says where one's own appends stand.

The server confirms an append without its offset. So a partition that is appended to is followed, and an append returns when it
is read back, from the very place that every reader finds it at.

**Which log it is.** Each subscription begins at the last entry that was seen. If the server sends something else there, or
nothing, the stream has lost its tail (streams are not synced to the disk), or is another one: then it is another log from now
on (R12). A stream that is deleted while it is followed is told of by the server.

**What became of an append.** It is sent once, on one connection, as number n of this ledger's writer. The server drops a number
that is not above the writer's last one. So an append of unknown outcome may still land until the next one of this ledger to the
partition has, and never after (the server remembers the last 255 writers of a stream).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from pares.core.errors import ConfigError, LedgerUnavailable
from pares.ledger.base import Entry
from pares.ledger.rabbitmq.errors import NO_PUBLISHER, NO_STREAM, NOT_AVAILABLE, WORDS, Lost, Refused, unavailable
from pares.ledger.rabbitmq.frames import FRAME, OVERHEAD, Record, last_record, publish, records
from pares.ledger.rabbitmq.link import Link
from pares.ledger.rabbitmq.settings import log
from pares.ledger.rabbitmq.streams import ID, answered, asking, subscribe, unsubscribe
from pares.ledger.rabbitmq.wire import Wire
from pares.ledger.window import Window

_CREDIT: Final = 16
"""Chunks that the server may send ahead."""
_AGAIN: Final = 0.05
UNUSED: Final = 60.0
"""Seconds after which a partition is no longer followed that nobody has read and that has no bell."""
GONE: Final = (NO_STREAM, NO_PUBLISHER)
_MOST_RECORDS: Final = 65_535


class Vanished(Exception):
    """The stream is not there, or is none of ours any more."""


class Feed:
    """All methods are for the loop's thread."""

    def __init__(self, link: Link, stream: str, writer: int, window: Window, doubt: Callable[[], None]) -> None:
        """`doubt` hears when it may be another log."""
        self.stream = stream
        self.window = window
        self.lost = 0
        """How often it was found to lack what had been seen."""
        self.identity: int | None = None
        self.followed = False
        self._link = link
        self._doubt = doubt
        self._writer = writer
        self._number = 0
        self._lock = asyncio.Lock()
        self._turn = asyncio.Lock()
        self._wire: Wire | None = None
        self._subscription = -1
        self._publisher = -1
        self._early: list[Any] | None = None
        self._dropped = asyncio.Event()
        self._last: Record | None = None
        self._mine: dict[int, asyncio.Future[int]] = {}

    # Following -------------------------------------------------------------------------------------------------------

    async def follow(self, wire: Wire, offset: int) -> None:
        """Fill the window from `offset` on, unless that is done already. Raises `Vanished`, `Lost` and `Refused`."""
        async with self._lock:
            if self._wire is wire and self._subscription >= 0:
                return
            from rstream.constants import OffsetType

            last = self._last
            begin = last.place if last is not None else offset + 1
            self._wire, self._publisher = wire, -1
            self._dropped = asyncio.Event()
            early: list[Any] = []
            self._early = early
            number, begun = subscribe(wire, self.stream, OffsetType.OFFSET, begin, _CREDIT, self._take)
            try:
                asked = asking(wire, self.stream, ID)
                await begun
                self._subscription = number
                identity = await answered(asked)
            except BaseException as error:
                self._leave(wire, number)
                if isinstance(error, Refused) and error.code in GONE:
                    self.forget()
                    raise Vanished from None
                raise
            if identity is None or self.identity not in (None, identity) or not self._continues(last, early):
                self._leave(wire, number)
                self.forget()
                raise Vanished
            self.identity = identity
            again = self.window.open
            if not again:
                self.window.begin(max(offset, 0 if last is None else last.place))
            self._early = None
            for chunk in early:
                self._put(chunk)
            if again:
                self.window.ring()  # something may have come while nobody followed

    def _continues(self, last: Record | None, early: list[Any]) -> bool:
        """Whether what was delivered first is, or comes after, what was seen last."""
        if last is None:
            return True
        if not early:
            self.lost += 1
            log.warning(
                "%s: the stream %s has lost entries that were seen here", self._link.settings.where, self.stream
            )
            return False
        if early[0].chunk_first_offset > last.place:
            return True  # retention has taken it: only the stream's number says that what follows is its continuation
        if records(early[0], last.place, 1) == [last]:
            return True
        self.lost += 1
        log.warning("%s: the stream %s has others than were seen", self._link.settings.where, self.stream)
        return False

    def _leave(self, wire: Wire, number: int) -> None:
        self._subscription, self._early = -1, None
        if wire.over.done():
            return
        try:
            unsubscribe(wire, number).add_done_callback(lambda _: wire.end_subscription(number))
        except Lost:
            pass

    def _take(self, chunk: Any) -> None:
        from rstream.schema import Credit

        if self._early is not None:
            self._early.append(chunk)
        elif self._subscription >= 0:
            self._put(chunk)
        if self._wire is not None:
            try:
                self._wire.send(Credit(chunk.subscription_id, 1))
            except Lost:
                pass

    def _put(self, chunk: Any) -> None:
        entries: list[Entry] = []
        quiet: set[int] = set()
        landed: list[tuple[asyncio.Future[int], int]] = []
        for record in records(chunk, 0 if self._last is None else self._last.place + 1):
            self._last = record
            entries.append(Entry(record.place - 1, chunk.timestamp, record.payload))
            if record.quiet:
                quiet.add(record.place - 1)
            if record.writer == self._writer and record.number in self._mine:
                landed.append((self._mine.pop(record.number), record.place - 1))
        if entries:
            self.window.put(entries, 0, quiet)
        for waiting, offset in landed:
            if not waiting.done():
                waiting.set_result(offset)

    @property
    def last(self) -> Record | None:
        """The last entry that was seen."""
        return self._last

    def compare(self, last: Record | None, chunk: Any | None) -> None:
        """`last` was seen before the server was asked for the stream's last chunk (None: it has none), which may lack it."""
        if last is None:
            return
        there = -1 if chunk is None else chunk.chunk_first_offset + chunk.num_records - 1
        if there < last.place or (there == last.place and last_record(chunk) != last):
            self.lost += 1
            self.forget()

    def forget(self) -> None:
        """It is another log, or may be one: what was seen of it counts no more."""
        self._last, self.identity = None, None
        self._doubt()
        self._stop()

    def _stop(self) -> None:
        """Neither follow nor append any more, until that is begun anew."""
        wire, number, publisher = self._wire, self._subscription, self._publisher
        self._wire, self._publisher = None, -1
        if wire is not None and number >= 0:
            self._leave(wire, number)
        if wire is not None and publisher >= 0:
            self._retire(wire, publisher)
        self._dropped.set()
        self.window.shut()

    def _retire(self, wire: Wire, publisher: int) -> None:
        from rstream import schema

        if not wire.over.done():
            asked = wire.begin_asking(schema.DeletePublisherResponse, schema.DeletePublisher(wire.next(), publisher))
            asked.add_done_callback(lambda _: wire.end_publisher(publisher))

    async def keep(self) -> None:
        """Follow it on each connection, as long as anybody cares."""
        try:
            while self.window.bells or self._mine or time.monotonic() < self.window.used + UNUSED:
                wire = await self._link.wire()
                try:
                    async with asyncio.timeout(self._link.settings.timeout):
                        await self.follow(wire, self.window.high)
                except Vanished:
                    return
                except (Lost, Refused, TimeoutError) as error:
                    log.debug("%s: the tail of %s: %r", self._link.settings.where, self.stream, error)
                    await asyncio.sleep(_AGAIN)
                    continue
                dropped = asyncio.ensure_future(self._dropped.wait())
                done, _ = await asyncio.wait(
                    {wire.over, dropped}, timeout=UNUSED / 2, return_when=asyncio.FIRST_COMPLETED
                )
                dropped.cancel()
                if wire.over in done:
                    self.window.doubt()
                elif done and self._subscription < 0:
                    return
            self._stop()
        finally:
            self.followed = False

    # Appending -------------------------------------------------------------------------------------------------------

    async def append(self, payloads: Sequence[bytes], urgent: bool, end: Callable[[Wire], Awaitable[int]]) -> list[int]:
        """The offsets of `payloads`. `end` asks where the partition ends."""
        settings = self._link.settings
        wire, turn, sent = None, False, False
        found: list[int] = []
        try:
            async with asyncio.timeout(settings.timeout), self._turn:
                turn = True
                wire = await self._link.wire()
                await self.follow(wire, self.window.high if self.window.open else await end(wire))
                await self._declare(wire)
                for part in self._parts(wire, payloads):
                    self._number += 1
                    data = publish(self._publisher, self._writer, self._number, part, urgent=urgent)
                    landed = self._mine[self._number] = asyncio.get_running_loop().create_future()
                    try:
                        wire.send_raw(data)
                        sent = True
                        first = await self._landed(wire, landed)
                    finally:
                        self._mine.clear()
                    sent = False
                    found += range(first, first + len(part))
            return found
        except TimeoutError:
            if not turn:
                why = "another append of this process still waits for the server"
                raise unavailable(settings.where, "append", why) from None
            raise self._link.late(wire, "append", unknown=sent or bool(found)) from None
        except Vanished:
            raise LedgerUnavailable(
                f"{settings.where}: could not append: the stream {self.stream} is gone", unknown=bool(found)
            ) from None
        except Refused as error:
            if error.code in GONE:
                self.forget()
                why = f"the stream {self.stream} is gone"
            else:
                why = str(error)
            raise unavailable(settings.where, "append", why, unknown=bool(found)) from None
        except Lost as error:
            raise unavailable(settings.where, "append", str(error), unknown=sent or bool(found)) from None

    async def _landed(self, wire: Wire, landed: asyncio.Future[int]) -> int:
        """The offset of the first of them, once it was read back."""
        await asyncio.wait({landed, wire.over}, return_when=asyncio.FIRST_COMPLETED)
        if not landed.done():
            raise Lost(wire.over.result())
        return landed.result()

    async def _declare(self, wire: Wire) -> None:
        from rstream import schema

        if self._publisher >= 0:
            return
        number = wire.publisher(self._refused)
        try:
            await wire.ask(
                schema.DeclarePublisherResponse,
                schema.DeclarePublisher(wire.next(), number, f"pares-{self._writer:016x}", self.stream),
            )
        except BaseException:
            wire.end_publisher(number)
            raise
        self._publisher = number

    def _refused(self, number: int, code: int) -> None:
        waiting = self._mine.pop(number, None)
        if waiting is not None and not waiting.done():
            waiting.set_exception(Refused(code))

    def vanished(self) -> None:
        """The server has said that the stream is no longer to be had."""
        wire, publisher = self._wire, self._publisher
        if wire is not None and publisher >= 0:
            wire.end_publisher(publisher)
        waiting, self._mine = self._mine, {}
        for future in waiting.values():
            if not future.done():
                # Its leader may have taken it before it went.
                future.set_exception(Lost(WORDS[NOT_AVAILABLE]))
        number, self._subscription, self._publisher, self._wire = self._subscription, -1, -1, None
        if wire is not None and number >= 0:
            wire.end_subscription(number)
        self._dropped.set()
        self.window.shut()

    def _parts(self, wire: Wire, payloads: Sequence[bytes]) -> list[Sequence[bytes]]:
        """What goes together: as much as a frame holds. Raises for what goes not at all."""
        most = wire.largest - FRAME if wire.largest else 1 << 31
        parts: list[Sequence[bytes]] = []
        begin = size = 0
        for at, payload in enumerate(payloads):
            much = len(payload) + OVERHEAD
            if much > most:
                raise ConfigError(
                    f"{self._link.settings.where}: a payload of {len(payload)} bytes does not fit into the server's "
                    f"stream.frame_max={wire.largest}: raise it, or write less"
                )
            if at > begin and (size + much > most or at - begin == _MOST_RECORDS):
                parts.append(payloads[begin:at])
                begin, size = at, 0
            size += much
        parts.append(payloads[begin:])
        return parts
