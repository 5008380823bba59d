"""Which batches are being committed now, and on which connections: so that one inside another is refused.

A transaction of a batch inside that of another one goes wrong in each case. On the same connection the inner block commits the
outer one's writes, but not which records they are of. On another one it waits for the fence's row, which the outer one keeps
locked: for ever, if both are on one thread. And the same batch would be done when the inner block ends, whatever becomes of
the outer one.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple

from pares.core.errors import ConfigError
from pares.fence.base import Held
from pares.fence.sql import SqlFence

_OF_THE_SEAT: Final = (
    "a transaction of a batch of {role} is open on this thread, and this one would wait for it for ever, or be done before it: "
    "end that block before you begin the next one"
)
_ON_THE_CONNECTION: Final = (
    "a transaction of a batch of {role} is open on this connection, and the end of this one would commit its writes, but not "
    "which records they are of: end that block first, or use a connection for each thread"
)


running: Final[ContextVar[object | None]] = ContextVar("running", default=None)
"""Whose code runs, where threads don't tell: of simulated tasks many run on one. None: the thread's."""


class _Open(NamedTuple):
    thread: object
    connection: object
    """The driver's own: it may be wrapped in one thing here and in another there."""
    term: Held
    fence: SqlFence


_lock: Final = threading.Lock()
_open: Final[list[_Open]] = []
"""Of this process."""


@contextmanager
def alone(connection: object, term: Held, fence: SqlFence) -> Generator[None, None, None]:
    """Raises `ConfigError` for a transaction inside another one, and then nothing was done on the connection."""
    mine = _Open(running.get() or threading.get_ident(), connection, term, fence)
    with _lock:
        for other in _open:
            if other.connection is connection:
                raise ConfigError(_ON_THE_CONNECTION.format(role=other.term.role))
            if other.thread == mine.thread and (other.term is term or _seat(other) == _seat(mine)):
                raise ConfigError(_OF_THE_SEAT.format(role=other.term.role))
        _open.append(mine)
    try:
        yield
    finally:
        with _lock:
            _open[:] = [each for each in _open if each is not mine]


def _seat(one: _Open) -> tuple[str, str | None, str]:
    return one.fence.table, one.fence.group, one.term.role
