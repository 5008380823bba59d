"""When readers are lazy and writers take them to be: a count of what was seen, by a stopwatch that the test holds."""

import pytest

from pares.ledger import window
from pares.ledger.window import LATELY, MANY, NONE, PERIOD, Quiet


class Stopwatch:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def stopwatch(monkeypatch: pytest.MonkeyPatch) -> Stopwatch:
    stopwatch = Stopwatch()
    monkeypatch.setattr(window, "time", stopwatch)
    return stopwatch


def test_many_in_one_period_are_many(stopwatch: Stopwatch) -> None:
    seen = Quiet()
    for _ in range(MANY - 1):
        seen.seen(1)
    assert not seen.many
    assert seen.lately
    seen.seen(1)
    assert seen.many


def test_a_few_now_and_then_are_not_many(stopwatch: Stopwatch) -> None:
    seen = Quiet()
    for _ in range(10 * MANY):
        seen.seen(1)
        stopwatch.now += PERIOD / (MANY - 2)
    assert not seen.many


def test_it_ends_some_time_after_the_last(stopwatch: Stopwatch) -> None:
    seen = Quiet()
    seen.seen(MANY)
    stopwatch.now += NONE - 1
    seen.seen(0)
    assert seen.many
    stopwatch.now += 2
    seen.seen(0)
    assert not seen.many
    assert seen.lately, "writers wake lazy readers for longer than there can be any"
    stopwatch.now += LATELY
    assert not seen.lately


def test_one_that_was_read_later_makes_nobody_lazy(stopwatch: Stopwatch) -> None:
    seen = Quiet()
    assert not seen.lately
    for _ in range(MANY):
        seen.noted()
    assert seen.lately
    assert not seen.many
