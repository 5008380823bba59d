"""The keywords of `Member` as types, for whatever makes a member with them: a wrong spelling is a type error there too."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from pares.runtime.config.protocols import Protocol, check_moved
from pares.runtime.config.settings import Connect, Eligible, Roles
from pares.runtime.member import Member
from pares.runtime.term import Term
from pares.runtime.work.barriers import Callback


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
    connect: Connect
    options: Mapping[str, Any] | None


class MemberSettings(SettingsOfOneRole, total=False):
    """Those that may be left out."""

    roles: Roles


class AnySettings(MemberSettings, total=False):
    """The same, with the group, where the environment may name it."""

    group: str


def check_arguments(*args: object, **settings: Any) -> dict[str, Any]:
    """Raises for arguments that `Member` has not, where they are written: `TypeError`, or `ConfigError` for one that moved.
    Returns all that it has, with what those are that were not given."""
    check_moved(settings)
    bound = inspect.signature(Member).bind(*args, **settings)
    bound.apply_defaults()
    return bound.arguments
