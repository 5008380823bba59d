"""Three processes that work on one partition by its keys (C12), two of which are killed: no key is out of order or with two."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import pares

CONSUMER = """
import os, sys, time
import pares
url, out, name, delivery = sys.argv[1:]
file = os.open(out, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
def handle(record):
    for what in ("begins", "ends"):
        os.write(file, f"{what} {record.key.decode()} {record.offset} {name}\\n".encode())
        if what == "begins":
            time.sleep(0.005)
with pares.Consumer(url, group="g", topics=["orders"], claim="keys", slots=6, order="key", concurrency=4, name=name,
                    delivery=delivery, session=2.0, settle=0.1) as consumer:
    consumer.run(handle)
"""
KEYS = 20
RECORDS = 600
HANG = 180.0
LOST = 16
"""Records that one process may have taken at once, and not done."""


def lines(out: Path) -> list[list[str]]:
    return [line.split() for line in out.read_text().splitlines()] if out.exists() else []


def wait(what: str, out: Path, enough: int, by: str | None = None) -> None:
    """Until so many records have ended, of one consumer or of all."""
    until = time.monotonic() + HANG
    while len({line[2] for line in lines(out) if line[0] == "ends" and by in (None, line[3])}) < enough:
        assert time.monotonic() < until, what
        time.sleep(0.02)


@pytest.mark.processes
@pytest.mark.parametrize("delivery", ["at-least-once", "at-most-once"])
def test_consumers_by_keys_that_are_killed(tmp_path: Path, delivery: str) -> None:
    url, out = f"file://{tmp_path}/ledger", tmp_path / "handled"
    ledger = pares.open(url)
    topic: Any = ledger.topic("orders", partitions=1)
    topic.append_many([b"x"] * RECORDS, 0, keys=[b"k%d" % (number % KEYS) for number in range(RECORDS)])
    names = ["a", "b", "c"]
    started = {
        name: subprocess.Popen([sys.executable, "-c", CONSUMER, url, str(out), name, delivery]) for name in names
    }
    try:
        for victim, enough in (("a", 20), ("b", 40)):
            wait(f"{victim} works", out, enough, victim)
            with out.open("a") as told:
                told.write(f"killed - 0 {victim}\n")
            started[victim].kill()
            started[victim].wait()
        if delivery == "at-least-once":
            wait("all is done", out, RECORDS)
        else:
            wait("all but what the killed had taken is done", out, RECORDS - 2 * LOST)
    finally:
        for process in started.values():
            process.kill()
            process.wait()
        ledger.close()
    check(lines(out), delivery)


def check(told: list[list[str]], delivery: str) -> None:
    begun: set[int] = set()
    ended: set[int] = set()
    out: dict[str, dict[str, int]] = {}
    killed: set[str] = set()
    for what, key, number, who in told:
        if what == "killed":
            killed.add(who)
            continue
        offset, hands = int(number), out.setdefault(key, {})
        if what == "ends":
            ended.add(offset)
            del hands[who]
            continue
        assert who not in hands, f"{who} has two records of {key}"
        assert set(hands) <= killed, f"{key} is with {who}, and with {hands}, which lives"
        before = set(range(offset % KEYS, offset, KEYS))
        if delivery == "at-most-once":
            assert offset not in begun, f"{offset} is given out twice"
            assert max((at for at in begun if at % KEYS == offset % KEYS), default=-1) < offset
        elif offset not in begun:
            assert before <= ended, f"{offset} comes before {before - ended}"
        begun.add(offset)
        hands[who] = offset
    assert {who for what, _, _, who in told if what == "ends"} == {"a", "b", "c"}, "all three worked"
