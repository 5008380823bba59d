"""The processes of a command that is measured, and their memory: of what pares runs in, and of Spark's JVM."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from bench.consume.memory import anonymous

LOOK_S: Final = 0.5


def descendants(pid: int) -> list[int]:
    """The process's children, and theirs."""
    found: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child), *descendants(int(child))]
    return found


def jvm_of(pid: int) -> int | None:
    """The largest of the JVMs that the process has started; None if there is none. [the first one is there for a moment, to put
    the command of the other one together]"""
    found: list[int] = []
    for child in descendants(pid):
        with suppress(OSError):
            if Path(f"/proc/{child}/comm").read_text().strip() == "java":
                found.append(child)
    return max(found, key=lambda child: memory(child) or 0.0, default=None)


def memory(pid: int | None) -> float | None:
    """Megabytes that no file backs; None of a process that is gone."""
    if pid is None:
        return None
    try:
        return anonymous(pid)
    except (OSError, StopIteration):
        return None


class Peak:
    """Looks at the memory of a process and of its JVM while it runs; `driver` and `jvm` are the most that it saw, in MB."""

    def __init__(self, pid: int) -> None:
        self.driver = self.jvm = 0.0
        self._pid, self._over = pid, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(LOOK_S):
            self.driver = max(self.driver, memory(self._pid) or 0.0)
            self.jvm = max(self.jvm, memory(jvm_of(self._pid)) or 0.0)
