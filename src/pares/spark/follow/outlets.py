"""Where alarms go: the console, a webhook, a topic of a ledger.

Rules, each with what breaks without it:

* A receiver that is slow or down holds nobody up: each has a thread and a queue of its own. [a pager would stop the audit]
* The queue is bounded, and what does not fit is counted and said. [memory; or alarms that are lost without a word]
* What fails is tried again, after waits that grow up to `LONGEST_S`, for as long as it takes; what a receiver refuses for good
  (a 4xx of HTTP) is counted, said, and not tried again. [one alarm that it can't read would hold back all others]
* Each message has an id, the same at each try. [a receiver can't tell a second try from a second alarm]
"""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

from msgspec import Struct

import pares
from pares.core.errors import ConfigError, ParesError
from pares.ledger.address import shown
from pares.ledger.registry import open as open_ledger

QUEUE: Final = 1000
"""Alarms that wait for one receiver."""
FIRST_S: Final = 0.5
LONGEST_S: Final = 60.0
TIMEOUT_S: Final = 10.0
TOPIC: Final = "alarms"
"""Where a URL of a ledger names no topic."""
_LEAVING_S: Final = 0.5
_LATER: Final = frozenset({408, 425, 429})
"""Refusals of HTTP that mean: not now."""


class Message(Struct, frozen=True):
    """One alarm on its way. `number` counts what was ever told."""

    number: int
    id: str
    body: bytes


class Refused(Exception):
    """The receiver will not take this message, however often it is sent."""


class NotNow(Exception):
    """The receiver did not take it; it may later."""


class Receiver(Protocol):
    """Takes one message, or raises `Refused` or `NotNow`."""

    @property
    def name(self) -> str:
        """What people and the journal call it; no secrets."""
        ...

    def send(self, message: Message) -> None: ...

    def close(self) -> None: ...


class _Straight(urllib.request.HTTPRedirectHandler):
    """Follows no redirection: a POST would go on as a GET, and its answer pass for the receiver's."""

    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: Any) -> None:
        return None


_OPENER: Final = urllib.request.build_opener(_Straight)


class Webhook:
    """POSTs each alarm as JSON. What answers with 2xx has taken it."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"--alert webhook:{url}: give the URL of a web server: webhook:https://HOST/PATH")
        self._url = url
        # What stands behind the host is often the secret.
        self.name = f"webhook {parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")

    def send(self, message: Message) -> None:
        headers = {
            "Content-Type": "application/json",
            "Idempotency-Key": message.id,
            "User-Agent": f"pares/{pares.__version__}",
        }
        request = urllib.request.Request(self._url, message.body, headers, method="POST")
        try:
            with _OPENER.open(request, timeout=TIMEOUT_S) as answer:
                answer.read(1024)
        except urllib.error.HTTPError as error:
            with error:
                final = 400 <= error.code < 500 and error.code not in _LATER
            raise (Refused if final else NotNow)(f"it answers {error.code}") from None
        except (OSError, ValueError) as error:  # not reached, cut off, or no HTTP at all
            raise NotNow(str(getattr(error, "reason", "") or error)) from None

    def close(self) -> None:
        pass


class Topic:
    """Appends each alarm to a topic of a ledger, which is made if it is not there."""

    def __init__(self, url: str) -> None:
        place, _, topic = url.partition("#")
        self._topic_name = unquote(topic) or TOPIC
        self.name = f"topic {shown(place)}#{self._topic_name}"
        self._ledger = open_ledger(place)
        self._topic = self._ledger.topic(self._topic_name, partitions=1)

    def send(self, message: Message) -> None:
        try:
            self._topic.append(message.body)
        except ParesError as error:
            raise NotNow(str(error)) from None

    def close(self) -> None:
        self._ledger.close()


class Counts(NamedTuple):
    """What became of the messages for one receiver."""

    delivered: int
    waiting: int
    failed: int
    """Tries that came to nothing."""
    refused: int
    overflowed: int
    """Those that found the queue full."""


class Courier:
    """Brings messages to one receiver, in order, on a thread of its own."""

    def __init__(
        self, receiver: Receiver, *, queue: int = QUEUE, first_s: float = FIRST_S, longest_s: float = LONGEST_S
    ) -> None:
        self.name = receiver.name
        self._receiver, self._most, self._first_s, self._longest_s = receiver, queue, first_s, longest_s
        self._lock = threading.Condition()
        self._queue: deque[Message] = deque()
        self._done: list[Message] = []
        self._words: list[str] = []
        self._delivered = self._failed = self._refused = self._overflowed = 0
        self._down = self._full = False
        self._ending = False
        self._thread = threading.Thread(target=self._run, name=f"pares: {self.name}", daemon=True)
        self._thread.start()

    def put(self, message: Message) -> bool:
        """Takes a message on its way; False if the queue is full. Never waits."""
        with self._lock:
            if len(self._queue) >= self._most:
                self._overflowed += 1
                if not self._full:
                    self._words.append(f"{self.name}: {self._most} alarms wait, and no more are taken")
                self._full = True
                return False
            self._queue.append(message)
            self._lock.notify_all()
            return True

    def done(self) -> list[Message]:
        """Those that are taken or refused since this was asked last: nothing more is to be done for them."""
        with self._lock:
            done, self._done = self._done, []
            return done

    def words(self) -> list[str]:
        """What is to be said to people since this was asked last."""
        with self._lock:
            words, self._words = self._words, []
            return words

    def counts(self) -> Counts:
        with self._lock:
            return Counts(self._delivered, len(self._queue), self._failed, self._refused, self._overflowed)

    def drained(self, timeout: float) -> bool:
        """Waits until nothing waits; False if that takes longer."""
        with self._lock:
            return self._lock.wait_for(lambda: not self._queue, timeout)

    def close(self, timeout: float = 0.0) -> int:
        """Ends it, after what waits has been delivered, or after `timeout` seconds; how many were not. A try that is under way
        is not waited for."""
        self.drained(timeout)
        with self._lock:
            self._ending = True
            self._lock.notify_all()
        self._thread.join(_LEAVING_S)
        if not self._thread.is_alive():
            self._receiver.close()
        return self.counts().waiting

    def _run(self) -> None:
        wait = self._first_s
        while True:
            with self._lock:
                self._lock.wait_for(lambda: self._queue or self._ending)
                if self._ending:
                    return
                message = self._queue[0]
            try:
                self._receiver.send(message)
            except NotNow as error:
                self._not_now(str(error), wait)
                wait = min(2 * wait, self._longest_s)
                continue
            except Refused as error:
                self._settle(message, refused=str(error))
            else:
                self._settle(message)
            wait = self._first_s

    def _not_now(self, why: str, wait: float) -> None:
        with self._lock:
            self._failed += 1
            if not self._down:
                waiting = len(self._queue)
                self._words.append(f"{self.name}: not delivered ({why}); {waiting} wait, tried again until it is taken")
            self._down = True
            self._lock.wait_for(lambda: self._ending, wait)

    def _settle(self, message: Message, refused: str | None = None) -> None:
        with self._lock:
            self._queue.popleft()
            self._done.append(message)
            if refused is None:
                self._delivered += 1
                if self._down:
                    self._words.append(f"{self.name}: takes alarms again; {len(self._queue)} wait")
                self._down = False
            else:
                self._refused += 1
                self._words.append(f"{self.name}: refuses alarm {message.id} ({refused}); it is not sent again")
            if self._full and not self._queue:
                self._words.append(f"{self.name}: {self._overflowed} alarms in all found its queue full")
                self._full = False
            self._lock.notify_all()


_KINDS: Final[dict[str, Callable[[str], Receiver]]] = {"webhook": Webhook, "topic": Topic}
CONSOLE: Final = "console"


def receiver(told: str) -> Receiver | None:
    """What `--alert` names: `console` (None), `webhook:URL` or `topic:URL`. Raises `ConfigError`."""
    kind, _, url = told.partition(":")
    if told == CONSOLE:
        return None
    if kind not in _KINDS or not url:
        raise ConfigError(f"--alert {told}: give console, webhook:URL or topic:URL")
    return _KINDS[kind](url)
