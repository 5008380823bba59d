"""`pares audit --follow`: violations as they show, told to people and to receivers."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pares.cli.common.output import BROKEN, DONE, FAILED, clock, now_ms, print_json, say
from pares.cli.common.signals import hearing_the_end
from pares.core.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pares.ledger.base import Log
    from pares.spark.follow.feeds import LogFeed
    from pares.spark.follow.following import Follower
    from pares.spark.follow.judge import Alarm
    from pares.spark.follow.outlets import Courier

_TIME: Final = re.compile(r"([1-9]\d*)([smhd])")
_UNIT_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class Asked(NamedTuple):
    """What the command was asked for."""

    url: str
    group: str | None
    """None: all groups of the log."""
    alerts: Sequence[str]
    checkpoint: Path | None
    window: str
    history: Path | None
    clock_error: int
    json: bool


def follow(asked: Asked, spark: SparkSession | None) -> int:
    """Follows until INT or TERM; the exit code. `spark`: None where this process reads and folds by itself."""
    from pares.ledger.address import shown, without_readonly
    from pares.spark.audit import place_of
    from pares.spark.follow.checkpoint import Checkpoint
    from pares.spark.follow.following import Follower
    from pares.spark.follow.judge import Judge
    from pares.spark.follow.keeping import Keeper
    from pares.spark.follow.outlets import CONSOLE, Courier, receiver
    from pares.spark.logs import open_to_read
    from pares.spark.rules.base import Allowed

    judge = Judge(Allowed(asked.clock_error), milliseconds("--window", asked.window))
    alerts, stop = asked.alerts or [CONSOLE], threading.Event()
    groups = None if asked.group is None else frozenset((asked.group,))
    with ExitStack() as open_, hearing_the_end(lambda _: stop.set()):
        with open_to_read(asked.url) as opened:
            place = opened.log.url, opened.partition
            if asked.group is not None:
                place, _ = place_of(opened, asked.group)
        url, claims_in = place
        log, _ = open_.enter_context(open_to_read(url))
        name = without_readonly(shown(url))
        about = f"{asked.group or 'all groups'} of {name}, clock error {asked.clock_error} ms, window {asked.window}"
        checkpoint = None if asked.checkpoint is None else open_.enter_context(Checkpoint(asked.checkpoint))
        feed = _feed(spark, log, claims_in, groups, asked, open_)
        couriers = [Courier(one) for one in map(receiver, alerts) if one is not None]
        follower = Follower(
            feed,
            judge,
            about,
            checkpoint=checkpoint,
            couriers=couriers,
            show=_shown(json=asked.json) if CONSOLE in alerts else None,
            say=say,
            ledger=name,
        )
        keeper = None
        if asked.history is not None:
            keeper = Keeper(asked.history, url, None if groups is None else sorted(groups), asked.clock_error, say)
        if not asked.json:
            say(f"follows {asked.group or 'all groups'} on {name}; Ctrl-C ends it")
        try:
            follower.run(stop)
        finally:
            left = follower.close()
            if keeper is not None:
                keeper.close()
        return _end(follower, left, couriers, json=asked.json)


def milliseconds(what: str, text: str) -> int:
    """A length of time such as 10m. Raises `ConfigError`."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise ConfigError(f"{what} {text!r}: give a number and one of s, m, h, d, such as 10m")
    return int(found[1]) * _UNIT_MS[found[2]]


def _feed(
    spark: SparkSession | None, log: Log, claims_in: int, groups: frozenset[str] | None, asked: Asked, open_: ExitStack
) -> LogFeed:
    if spark is None:
        from pares.spark.follow.feeds import LogFeed

        return LogFeed(log, claims_in, groups, asked.clock_error)
    from pares.spark.follow.by_spark import SparkFeed
    from pares.spark.host.folder import temporary

    if asked.checkpoint is not None:
        worlds = asked.checkpoint.resolve() / "worlds"
    else:
        worlds = open_.enter_context(temporary("pares-follow-")) / "worlds"
    return SparkFeed(spark, log, worlds, claims_in, groups, asked.clock_error)


def _shown(*, json: bool) -> Callable[[Alarm], None]:
    """How an alarm is put on standard output."""
    import msgspec

    def as_json(alarm: Alarm) -> None:
        print_json(msgspec.to_builtins(alarm), line=True)

    def as_text(alarm: Alarm) -> None:
        sys.stdout.write(line_of(alarm) + "\n")
        sys.stdout.flush()

    return as_json if json else as_text


def line_of(alarm: Alarm) -> str:
    """An alarm for people, on one line."""
    from pares.core.wire.shown import short_tokens

    where = "" if alarm.role is None else f" role {alarm.role}" + ("" if not alarm.seat else f" seat {alarm.seat}")
    begin = f"{clock(now_ms())} {alarm.group}{where}: {alarm.rule}"
    if alarm.before is None:
        return f"{begin}, {alarm.verdict}: {short_tokens(alarm.evidence)} [{alarm.id}]"
    if alarm.verdict == "none":
        return f"{begin}, no more: what the log has said since explains it [{alarm.id}]"
    return f"{begin}, {alarm.verdict} now: {short_tokens(alarm.evidence)} [{alarm.id}]"


def _end(follower: Follower, left: int, couriers: Sequence[Courier], *, json: bool) -> int:
    """Says what was done; 3 if a promise was certainly broken, 1 if alarms have not arrived, else 0."""
    tally = follower.tally()
    code = BROKEN if tally.certain > 0 else FAILED if left else DONE
    receivers = {courier.name: courier.counts()._asdict() for courier in couriers}
    if json:
        print_json({**tally._asdict(), "waiting": left, "receivers": receivers, "exit_code": code}, line=True)
        return code
    say(
        f"{tally.records} records; {tally.raised} violations told, {tally.settled} verdicts changed since, "
        f"{tally.certain} certain ones stand"
    )
    if tally.unjudged:
        say(f"{tally.unjudged} words came about terms that had ended before the window, and were not judged (--window)")
    if left:
        say(f"{left} alarms have not arrived at their receivers")
    return code
