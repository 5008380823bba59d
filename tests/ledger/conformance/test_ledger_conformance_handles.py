"""The conformance suite: handles are shared by threads, closed, inherited by a fork, and leave nothing behind."""

import threading
from collections.abc import Callable

import pytest
from ledger_stages import Stage, descriptors, in_child
from log_tools import HANG, payloads, rings

import pares.ledger
from pares.core.errors import ClosedError, ForkedError
from pares.ledger import Ledger


def test_one_handle_serves_many_threads(stage: Stage) -> None:
    ledger = stage.open()
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for _ in range(50):
                offset = ledger.append(b"%d" % number)
                assert ledger.read(offset, max_records=1)[0].payload == b"%d" % number
                ledger.identity()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG)
    assert not errors
    assert sorted(payloads(ledger)) == sorted(b"%d" % number for number in range(8) for _ in range(50))


def calls(ledger: Ledger) -> list[Callable[[], object]]:
    """Every method of a ledger but close, ready to be called."""
    return [
        lambda: ledger.append(b"x"),
        lambda: ledger.append_many([b"x"]),
        lambda: ledger.read(0),
        lambda: ledger.read(0, timeout=1.0),
        ledger.start,
        ledger.end,
        lambda: ledger.trim(0),
        ledger.identity,
        ledger.bell,
        lambda: ledger.partitions,
        lambda: ledger.topic("t"),
    ]


def test_a_closed_ledger_says_so(stage: Stage) -> None:
    ledger = stage.open()
    ledger.close()
    ledger.close()
    for call in calls(ledger):
        with pytest.raises(ClosedError, match="closed"):
            call()


def test_a_forked_child_can_use_nothing_inherited(stage: Stage) -> None:
    ledger = stage.open()
    topic, bell = ledger.topic("a"), ledger.bell()
    ledger.append(b"x")
    assert bell is not None

    def child() -> None:
        for call in [*calls(ledger), lambda: topic.append(b"x"), bell.fileno, bell.clear]:
            with pytest.raises(ForkedError):
                call()
        bell.close()
        topic.close()
        ledger.close()

    in_child(child)
    assert ledger.append(b"y") == 1
    assert rings(bell.fileno(), HANG)
    bell.close()
    assert payloads(ledger) == [b"x", b"y"]


def test_opened_and_closed_again_and_again_leaks_nothing(stage: Stage) -> None:
    def cycle() -> None:
        ledger = pares.ledger.open(stage.url)
        ledger.append(b"x")
        bell = ledger.bell()
        ledger.read(ledger.end(), timeout=0.001)
        ledger.topic("a").append(b"x")
        ledger.close()
        assert bell is not None
        bell.close()

    cycle()
    threads, grown = {*threading.enumerate()}, 1
    for _ in range(2):  # the stage's own client may come to open a connection, which it does once
        before = descriptors()
        for _ in range(stage.often):
            cycle()
        grown = descriptors() - before
        if grown <= 0:
            break
    assert grown <= 0
    assert {*threading.enumerate()} <= threads, "none is new; another test's may have ended meanwhile"
