"""Python's collector, in tasks that have thousands of records at hand at a time."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_OBJECTS: Final = 50_000


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Garbage in cycles is looked for once in so many new objects. [once in 700, as Python does, that is a fifth of a fold: it
    goes through all records at hand each time, and none of them is in a cycle]"""
    usual = gc.get_threshold()
    if 0 < usual[0] < _OBJECTS:
        gc.set_threshold(_OBJECTS, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)
