"""The source of a topic, by a URL or of an opened ledger."""

from __future__ import annotations

from pares.core.errors import CapabilityError, ConfigError
from pares.ledger.address import Options, shown
from pares.ledger.base import KnowsTopics, Ledger, check_name
from pares.ledger.registry import open as open_ledger
from pares.ledger.registry import parse, scheme_of, schemes_with_sources, source_opener
from pares.ledger.source import HasSources, Source
from pares.ledger.sources.of_topic import TopicSource
from pares.ledger.topics.opening import open_topic


def open_source(ledger: Ledger | str, topic: str, **options: object) -> Source:
    """The source of `topic`: on a ledger, or on the service that a URL names.

    A topic is what the ledger keeps under that name (`KeepsTopics`), a Kafka topic, or a JetStream stream. It has to be there:
    a source makes nothing, and needs no right to write. A URL of a service needs no path here, as no log is asked for:
    `kafka://HOST:PORT`, `nats://HOST:PORT`. `options` are those of `pares.open`, for a URL. Close what this returns; a ledger
    that was given stays open.

    Raises `ConfigError` for a URL, option or topic that can't be or is not there, `CapabilityError` for a ledger whose topics
    can't be consumed, `LedgerUnavailable` if it can't be reached now.
    """
    if not isinstance(ledger, str):
        return _source_of(ledger, topic)
    address = parse(ledger)
    opener = source_opener(address)
    if opener is not None:
        return opener(address, Options(ledger, {**address.query, **options}), topic)
    looking = {"readonly": True} if scheme_of(ledger).look_only else {}
    opened = open_ledger(ledger, **{**looking, **options})
    try:
        source = _source_of(opened, topic)
    except BaseException:
        opened.close()
        raise
    if isinstance(source, TopicSource):
        source.close_too(opened)
    else:
        opened.close()  # which it outlives
    return source


def _source_of(ledger: Ledger, topic: str) -> Source:
    if isinstance(ledger, HasSources):
        return ledger.source(topic)
    if ledger.capabilities.topics and isinstance(ledger, KnowsTopics):
        check_name(topic, "a topic's name")
        if not ledger.has_topic(topic):
            raise ConfigError(
                f"{ledger.url} has no topic {topic!r}: correct the name, or make it by ledger.topic({topic!r}, partitions=4)"
            )
        return TopicSource(open_topic(ledger, topic), topic)
    raise CapabilityError(
        f"{shown(ledger.url)} has no topics that can be consumed, so there is no source {topic!r}: ledgers that have are "
        f"{', '.join(schemes_with_sources())}"
    )
