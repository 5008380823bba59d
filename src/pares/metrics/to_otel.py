"""Instruments of one meter for one member. OpenTelemetry names are made of those in `table`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from pares.core.errors import CapabilityError
from pares.metrics.table import (
    CONSUMING,
    PARTITIONS,
    SPLITS,
    TIMES,
    VALUES,
    OfPartitions,
    by_partition,
    labels_of,
    measures_of,
    over,
)
from pares.runtime import Member
from pares.runtime.driver.counters import BOUNDS

try:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation, get_meter
except ImportError:
    raise CapabilityError("the OpenTelemetry API is not installed: pip install 'pares[otel]'") from None


def add(member: Member, meter: Meter | None) -> None:
    meter = get_meter("pares") if meter is None else meter
    labels = labels_of(member)
    consumes = member.health().consumption is not None
    for name, help, counts, read in (*VALUES, *CONSUMING) if consumes else VALUES:
        _observe(meter, name, help, counts, member, lambda read=read: _alone(read(member.health(), member)), None)
    for name, help, counts, label, split in SPLITS:
        _observe(meter, name, help, counts, member, lambda split=split: split(member), label)
    for metric in PARTITIONS if consumes else ():
        _observe_partitions(meter, metric, member)
    for name, help, times in TIMES:
        measured = times(measures_of(member))
        if measured is None:
            continue
        histogram = meter.create_histogram(_name(name), "s", help, explicit_bucket_boundaries_advisory=list(BOUNDS))
        measured.listeners += (lambda seconds, histogram=histogram: histogram.record(seconds, labels),)


def _alone(value: float | None) -> Mapping[str, float]:
    return {} if value is None else {"": float(value)}


def _observe(
    meter: Meter,
    name: str,
    help: str,
    counts: bool,
    member: Member,
    read: Callable[[], Mapping[str, float]],
    label: str | None,
) -> None:
    labels = labels_of(member)

    def callback(options: CallbackOptions) -> Iterable[Observation]:
        if over(member):
            return []
        return [
            Observation(value, labels if label is None else {**labels, label: key}) for key, value in read().items()
        ]

    create = meter.create_observable_counter if counts else meter.create_observable_gauge
    create(_name(name), [callback], "s" if name.endswith("_seconds") else "1", help)


def _observe_partitions(meter: Meter, metric: OfPartitions, member: Member) -> None:
    labels = labels_of(member)

    def callback(options: CallbackOptions) -> Iterable[Observation]:
        if over(member):
            return []
        found = by_partition(metric, member.health())
        return [
            Observation(value, {**labels, "topic": topic, "partition": partition})
            for (topic, partition), value in found.items()
        ]

    meter.create_observable_gauge(_name(metric.name), [callback], "1", metric.help)


def _name(name: str) -> str:
    return name.removesuffix("_seconds").replace("pares_", "pares.", 1)
