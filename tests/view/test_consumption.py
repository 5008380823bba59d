"""The consumer of each partition, and how far behind it is, as `pares watch`, `health()` and metrics show it."""

from __future__ import annotations

import asyncio
import io
import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console

import pares
from pares.cli.watch import picture
from pares.ledger import open_topic
from pares.runtime.probes import answer
from pares.view import Story, state
from pares.view.consumption import Ends, consumption

PATIENCE = 60.0


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A ledger with a topic of two partitions, and ten records in the first."""
    where = f"file:{tmp_path / 'work'}"
    with closing(pares.open(where)) as ledger:
        topic = open_topic(ledger, "orders", 2)
        for number in range(10):
            topic.append(b"%d" % number, partition=0)
        topic.close()
        yield where


def rows(url: str) -> list[dict[str, Any]]:
    with closing(pares.open(url)) as ledger, Ends(url) as ends:
        story = Story(ledger, "g")
        story.catch_up()
        return consumption(story, 0, ends)


def samples(consumer: Any) -> dict[str, dict[tuple[str, str], float]]:
    registry = CollectorRegistry()
    pares.metrics.prometheus(consumer, registry)
    found: dict[str, dict[tuple[str, str], float]] = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            key = sample.labels.get("topic", ""), sample.labels.get("partition", "")
            found.setdefault(sample.name, {})[key] = sample.value
    return found


def test_of_a_consumer_its_partitions_positions_and_lag_are_seen_everywhere(url: str) -> None:
    with pares.Consumer(url, group="g", topics="orders", name="a", batch=4, session=5.0) as consumer:
        batches = consumer.batches(30)
        next(batches).done()
        held = next(batches)
        end = time.monotonic() + PATIENCE
        while consumer.load() < 2:
            assert time.monotonic() < end
            time.sleep(0.01)
        assert consumer.lag() == 6
        consumer.flush()

        health = consumer.health().consumption
        assert health is not None
        assert (health.delivery, health.load, health.lag) == ("at-least-once", 2, 6)
        assert [(claim.partition, claim.position, claim.lag) for claim in health.claims] == [(0, 4, 6), (1, 0, 0)]

        told = samples(consumer)
        assert told["pares_consumer_lag"] == {("orders", "0"): 6, ("orders", "1"): 0}
        assert told["pares_consumer_position"] == {("orders", "0"): 4, ("orders", "1"): 0}
        assert told["pares_consumer_load"] == {("", ""): 2}
        assert told["pares_live"] == {("", ""): 1}
        assert "pares_consumer_failed_commits_total" not in told, "it commits nothing"

        first, second = rows(url)
        assert (first["topic"], first["partition"], first["consumer"]) == ("orders", 0, "a")
        assert (first["position"], first["end"], first["lag"], first["token"]) == (4, 10, 6, held.token)
        assert (second["position"], second["end"], second["lag"]) == (0, 0, 0)

        status, said = answer(lambda: consumer, "GET", "/livez", "")
        assert (status, said["load"], said["lag"]) == (200, 2, 6)
    first, _ = rows(url)
    assert (first["consumer"], first["state"], first["lag"], first["token"]) == (None, "free", 6, None)


def test_of_a_partition_that_several_work_on_each_share_is_seen(url: str) -> None:
    given: dict[str, Any] = {"group": "g", "topics": "orders", "claim": "ranges", "slots": 2, "session": 5.0}
    with pares.Consumer(url, name="a", batch=4, **given) as consumer:
        next(consumer.batches(30)).done()
        consumer.flush()
        shown = rows(url)
        whole = [row for row in shown if row["slot"] is None]
        assert [(row["partition"], row["state"]) for row in whole] == [(0, "shared"), (1, "shared")]
        assert (whole[0]["position"], whole[0]["lag"]) == (4, 6)
        slots = [row for row in shown if row["slot"] is not None and row["partition"] == 0]
        assert [row["consumer"] for row in slots] == ["a", "a"]
        assert samples(consumer)["pares_consumer_load"] == {("", ""): 4}
    with closing(pares.open(url)) as ledger:
        story = Story(ledger, "g")
        story.catch_up()
        now = state(story, 0, moves=0)
        assert any(row["role"].endswith("/1+1") for row in now["roles"]), "a slot that nobody holds"
        out = io.StringIO()
        Console(file=out, width=120, no_color=True).print(picture({**now, "consumption": consumption(story, 0)}))
        assert "+1" not in out.getvalue(), "is no role among others"


def test_of_a_partition_whose_keys_are_shared_out_each_slot_is_seen(url: str) -> None:
    given: dict[str, Any] = {"group": "g", "topics": "orders", "claim": "keys", "slots": 2, "session": 5.0}
    with pares.Consumer(url, name="a", **given) as consumer:
        next(consumer.batches(30)).done()
        consumer.flush()
        shown = [row for row in rows(url) if row["partition"] == 0]
        assert [(row["slot"], row["state"] == "shared") for row in shown] == [(None, True), (0, False), (1, False)]
        assert [row["consumer"] for row in shown] == [None, "a", "a"]
        assert all(row["lag"] is not None for row in shown)


def test_without_the_source_positions_are_shown_and_lag_is_not_guessed(url: str) -> None:
    with pares.Consumer(url, group="g", topics="orders", name="a", session=5.0) as consumer:
        next(consumer.batches(30)).done()
        consumer.flush()
    with closing(pares.open(url)) as ledger, Ends("memory://elsewhere") as ends:
        story = Story(ledger, "g")
        story.catch_up()
        first, _ = consumption(story, 0, ends)
        assert (first["position"], first["end"], first["lag"]) == (10, None, None)
        out = io.StringIO()
        Console(file=out, width=120, no_color=True).print(
            picture({**state(story, 0), "consumption": [first]}, height=40)
        )
        assert "nobody says where they end" in out.getvalue()


def test_the_command_shows_it(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    from pares.cli.app import app

    with pares.Consumer(url, group="g", topics="orders", name="worker-a", batch=4, session=5.0) as consumer:
        next(consumer.batches(30)).done()
        consumer.flush()
        app(["watch", "--ledger", url, "--group", "g", "--once"], standalone_mode=False)
        shown = capsys.readouterr().out
        assert "worker-a" in shown
        assert "lag 6 in 2 partitions" in shown
        app(["watch", "--ledger", url, "--group", "g", "--json"], standalone_mode=False)
        told = json.loads(capsys.readouterr().out)["consumption"]
        assert [row["lag"] for row in told] == [6, 0]


def test_a_consumer_for_asyncio_has_the_same(url: str) -> None:
    async def run() -> None:
        consumer = pares.aio.Consumer(url, group="g", topics="orders", name="a", session=5.0)
        async with consumer:
            async for batch in consumer.batches(30):
                batch.done()
                break
            assert await consumer.lag() == 0
            assert samples(consumer)["pares_consumer_lag"][("orders", "0")] == 0

    asyncio.run(run())
