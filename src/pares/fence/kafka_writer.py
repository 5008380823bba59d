"""One transactional producer of librdkafka's, and what its errors mean."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from pares.core.errors import ConfigError, ParesError
from pares.fence.kafka_tokens import Passed, encode, key
from pares.ledger.handle_state import keep_after_fork
from pares.ledger.kafka.client import client_module, new_client, purge
from pares.ledger.kafka.errors import TOO_LARGE, unavailable
from pares.ledger.kafka.settings import Settings, log

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

_FENCED: Final = (-144, 47, 90)
"""Another producer with this id came after this one: librdkafka's word for it, and the brokers', old and new."""
_LOST: Final = (48, 49, 59)
"""The brokers know nothing of this transaction, or of this producer, any more."""
_ID_AUTHORIZATION: Final = 53
_INVALID_TIMEOUT: Final = 50
_EARLIER: Final = (-172, -150)
"""The producer can do nothing any more, because of an earlier error."""
_FULL: Final = -184
_PURGED: Final = (-151, -152)
_LOOK: Final = 0.2
"""Seconds after which a thread that waits for its turn looks at the tokens again. Shorter than the half second after which the
client repeats a request that the brokers put off: each repetition shuts out the writer of that moment."""
_POLL: Final = 0.1
"""Seconds of one wait for deliveries. The client library cuts what is longer into pieces, with the trouble of `_settled`."""
_left: Final[list[Any]] = []
"""Clients that could not be ended."""
_PATIENCE: Final = 5.0
"""Seconds that passing the fence may take at least: a coordinator is found, its log written."""


class Fenced(ParesError):
    """The brokers refused the writer: another one with its id came after it.

    `certain`: what it was writing was not committed. Else its commit may have happened, before the other one came.
    """

    def __init__(self, certain: bool) -> None:
        super().__init__("fenced")
        self.certain = certain


class Writer:
    """A producer for one term. After any error but `ConfigError` of `produce` it is broken, and good for nothing."""

    def __init__(self, settings: Settings, where: str, id: str, token: int, timeout_ms: int) -> None:
        self.token: Final = token
        self.broken = False
        self.lost: ParesError | None = None
        """What became of the transaction, for a caller that asks again."""
        self._number = 0
        self._over = False
        self._id = id
        self._settings = settings
        self._where = where
        self._timeout_ms = timeout_ms
        self._patience = max(settings.timeout, _PATIENCE)
        self._told = ""
        self._failed: tuple[KafkaError, str] | None = None
        self._producer: Any = new_client(
            "Producer",
            settings,
            {
                "transactional.id": id,
                "transaction.timeout.ms": timeout_ms,
                "message.timeout.ms": timeout_ms,
                "socket.timeout.ms": min(settings.milliseconds, timeout_ms - 100),
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 0,
                "error_cb": self._error,
            },
        )
        keep_after_fork(self)

    def init(self, look: Callable[[], None]) -> None:
        """From here on no producer that came before with this id can commit anything.

        `look` is called now and then while the brokers put it off; what it raises ends the waiting.
        """
        end = time.monotonic() + self._patience
        with self._errors("begin to write for the seat"):
            while True:
                left = end - time.monotonic()
                try:
                    self._producer.init_transactions(max(0.0, min(_LOOK, left)))
                    return
                except client_module().KafkaException as error:
                    # What is retriable goes on in the background, and the next call waits for it.
                    if left <= _LOOK or error.args[0].fatal() or not error.args[0].retriable():
                        raise
                look()

    def put_down(self, group: str | None, role: str, seat: int, *, below: int | None) -> int:
        """Commits the token to the fence's topic, the predecessor's deleted. The offset of the record."""
        passed = Passed(group, role, seat, self.token, time.time_ns() // 1_000_000)
        offsets: list[int] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                offsets.append(message.offset() or 0)

        topic = self._settings.topic
        self.begin()
        self.produce(topic, encode(passed), key(group, role, seat, self.token), delivered, {"partition": 0})
        if below is not None:
            self.produce(topic, None, key(group, role, seat, below), None, {"partition": 0})
        self.commit()
        return offsets[0]

    def begin(self) -> None:
        with self._errors("begin a transaction"):
            self._producer.begin_transaction()
        self._number += 1
        self._failed = None

    def produce(
        self,
        topic: str,
        value: bytes | str | None,
        key: bytes | str | None,
        on_delivery: Callable[[Any, Message], None] | None,
        options: dict[str, Any],
    ) -> None:
        number = self._number

        def delivered(error: KafkaError | None, message: Message) -> None:
            # What an aborted transaction purged is told of later, and no failure of the next one.
            if error is not None and self._failed is None and number == self._number:
                self._failed = (error, topic)
            if on_delivery is not None and not self._over:
                on_delivery(error, message)

        end = time.monotonic() + self._timeout_ms / 1000
        with self._errors(f"write to {topic}"):
            while True:
                try:
                    self._producer.produce(topic, value, key, on_delivery=delivered, **options)
                    self._producer.poll(0)
                    return
                except BufferError:
                    if time.monotonic() > end:
                        raise self._broke(client_module().KafkaError(_FULL), f"write to {topic}") from None
                    self._producer.poll(0.05)

    def send_offsets(self, positions: Sequence[Any], group_metadata: object) -> None:
        with self._errors("commit a consumer's positions"):
            self._producer.send_offsets_to_transaction(list(positions), group_metadata, self._patience)

    def commit(self) -> None:
        """Raises unless the transaction is committed."""
        self.flush()
        with self._errors("commit", sent=True):
            self._producer.commit_transaction(self._patience)

    def flush(self) -> None:
        """Raises unless the brokers have all that the transaction has written."""
        with self._errors("write"):
            # First all that can fail without doubt.
            if not self._settled():
                raise self._broke(client_module().KafkaError(-192), "write")
        if self._failed is not None:
            error, topic = self._failed
            if error.code() in _PURGED:
                # Not its own fault: the transaction had failed before. Nothing is sent now, and why is said.
                with self._errors(f"write to {topic}"):
                    self._producer.commit_transaction(self._patience)
            raise self._broke(error, f"write to {topic}")

    def abort(self) -> bool:
        """Whether the transaction is surely over, and the writer good for another."""
        if self.broken or self._failed is not None:
            return False
        try:
            self._producer.abort_transaction(self._patience)
        except (client_module().KafkaException, SystemError) as error:
            log.debug("%s: could not abort: %s", self._where, error)
            return False
        return True

    def _settled(self) -> bool:
        """Whether every record was delivered, or given up, within the time of a transaction.

        Not by the client's `flush`: it goes on after a fatal error (another producer came) that it has to raise, calls back
        with that exception set, and may end in a SystemError that has lost it. `poll` returns at once.
        """
        end = time.monotonic() + self._timeout_ms / 1000
        while len(self._producer):
            if time.monotonic() > end:
                return False
            self._producer.poll(_POLL)
        return True

    def close(self) -> None:
        """Ends the client. What is still open is aborted by the next term that passes, or by the brokers when its time is
        up.

        Not while a record is under way: as it ends, a transactional client (librdkafka 2.16) frees what it would say of the
        transaction, and frees it once more if an answer comes then that the brokers refuse. That ends the process.
        """
        self.broken = self._over = True
        kafka = client_module()
        with contextlib.suppress(kafka.KafkaException):
            purge(self._producer)
        end = time.monotonic() + self._patience
        while len(self._producer) and time.monotonic() < end:
            # Of each record it is told when all is done that follows from it.
            with contextlib.suppress(kafka.KafkaException, SystemError):
                self._producer.poll(_POLL)
        if len(self._producer):
            log.warning("%s: a client does not end, so it stays: its connections hang", self._where)
            _left.append(self._producer)
        self._producer = None

    # Errors ----------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _errors(self, doing: str, *, sent: bool = False) -> Iterator[None]:
        kafka = client_module()
        try:
            yield
        except kafka.KafkaException as error:
            raise self._broke(error.args[0], doing, sent=sent) from None
        except SystemError:
            # So it ends when it has to raise a fatal error out of a callback: the error is lost, and asked for. (Or Ctrl-C is.)
            self.broken = True
            fatal = self._fatal()
            if fatal is None:
                raise
            raise self._broke(fatal, doing, sent=sent) from None

    def _fatal(self) -> KafkaError | None:
        """Why the producer can do nothing any more: it is told to each caller that begins a transaction. [to the one that polls
        once, and later than other calls fail for it]"""
        try:
            self._producer.begin_transaction()
        except client_module().KafkaException as error:
            return error.args[0] if error.args[0].fatal() else None
        return None

    def _broke(self, error: KafkaError, doing: str, *, sent: bool = False) -> Exception:
        self.broken = True
        code = error.code()
        root: Any = error
        if code in _EARLIER:
            root = self._fatal() or self._cause() or root
            code = root.code()
        if code in _FENCED or code in _LOST:
            return Fenced(certain=not sent)
        if code == _ID_AUTHORIZATION:
            return ConfigError(
                f"{self._where}: the user has no right to the transactional id {self._id!r} ({root.name()}): have it granted "
                "(kafka-acls.sh --add --allow-principal User:NAME --operation Write --operation Describe "
                f"--transactional-id {self._id.partition('/')[0]}/ --resource-pattern-type prefixed)"
            )
        if code == _INVALID_TIMEOUT:
            return ConfigError(
                f"{self._where}: the brokers allow no transaction of {self._timeout_ms / 1000:g} s ({root.name()}): give a "
                "smaller transaction_timeout, or raise the brokers' transaction.max.timeout.ms"
            )
        if code in TOO_LARGE:
            return ConfigError(
                f"{self._where}: could not {doing}: the record is too large for the topic's max.message.bytes, or the client's "
                f"message.max.bytes ({root.name()}: {root.str()}): raise it, or write less; nothing was written"
            )
        unknown = sent and not error.txn_requires_abort()
        return unavailable(root, self._where, doing, unknown=unknown, told=self._told)

    def _cause(self) -> KafkaError | None:
        """What broke the transaction before: the client tells it once, to the thread that polls, or with the records that it
        cost."""
        try:
            self._producer.poll(0)
        except client_module().KafkaException as error:
            return error.args[0]
        return None if self._failed is None else self._failed[0]

    def _error(self, error: KafkaError) -> None:
        self._told = self._settings.scrubbed(error.str())
        log.debug("%s: %s", self._where, self._told)
