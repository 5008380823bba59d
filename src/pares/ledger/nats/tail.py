"""Following streams: a consumer of one's own at the wanted place, which pushes what comes, and is made anew when in doubt.

The client library's ordered consumer is not used: it has been seen to skip, to begin elsewhere than asked, and to be silent for
twenty seconds. Here every message says its place among those that were pushed; one that is missing, a heartbeat that tells of
another place or does not come, or a new connection, and the consumer is made anew behind the last entry. Before that the stream
is looked at: if it is another one, or no longer has the place, the window is shut, and readers find out from the leader.

Where most entries are not urgent (`window.Quiet`) there is no consumer: the task listens for the bell that writers ring after
an urgent append, on a subject of core NATS, and readers bring what there is when they read (`read.news`). A bell that is lost
is made good by the next reading; each new connection rings once.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pares.core.errors import ParesError
from pares.ledger.base import Entry
from pares.ledger.nats.epoch import Denied, Epoch, Lost, Nobody
from pares.ledger.nats.link import Link
from pares.ledger.nats.read import QUIET
from pares.ledger.nats.settings import log
from pares.ledger.nats.stream import ApiError, Streams, ask, bell_of, stream_of
from pares.ledger.window import Window, Windows

if TYPE_CHECKING:
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

BEAT: Final = 0.5
"""Seconds after which an idle consumer says so."""
_SILENCE: Final = 1.2
_FRESH: Final = 1.2 * BEAT
"""Seconds for which the server's last word counts. An idle reader that looks again and again need not ask then."""
_LOOK: Final = 5.0
"""Seconds after which a task that listens for the bell looks whether that is still what it should do."""
_AGAIN: Final = 0.05
_NO_RIGHT: Final = 1.0
"""Seconds between two attempts of a user who may not follow: the right may come."""
_UNUSED: Final = 60.0
"""Seconds after which a partition is no longer followed that nobody has read and that has no bell."""
_VANISH: Final = 10.0
"""Seconds after which the server forgets a consumer that nobody listens to."""


class Tails:
    """The windows, and a task for each that is followed. `window`, `follow`, `follows`, `close` are for any thread."""

    def __init__(self, link: Link, streams: Streams, replaced: Callable[[str], None]) -> None:
        self._link = link
        self._streams = streams
        self._replaced = replaced
        self._lock = threading.Lock()
        self._windows = Windows(_FRESH)
        self._followed: set[tuple[str, int]] = set()
        self._ended = False

    def window(self, topic: str, partition: int) -> Window:
        return self._windows.get(topic, partition)

    def follow(self, window: Window, offset: int) -> None:
        """Follow the partition from `offset` on, unless it is followed already."""
        key = (window.topic, window.partition)
        with self._lock:
            if self._ended or key in self._followed:
                return
            self._followed.add(key)
        self._link.post(self._run(window, offset))

    def follows(self, topic: str) -> bool:
        """Whether the tail would hear of it if the stream were another one."""
        return any(window.open for window in self._windows.of(topic))

    def lazy(self, topic: str) -> bool:
        return any(window.lazy for window in self._windows.of(topic))

    def close(self) -> None:
        """Those that wait need not any more. The tasks end with the link."""
        with self._lock:
            self._ended = True
        self._windows.shut()

    # In the loop -----------------------------------------------------------------------------------------------------

    async def _run(self, window: Window, offset: int) -> None:
        tail = _Tail(self._link, self._streams, window, offset)
        try:
            await tail.run()
        except asyncio.CancelledError:
            raise
        except Exception as error:
            # Readers ask the leader themselves when nothing is followed: slower, and as right as before.
            log.exception("%s: the tail of %s ended: %r", self._link.settings.where, window.topic, error)
        finally:
            self._replaced(window.topic)
            window.shut()
            with self._lock:
                self._followed.discard((window.topic, window.partition))
            window.ring()  # who heard the first bell may have asked in vain to have it followed


class _Tail:
    """One partition, followed from `position` on."""

    def __init__(self, link: Link, streams: Streams, window: Window, position: int) -> None:
        self._link = link
        self._streams = streams
        self._window = window
        self._stream = stream_of(window.topic, window.partition)
        self._position = position
        self._identity: str = ""
        self._refused = False
        self._without_bell = False
        """The user may not hear the bell, or the stream can't be read without a consumer."""
        self._came: asyncio.Queue[Msg] = asyncio.Queue()

    async def run(self) -> None:
        """Until the place is lost, or nobody cares any more."""
        while self._wanted():
            epoch = await self._link.epoch()
            # A subscription of its own: what is pushed bears the subject that it was published on.
            subscription, name = None, ""
            if self._window.open:
                self._position = max(self._position, self._window.high)  # readers have brought something
            lazy = self._window.should_be_lazy and not self._without_bell
            try:
                async with asyncio.timeout(self._link.settings.timeout):
                    if not await self._still_there(epoch):
                        return
                    if lazy := lazy and not self._without_bell:
                        subscription, lazy = await self._bell(epoch)
                    else:
                        inbox = epoch.new_inbox()
                        subscription = await epoch.subscribe(inbox, self._came.put)
                        name = await self._consumer(epoch, inbox)
                if not self._window.open:
                    self._window.begin(self._position)
                if lazy:
                    await self._heed_bell(epoch)
                elif name:
                    if self._window.lazy:
                        self._window.lazy = False
                        self._window.ring()  # a reader may have brought what the bell would have rung for
                    await self._listen(epoch)
            except Denied as error:
                if not self._refused:
                    # Readers ask the leader themselves then: slower, and as right.
                    log.warning("%s: the user has no right to follow the stream: %s", self._link.settings.where, error)
                self._refused = True
                await asyncio.sleep(_NO_RIGHT)
            except (Lost, Nobody, ApiError, ParesError, TimeoutError) as error:
                log.debug("%s: the tail of %s: %r", self._link.settings.where, self._stream, error)
                await asyncio.sleep(_AGAIN)
            finally:
                self._came = asyncio.Queue()
                self._window.doubt()
                if not epoch.over.done():
                    await self._forget(epoch, subscription, name)

    def _wanted(self) -> bool:
        return bool(self._window.bells) or time.monotonic() < self._window.used + _UNUSED

    async def _still_there(self, epoch: Epoch) -> bool:
        """Whether it is the stream that it was, and has the place where the tail goes on."""
        found = await self._streams.describe(self._stream, epoch)
        if found is None or not found.first <= self._position:
            return False
        if self._identity and found.identity != self._identity:
            return False
        self._identity = found.identity
        self._without_bell = self._without_bell or found.config.get("allow_direct") is not True
        return self._position <= found.end

    async def _bell(self, epoch: Epoch) -> tuple[Subscription, bool]:
        """A subscription to the bell, and whether the user may have it."""
        began, subject = time.monotonic(), bell_of(self._stream)
        subscription = await epoch.subscribe(subject, self._came.put)
        await epoch.flush()
        if refused := epoch.denied(subject, began):
            log.info("%s: the user may not hear the bell: %s", self._link.settings.where, refused)
            self._without_bell = True
        return subscription, not self._without_bell

    async def _heed_bell(self, epoch: Epoch) -> None:
        """Wakes readers when it rings; returns when they no longer should be lazy, or the connection is over."""
        self._window.lazy = True
        self._window.wake()  # it may have rung before there was anybody to hear it
        while self._window.should_be_lazy and self._wanted() and self._window.open and not epoch.over.done():
            ring = asyncio.ensure_future(self._came.get())
            done, _ = await asyncio.wait({ring, epoch.over}, timeout=_LOOK, return_when=asyncio.FIRST_COMPLETED)
            ring.cancel()
            if ring in done:
                while not self._came.empty():
                    self._came.get_nowait()
                self._window.wake()

    async def _consumer(self, epoch: Epoch, inbox: str) -> str:
        config = {
            "deliver_subject": inbox,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self._position + 1,
            "ack_policy": "none",
            "replay_policy": "instant",
            "idle_heartbeat": round(BEAT * 1e9),
            "flow_control": True,
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": round(_VANISH * 1e9),
        }
        made = await ask(epoch, f"CONSUMER.CREATE.{self._stream}", {"stream_name": self._stream, "config": config})
        self._window.expect(self._position + int(made.get("num_pending", 0)), at_least=True)
        return str(made["name"])

    async def _forget(self, epoch: Epoch, subscription: Subscription | None, name: str) -> None:
        try:
            if subscription is not None:
                await subscription.unsubscribe()
            if name:
                await epoch.publish(f"$JS.API.CONSUMER.DELETE.{self._stream}.{name}", b"")
        except Exception as error:
            log.debug("%s: the tail of %s: %r", self._link.settings.where, self._stream, error)

    async def _listen(self, epoch: Epoch) -> None:
        """Entries as they come; returns when the consumer is to be made anew."""
        pushed, whole = 0, True
        while whole and self._wanted() and self._window.open and not epoch.over.done():
            try:
                async with asyncio.timeout(_SILENCE):
                    messages = [await self._came.get()]
            except TimeoutError:
                return
            while not self._came.empty() and len(messages) < 1000:
                messages.append(self._came.get_nowait())
            entries: list[Entry] = []
            quiet: set[int] = set()
            pending = 0
            for message in messages:
                if message.headers and "Status" in message.headers and not message.data:
                    whole = await self._control(epoch, message, pushed)
                else:
                    place = _Place(message.reply)
                    pushed += 1
                    whole = place.pushed == pushed and (place.offset == self._position or await self._hole(epoch))
                    if whole:
                        entries.append(Entry(place.offset, place.milliseconds, message.data))
                        if message.headers and QUIET in message.headers:
                            quiet.add(place.offset)
                        self._position, pending = place.offset + 1, place.pending
                if not whole:
                    break
            self._window.expect(self._position + pending, at_least=True)
            if (whole or entries) and self._window.put(entries, self._position, quiet) and not self._without_bell:
                return

    async def _control(self, epoch: Epoch, message: Msg, pushed: int) -> bool:
        """A heartbeat, or a question whether we keep up. False if something is missing."""
        headers = message.headers or {}
        if headers["Status"] != "100":
            return False
        if answer := message.reply or headers.get("Nats-Consumer-Stalled"):
            await epoch.publish(answer, b"")
        return int(headers.get("Nats-Last-Consumer", pushed)) == pushed

    async def _hole(self, epoch: Epoch) -> bool:
        """Entries are missing here: False if they were cut off from the log's beginning, and not deleted one by one."""
        async with asyncio.timeout(self._link.settings.timeout):
            found = await self._streams.describe(self._stream, epoch)
        return found is not None and found.first <= self._position


class _Place:
    """What a pushed message says of itself.

    `$JS.ACK.(DOMAIN.ACCOUNT.)STREAM.CONSUMER.DELIVERED.SEQUENCE.PUSHED.TIME.PENDING(.MORE)`
    """

    __slots__ = ("milliseconds", "offset", "pending", "pushed")

    def __init__(self, reply: str) -> None:
        tokens = reply.split(".")
        at = 4 if len(tokens) == 9 else 6
        self.offset = int(tokens[at + 1]) - 1
        self.pushed = int(tokens[at + 2])
        self.milliseconds = int(tokens[at + 3]) // 1_000_000
        self.pending = int(tokens[at + 4])
