"""A process that contends for leadership by a queue, and writes down when it believes that it leads.

    python -m chaos.queues.contender RULE WHERE NAME FILE TIMEOUT

It looks at its belief every few milliseconds; each look that finds it adds an instant of the stopwatch to FILE, and the first
one that does not adds a zero. So what it believed through a freeze is seen, too: the looks before and after it have no zero
between them.
"""

from __future__ import annotations

import os
import struct
import sys
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Final

from pares.runtime.clock import stopwatch

DRIFT: Final = 0.1
LOOK: Final = 0.004
SECOND: Final = 1_000_000_000
_INSTANT: Final = struct.Struct("=q")


class Contender(ABC):
    """One rule on one queue. `timeout`: seconds of silence after which the service gives the queue, or the message, to another;
    the deadline of a belief is the same, or less."""

    def __init__(self, where: str, name: str, timeout: float) -> None:
        self.where = where
        self.name = name
        self.timeout = timeout

    @abstractmethod
    def work(self) -> None:
        """Do what is due, within some milliseconds."""

    @abstractmethod
    def believes(self, now: int) -> bool:
        """Whether this process would act as the leader at this instant."""

    def lease(self, sent: int) -> int:
        """Until when a belief lasts that rests on what was sent then, and has come back."""
        return sent + round(self.timeout * SECOND * (1 - DRIFT) / (1 + DRIFT))

    def wait(self, since: int) -> int:
        """From when on nobody can believe any more by what was sent before `since`."""
        return since + round(self.timeout * SECOND)


class Believed:
    """What a contender has written down."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def stretches(self) -> list[tuple[int, int]]:
        """From the first to the last look of each belief, in order."""
        found: list[tuple[int, int]] = []
        begun = last = 0
        content = self._path.read_bytes() if self._path.exists() else b""
        for (at,) in _INSTANT.iter_unpack(content[: len(content) // _INSTANT.size * _INSTANT.size]):
            if at == 0:
                if begun:
                    found.append((begun, last))
                begun = 0
            else:
                begun, last = begun or at, at
        if begun:
            found.append((begun, last))
        return found


def run(contender: Contender, path: Path) -> None:
    believed = False
    with path.open("ab", buffering=0) as file:
        while True:
            contender.work()
            time.sleep(LOOK)  # its work: where a freeze strikes, and after which it acts before it hears anything
            now = stopwatch()
            believes = contender.believes(now)
            if believes:
                os.write(file.fileno(), _INSTANT.pack(now))
            elif believed:
                os.write(file.fileno(), _INSTANT.pack(0))
            believed = believes


def main() -> None:
    from chaos.queues import by_amqp, by_sqs

    rule, where, name, path, timeout = sys.argv[1:]
    kinds: dict[str, type[Contender]] = {**by_amqp.RULES, **by_sqs.RULES}
    run(kinds[rule](where, name, float(timeout)), Path(path))


if __name__ == "__main__":
    main()
