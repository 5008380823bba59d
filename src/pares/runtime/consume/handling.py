"""Handlers on threads: what `Consumer.run` calls for each record, and what follows from how it ends."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from typing import Final, Protocol

from pares.core.errors import ConfigError
from pares.runtime.consume.item import Handler, Item
from pares.runtime.consume.settings import Delivery
from pares.runtime.host import Host

log: Final = logging.getLogger("pares.consumer")

STEP: Final = 0.5
"""Seconds after which the calling thread, which waits for the others, can be interrupted everywhere."""


class Gives(Protocol):
    """A consumer, as far as its handlers need it."""

    @property
    def name(self) -> str: ...

    @property
    def delivery(self) -> Delivery: ...

    def records(self) -> Iterator[Item]: ...

    def problem(self, kind: str, text: str) -> None: ...


def handle_all(consumer: Gives, handler: Handler, threads: int, host: Host) -> None:
    """Until the consumer has ended. Raises what ended one of the threads, but for what a handler raises."""
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for item in consumer.records():
                handle(consumer, handler, item)
        except BaseException as error:
            errors.append(error)

    tasks = [host.spawn(work, f"handler {number} of {consumer.name!r}") for number in range(threads)]
    for task in tasks:
        while task.is_alive() and not errors:
            task.join(STEP)
    if errors:
        raise errors[0]


def handle(consumer: Gives, handler: Handler, item: Item) -> None:
    """One record. An exception of the handler's ends nothing."""
    try:
        handler(item)
    except Exception as error:
        log.debug("the handler of %r has failed", item, exc_info=error)
        failed(consumer, item, error)
    else:
        if not item.settled:
            item.done()


def failed(consumer: Gives, item: Item, error: BaseException) -> None:
    """What follows for its record (C10). Nothing is raised: what can't be written to the dead-letter stream now comes again."""
    if item.settled:
        consumer.problem("failed", f"the handler of {item!r} has settled it, and failed: {error!r}")
        return
    why = "".join(traceback.format_exception_only(error)).strip()
    try:
        if consumer.delivery == "at-least-once":
            item.retry(why=why)
            return
        try:
            item.reject(why)
        except ConfigError:  # there is no dead-letter stream
            consumer.problem("failed", f"the handler of {item!r} has failed, and it is not given out again: {why}")
            item.done()
    except Exception as second:
        consumer.problem("dead-letter", f"{item!r} can't be written to the dead-letter stream: {second}")
        if not item.settled:
            item.done()
