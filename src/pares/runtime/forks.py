"""Leaving: at a normal exit, on signals, and never from a forked child.

A thread does not survive a fork, so an inherited member has nobody to renew its lease or to see that it is lost. In the child
it is dead from the first instruction on: every check is False, every call raises `ForkedError`. Nothing that the parent has
(a lock, a connection, a seat) is touched by the child.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
import weakref
from types import FrameType
from typing import Any, Final, Protocol

EXIT_TIMEOUT: Final = 5.0
"""Seconds that an exiting process gives its members, all together, to hand over and leave."""


class Leaver(Protocol):
    """A member, as far as this file is concerned."""

    def close(self, timeout: float | None = None) -> None: ...

    def _die_in_child(self) -> None: ...


_members: weakref.WeakSet[Leaver] = weakref.WeakSet()


def register(member: Leaver) -> None:
    """From now on the member leaves at a normal exit of this process, and is dead in its forked children."""
    _members.add(member)


def unregister(member: Leaver) -> None:
    _members.discard(member)


def leave_all(timeout: float = EXIT_TIMEOUT) -> None:
    """Closes every member of this process, at the same time, waiting `timeout` seconds at most."""
    members = list(_members)
    closers = [threading.Thread(target=m.close, args=(timeout,), daemon=True) for m in members[1:]]
    try:
        for thread in closers:
            thread.start()
    except RuntimeError:
        # No threads while the interpreter shuts down: one after the other, then.
        for member in members[1:]:
            member.close(timeout / len(members))
    if members:
        members[0].close(timeout)
    for thread in closers:
        if thread.ident is not None:
            thread.join(timeout)


def leave_on_signals(*signals: signal.Signals, timeout: float = EXIT_TIMEOUT) -> None:
    """Makes this process hand over and leave its groups when it gets one of `signals` (SIGTERM and SIGINT if none are named).

    Promised: members hand over what they hold and leave, for up to `timeout` seconds, and then the signal does what it did
    before this call: an earlier handler is called, and with none the process dies of the signal. Not promised: anything for
    SIGKILL, which no process sees. To be called from the main thread; raises `ValueError` elsewhere, as Python does.
    """
    for number in signals or (signal.SIGTERM, signal.SIGINT):
        _install(number, timeout)


def _install(number: signal.Signals, timeout: float) -> None:
    before: Any = signal.getsignal(number)

    def handler(received: int, frame: FrameType | None) -> None:
        # On a thread of its own: the one that the signal interrupted may be in the middle of anything.
        leaving = threading.Thread(target=leave_all, args=(timeout,), daemon=True)
        leaving.start()
        leaving.join(timeout + 1)
        signal.signal(number, before if before is not None else signal.SIG_DFL)
        if callable(before):
            before(received, frame)
        elif before is not signal.SIG_IGN:
            os.kill(os.getpid(), received)

    signal.signal(number, handler)


def _in_child() -> None:
    for member in list(_members):
        member._die_in_child()  # pyright: ignore[reportPrivateUsage]
    _members.clear()


os.register_at_fork(after_in_child=_in_child)
atexit.register(leave_all)
