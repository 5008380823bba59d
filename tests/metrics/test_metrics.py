"""Metrics by prometheus_client and by OpenTelemetry's SDK: the numbers that members have, under names that stay."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import pares
from pares.core.errors import ConfigError
from pares.core.lease import lease_ns
from pares.metrics.table import SPLITS, TIMES, VALUES
from pares.runtime.driver.counters import CAUSES

PATIENCE = 30.0


@pytest.fixture
def url() -> str:
    return f"memory://{uuid.uuid4().hex}"


@pytest.fixture
def me(url: str) -> Iterator[pares.Member]:
    with pares.Member(url, group="g", roles=["A", "B"], name="a", session=5.0) as me:
        assert me.wait("A", PATIENCE)
        assert me.wait("B", PATIENCE)
        yield me


def _until(what: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < end
        time.sleep(0.005)


def scraped(registry: CollectorRegistry) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """sample name -> labels -> value, as a server of Prometheus would read it."""
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


A = (("group", "g"), ("member", "a"))
B = (("group", "g"), ("member", "b"))


@pytest.mark.parametrize("described", [True, False])
def test_prometheus(me: pares.Member, url: str, described: bool) -> None:
    registry = CollectorRegistry(auto_describe=described)
    pares.metrics.prometheus(me, registry)
    pares.metrics.prometheus(me, registry)
    _until(lambda: me.health().beats > 0 and scraped(registry)["pares_read_back_seconds_count"][A] > 0)
    found = scraped(registry)
    for name, _, counts, _ in VALUES:
        assert set(found[name + "_total" * counts]) == {A}
    assert found["pares_live"][A] == found["pares_ready"][A] == 1
    assert found["pares_records_written_total"][A] > found["pares_beats_total"][A] > 0
    assert found["pares_read_back_seconds_count"][A] > 0
    assert found["pares_terms_total"][(("cause", "unled"), *A)] == 2
    assert found["pares_leads"] == {(*A, ("role", "A")): 1, (*A, ("role", "B")): 1}
    count = found["pares_append_seconds_count"][A]
    assert count > 0
    assert found["pares_append_seconds_bucket"][A[0], ("le", "+Inf"), A[1]] == count
    buckets = [value for labels, value in found["pares_append_seconds_bucket"].items()]
    assert buckets == sorted(buckets)

    with pares.Member(url, group="g", roles=["A"], name="b", session=5.0) as other:
        pares.metrics.prometheus(other, registry)
        _until(lambda: other.id in {peer.id for peer in me.members()})
        me.hand_over("A", to="b")
        assert other.wait("A", PATIENCE)
        both = scraped(registry)
        assert len(both["pares_live"]) == 2
        assert both["pares_lost_terms_total"] == {(*A, ("why", "handed over")): 1}
        assert both["pares_leads"] == {(*A, ("role", "A")): 0, (*A, ("role", "B")): 1, (*B, ("role", "A")): 1}
    assert set(scraped(registry)["pares_live"]) == {A}, "who is closed is told of no more"


def test_a_standby_leads_nothing_and_says_so(url: str) -> None:
    """An alert that compares a sum with something needs a sample to sum up."""
    registry, reader = CollectorRegistry(), InMemoryMetricReader()
    with pares.Member(url, group="g", roles=["A"], name="a", session=5.0) as leader:
        assert leader.wait("A", PATIENCE)
        with pares.Member(
            url, group="g", roles=["A"], eligible=["A", "never declared"], name="b", session=5.0
        ) as standby:
            pares.metrics.prometheus(standby, registry)
            pares.metrics.otel(standby, MeterProvider(metric_readers=[reader]).get_meter("test"))
            _until(lambda: standby.state == "live" and standby.leader("A") is not None)
            found = scraped(registry)
            for name in ("pares_leads", "pares_holds"):
                assert found[name] == {(*B, ("role", "A")): 0}
            assert found["pares_seats"] == {(*B, ("role", "A")): 1}
            assert _points(next(m for m in _collected(reader) if m.name == "pares.leads")) == {"A": 0}
            leader.hand_over("A", to="b")
            assert standby.wait("A", PATIENCE)
            found = scraped(registry)
            assert found["pares_leads"] == found["pares_holds"] == {(*B, ("role", "A")): 1}


def test_a_paused_role_is_to_be_led_by_nobody(me: pares.Member) -> None:
    registry = CollectorRegistry()
    pares.metrics.prometheus(me, registry)
    me.pause("A", seconds=60)
    _until(lambda: not me.holds("A"))
    assert scraped(registry)["pares_seats"] == {(*A, ("role", "A")): 0, (*A, ("role", "B")): 1}
    me.resume("A")
    assert me.wait("A", PATIENCE)
    assert scraped(registry)["pares_seats"] == {(*A, ("role", "A")): 1, (*A, ("role", "B")): 1}


def test_a_paused_role_of_neli(url: str) -> None:
    registry = CollectorRegistry()
    with pares.Member(url, group="g", roles=["A"], name="a", protocol="fast-neli") as me:
        pares.metrics.prometheus(me, registry)
        assert me.wait("A", PATIENCE)
        assert scraped(registry)["pares_seats"] == scraped(registry)["pares_leads"] == {(*A, ("role", "A")): 1}
        me.pause("A", seconds=60)
        _until(lambda: scraped(registry)["pares_seats"] == {(*A, ("role", "A")): 0})


def test_of_roles_that_the_log_numbers_the_paused_one_is_told(url: str) -> None:
    """Both names have one hash; by their numbers in the log each has a partition of its own."""
    registry = CollectorRegistry()
    with pares.Member(f"{url}?partitions=2", group="g", roles=["AAPL", "MSFT"], name="a", protocol="fast-neli") as me:
        pares.metrics.prometheus(me, registry)
        assert me.wait("AAPL", PATIENCE)
        assert me.wait("MSFT", PATIENCE)
        assert me.partition("AAPL") != me.partition("MSFT")
        me.pause("AAPL", seconds=60)
        _until(lambda: scraped(registry)["pares_seats"] == {(*A, ("role", "AAPL")): 0, (*A, ("role", "MSFT")): 1})


def test_how_long_a_takeover_took(url: str) -> None:
    """From the last record of the member that died, as its heir read it. Nothing proves a death here, and both have one
    stopwatch: the lease at least (R21)."""
    registry = CollectorRegistry()
    dies = pares.Member(url, group="g", roles=["A"], name="a", session=0.5)
    assert dies.wait("A", PATIENCE)
    with pares.Member(url, group="g", roles=["A"], name="b", session=0.5) as heir:
        pares.metrics.prometheus(heir, registry)
        _until(lambda: heir.leader("A") is not None)
        assert scraped(registry)["pares_takeover_seconds_count"] == {B: 0}
        dies._loop.abandon()
        assert heir.wait("A", PATIENCE)
        found = scraped(registry)
        assert found["pares_takeover_seconds_count"] == {B: 1}
        assert lease_ns(500, 0.1) / 1e9 <= found["pares_takeover_seconds_sum"][B] < PATIENCE
        heir.step_down("A")
        assert heir.wait("A", PATIENCE)
        assert scraped(registry)["pares_takeover_seconds_count"] == {B: 1}, "what is planned is no takeover"
    dies.close(0.0)


@pytest.mark.parametrize(
    ("protocol", "silence"),
    [
        (pares.FastNeli(heartbeat_timeout=0.4), 0.4),
        (pares.Neli(T=0.4, clock_error=0.02), 0.4),
        (pares.AllCall(lease=1.2, heartbeat=0.3, skew=0.1, silence=0.0), 0.4),
    ],
)
def test_how_long_a_takeover_took_by_the_other_protocols(url: str, protocol: Any, silence: float) -> None:
    """From the last word of the leader that died, as its heir heard it."""
    registry = CollectorRegistry()
    settings: dict[str, Any] = {"group": "g", "roles": ["0"], "protocol": protocol}
    if not isinstance(protocol, pares.AllCall):
        settings["session"] = 0.6
    dies = pares.Member(url, name="a", **settings)
    assert dies.wait("0", PATIENCE)
    with pares.Member(url, name="b", rank=0, **settings) as heir:
        pares.metrics.prometheus(heir, registry)
        _until(lambda: heir.state == "live" and heir.leader("0") is not None)
        assert scraped(registry)["pares_takeover_seconds_count"] == {B: 0}
        dies._loop.abandon()
        began = time.monotonic()
        assert heir.wait("0", PATIENCE)
        took = time.monotonic() - began
        found = scraped(registry)
        assert found["pares_takeovers_total"] == found["pares_takeover_seconds_count"] == {B: 1}
        assert silence <= found["pares_takeover_seconds_sum"][B] <= took + 1.0
    dies.close(0.0)


def test_series_do_not_grow_with_restarts(tmp_path: Path) -> None:
    """Members of two processes, one after the other, that were given no name, and one that was."""
    script = (
        "import sys, time, pares\n"
        "from prometheus_client import CollectorRegistry, generate_latest\n"
        "registry = CollectorRegistry()\n"
        "members = [pares.Member(sys.argv[1], group='g', roles=['A'], name=name) for name in (None, None, 'c')]\n"
        "for member in members: pares.metrics.prometheus(member, registry)\n"
        "while any(member.health().read_back_age is None for member in members): time.sleep(0.01)\n"
        "print(generate_latest(registry).decode())\n"
        "for member in members: member.close()"
    )
    starts: list[set[tuple[str, tuple[tuple[str, str], ...]]]] = []
    ids: list[set[str]] = []
    for _ in range(2):
        command = [sys.executable, "-c", script, f"sqlite:///{tmp_path}/log.db"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        samples = [sample for family in text_string_to_metric_families(said) for sample in family.samples]
        ids.append({sample.labels["id"] for sample in samples if sample.name == "pares_member_info"})
        told = [sample for sample in samples if "role" not in sample.labels and "why" not in sample.labels]
        starts.append({(s.name, tuple(s.labels.items())) for s in told if s.name != "pares_member_info"})
    assert starts[0] == starts[1]
    assert {dict(labels)["member"] for _, labels in starts[0]} == {"unnamed", "unnamed-2", "c"}
    assert len(ids[0]) == len(ids[1]) == 3
    assert not ids[0] & ids[1], "the log tells incarnations apart, and so does the one metric that is about that"


def test_the_number_of_an_unnamed_member_is_free_again_when_it_is_closed(url: str) -> None:
    registry = CollectorRegistry()
    with pares.Member(url, group="g") as first:
        pares.metrics.prometheus(first, registry)
        for _ in range(3):
            with pares.Member(url, group="g") as second:
                pares.metrics.prometheus(second, registry)
                names = {dict(labels)["member"] for labels in scraped(registry)["pares_live"]}
                assert names == {"unnamed", "unnamed-2"}


def test_what_a_protocol_does_not_have_is_not_told(url: str) -> None:
    registry, reader = CollectorRegistry(), InMemoryMetricReader()
    missing = {"pares_read_back_age_seconds", "pares_read_back_seconds_count"}
    with pares.Member(url, group="g", roles=["A"], name="a", protocol=pares.AllCall(lease=1.0, heartbeat=0.3)) as me:
        pares.metrics.prometheus(me, registry)
        pares.metrics.otel(me, MeterProvider(metric_readers=[reader]).get_meter("test"))
        assert me.wait("A", PATIENCE)
        found = scraped(registry)
        assert not missing & found.keys()
        assert found["pares_beats_total"][A] > 0
        assert not {"pares.read_back_age", "pares.read_back"} & {
            metric.name for metric in _collected(reader) if list(metric.data.data_points)
        }


def test_prometheus_tells_of_a_member_that_failed(me: pares.Member, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = CollectorRegistry()
    pares.metrics.prometheus(me, registry)

    def broken(*_: object) -> Any:
        raise RuntimeError("planted by the test")

    monkeypatch.setattr(vars(me._loop)["binding"].core, "step", broken)
    vars(me._loop)["binding"].bells.ring()
    _until(lambda: not me.health().thread_alive)
    assert scraped(registry)["pares_live"][A] == 0


def test_otel(me: pares.Member) -> None:
    reader = InMemoryMetricReader()
    meter = MeterProvider(metric_readers=[reader]).get_meter("test")
    pares.metrics.otel(me, meter)
    me.add_role("C")  # of which an append is told
    found = {metric.name: metric for metric in _collected(reader)}
    assert set(found) >= {f"pares.{name.removeprefix('pares_').removesuffix('_seconds')}" for name, *_ in VALUES}
    assert _points(found["pares.terms"]) == {**dict.fromkeys(CAUSES, 0), "unled": 2}
    assert found["pares.terms"].unit == "1"
    assert _points(found["pares.leads"]) == {"A": 1, "B": 1}
    assert found["pares.read_age"].unit == "s"
    (point,) = found["pares.append"].data.data_points
    assert isinstance(point, HistogramDataPoint)
    assert point.count >= 1
    assert 0 < point.sum < PATIENCE * point.count, "in seconds"
    assert point.attributes == dict(A)
    assert len(point.explicit_bounds) == 15
    me.close()
    assert not any("terms" in metric.name for metric in _collected(reader)), "who is closed is told of no more"


def _collected(reader: InMemoryMetricReader) -> list[Any]:
    data = reader.get_metrics_data()
    if data is None:
        return []
    return [m for resource in data.resource_metrics for scope in resource.scope_metrics for m in scope.metrics]


def _points(metric: Any) -> dict[str, float]:
    """The last label's value -> the number."""
    return {[*point.attributes.values()][-1]: point.value for point in metric.data.data_points}


def test_members_for_asyncio(url: str) -> None:
    async def run() -> None:
        registry = CollectorRegistry()
        me = pares.aio.Member(url, group="g", roles=["A"], name="a")
        with pytest.raises(ConfigError, match="entered"):
            pares.metrics.prometheus(me, registry)
        async with me:
            pares.metrics.prometheus(me, registry)
            assert scraped(registry)["pares_live"][A] == 1

    asyncio.run(run())


def test_names_are_said_once() -> None:
    names = [name for name, *_ in (*VALUES, *SPLITS, *TIMES)]
    assert len(names) == len(set(names))
    assert all(name.startswith("pares_") for name in names)


@pytest.mark.parametrize(("extra", "module"), [("prometheus", "prometheus_client"), ("otel", "opentelemetry")])
def test_what_is_not_installed_is_named(extra: str, module: str) -> None:
    script = (
        "import sys, pares\n"
        f"sys.modules[{module!r}] = None\n"
        "with pares.Member('memory://x', group='g') as me:\n"
        f"    try: pares.metrics.{extra}(me)\n"
        "    except pares.CapabilityError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert f"pip install 'pares[{extra}]'" in done.stdout
