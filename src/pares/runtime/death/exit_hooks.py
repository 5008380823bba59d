"""Leaving: at a normal exit, on signals, and never from a forked child.

A thread does not survive a fork, so an inherited member has nobody to renew its lease or to see that it is lost. In the child
it is dead from the first instruction on: every check is False, every call raises `ForkedError`. Nothing that the parent has
(a lock, a connection, a seat) is touched by the child.
"""

from __future__ import annotations

import atexit
import logging
import os
import signal
import threading
import time
from queue import SimpleQueue
from types import FrameType
from typing import Any, Final, Literal

from pares.ledger.weak_set import WeakBag
from pares.runtime.death import lock
from pares.runtime.host import Leaver

log: Final = logging.getLogger("pares.member")

EXIT_TIMEOUT: Final = 5.0
"""Seconds that an exiting process gives its members, all together, to hand over and leave."""
AGAIN: Final = 0.5
"""Seconds until the main thread is reminded of a signal."""


_members: WeakBag[Leaver] = WeakBag()


def begin(member: Leaver, thread: threading.Thread) -> None:
    """Starts the member's thread. From then on the member leaves at a normal exit of this process, and is dead in its forked
    children."""
    # In this order: closing waits for the thread. A fork waits for both, so that each child knows of what it inherits.
    with lock.forks.guard:
        thread.start()
        register(member)


def register(member: Leaver) -> None:
    """As `begin`, of a member that runs."""
    _members.add(member)
    _leaver.begin()


def unregister(member: Leaver) -> None:
    _members.discard(member)


def leave_all(timeout: float = EXIT_TIMEOUT) -> None:
    """Closes every member of this process, at the same time, waiting `timeout` seconds at most."""
    members = list(_members)
    closers = [threading.Thread(target=_close, args=(m, timeout), daemon=True) for m in members[1:]]
    try:
        for thread in closers:
            thread.start()
    except RuntimeError:
        # No threads while the interpreter shuts down: one after the other, then.
        for member in members[1:]:
            _close(member, timeout / len(members))
    if members:
        _close(members[0], timeout)
    for thread in closers:
        if thread.ident is not None:
            thread.join(timeout)


def _close(member: Leaver, timeout: float) -> None:
    """What goes wrong with one keeps neither the others from leaving nor the process from ending."""
    try:
        member.close(timeout)
    except Exception:
        log.exception("%r could not be closed", member)


def leave_on_signals(*signals: signal.Signals, timeout: float = EXIT_TIMEOUT) -> None:
    """Makes this process hand over and leave its groups when it gets one of `signals` (SIGTERM and SIGINT if none are named).

    Promised: members hand over what they hold and leave, for up to `timeout` seconds, and then the signal does what it did
    before this call: an earlier handler is called, and with none the process dies of the signal. Until then the program goes
    on, and sees its terms end: a handover waits for `terms`, `only` and the like to see that. More signals meanwhile change
    nothing. Not promised: anything for SIGKILL, which no process sees; nor how soon. Python runs handlers on the main thread,
    between two steps of Python code: one that is inside a long call of C code is waited for, and a signal that comes in the
    moment before a blocking call begins (`sleep`, `join`, a read) is noticed only when that call returns. Until then members
    go on, and lead. So wait with a limit, as `term.wait_lost(1.0)` does. To be called from the main thread; raises
    `ValueError` elsewhere, as Python does.
    """
    for number in signals or (signal.SIGTERM, signal.SIGINT):
        _install(number, timeout)


def _install(number: signal.Signals, timeout: float) -> None:
    before: Any = signal.getsignal(number)

    def handler(received: int, frame: FrameType | None) -> None:
        if _leaver.takes(received, timeout):
            return
        signal.signal(number, before if before is not None else signal.SIG_DFL)
        if callable(before):
            before(received, frame)
        elif before is not signal.SIG_IGN:
            os.kill(os.getpid(), received)

    signal.signal(number, handler)
    _leaver.wanted = True
    _leaver.begin()


class _Leaver:
    """Leaves on a signal, on a thread that was there before it came.

    The handler itself does next to nothing, and never waits: the thread that it interrupts may hold any lock, and may be just
    the one that must see the end of its term before anything can be handed over.
    """

    def __init__(self, wanted: bool = False) -> None:
        self.wanted = wanted
        self._state: Literal["idle", "leaving", "left"] = "idle"
        self._signals: SimpleQueue[tuple[int, float]] = SimpleQueue()  # made for signal handlers: its put() never waits
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Before any signal can come: a signal handler must not start threads."""
        if self.wanted and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="pares: leaving", daemon=True)
            self._thread.start()

    def takes(self, received: int, timeout: float) -> bool:
        """In the handler: whether the signal has done its work with this; False: it may do what it did before."""
        if self._state == "left":
            self._state = "idle"
            return False
        if self._state == "idle":
            if not _members or self._thread is None:
                return False
            self._state = "leaving"
            self._signals.put((received, timeout))
        return True

    def _run(self) -> None:
        main = threading.main_thread().ident
        while True:
            received, timeout = self._signals.get()
            leave_all(timeout)
            self._state = "left"
            while self._state == "left" and main is not None:
                # Again and again: Python notices one that comes right before a long system call only when that returns.
                signal.pthread_kill(main, received)
                time.sleep(AGAIN)

    def finish(self) -> None:
        """At the end of the program: a signal that made it end still does what it did before."""
        while self._state != "idle":
            time.sleep(0.005)


_leaver = _Leaver()


def _at_exit() -> None:
    leave_all()
    _leaver.finish()


def _in_child() -> None:
    global _leaver
    _leaver = _Leaver(_leaver.wanted)
    for member in list(_members):
        member._die_in_child()  # pyright: ignore[reportPrivateUsage]
    _members.clear()


os.register_at_fork(after_in_child=_in_child)
atexit.register(_at_exit)
