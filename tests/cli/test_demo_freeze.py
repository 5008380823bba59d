"""Whom the demo freezes stands still between its look at the term and its write, wherever the processors have put it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pares.demo.cast import Actor, Cast, Settings
from pares.demo.hands import Hands, file_of, full

pytestmark = pytest.mark.processes
ROUNDS = 12
MEMBER = """
import random, sys, time
from pathlib import Path
from pares.demo.hands import Hands
hands = Hands(Path(sys.argv[1]), ["A", "B"])
print("here", flush=True)
while True:
    if "idle" not in sys.argv:
        with hands.hold("B"):
            time.sleep(random.uniform(0.01, 0.03))
    time.sleep(random.uniform(0.01, 0.03))
"""
"""It has something in its hands at any moment, or none, whatever the clock says: with even chances."""


@pytest.fixture
def cast(tmp_path: Path) -> Cast:
    return Cast(Settings("", "g", tmp_path / "quotes.db", ["A", "B"], 1.0, 0.0, 0.7, 1, tmp_path))


@pytest.fixture
def actor(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Actor]:
    command = [sys.executable, "-c", MEMBER, str(file_of(tmp_path, "ann")), *getattr(request, "param", [])]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"here\n"
    yield Actor("ann", process, tmp_path / "ann.log")
    process.kill()
    process.communicate()


def test_it_is_frozen_with_something_in_its_hands(cast: Cast, actor: Actor, tmp_path: Path) -> None:
    for _ in range(ROUNDS):
        cast.freeze(actor, lambda: True)
        assert actor.state == "frozen"
        for _ in range(3):
            assert full(file_of(tmp_path, "ann"))
            time.sleep(0.02)
        cast.thaw(actor)


def test_it_is_not_frozen_where_that_does_harm(cast: Cast, actor: Actor) -> None:
    tries = iter([False, False, True])
    cast.freeze(actor, lambda: next(tries))
    assert next(tries, None) is None, "the first two were taken back"


@pytest.mark.parametrize("actor", [["idle"]], indirect=True)
def test_who_has_nothing_to_write_is_frozen_all_the_same(cast: Cast, actor: Actor, tmp_path: Path) -> None:
    cast.freeze(actor, lambda: True)
    assert actor.state == "frozen"
    assert not full(file_of(tmp_path, "ann"))


def test_who_is_dead_by_then_holds_nobody_up(cast: Cast, actor: Actor) -> None:
    os.kill(actor.process.pid, signal.SIGKILL)
    cast.freeze(actor, lambda: True)
    assert actor.process.wait(60) == -signal.SIGKILL
    cast.freeze(actor, lambda: True)


def test_hands_are_empty_before_and_after(tmp_path: Path) -> None:
    path = file_of(tmp_path, "bob")
    assert not full(path)
    hands = Hands(path, ["A", "B"])
    assert not full(path)
    with hands.hold("A"), hands.hold("B"):
        assert full(path)
    assert not full(path)
