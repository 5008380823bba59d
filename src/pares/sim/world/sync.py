"""What tasks of one process wait for each other with: locks, flags, conditions and mailboxes of virtual time.

Each behaves as its namesake of `threading` or `queue`: a lock may be taken by a task that comes by before the one that was
woken for it; waits with a timeout end by the process' own stopwatch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from queue import Empty
from types import TracebackType
from typing import Any, TypeVar

from pares.sim.world.process import Process
from pares.sim.world.scheduler import Task

T = TypeVar("T")
Waiter = tuple[Task, int]
"""A task, and the ticket under which it waits."""


def _wake_first(process: Process, waiters: deque[Waiter]) -> None:
    """The first that still waits."""
    while waiters:
        task, ticket = waiters.popleft()
        if task.ticket == ticket and not task.over:
            process.wake(task, ticket)
            return


class Lock:
    """`threading.Lock`."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._held = False
        self._waiters: deque[Waiter] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        process = self._process
        process.cross("lock")
        if self._held:
            if not blocking:
                return False
            task, deadline = process.world.task(), process.deadline(None if timeout < 0 else timeout)
            while self._held:
                self._waiters.append((task, task.ticket))
                if not process.block("lock", deadline) and self._held:
                    return False
        self._held = True
        process.cross("lock:held")
        return True

    def release(self) -> None:
        process = self._process
        process.cross("release")
        if not self._held:
            raise RuntimeError("release unlocked lock")
        self._held = False
        self._wake_next()

    def _wake_next(self) -> None:
        _wake_first(self._process, self._waiters)

    def locked(self) -> bool:
        return self._held

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class RLock:
    """`threading.RLock`."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._owner: Task | None = None
        self._count = 0
        self._waiters: deque[Waiter] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        process = self._process
        process.cross("lock")
        task = process.world.task()
        if self._owner is not None and self._owner is not task:
            if not blocking:
                return False
            deadline = process.deadline(None if timeout < 0 else timeout)
            while self._owner is not None:
                self._waiters.append((task, task.ticket))
                if not process.block("lock", deadline) and self._owner is not None:
                    return False
        self._owner = task
        self._count += 1
        process.cross("lock:held")
        return True

    def release(self) -> None:
        process = self._process
        process.cross("release")
        if self._owner is not process.world.task():
            raise RuntimeError("cannot release un-acquired lock")
        self._count -= 1
        if not self._count:
            self._owner = None
            _wake_first(process, self._waiters)

    # What `threading.Condition` asks of its lock -----------------------------------------------------------------------

    def locked(self) -> bool:
        return self._owner is not None

    def _is_owned(self) -> bool:
        return self._owner is self._process.world.task()

    def _release_save(self) -> int:
        held = self._count
        for _ in range(held):
            self.release()
        return held

    def _acquire_restore(self, held: int) -> None:
        for _ in range(held):
            self.acquire()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class Flag:
    """`threading.Event`."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._set = False
        self._waiters: list[Waiter] = []

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._process.cross("notify")
        self._set = True
        waiters, self._waiters = self._waiters, []
        for task, ticket in waiters:
            self._process.wake(task, ticket)

    def clear(self) -> None:
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        process = self._process
        process.cross("flag")
        deadline = process.deadline(timeout)
        if not self._set:
            task = process.world.task()
            self._waiters.append((task, task.ticket))
            process.block("flag", deadline)
        return self._set


class Condition:
    """`threading.Condition`, on a lock of its own (an RLock) unless it is given one."""

    def __init__(self, process: Process, lock: Lock | RLock | None = None) -> None:
        self._process = process
        self._lock = RLock(process) if lock is None else lock
        self._waiters: deque[list[Any]] = deque()
        """[task, ticket, whether it was notified]"""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        return self._lock.acquire(blocking, timeout)

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        process = self._process
        process.cross("condition")
        task, deadline = process.world.task(), process.deadline(timeout)
        waiter: list[Any] = [task, -1, False]
        self._waiters.append(waiter)
        held = 1
        if isinstance(self._lock, RLock):
            held = self._lock._count  # pyright: ignore[reportPrivateUsage]
        for _ in range(held):
            self._lock.release()
        try:
            if not waiter[2]:
                waiter[1] = task.ticket
                process.block("condition", deadline)
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            for _ in range(held):
                self._lock.acquire()
        return bool(waiter[2])

    def wait_for(self, predicate: Callable[[], T], timeout: float | None = None) -> T:
        end = None if timeout is None else self._process.reading() + int(timeout * 1e9)
        result = predicate()
        while not result:
            left = None if end is None else (end - self._process.reading()) / 1e9
            if left is not None and left <= 0:
                break
            self.wait(left)
            result = predicate()
        return result

    def notify(self, n: int = 1) -> None:
        self._process.cross("notify")
        while n > 0 and self._waiters:
            waiter = self._waiters.popleft()
            waiter[2] = True
            if waiter[1] >= 0:
                self._process.wake(waiter[0], waiter[1])
            n -= 1

    def notify_all(self) -> None:
        self.notify(len(self._waiters))


class Mailbox:
    """`queue.SimpleQueue`."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._items: deque[Any] = deque()
        self._waiters: deque[Waiter] = deque()

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        self._process.cross("put")
        self._items.append(item)
        _wake_first(self._process, self._waiters)

    put_nowait = put

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        process = self._process
        process.cross("get")
        deadline = process.deadline(timeout)
        while not self._items:
            if not block:
                raise Empty
            task = process.world.task()
            self._waiters.append((task, task.ticket))
            if not process.block("mailbox", deadline) and not self._items:
                raise Empty
        item = self._items.popleft()
        if self._items:  # another may have been woken for the one that this took
            _wake_first(process, self._waiters)
        return item

    def get_nowait(self) -> Any:
        return self.get(block=False)

    def qsize(self) -> int:
        return len(self._items)

    def empty(self) -> bool:
        return not self._items
