"""Reading one stream ahead: a pull consumer of one's own at the wanted place, and what it has brought.

One request is with the server at a time, for a bounded number of messages and bytes; the next one goes out when half of what
came is read. So a slow reader is sent nothing that it has no room for. The consumer acknowledges nothing and leaves nothing:
the server forgets it by itself. It is made anew, behind what has come, after a lost connection, a silence, or a word of the
server that it is gone. Before and after that the stream is looked at: what comes is of that stream, and of no later one of its
name.

A message says its place in the stream, and which it is of those that were sent here. Where one of the latter is missing, the
consumer is made anew. Where one of the former is, somebody has deleted it, which is a hole, or retention has overtaken the
reader, which is a loss; the stream's first message tells which.

All of this runs in the loop of the link.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from pares.core.errors import LedgerUnavailable
from pares.ledger.base import gap, rewound
from pares.ledger.nats.epoch import Epoch, Lost, Nobody
from pares.ledger.nats.link import Link
from pares.ledger.nats.stream import ApiError, Stream, Streams, ask
from pares.ledger.source import Fetched, Record, another

if TYPE_CHECKING:
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

AHEAD: Final = 4 << 20
"""Bytes that one request asks for, and more than which are not fetched ahead."""
_MESSAGES: Final = 2000
_EXPIRES: Final = 30.0
_BEAT: Final = 1.0
"""Seconds after which the server says that it still has nothing, and after which a reader that hears nothing looks."""
_SILENCE: Final = 3.5 * _BEAT
_HELD: Final = 5.0
"""Seconds for which a place where there is something is kept for the reader that asked for it, until it was given some."""
_TAKEN: Final = 0.25
"""And from when some has come: its reader may be busy for long, or gone."""
_PAUSE: Final = 0.01
_VANISH: Final = 30.0
"""Seconds after which the server forgets a consumer of which nobody asks anything."""
_NOT_FOUND: Final = 10037
_GOES_ON: Final = ("message size exceeds maxbytes", "batch completed")
"""What ends a request for which there is more."""
_OWN: Final = "pares.log."
"""Where ledgers publish: such a subject says who wrote, and is nobody's key."""


class Pull:
    """One stream, read ahead from `position` on. `url` is for errors."""

    def __init__(self, link: Link, streams: Streams, stream: str, url: str, partition: int) -> None:
        self._link = link
        self._streams = streams
        self._stream = stream
        self._url = url
        self._partition = partition
        self._turn = asyncio.Lock()
        self._identity = ""
        """Of the stream that is read: the first one that was seen."""
        self._epoch: Epoch | None = None
        self._subscription: Subscription | None = None
        self._consumer = self._inbox = ""
        self._came: deque[Msg] = deque()
        self._news = asyncio.Event()
        self._sent = 0
        """Messages that this consumer has sent so far."""
        self._asked = 0
        """Messages that the request with the server may still bring."""
        self._heard = self._looked = 0.0
        self._items: deque[Record | range] = deque()
        """Records, and ranges of offsets that were lost between them."""
        self._bytes = 0
        self._at = self._position = -1
        self._kept = 0.0
        """Until when no other reader may go elsewhere. [of two that read at different places, in turn and without waiting, each
        would do so before anything has come of what the other asked for: neither would get on]"""

    async def take(self, offset: int, max_records: int, max_bytes: int, timeout: float) -> Fetched:
        """As `Source.fetch`."""
        deadline = time.monotonic() + timeout
        try:
            async with asyncio.timeout(timeout):
                await self._turn.acquire()
        except TimeoutError:
            return Fetched((), offset)
        try:
            while True:
                while self._kept > time.monotonic() and offset != self._at:
                    if time.monotonic() >= deadline:
                        return Fetched((), offset)
                    self._turn.release()
                    try:
                        await asyncio.sleep(_PAUSE)
                    finally:
                        await self._turn.acquire()
                await self._be_at(offset)
                await self._sort()
                self._skip(offset)
                if self._items:
                    return self._given(max_records, max_bytes)
                if self._position > offset:
                    self._at, self._kept = self._position, 0.0
                    return Fetched((), self._position)
                await self._ask_for_more()
                now = time.monotonic()
                if now > self._looked + _BEAT and not self._came:
                    await self._look_past_holes()
                    if self._position > offset:
                        continue
                if now >= deadline:
                    return Fetched((), offset)
                await self._wait(min(deadline - now, _BEAT))
        finally:
            self._turn.release()

    def is_still(self, offset: int) -> bool:
        """Whether there is nothing from there on yet, and nothing to be done for it. On any thread: what comes meanwhile shows
        the next time."""
        now, epoch = time.monotonic(), self._epoch
        at_it = self._at <= offset == self._position and not self._items and not self._came
        waits = self._consumer != "" and self._asked > 0 and epoch is not None and not epoch.over.done()
        return at_it and waits and now <= min(self._heard + _SILENCE, self._looked + _BEAT)

    def forget(self) -> None:
        """Read whatever stream of this name there is from now on."""
        self._identity, self._consumer, self._kept = "", "", 0.0
        self._items.clear()
        self._at = self._position = -1

    # What has come ---------------------------------------------------------------------------------------------------

    def _skip(self, offset: int) -> None:
        items = self._items
        while items and (items[0].offset if isinstance(items[0], Record) else items[0].stop - 1) < offset:
            item = items.popleft()
            if isinstance(item, Record):
                self._bytes -= _size(item)
        self._at = offset

    def _given(self, max_records: int, max_bytes: int) -> Fetched:
        first, self._kept = self._items[0], 0.0
        if not isinstance(first, Record):
            raise gap(self._url, self._partition, max(self._at, first.start), first.stop)
        found: list[Record] = []
        size = 0
        while self._items and len(found) < max_records:
            record = self._items[0]
            if not isinstance(record, Record):
                break
            size += _size(record)
            if size > max_bytes and found:
                break
            found.append(record)
            self._bytes -= _size(record)
            self._items.popleft()
        self._at = found[-1].offset + 1 if self._items else self._position
        return Fetched(tuple(found), self._at)

    async def _sort(self) -> None:
        """Messages into records."""
        stream: Stream | None = None
        came = self._came
        while came:
            message = came[0]
            self._heard = time.monotonic()
            headers = message.headers
            if headers and "Status" in headers and not message.data:
                came.popleft()
                self._heed(headers)
                continue
            record, number = _record(message)
            if number != self._sent + 1:
                self._consumer = ""  # something got lost on its way: begin anew behind what is here
                return
            if record.offset > self._position:
                stream = stream or await self._described("look for what is missing")
                if stream.first > self._position:
                    self._items.append(range(self._position, min(stream.first, record.offset)))
            came.popleft()  # now, so that none is lost if the stream can't be looked at
            self._sent = number
            self._asked -= 1
            self._items.append(record)
            self._bytes += _size(record)
            self._position = record.offset + 1
            self._kept = min(self._kept, self._heard + _TAKEN)

    def _heed(self, headers: dict[str, str]) -> None:
        """What the server says of the request, or of the consumer."""
        status, said = headers["Status"], headers.get("Description", "").lower()
        if status == "100":
            return
        self._asked = 0
        if status not in ("404", "408") and said not in _GOES_ON:
            self._consumer = ""

    # The consumer ----------------------------------------------------------------------------------------------------

    async def _be_at(self, offset: int) -> None:
        """See to it that there is a consumer, and that what it brings comes to `offset`."""
        silent = self._asked > 0 and time.monotonic() > self._heard + _SILENCE
        there = self._consumer and not silent and self._epoch is not None and not self._epoch.over.done()
        if not self._at <= offset <= self._position:
            self._items.clear()
            self._bytes, self._at, self._position, there = 0, offset, offset, False
        if there:
            return
        await self._within(self._begin, f"read at offset {offset}")

    async def _begin(self, epoch: Epoch) -> None:
        await self._end()
        found = await self._look(epoch)
        if self._position < found.first:
            raise gap(self._url, self._partition, self._position, found.first)
        if self._position > found.end:
            raise rewound(self._url, self._partition, self._position, found.end)
        self._kept = time.monotonic() + _HELD if self._position < found.end else 0.0
        came: deque[Msg] = deque()
        news = self._news

        async def hear(message: Msg) -> None:
            came.append(message)
            news.set()

        self._came, self._sent, self._asked = came, 0, 0
        self._inbox = epoch.new_inbox()
        self._epoch, self._subscription = epoch, await epoch.subscribe(self._inbox, hear)
        config = {
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self._position + 1,
            "ack_policy": "none",
            "replay_policy": "instant",
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": round(_VANISH * 1e9),
        }
        made = await ask(epoch, f"CONSUMER.CREATE.{self._stream}", {"stream_name": self._stream, "config": config})
        await self._look(epoch)  # it is a consumer of that stream only if that is still the same
        self._consumer, self._heard, self._looked = str(made["name"]), time.monotonic(), time.monotonic()

    async def _end(self) -> None:
        """Let go of the consumer that there was."""
        subscription, self._subscription = self._subscription, None
        consumer, self._consumer = self._consumer, ""
        epoch, self._epoch = self._epoch, None
        if epoch is None or epoch.over.done():
            return
        if subscription is not None:
            await subscription.unsubscribe()
        if consumer:
            await epoch.publish(f"$JS.API.CONSUMER.DELETE.{self._stream}.{consumer}", b"")

    async def _ask_for_more(self) -> None:
        """Have the next request with the server, if there is room for what it brings."""
        epoch = self._epoch
        if self._asked > 0 or self._bytes > AHEAD // 2 or epoch is None or not self._consumer:
            return
        body = {
            "batch": _MESSAGES,
            "max_bytes": max(AHEAD, 2 * epoch.max_payload),
            "expires": round(_EXPIRES * 1e9),
            "idle_heartbeat": round(_BEAT * 1e9),
        }
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._consumer}"
        self._asked, self._heard = _MESSAGES, time.monotonic()
        try:
            await epoch.publish(subject, json.dumps(body).encode(), reply=self._inbox)
        except Lost:
            self._consumer = ""

    async def _wait(self, seconds: float) -> None:
        """Until something comes, or the connection ends."""
        epoch = self._epoch
        if epoch is None:
            return
        self._news.clear()
        if self._came:
            return
        coming = asyncio.ensure_future(self._news.wait())
        try:
            await asyncio.wait({coming, epoch.over}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            coming.cancel()

    # The stream ------------------------------------------------------------------------------------------------------

    async def _look_past_holes(self) -> None:
        """Nothing comes. See whether the stream is the same, and whether it goes on behind a hole that reaches to its end."""
        found = await self._described("look whether the stream goes on")
        self._looked = time.monotonic()
        if found.end <= self._position or self._came:
            self._kept = self._kept if self._came else 0.0
            return
        empty = await self._within(self._empty, "look for messages")
        if empty and not self._came:  # what was published since has a place at that end or behind it
            self._position = found.end

    async def _empty(self, epoch: Epoch) -> bool:
        """Whether there is no message from `position` on."""
        try:
            await ask(epoch, f"STREAM.MSG.GET.{self._stream}", {"seq": self._position + 1, "next_by_subj": ">"})
        except ApiError as error:
            if error.number == _NOT_FOUND:
                return True
            raise
        return False

    async def _described(self, doing: str) -> Stream:
        return await self._within(self._look, doing)

    async def _look(self, epoch: Epoch) -> Stream:
        found = await self._streams.describe(self._stream, epoch)
        if found is None:
            raise self._streams.gone(self._stream)
        if self._identity and found.identity != self._identity:
            raise another(self._url)
        self._identity = found.identity
        return found

    async def _within(self, work: Callable[[Epoch], Awaitable[Any]], doing: str) -> Any:
        """`work`, in the time that a request may take."""
        try:
            return await self._link.within(self._link.settings.timeout, work, doing)
        except Nobody:
            raise LedgerUnavailable(
                f"{self._url}: could not {doing}: the stream {self._stream} has no leader now; look whether enough servers run"
            ) from None
        except ApiError as error:
            raise LedgerUnavailable(f"{self._url}: could not {doing}: {error}") from None


def _record(message: Msg) -> tuple[Record, int]:
    """The record, and which message of its consumer it is: as
    `$JS.ACK.(DOMAIN.ACCOUNT.)STREAM.CONSUMER.DELIVERED.SEQUENCE.PUSHED.TIME.PENDING(.MORE)` says."""
    tokens = message.reply.split(".")
    at = 4 if len(tokens) == 9 else 6
    subject = message.subject
    key = None if subject.startswith(_OWN) else subject.encode()
    return Record(int(tokens[at + 1]) - 1, int(tokens[at + 3]) // 1_000_000, key, message.data), int(tokens[at + 2])


def _size(record: Record) -> int:
    return len(record.payload) + (len(record.key) if record.key is not None else 0)
