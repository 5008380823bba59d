"""Objects that are known for as long as somebody else holds them, for any number of threads.

A `weakref.WeakSet` is not for several threads: an object that comes while another thread iterates ends that iteration with an
error, and where the iteration is a member's loop, the member. Here each thing that can be done is one step for the interpreter.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class WeakBag(Generic[T]):
    """No locks, so it may also be used in a signal's handler, and where an object is finalized."""

    def __init__(self) -> None:
        self._known: dict[int, weakref.ref[T]] = {}

    def add(self, it: T) -> None:
        key, known = id(it), self._known
        known[key] = weakref.ref(it, lambda _: known.pop(key, None))  # before anything else can get that id

    def discard(self, it: T) -> None:
        self._known.pop(id(it), None)

    def clear(self) -> None:
        self._known.clear()

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[T]:
        """Those that there are now."""
        return iter([it for reference in list(self._known.values()) if (it := reference()) is not None])
