"""`watch` and `doctor` show what stands in which partition, also in those that carry nothing."""

from __future__ import annotations

import contextlib
import io
import time
import uuid

import pytest
from rich.console import Console

import pares
from pares.cli.watch import picture
from pares.core.wire.neli_records import PartitionCount, encode
from pares.view.induced import Plan, findings, look
from pares.view.state import state
from pares.view.tenure_story import story_of

PATIENCE = 60.0


@pytest.fixture
def url() -> str:
    return f"memory://{uuid.uuid4().hex}?partitions=4"


def led(url: str) -> pares.Member:
    me = pares.Member(url, group="g", name="a", roles=["AAPL", "MSFT", "7"], protocol="fast-neli", session=30)
    for role in ("AAPL", "MSFT", "7"):
        assert me.wait(role, PATIENCE)
    end = time.monotonic() + PATIENCE
    while any(me.leader(role) is None for role in ("AAPL", "MSFT", "7")):
        assert time.monotonic() < end
        time.sleep(0.01)
    return me


def test_watch_shows_every_partition(url: str) -> None:
    with contextlib.closing(pares.open(url)) as ledger, led(url):
        story = story_of(ledger, "g")
        end = time.monotonic() + PATIENCE
        while True:
            story.catch_up()
            now = state(story, time.time_ns() // 1_000_000)
            if [row["leader"] for row in now["partitions"]] == ["a"] * 4:
                break
            assert time.monotonic() < end, now["partitions"]
            time.sleep(0.01)
        assert [row["roles"] for row in now["partitions"]] == [["AAPL"], ["MSFT"], [], ["7"]]
        out = io.StringIO()
        Console(file=out, width=120, no_color=True).print(picture(now))
        lines = [line.split() for line in out.getvalue().splitlines()]
        assert ["2", "a", "none"] in lines
        assert ["3", "a", "7"] in lines


def test_a_group_of_claims_shares_out_none(url: str) -> None:
    with contextlib.closing(pares.open(url)) as ledger, pares.Member(url, group="g", roles=["x"]) as me:
        assert me.wait("x", PATIENCE)
        story = story_of(ledger, "g")
        story.catch_up()
        assert state(story, 0)["partitions"] == []


def told(ledger: pares.Ledger) -> dict[str, list[str]]:
    found = look(ledger, "g", Plan(), time.time_ns() // 1_000_000)
    assert found is not None
    said: dict[str, list[str]] = {}
    for _, check, text in findings(found):
        said.setdefault(check, []).append(text)
    return said


def test_doctor_shows_every_partition_and_says_who_goes_by_the_hash(url: str) -> None:
    with contextlib.closing(pares.open(url)) as ledger, led(url):
        assert told(ledger)["partition"] == [
            "partition 0: AAPL",
            "partition 1: MSFT",
            "partition 2: no role",
            "partition 3: 7",
        ]
        assert "partitions" not in told(ledger)
        ledger.append(encode(PartitionCount(v=1, g="g", m="old~1", n=1, b=0, s=0, at=0, of=4)), 0)
        assert any("as old~1 knows no numbers (release 0.1)" in text for text in told(ledger)["partitions"])
