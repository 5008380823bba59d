"""Bells: a connection that is subscribed to the logs' channels, and a thread that rings when something is published.

Why not XREAD that blocks: it wakes its reader for every entry, and beats must wake nobody (R21). An append that is urgent is
published by the very script that appends it. The notice is empty: what came is read from the stream, so nobody who may
publish can put anything into a log.

A connection delivers in order, and the server ends one that it can't deliver to. So nothing is missed on a connection that
still answers a PING; after a new one has been subscribed, everything rings once.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Any, Final, cast

from pares.core.errors import LedgerUnavailable, ParesError
from pares.ledger.bell import PipeBell
from pares.ledger.redis.errors import Broken, Refused, advice
from pares.ledger.redis.link import Link
from pares.ledger.redis.settings import Settings, log
from pares.ledger.redis.wire import Wire
from pares.ledger.weak_set import WeakBag

LOOK: Final = 1.0
"""Seconds of silence after which the connection is asked whether it still is one; as many later it is given up."""
_AGAIN: Final = 0.05
_CLOSING: Final = 1.0
"""Seconds for which `close` waits for the thread: it may be waiting for a server that is frozen."""


class Channel:
    """What is published of one partition."""

    def __init__(self) -> None:
        self.bells: WeakBag[PipeBell] = WeakBag()
        self.news = 0
        """Counts what was heard."""
        self.listens = threading.Event()
        """It is subscribed to; or can't be."""


class ChannelBell(PipeBell):
    """A bell on one partition. `close` takes it down."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel = channel
        channel.bells.add(self)

    def close(self) -> None:
        if self._descriptor >= 0:
            self._channel.bells.discard(self)
        super().close()


class Tails:
    """The thread starts with the first channel, and ends with `close`."""

    def __init__(self, settings: Settings, link: Link) -> None:
        self._settings = settings
        self._link = link
        self._changed = threading.Condition()
        """Guards all that follows."""
        self._channels: dict[str, Channel] = {}
        self._wire: Wire | None = None
        self._thread: threading.Thread | None = None
        self._told = ""
        self._ending = threading.Event()

    def bell(self, name: str) -> PipeBell:
        """A bell on a channel that is listened to already, unless the server is away or doesn't allow it."""
        return ChannelBell(self.channel(name))

    def channel(self, name: str) -> Channel:
        """It, listened to."""
        with self._changed:
            channel = self._channels.get(name)
            if channel is None and not self._ending.is_set():
                channel = self._channels[name] = Channel()
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name=f"pares {self._settings.where}", daemon=True)
                    self._thread.start()
                elif self._wire is not None:
                    self._subscribe(self._wire, [name])
        if channel is None:
            return Channel()
        channel.listens.wait(self._settings.timeout)
        return channel

    def wait(self, channel: Channel, news: int, seconds: float) -> None:
        """Until more than `news` was heard, or it ends."""
        with self._changed:
            self._changed.wait_for(lambda: channel.news != news or self._ending.is_set(), seconds)

    def close(self) -> None:
        """End the thread, and all waits."""
        self._ending.set()
        with self._changed:
            thread, wire = self._thread, self._wire
            for channel in self._channels.values():
                channel.listens.set()
                _ring(channel)
            self._changed.notify_all()
        if wire is not None:
            wire.close()
        if thread is not None and thread is not threading.current_thread():
            thread.join(_CLOSING)

    # The thread ------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._ending.is_set():
            wire: Wire | None = None
            try:
                wire = self._link.open_wire("listen")
                with self._changed:
                    self._wire = wire
                    self._subscribe(wire, [*self._channels])
                self._listen(wire)
            except (Broken, LedgerUnavailable) as error:
                self._tell(str(error), logging.DEBUG)
            except Refused as error:
                self._tell(f"{advice(error)}; members look for news more often without", logging.WARNING)
                self._give_up()
            except ParesError as error:
                # Another sort of server stands there now. Readers ask it themselves, and are told so.
                self._tell(str(error), logging.WARNING)
            except Exception as error:
                level = logging.DEBUG if self._ending.is_set() else logging.ERROR
                log.log(level, "%s: the tail failed: %r", self._settings.where, error)
            finally:
                with self._changed:
                    self._wire = None
                if wire is not None:
                    wire.close()
            self._ending.wait(_AGAIN)

    def _tell(self, why: str, level: int) -> None:
        """Once, and not for each attempt."""
        if why != self._told and not self._ending.is_set():
            log.log(level, "%s: the bell: %s", self._settings.where, why)
        self._told = why

    def _give_up(self) -> None:
        """Nobody has to wait for it; a right may come, but is not looked for often."""
        with self._changed:
            for channel in self._channels.values():
                channel.listens.set()
        self._ending.wait(LOOK)

    def _subscribe(self, wire: Wire, names: list[str]) -> None:
        try:
            if names:
                wire.send("SUBSCRIBE", *names)
        except Broken:
            pass  # the thread hears of it

    def _listen(self, wire: Wire) -> None:
        asked = 0.0
        while not self._ending.is_set():
            if wire.heard(LOOK):
                self._take(wire.answer())
                asked = 0.0
            elif asked:
                raise Broken(f"{wire.server} has not answered for {time.monotonic() - asked:.0f} s", sent=False)
            else:
                asked = time.monotonic()
                with self._changed:
                    wire.send("PING")

    def _take(self, message: Any) -> None:
        words = cast(list[Any], message) if isinstance(message, list) else [message]
        if words[0] not in (b"message", b"subscribe"):
            return
        with self._changed:
            channel = self._channels.get(words[1].decode())
            if channel is None:
                return
            first = words[0] == b"subscribe" and not channel.listens.is_set()
            channel.listens.set()
            if first:
                return  # nobody has relied on it yet
            channel.news += 1
            _ring(channel)
            self._changed.notify_all()


def _ring(channel: Channel) -> None:
    for bell in channel.bells:
        bell.ring()
