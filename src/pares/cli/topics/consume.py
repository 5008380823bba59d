"""`pares consume`: the records of a topic on a command's standard input, shared out among all that consume it in one group."""

from __future__ import annotations

import shutil
import threading
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from pares.cli.common.options import DEFAULT_GROUP, Group, LedgerUrl, existing
from pares.cli.common.output import FAILED, say
from pares.cli.common.running import line, told
from pares.cli.common.signals import hearing_the_end
from pares.core.errors import ConfigError

if TYPE_CHECKING:
    from pares.supervise.feed import Feed

LOOK: Final = 0.1
"""Seconds between two looks whether a signal has come, or all is done."""


def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic to consume.", show_default=False)],
    command: Annotated[
        list[str], typer.Argument(metavar="CMD", help="The command and its arguments.", show_default=False)
    ],
    group: Group = DEFAULT_GROUP,
    ledger: LedgerUrl = None,
    source: Annotated[
        str | None,
        typer.Option("--source", metavar="URL", help="Where the topic is. Default: the ledger.", show_default=False),
    ] = None,
    delivery: Annotated[
        Literal["at-least-once", "at-most-once"], typer.Option("--delivery", help="Never lost, or never twice.")
    ] = "at-least-once",
    claim: Annotated[
        Literal["partitions", "topics", "ranges", "keys"],
        typer.Option("--claim", help="What one consumer has: partitions, whole topics, ranges of offsets, or keys."),
    ] = "partitions",
    slots: Annotated[
        int,
        typer.Option(
            "--slots", metavar="N", min=1, max=100, help="With ranges or keys: so many work on a partition at once."
        ),
    ] = 16,
    start: Annotated[
        Literal["earliest", "latest"],
        typer.Option("--start", help="Where a partition begins that nobody has consumed yet."),
    ] = "earliest",
    on_gap: Annotated[
        Literal["earliest", "latest", "stop"],
        typer.Option(
            "--on-gap", help="Where to go on when retention has overtaken the position; stop: wait for a rewind."
        ),
    ] = "earliest",
    how: Annotated[
        Literal["lines", "length", "json"], typer.Option("--format", help="How records stand on standard input.")
    ] = "lines",
    batch: Annotated[
        int, typer.Option("--batch", metavar="N", min=1, help="Records for one run of CMD, at most.")
    ] = 100,
    concurrency: Annotated[
        int, typer.Option("--concurrency", metavar="N", min=1, max=1000, help="Runs of CMD at once.")
    ] = 1,
    retries: Annotated[
        int, typer.Option("--retries", metavar="N", min=0, help="Runs after the first one, for the same records.")
    ] = 3,
    backoff: Annotated[
        float,
        typer.Option(
            "--backoff", metavar="SECONDS", min=0.01, max=60, help="Before the first of them; then twice as long."
        ),
    ] = 0.5,
    dead_letter: Annotated[
        str | None,
        typer.Option(
            "--dead-letter",
            metavar="TOPIC",
            help="Where records go for which CMD fails again and again: a topic, or the URL of a log.",
            show_default=False,
        ),
    ] = None,
    group_offsets: Annotated[
        str | None,
        typer.Option(
            "--group-offsets",
            metavar="NAME",
            help="On Kafka: commit positions as offsets of this consumer group, too, for dashboards.",
            show_default=False,
        ),
    ] = None,
    session: Annotated[
        float, typer.Option("--session", metavar="SECONDS", help="Silence after which others take over.")
    ] = 5.0,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="Of this consumer; a restart under it takes up what it had."),
    ] = None,
    until_idle: Annotated[
        float | None,
        typer.Option(
            "--until-idle",
            metavar="SECONDS",
            min=0.1,
            help="End when nothing has come for so long.",
            show_default=False,
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Say on standard error what happens as JSON lines.")] = False,
) -> None:
    """Feed the records of TOPIC to CMD, by its standard input.

    CMD is run for one batch of records of one partition after the other, and
    reads them to the end of its input: one line each (lines, the default; a
    record with a line break in it is refused), 4 bytes of length, big-endian,
    and as many bytes (length), or a line of JSON with topic, partition, offset,
    timestamp_ms, and key and payload in base64 (json). PARES_TOPIC,
    PARES_PARTITION, PARES_FIRST, PARES_LAST, PARES_GROUP and PARES_TOKEN (hand
    the token to a fence) stand in its environment.

    A run that ends with 0 has done its records. If it fails, they come again,
    after a while; after --retries each of them comes alone, and the ones that
    fail as often alone are written to --dead-letter. Without it they are tried
    for ever, and what comes after them in their partition waits. With
    at-most-once nothing is tried again.

    Run it as often as you like, on any host: partitions are shared out. With
    --concurrency 1, the default, those of one partition are run in order. With
    --claim ranges several consumers work on one partition, each on ranges of
    its own, in no order but that within a range; with --claim keys each on keys
    of its own, each key in order, if all of them give the same --slots. CMD
    gets TERM when its partition is another consumer's by now. INT and TERM let
    running commands end; a second one kills them. CMD is not ended when this
    process is killed: then its records are given out again.
    """
    from pares.runtime.consume.consumer import Consumer
    from pares.supervise.feed import Feed

    with told(json):
        if shutil.which(command[0]) is None:
            raise ConfigError(f"there is no command {command[0]!r} on PATH: check what stands after --")

        def says(event: str, *, text: str, **more: object) -> None:
            if json:
                line(event, text=text, **more)
            else:
                say(f"pares: {text}")

        consumer = Consumer(
            existing(ledger),
            group=group,
            topics=topic,
            source=source,
            delivery=delivery,
            claim=claim,
            slots=slots,
            start=start,
            on_gap=on_gap,
            batch=batch,
            session=session,
            name=name,
            dead_letter=dead_letter,
            group_offsets=group_offsets,
        )
        with consumer:
            parks = dead_letter is not None
            feed = Feed(consumer, command, how, retries=retries, backoff=backoff, parks=parks, say=says)
            says("consuming", text=f"{consumer.id} consumes {topic} in group {group}", member=consumer.id, topic=topic)
            with hearing_the_end(lambda count: feed.stop(at_once=count > 1)) as ended_by:
                threads = [threading.Thread(target=feed.work, daemon=True) for _ in range(concurrency)]
                for thread in threads:
                    thread.start()
                _wait(feed, until_idle)
                consumer.close()
                for thread in threads:
                    thread.join()
        if feed.failure is not None:
            raise feed.failure
        text = (
            f"ended: {feed.done} records done by {feed.runs} runs, {feed.failures} failed, {feed.parked} records parked"
        )
        says("ended", text=text, done=feed.done, runs=feed.runs, failures=feed.failures, parked=feed.parked)
        raise SystemExit(128 + ended_by[0] if ended_by else FAILED if feed.parked else 0)


def _wait(feed: Feed, until_idle: float | None) -> None:
    """Until a signal has come, something failed, or nothing has come for a while."""
    idle, seen = 0.0, -1
    while not feed.ending.wait(LOOK):
        idle, seen = (idle + LOOK if feed.at_rest(seen) else 0.0), feed.runs
        if until_idle is not None and idle >= until_idle:
            return
