"""Where the demo has its log, and what becomes of it.

Rule: what the user has named is kept, what the demo has named itself is removed, also after Ctrl-C and after an error. On Kafka
the demo's topic is its own either way: a topic that holds records already is somebody's, and is refused, not shared.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from rich.markup import escape

from pares.core.errors import ConfigError, LedgerUnavailable
from pares.ledger import Ledger, parse
from pares.ledger import open as open_ledger
from pares.ledger.registry import scheme_of

if TYPE_CHECKING:
    from pares.demo.screen import Screen
    from pares.ledger.kafka.log import KafkaLedger

OWN_KAFKA: Final = ("kafka", "kafka:", "kafka://")
"""What asks for a Kafka of the demo's own."""


TIMEOUT: Final = 5.0
"""Seconds that the conductor gives brokers for an answer. Members give them one, and fence themselves; but a show must not
end because a broker had to think."""


@dataclass(frozen=True, slots=True)
class Where:
    """The log of one run."""

    url: str
    words: str
    """What it is, to people: "a log in ..."."""
    kept: bool
    """Whether it is still there when the demo has ended."""
    fresh: bool
    """Whether nobody else has ever written to it."""


def check(ledger: str | None) -> None:
    """Raises `ConfigError` for what is no URL of a ledger that several processes can share."""
    if ledger is None or ledger in OWN_KAFKA:
        return
    if scheme_of(ledger).scope == "process":
        raise ConfigError(f"{ledger} lives inside one process, and the demo's members are several: use file:FOLDER")


@contextmanager
def prepared(ledger: str | None, folder: Path, screen: Screen, partitions: int = 1) -> Iterator[Where]:
    """The log that `ledger` asks for, with so many partitions: None, "kafka" (a Kafka of the demo's own), or a URL; one of
    Kafka's may do without a topic. Afterwards what was made for the demo alone is gone.

    Raises `ConfigError` for a topic that is in use, `CapabilityError` if Kafka can't be run or reached from here for want of
    something that must be installed, `LedgerUnavailable` if no broker answers.
    """
    if ledger is None:
        yield Where(divided(f"file://{quote(str(folder / 'ledger'))}", partitions), "files", kept=False, fresh=True)
    elif ledger in OWN_KAFKA:
        with _own_kafka(screen) as url:
            yield Where(divided(url, partitions), "a Kafka topic", kept=False, fresh=True)
    elif scheme_of(ledger).kafka_client:
        with _topic(divided(ledger, partitions), screen) as where:
            yield where
    else:
        words = scheme_of(ledger).words or parse(ledger).scheme
        yield Where(divided(ledger, partitions), words, kept=True, fresh=False)


def divided(url: str, partitions: int) -> str:
    """The URL of a ledger that has so many partitions, unless it says how many itself."""
    if partitions == 1 or "partitions" in parse(url).query:
        return url
    return f"{url}{'&' if '?' in url else '?'}partitions={partitions}"


@contextmanager
def _own_kafka(screen: Screen) -> Iterator[str]:
    from pares.dev import Kafka
    from pares.dev.kafka import jars
    from pares.ledger.kafka.client import client_module

    client_module()  # before anything is downloaded: without a client a broker is of no use
    what = f"Fetching Kafka {jars.VERSION} from Maven Central (44 MB, only this once)"
    began = time.monotonic()
    screen.busy_until_told(f"Starting Kafka {jars.VERSION} on this machine ..." if jars.is_here() else f"{what} ...")
    kafka = Kafka(progress=lambda done, total: screen.progress(what, done, total))
    try:
        try:
            kafka.start()
        finally:
            screen.close()
        screen.note(
            f"Kafka {jars.VERSION} runs at {kafka.bootstrap}: started for this demo in {time.monotonic() - began:.1f} s, "
            "and ended with it.\n"
        )
        yield kafka.topic_url(fresh_topic())
    finally:
        kafka.close()


@contextmanager
def _topic(given: str, screen: Screen) -> Iterator[Where]:
    """A topic on the user's brokers: the one that the URL names, kept; else a fresh one, deleted at the end."""
    from pares.ledger.kafka.log import KafkaLedger

    named = parse(given).path.strip("/") != ""
    url = given if named else with_topic(given, fresh_topic())
    try:
        opened = open_patiently(url)
    except LedgerUnavailable as error:
        raise LedgerUnavailable(
            f"{error}. To see the demo without brokers of your own: --ledger kafka starts one"
        ) from None
    with closing(opened) as ledger:
        assert isinstance(ledger, KafkaLedger)
        if any(ledger.end(partition) for partition in range(ledger.partitions)):
            raise ConfigError(
                f"the topic in {url} holds records already, and the demo wants one of its own: name one that is not "
                f"there yet, or none ({with_topic(given, '')}), and the demo makes one and deletes it at the end"
            )
        try:
            yield Where(url, "a Kafka topic", kept=named, fresh=True)
        finally:
            if not named:
                _delete(ledger, screen)


def _delete(ledger: KafkaLedger, screen: Screen) -> None:
    """What fails here is said, and no more: the demo's result, or its error, is what counts."""
    try:
        ledger.remove()
    except LedgerUnavailable as error:
        topic = parse(ledger.url).path[1:]
        screen.note(f"[yellow]The demo's topic {topic} could not be deleted, and is left:[/] {escape(str(error))}\n")


def open_patiently(url: str) -> Ledger:
    """The ledger, as the conductor opens it."""
    patient = scheme_of(url).kafka_client and "timeout" not in parse(url).query
    return open_ledger(url, timeout=TIMEOUT) if patient else open_ledger(url)


def fresh_topic() -> str:
    """A name that nobody has used: when, and by chance."""
    return f"pares-demo-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"


def with_topic(url: str, topic: str) -> str:
    """A Kafka ledger's URL with this topic in the place of its own."""
    query = "".join(url.partition("?")[1:])
    return f"kafka://{parse(url).host}{'/' if topic else ''}{topic}{query}"
