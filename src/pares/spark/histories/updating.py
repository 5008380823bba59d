"""One batch: planned by where the last one ended, done by tasks (`spread`), and committed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, get_args

import msgspec

from pares import __version__
from pares.core.errors import ConfigError
from pares.spark.histories import spread
from pares.spark.histories.columns import Row
from pares.spark.histories.files import Sheet
from pares.spark.histories.manifest import Chain, Done, File, Manifest
from pares.spark.histories.plans import Plan, Result
from pares.spark.histories.task import AGAIN, perform
from pares.spark.host.room import room
from pares.spark.logs import open_to_read
from pares.spark.source import ranges
from pares.spark.source.options import OnLoss
from pares.spark.source.ranges import Anomaly, Look

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL: Final = 20_000
"""Up to so many entries are read and folded by this very process: Spark's workers take longer to start."""


@dataclass(frozen=True)
class Order:
    """What an update is asked for; see `History.update`."""

    url: str
    groups: Sequence[str] | None = None
    partitions: Sequence[int] | None = None
    token: int = 0
    most: int | None = None
    on_loss: OnLoss = "error"
    client: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    error_ms: int = 0


@dataclass(frozen=True)
class Planned:
    """What a batch will be, before anything is read."""

    manifest: Manifest
    """Without its files."""
    plans: Sequence[Plan]
    missing: Sequence[Anomaly]


def update(spark: SparkSession | None, root: Path, order: Order, ready: Callable[[], None]) -> Manifest | None:
    """Adds to the history in `root` what the log has beyond it; returns the batch, or None where there is nothing new.

    Without `spark` this process does it all. `ready` is called when it is known what the batch will be, and nothing is written.
    """
    chain = Chain(root)
    planned = plan(root, order, chain.last())
    if planned is None:
        return None
    with room(root, AGAIN):
        ready()
        results = run(spark, planned.plans)
        manifest = finished(root, planned, results)
        chain.commit(manifest)
    return manifest


def check(order: Order) -> None:
    """Raises `ConfigError` for what no batch can be asked for."""
    if order.most is not None and order.most < 1:
        raise ConfigError(f"max_records={order.most} would never read anything: give 1 or more, or leave it out")
    if order.on_loss not in get_args(OnLoss):
        raise ConfigError(f"on_loss={order.on_loss!r}: give one of {', '.join(get_args(OnLoss))}")
    for what, asked in (("groups", order.groups), ("partitions", order.partitions)):
        if asked is not None and not asked:
            raise ConfigError(f"{what}=[] would keep nothing: name some, or leave it out for all")


def plan(root: Path, order: Order, last: Manifest | None) -> Planned | None:
    """What the batch after `last` is to read. Raises `LedgerGap` and `LedgerRewound` for what is lost, unless it is to be
    marked, and `Stale`, `ConfigError` for a batch that can't follow."""
    groups = None if order.groups is None else sorted(set(order.groups))
    with open_to_read(order.url, order.client) as (log, claims_in):
        numbers = list(range(log.partitions)) if order.partitions is None else list(order.partitions)
        seen = ranges.look(log, numbers)
        # Good in whatever folder a worker is.
        url = log.url
    if last is not None and (last.groups, last.error_ms, last.claims_in) != (groups, order.error_ms, claims_in):
        raise ConfigError(
            f"the history in {root} keeps groups={last.groups}, claims in partition {last.claims_in}, with clock_error_ms="
            f"{last.error_ms}, and is asked to go on with {groups}, {claims_in}, {order.error_ms}: begin another history"
        )
    number = 0 if last is None else last.batch + 1
    same = last if last is None or last.log == seen.identity else Chain(root).last(seen.identity)
    before, missing, gone = _before(seen, last, same, numbers, number)
    for anomaly in missing:
        if order.on_loss != "mark":
            ranges.raise_for(anomaly)
    lows = {str(n): before[n].upto if n in before else seen.places[n].first for n in numbers}
    ends = {str(n): max(seen.places[n].end, lows[str(n)]) for n in numbers}
    highs = ends if order.most is None else ranges.share(lows, ends, order.most)
    new = {n: (lows[n], highs[n]) for n in lows if highs[n] > lows[n]}
    if not new and not missing:
        return None
    partitions = {str(n): done for n, done in before.items()}
    manifest = Manifest(
        batch=number,
        log=seen.identity,
        url=seen.url,
        groups=groups,
        claims_in=claims_in,
        error_ms=order.error_ms,
        token=order.token,
        ranges=new,
        lost=gone,
        partitions={n: Done(low, since=number) for n, low in lows.items()} | partitions,
        files={},
        pares=__version__,
    )
    Chain(root).check(manifest, last)
    plans = [
        Plan(
            root=str(root),
            url=url,
            client=dict(order.client),
            batch=number,
            log=seen.identity,
            partition=int(n),
            low=low,
            high=high,
            world=partitions[n].world if n in partitions else "",
            since=partitions[n].since if n in partitions else number,
            groups=groups,
            claims_in=claims_in,
            error_ms=order.error_ms,
        )
        for n, (low, high) in new.items()
    ]
    return Planned(manifest, plans, missing)


def _before(
    seen: Look, last: Manifest | None, same: Manifest | None, numbers: list[int], batch: int
) -> tuple[dict[int, Done], list[Anomaly], dict[str, tuple[int, int]]]:
    """How far each partition was read, as far as the fold can go on from there; what is lost in between, in words and in
    offsets.

    `same`: the newest batch of the log that is there now, which may have been away meanwhile. [two logs in turn under one URL
    would each be read from the beginning again and again]
    """
    missing: list[Anomaly] = []
    if last is not None and last.log != seen.identity:
        missing += [ranges.replaced(seen, last.log, int(n), done.upto) for n, done in last.partitions.items()]
    known = {} if same is None else {int(n): done for n, done in same.partitions.items()}
    gone: dict[str, tuple[int, int]] = {}
    for number in numbers:
        anomaly = ranges.lost(seen, number, known[number].upto) if number in known else None
        if anomaly is not None:
            missing.append(anomaly)
            # Nothing is known of what lies between, so the fold begins anew behind it.
            first, end = seen.places[number]
            low = first if anomaly.kind == ranges.LOST_RANGE else end
            gone[str(number)] = known[number].upto, low
            known[number] = Done(low, since=batch)
    return known, missing, gone


def run(spark: SparkSession | None, plans: Sequence[Plan]) -> list[Result]:
    """Has the plans done: here if there is little to read, else by Spark's tasks."""
    if spark is None or sum(plan.high - plan.low for plan in plans) <= SMALL:
        return [perform(plan) for plan in plans]
    return spread.done(spark, plans)


def finished(root: Path, planned: Planned, results: Sequence[Result]) -> Manifest:
    """The manifest of a batch whose files are written."""
    manifest = planned.manifest
    files: dict[str, list[File]] = {}
    for result in results:
        for table, written in result.files.items():
            files.setdefault(table, []).extend(written)
    if planned.missing:
        with Sheet(root, "anomalies", manifest.batch, 0) as sheet:
            sheet.add([_anomaly(manifest, anomaly) for anomaly in planned.missing])
            file = sheet.close()
        assert file is not None
        files["anomalies"] = [file]
    done = {str(result.partition): result.done for result in results}
    return msgspec.structs.replace(manifest, files=files, partitions={**manifest.partitions, **done})


def _anomaly(manifest: Manifest, anomaly: Anomaly) -> Row:
    high = None if anomaly.high is None else anomaly.high - 1
    where: Row = {"log": manifest.log, "partition": anomaly.partition, "batch": manifest.batch}
    count = None if anomaly.high is None else anomaly.high - anomaly.low
    what = {"kind": anomaly.kind, "from_offset": anomaly.low, "to_offset": high, "count": count}
    return {**where, **what, "detail": anomaly.detail}
