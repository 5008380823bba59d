"""The mailbox of production: what `queue.SimpleQueue` promises, kept for small timeouts, too."""

from __future__ import annotations

import signal
import threading
from queue import Empty

import pytest

from pares.runtime.work.mailbox import Mailbox

PATIENCE = 60.0


@pytest.mark.parametrize("timeout", [-1.0, 0.0, 1e-9, 1e-7, 1e-6, 5e-6])
def test_a_timeout_that_passes_at_once_ends_at_once(timeout: float) -> None:
    """With Python 3.11's own queue this waits for ever after some hundred rounds."""
    for _ in range(3000):
        box: Mailbox[int] = Mailbox()
        with pytest.raises(Empty):
            box.get(timeout=timeout)


def test_a_bell_that_rang_for_what_was_taken_is_no_item() -> None:
    box: Mailbox[int] = Mailbox()
    for number in range(3000):
        box.put(number)
        assert box.get() == number
        with pytest.raises(Empty):
            box.get(timeout=1e-6)


def test_what_is_put_is_taken_once_and_in_its_order() -> None:
    box: Mailbox[int] = Mailbox()
    for number in range(3):
        box.put(number)
    assert (box.qsize(), box.empty()) == (3, False)
    assert [box.get(), box.get_nowait(), box.get(timeout=0.0)] == [0, 1, 2]
    assert (box.qsize(), box.empty()) == (0, True)
    with pytest.raises(Empty):
        box.get_nowait()
    with pytest.raises(Empty):
        box.get(block=False, timeout=PATIENCE)


@pytest.mark.parametrize("takers", [1, 4])
def test_each_taker_wakes_for_what_is_there(takers: int) -> None:
    """Also when several are put before the first taker has woken."""
    box: Mailbox[int] = Mailbox()
    taken: list[int] = []
    rounds = 2000

    def take() -> None:
        while (item := box.get(timeout=PATIENCE)) >= 0:
            taken.append(item)

    threads = [threading.Thread(target=take, daemon=True) for _ in range(takers)]
    for thread in threads:
        thread.start()
    for number in range(rounds):
        box.put(number)
    for _ in threads:
        box.put(-1)
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert sorted(taken) == list(range(rounds))


def test_a_signals_handler_may_put() -> None:
    """Wherever it interrupts, `get` of the same box included."""
    box: Mailbox[int] = Mailbox()
    before = signal.signal(signal.SIGALRM, lambda *_: box.put(1))
    try:
        for _ in range(200):
            signal.setitimer(signal.ITIMER_REAL, 0.001)
            assert box.get(timeout=PATIENCE) == 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
