"""INT and TERM, for commands that end in their own time.

The handler puts the signal into a mailbox and does nothing else, and a thread takes it from there. A handler runs on the main
thread, between any two of its steps, and that may hold the lock of just the `threading.Event` that the handler would set: then
it waits for itself for ever.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final

from pares.runtime.work.mailbox import Mailbox

ENDING: Final = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def hearing_the_end(stop: Callable[[int], object]) -> Iterator[list[int]]:
    """Calls `stop`, on a thread of its own, with 1 for the first INT or TERM, with 2 for the second, and so on. Yields a list
    of those that have come. For the main thread."""
    came: list[int] = []
    box: Mailbox[int] = Mailbox()

    def heard(number: int, _: FrameType | None) -> None:
        came.append(number)
        box.put(number)

    def hear() -> None:
        count = 0  # here, since a handler may be interrupted by the next one
        while box.get():
            count += 1
            stop(count)

    thread = threading.Thread(target=hear, name="pares: signals", daemon=True)
    thread.start()
    before = {number: signal.signal(number, heard) for number in ENDING}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        box.put(0)
        thread.join()
