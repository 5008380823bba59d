"""One collector for each registry, with all members that were added to it: a family of metrics may come only once."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from itertools import accumulate

from pares.core.errors import CapabilityError
from pares.metrics.table import (
    CONSUMING,
    PARTITIONS,
    SPLITS,
    TIMES,
    VALUES,
    by_partition,
    labels_of,
    measures_of,
    over,
)
from pares.runtime import Member

try:
    from prometheus_client import REGISTRY, CollectorRegistry, Metric
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
    from prometheus_client.registry import Collector
except ImportError:
    raise CapabilityError("prometheus_client is not installed: pip install 'pares[prometheus]'") from None

LABELS = ["group", "member"]


class Members(Collector):
    def __init__(self) -> None:
        self._members: list[Member] = []
        self._lock = threading.Lock()

    def add(self, member: Member) -> None:
        with self._lock:
            if member not in self._members:
                self._members.append(member)

    def describe(self) -> Iterator[Metric]:
        """The families without values: what a registry asks for first, to see that nobody else has these names."""
        return self._families([])

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            self._members = [member for member in self._members if not over(member)]
            members = list(self._members)
        return self._families(members)

    def _families(self, members: list[Member]) -> Iterator[Metric]:
        told = [(list(labels_of(member).values()), member, member.health()) for member in members]
        for name, help, counts, read in (*VALUES, *CONSUMING):
            family = (CounterMetricFamily if counts else GaugeMetricFamily)(name, help, labels=LABELS)
            for labels, member, health in told:
                if (value := read(health, member)) is not None:
                    family.add_metric(labels, float(value))
            yield family
        for name, help, counts, label, split in SPLITS:
            family = (CounterMetricFamily if counts else GaugeMetricFamily)(name, help, labels=[*LABELS, label])
            for labels, member, _ in told:
                for key, value in split(member).items():
                    family.add_metric([*labels, key], float(value))
            yield family
        for metric in PARTITIONS:
            family = GaugeMetricFamily(metric.name, metric.help, labels=[*LABELS, "topic", "partition"])
            for labels, _, health in told:
                for key, value in by_partition(metric, health).items():
                    family.add_metric([*labels, *key], value)
            yield family
        for name, help, times in TIMES:
            family = HistogramMetricFamily(name, help, labels=LABELS)
            for labels, member, _ in told:
                if (histogram := times(measures_of(member))) is None:
                    continue
                numbers, total = histogram.read()
                bounds = [*map(str, histogram.bounds), "+Inf"]
                family.add_metric(labels, list(zip(bounds, map(float, accumulate(numbers)), strict=True)), total)
            yield family


_collectors: weakref.WeakKeyDictionary[CollectorRegistry, Members] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def add(member: Member, registry: CollectorRegistry | None) -> None:
    where = REGISTRY if registry is None else registry
    with _lock:
        collector = _collectors.get(where)
        if collector is None:
            collector = Members()
            where.register(collector)
            _collectors[where] = collector
    collector.add(member)
