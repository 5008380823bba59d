"""What a mutant is, and how it is put into force."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

Patch = tuple[Any, Any, Any]
"""An object, the name of its attribute, and what it is while the mutant is in force. A dict's key is an attribute too."""


class Mutant(Struct, frozen=True):
    """One rule, broken."""

    name: str
    rule: str
    what: str
    patches: Callable[[], list[Patch]]
    bias: dict[str, Any] = {}


@contextmanager
def applied(mutant: Mutant | None) -> Generator[None, None, None]:
    """The core, with one rule broken (or none), and whole again afterwards."""
    restore: list[Patch] = []
    try:
        for where, name, value in mutant.patches() if mutant is not None else []:
            if isinstance(where, dict):
                restore.append((where, name, where[name]))
                where[name] = value
            else:
                restore.append((where, name, where.__dict__[name]))
                setattr(where, name, value)
        yield
    finally:
        for where, name, value in reversed(restore):
            if isinstance(where, dict):
                where[name] = value
            else:
                setattr(where, name, value)
