"""What a member is made with, checked: each error names the value, the limit and what to do."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from pares.core.claims.protocol import Claims, Config, RoleSpec
from pares.core.errors import ConfigError
from pares.core.wire.records import MAX_SEATS, MAX_SESSION_MS, MIN_SESSION_MS, check_name
from pares.runtime.config.numbers import number, seconds_to_ms, whole
from pares.runtime.death.incarnation import default_name
from pares.runtime.host import Host

Roles = str | Iterable[str]
Spread = Literal["host", "zone", "none"]
"""What the seats of one role go to different ones of."""
Eligible = Iterable[str] | Literal["*"] | None

MAX_RANK: Final = 2**256
"""Of ALLCALL: as `core.allcall.messages` has it, which is imported only where it is needed."""
LONGEST_BARRIER: Final = 24 * 3600
"""Seconds."""


class Usual(float):
    """A number that was not given, so that it may yield where something else decides: `session` on Kafka, say."""


Connect = Literal["now", "background"]
CONNECT: Final = ("now", "background")
"""When a member's ledger is opened: while it is made, or later, and again until it is there."""
SESSION: Final = Usual(1.0)
"""Seconds."""


def settings(
    seam: Host,
    *,
    group: str,
    roles: Roles,
    seats: int,
    name: str | None,
    host: str | None,
    zone: str | None,
    labels: Mapping[str, str] | None,
    rank: int,
    weight: float,
    eligible: Eligible,
    session: float,
    overlap: float,
    barrier_timeout: float,
    settle: float | None,
    drift: float,
    retention: float | None,
    lock_folder: object = None,
    any_rank: bool = False,
) -> dict[str, Any]:
    """The fields of a `Config`, but for id and lock, which each incarnation has its own. `seam`: what names the machine, and a
    member without a name. `any_rank`: ranks are any integers, as
    ALLCALL's are, and not the small ones that a join has room for."""
    if lock_folder is not None and (not isinstance(lock_folder, str | os.PathLike) or not os.fspath(lock_folder)):
        raise ConfigError(f"lock_folder is {lock_folder!r:.80}: give a folder's path, or None")
    names = _names("roles", roles)
    seats = whole("seats", seats, 1, MAX_SEATS)
    names = [check_name("a role's name", role) for role in names]
    specs = tuple(RoleSpec(role, seats) for role in dict.fromkeys(names))
    session_ms = seconds_to_ms("session", session, MIN_SESSION_MS / 1000, MAX_SESSION_MS / 1000)
    fields: dict[str, Any] = {
        "group": check_name("group", group),
        "name": check_name("name", default_name(seam) if name is None else name),
        "host": seam.hostname if host is None else _text("host", host),
        "zone": "" if zone is None else _text("zone", zone),
        "labels": _labels(labels),
        "rank": whole("rank", rank, *((1 - MAX_RANK, MAX_RANK - 1) if any_rank else (0, 2**31))),
        "weight": number("weight", weight, 0.001, 1_000_000),
        "eligible": _eligible(eligible, specs),
        "roles": specs,
        "session_ms": session_ms,
        "overlap_ms": seconds_to_ms("overlap", overlap, 0, 3600),
        "barrier_ms": seconds_to_ms("barrier_timeout", barrier_timeout, 0, LONGEST_BARRIER),
        "settle_ms": session_ms // 2 if settle is None else seconds_to_ms("settle", settle, 0, 3600),
        "drift": number("drift", drift, 0, 0.5),
        "retention_ms": None if retention is None else int(retention * 1000),
    }
    _try_join(fields | {"rank": 0} if any_rank else fields)
    return fields


def _eligible(eligible: Eligible, roles: tuple[RoleSpec, ...]) -> tuple[str, ...] | None:
    """None stands for every role. What a member declares it is eligible for, unless something else is said."""
    if eligible == "*":
        return None
    if eligible is None:
        return tuple(role.name for role in roles)
    return tuple(check_name("a role's name in eligible", role) for role in _names("eligible", eligible))


def _names(what: str, names: Roles) -> list[str]:
    """One name, or several."""
    if isinstance(names, str):
        return [names]
    try:
        return list(names)
    except TypeError:
        raise ConfigError(f"{what} is {names!r}: give a name or a list of names") from None


def _text(what: str, value: object, longest: int = 1000) -> str:
    """Something for people: any text that a record can carry."""
    if not isinstance(value, str) or len(value) > longest:
        raise ConfigError(f"{what} is {value!r:.80}: give a string of at most {longest} characters")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{what} is {value!r:.80}, which has a lone surrogate and is no text") from None
    return value


def _labels(labels: object) -> dict[str, str]:
    if labels is None:
        return {}
    if not isinstance(labels, Mapping):
        raise ConfigError(f"labels is {labels!r:.80}: give a dictionary of strings")
    given: Mapping[Any, Any] = labels  # pyright: ignore[reportUnknownVariableType]
    return {_text("a label", key): _text(f"label {key!r}", value) for key, value in given.items()}


def _try_join(fields: dict[str, Any]) -> None:
    """The join of a member with these settings must fit into a record: better known now than in its loop."""
    config = Config(id=f"{fields['name']}~00000000", **fields)
    try:
        Claims(config)
    except ConfigError as error:
        text = (
            f"{error} (host, zone, labels, and {len(config.eligible or ())} roles: eligible='*' stands for all of them)"
        )
        raise ConfigError(text) from None
