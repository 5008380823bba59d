"""The keywords of `Member` as types, for whatever makes a member with them: a wrong spelling is a type error there too."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, ParamSpec, TypedDict

from pares.runtime.config.protocols import Protocol
from pares.runtime.config.settings import Connect, Eligible, Roles
from pares.runtime.term import Term
from pares.runtime.work.barriers import Callback

P = ParamSpec("P")


class SettingsOfOneRole(TypedDict, total=False):
    """Those that may be left out, but for the roles."""

    seats: int
    name: str | None
    host: str | None
    zone: str | None
    labels: Mapping[str, str] | None
    rank: int
    weight: float
    eligible: Eligible
    session: float
    overlap: float
    protocol: Protocol
    barrier: Callback | None
    barrier_timeout: float
    settle: float | None
    drift: float
    ready: Callable[[], bool] | None
    on_lost: Callable[[Term], object] | None
    lock_folder: str | os.PathLike[str] | None
    witness: bool
    connect: Connect
    options: Mapping[str, Any] | None


class MemberSettings(SettingsOfOneRole, total=False):
    """Those that may be left out."""

    roles: Roles


class AnySettings(MemberSettings, total=False):
    """The same, with the group, where the environment may name it."""

    group: str


def arguments_of(
    like: Callable[Concatenate[Any, P], None],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, P], None]]:
    """For editors, type checkers and `help`: the function takes what `like` takes."""

    def decorate(function: Callable[..., None]) -> Callable[Concatenate[Any, P], None]:
        return functools.wraps(like)(function)

    return decorate
