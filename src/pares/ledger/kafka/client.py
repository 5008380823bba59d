"""librdkafka's clients: imported when needed, made from settings, and left alone in forked children."""

from __future__ import annotations

import ctypes
import importlib
import sys
from typing import Any

from pares.core.errors import CapabilityError, ConfigError
from pares.ledger.kafka.settings import Settings


def client_module(name: str = "confluent_kafka") -> Any:
    """The client library, or one of its modules. Raises `CapabilityError` if it isn't installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise CapabilityError(f"Kafka ledgers need confluent-kafka ({error}): pip install 'pares[kafka]'") from error


def new_client(kind: str, settings: Settings, own: dict[str, Any]) -> Any:
    """A client of librdkafka's. Raises `ConfigError` for settings that it does not take."""
    kafka = client_module("confluent_kafka.admin" if kind == "AdminClient" else "confluent_kafka")
    base = client_module()
    # A file that a setting names may be missing, a value be wrong: the client says so here, and repeats the value.
    try:
        return getattr(kafka, kind)({**settings.common(), **own})
    except (base.KafkaException, ValueError, TypeError) as error:
        cause: Any = error.args[0] if error.args else error
        text = cause.str() if isinstance(cause, base.KafkaError) else str(cause)
        # Without "from error": its text may hold a secret.
        raise ConfigError(
            f"{settings.url}: the Kafka client refuses its settings: {settings.scrubbed(text)}; correct options= or config="
        ) from None


def purge(producer: Any) -> None:
    """Takes back what `producer` was given and nobody has acknowledged; returns at once. `poll` tells of each record then.

    confluent-kafka (seen in 2.16) takes `blocking` for its opposite, and holds Python's lock while it waits. [as long as a
    resolver did not answer, 9.5 s, no thread of the process ran]
    """
    producer.purge(in_queue=True, in_flight=True, blocking=True)


class _Plain:
    def __init__(self, topic_id: Any) -> None:
        self.topic_id = topic_id


def let_go_of_id(described: Any) -> None:
    """Drops the reference to a topic's id that confluent-kafka (seen in 2.16) takes when it describes the topic, and never
    gives back. [100 bytes each time: four times a second that is 35 MB a day]

    `described` is known to this thread alone. It is compared with what is held in the same way, so of a client that takes no
    such reference none is dropped.
    """
    plain = _Plain(object())
    usual, found = sys.getrefcount(plain.topic_id), sys.getrefcount(described.topic_id)
    if found == usual + 1:
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(described.topic_id))
