"""The host of the caller: the operating system, or the simulation that it runs in.

A member asks `here()` once, when it is made, and hands what it gets to its parts (`host`).
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

from pares.runtime.host import Host
from pares.runtime.os_host import OsHost

OS: Final[Host] = OsHost()
HERE: Final[ContextVar[Host]] = ContextVar("pares_host", default=OS)
"""The host of whatever runs in this context. Set by the simulation, in each of its tasks; nobody else has a use for that."""


def here() -> Host:
    """The host of the caller."""
    return HERE.get()
