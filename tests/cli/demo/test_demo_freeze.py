"""Whom the demo freezes stands still between its look at the term and its write, wherever the processors have put it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from pares import Term
from pares.demo.in_flight import Hands, file_of, full
from pares.demo.location import Where
from pares.demo.processes import Actor, Cast, Settings
from pares.demo.schedule import Step
from pares.demo.screen import Silent
from pares.demo.stage import Options, Stage

pytestmark = pytest.mark.processes
ROUNDS = 12
MEMBER = """
import random, sys, time
from pathlib import Path
from pares.demo.in_flight import Hands
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
def troupe(tmp_path: Path) -> Cast:
    return Cast(Settings("", "g", tmp_path / "quotes.db", ["A", "B"], "claims", False, 0.7, 1, tmp_path))


@pytest.fixture
def actor(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Actor]:
    command = [sys.executable, "-c", MEMBER, str(file_of(tmp_path, "ann")), *getattr(request, "param", [])]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"here\n"
    yield Actor("ann", process, tmp_path / "ann.log")
    process.kill()
    process.communicate()


def test_it_is_frozen_with_something_in_its_hands(troupe: Cast, actor: Actor, tmp_path: Path) -> None:
    for _ in range(ROUNDS):
        troupe.freeze(actor, lambda: True)
        assert actor.state == "frozen"
        for _ in range(3):
            assert full(file_of(tmp_path, "ann"))
            time.sleep(0.02)
        troupe.thaw(actor)


def test_it_is_not_frozen_where_that_does_harm(troupe: Cast, actor: Actor) -> None:
    tries = iter([False, False, True])
    troupe.freeze(actor, lambda: next(tries))
    assert next(tries, None) is None, "the first two were taken back"


@pytest.mark.parametrize("actor", [["idle"]], indirect=True)
def test_who_has_nothing_to_write_is_frozen_all_the_same(troupe: Cast, actor: Actor, tmp_path: Path) -> None:
    troupe.freeze(actor, lambda: True)
    assert actor.state == "frozen"
    assert not full(file_of(tmp_path, "ann"))


def test_who_is_dead_by_then_holds_nobody_up(troupe: Cast, actor: Actor) -> None:
    os.kill(actor.process.pid, signal.SIGKILL)
    troupe.freeze(actor, lambda: True)
    assert actor.process.wait(60) == -signal.SIGKILL
    troupe.freeze(actor, lambda: True)


def test_hands_are_empty_before_and_after(tmp_path: Path) -> None:
    path = file_of(tmp_path, "bob")
    assert not full(path)
    hands = Hands(path, ["A", "B"])
    assert not full(path)
    with hands.hold("A"), hands.hold("B"):
        assert full(path)
    assert not full(path)


@dataclass
class Quoter:
    """As much of a term as a table without a fence looks at."""

    role: str
    token: int = 5


def test_nobody_is_thawed_before_others_publish_what_it_led(actor: Actor, tmp_path: Path) -> None:
    """However long that takes on this machine: what comes after it in the schedule comes as much later."""
    url = f"sqlite:///{tmp_path}/log.db"
    stage = Stage(Options(), Where(url, words="a file", fresh=True, kept=False), Silent(), tmp_path)

    def publish(role: str, tick: int, member: str) -> None:
        stage.quotes.publish(cast(Term, Quoter(role)), tick, member)

    try:
        thaw, kill = Step(0.0, "thaw"), Step(1.0, "kill")
        stage.begun = time.monotonic()
        for role in ("AAPL", "AMZN"):
            publish(role, 1, "ann")
        assert stage._may_come(thaw), "nobody is frozen"
        stage._frozen.append(actor)
        publish("AAPL", 2, "bob")
        stage.begun -= 5.0
        assert stage._may_come(kill)
        assert not stage._may_come(thaw), "nobody has published AMZN since"
        assert stage.on_schedule < 1.0 < 5.0 <= stage.at
        publish("AMZN", 2, "bob")
        assert stage._may_come(thaw)
    finally:
        stage._frozen.clear()
        stage.close()
