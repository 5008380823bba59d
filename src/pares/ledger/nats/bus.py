"""A bus on core NATS: publish is one message, listen is one subscription; nothing is kept, nobody confirms.

What it promises is `Bus`', and how:

- **nothing old**: what is published without a connection is refused at once, and never sent later; what a connection had not
  delivered when it ended is dropped with it (see `nats.link`). What stands still on this side of the wire may come late, but by
  no more than one and a half `timeout`; what a server has taken and holds back, without a bound. So messages should say when
  they were sent, and be judged by that;
- **epochs**: `epoch` is the number of the connection. When it has changed, messages may have been missed, and nobody sends them
  again;
- one's own messages come back, by the server: that is how a member knows that others can hear it;
- listeners go on after a reconnect without being asked. `listen` returns when the server has taken the subscription; in a
  cluster, messages that are published at another server within the next moment may still be missed.

A subject is any text; on the wire it stands, with %XX for what NATS gives a meaning to, behind `pares.bus.`.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

from pares.core.errors import ConfigError
from pares.ledger.base import Capabilities, check_name, check_payload
from pares.ledger.handle_state import Lifetime
from pares.ledger.nats.epoch import Denied, Epoch, Lost
from pares.ledger.nats.link import Link
from pares.ledger.nats.settings import Settings, log

if TYPE_CHECKING:
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

_PREFIX: Final = "pares.bus"
_REFUSED: Final = 1.0
"""Seconds for which a refusal counts: then it is tried again, for the right may have come."""
_MOST: Final = 65_536
"""Messages that wait for listeners that are slow; what comes beyond that is lost."""


class _Listener(NamedTuple):
    subject: str
    on_message: Callable[[bytes], None]
    since: int
    """The first message that is for it."""


class _Message(NamedTuple):
    number: int
    subject: str
    payload: bytes


class NatsBus:
    """A `Bus` over one `Link`. It has a thread of its own while somebody listens, so that listeners may publish."""

    def __init__(self, link: Link, stream: str) -> None:
        self._link = link
        self._prefix = f"{_PREFIX}.{stream}." if stream else f"{_PREFIX}."
        self._lock = threading.Lock()
        self._listeners: dict[int, _Listener] = {}
        self._number = 0
        self._subscriptions: dict[str, Subscription] = {}
        """Of the connection there is; only for the loop's thread."""
        self._heard: queue.SimpleQueue[_Message | None] = queue.SimpleQueue()
        self._came = 0
        self._lost = 0
        # Held while callbacks run, so that a caller that stops listening can wait for them; by the same thread, not wait.
        self._calling = threading.RLock()
        self._thread: threading.Thread | None = None
        link.hooks.append(self._again)

    @property
    def epoch(self) -> int:
        """The number of the connection that there is; 0 while there is none. Another number: messages may have been missed."""
        now = self._link.now
        return now.number if now is not None else 0

    @property
    def lost(self) -> int:
        """How many messages were dropped because a listener was too slow for them."""
        return self._lost

    def publish(self, subject: str, payload: bytes) -> None:
        name = self._name(subject)
        check_payload(payload)
        self._link.call(self._publish(name, payload))

    async def _publish(self, name: str, payload: bytes) -> None:
        epoch = self._link.now
        if epoch is None:
            raise self._link.unavailable(None, "publish")
        if len(payload) > epoch.max_payload:
            raise ConfigError(
                f"{self._link.settings.where}: a message of {len(payload)} bytes does not fit into the server's "
                f"max_payload={epoch.max_payload}: raise it, or send less"
            )
        # Nobody confirms what is published; that it is refused the server says a moment later, and so the next one is told.
        if (said := epoch.denied(name, time.monotonic() - _REFUSED)) is not None:
            raise self._link.denied("publish", Denied(said))
        try:
            async with asyncio.timeout(self._link.settings.timeout):
                await epoch.publish(name, payload)
        except (Lost, TimeoutError) as error:
            raise self._link.unavailable(epoch, "publish", str(error)) from None

    def listen(self, subject: str, on_message: Callable[[bytes], None]) -> Callable[[], None]:
        name = self._name(subject)
        with self._lock:
            self._number += 1
            number = self._number
            self._listeners[number] = _Listener(name, on_message, self._came)
            if self._thread is None:
                self._heard = queue.SimpleQueue()
                self._thread = threading.Thread(
                    target=self._deliver,
                    args=(self._heard,),
                    name=f"pares bus {self._link.settings.where}",
                    daemon=True,
                )
                self._thread.start()
        try:
            self._link.call(self._link.within(self._link.settings.timeout, partial(self._subscribe, name), "listen"))
        except BaseException:
            self._stop(number)
            raise
        return partial(self._stop, number)

    def close(self) -> None:
        """Stop all listeners, and the thread; the connection stays. May be called twice."""
        for number in [*self._listeners]:
            self._stop(number)

    def _stop(self, number: int) -> None:
        with self._lock:
            gone = self._listeners.pop(number, None)
            thread = None
            if not self._listeners:
                thread, self._thread = self._thread, None
            if thread is not None:
                self._heard.put(None)
            unused = gone is not None and all(other.subject != gone.subject for other in self._listeners.values())
        if gone is not None and unused:
            self._link.post(self._unsubscribe(gone.subject))
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        with self._calling:
            pass

    # In the loop -----------------------------------------------------------------------------------------------------

    async def _subscribe(self, name: str, epoch: Epoch) -> None:
        before = time.monotonic()
        if name not in self._subscriptions:
            queued: Callable[[Msg], object] = partial(self._put, name)

            async def hear(message: Msg) -> None:
                queued(message)

            self._subscriptions[name] = await epoch.subscribe(name, hear)
        try:
            await epoch.flush()
        except Exception as error:
            raise Lost(str(error)) from None
        if epoch.denied(name, before) is not None:
            raise Denied(f"subscription to {name}")

    async def _unsubscribe(self, name: str) -> None:
        if any(other.subject == name for other in [*self._listeners.values()]):
            return  # somebody listens again
        subscription = self._subscriptions.pop(name, None)
        if subscription is not None:
            try:
                await subscription.unsubscribe()
            except Exception as error:
                log.debug("%s: %s", self._link.settings.where, error)

    async def _again(self, epoch: Epoch) -> None:
        """On a new connection: all subscriptions are made again."""
        self._subscriptions.clear()
        for name in {listener.subject for listener in [*self._listeners.values()]}:
            try:
                async with asyncio.timeout(self._link.settings.timeout):
                    await self._subscribe(name, epoch)
            except TimeoutError:
                raise Lost(f"{epoch.server} did not take the subscriptions in time") from None
            except Denied as error:
                # The right was there when it was listened to: nobody is waiting now to be told.
                log.error("%s: nobody hears %s any more: %s", self._link.settings.where, name, error)

    def _put(self, name: str, message: Msg) -> None:
        number, self._came = self._came, self._came + 1
        if self._heard.qsize() < _MOST:
            self._heard.put(_Message(number, name, message.data))
        else:
            self._lost += 1

    # In the bus' thread ----------------------------------------------------------------------------------------------

    def _deliver(self, heard: queue.SimpleQueue[_Message | None]) -> None:
        while (message := heard.get()) is not None:
            for number, listener in [*self._listeners.items()]:
                if listener.subject != message.subject or message.number < listener.since:
                    continue
                with self._calling:
                    if number not in self._listeners:
                        continue
                    try:
                        listener.on_message(message.payload)
                    except Exception as error:
                        arguments = (type(error), error, error.__traceback__, threading.current_thread())
                        threading.excepthook(threading.ExceptHookArgs(arguments))

    def _name(self, subject: str) -> str:
        """The subject on the wire."""
        check_name(subject, "a subject")
        return self._prefix + quote(subject, safe="").replace(".", "%2E").replace("~", "%7E")


class CoreNats(NatsBus):
    """`nats://HOST:PORT`: core NATS, which is a bus and keeps no log.

    Options: `timeout` (seconds that a request may take before it is given up; 1), `config` (a properties file with client
    settings) and `options` (the same as a dictionary).
    """

    kind = "nats"
    capabilities = Capabilities()

    def __init__(self, settings: Settings) -> None:
        self.url = settings.url
        self._lifetime = Lifetime(settings.url)
        super().__init__(Link(settings, self._lifetime), "")
        try:
            self._link.connect()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Give everything back. May be called twice, by any thread."""
        if self._lifetime.forked:
            self._lifetime.end()
            return
        super().close()
        if self._lifetime.end():
            self._link.close()
