"""What a member that runs NELI or Fast NELI is made with, checked; see `settings` for what all members have."""

from __future__ import annotations

import math
import os
from typing import Any, Final

from pares.core.budget import BUDGET
from pares.core.errors import CapabilityError, ConfigError
from pares.core.neli import BEACONS
from pares.core.shares import Config
from pares.ledger import Log
from pares.runtime.settings import seconds_to_ms

OWN: Final[dict[str, tuple[str, ...]]] = {
    "claims": (),
    "neli": ("T", "clock_error", "interval"),
    "fast-neli": ("heartbeat_timeout", "poll_interval"),
    "allcall": ("heartbeat", "lease", "skew", "order", "when_isolated"),
}
"""The settings that only this protocol has."""
BEATS: Final = 5
"""Beats, or beacons, in a threshold, unless an interval is given: Fast NELI's at the least."""
HEARTBEAT_TIMEOUT_MS: Final = 5000
"""Fast NELI's deadline, where the group's session has room for it; goNELI's."""
POLL_INTERVAL_MS: Final = 100
"""Between two beats of Fast NELI, where the deadline has room for it; goNELI's."""
RESTATED: Final = 4
"""How often the group's roles are written down within the log's retention."""
CLOCK_ERROR: Final = 0.05
"""Seconds by which clocks may be apart, unless said otherwise, where the log's times are not this host's own."""
HOST_CLOCK: Final = ("memory", "sqlite")
"""Ledgers whose times are by the clock of the host that all their members are on."""


def check_own(protocol: str, given: dict[str, Any]) -> None:
    """Raises `ConfigError` for a setting of another protocol than the one asked for."""
    for what, value in given.items():
        if value is not None and what not in OWN[protocol]:
            of = next(name for name, own in OWN.items() if what in own)
            raise ConfigError(f"{what}={value!r} is a setting of protocol {of!r}, and this member runs {protocol!r}")


def check_shape(protocol: str, checked: dict[str, Any], eligible: object, native: bool) -> None:
    """Raises `CapabilityError` for what a group that shares out partitions can't do."""
    where = f"protocol {protocol!r}"
    if eligible is not None:
        raise CapabilityError(
            f"{where} gives each member whole partitions, whatever roles they carry, and eligible is given: leave it out, "
            f"or use "
            "protocol='claims'"
        )
    if native and (checked["rank"] or checked["weight"] != 1.0):
        raise CapabilityError(
            f"{where} on this ledger leaves the assignment to the broker, which knows no rank or weight: leave them out, or "
            f"use "
            "protocol='claims'"
        )


def check_seats(ledger: Log, seats: int) -> None:
    """Raises `ConfigError` unless each seat has a partition of its own."""
    if seats > ledger.partitions:
        raise ConfigError(
            f"seats is {seats}, and each seat of a role needs a partition of its own: {ledger.url} has {ledger.partitions}; "
            f"open it with ?partitions={2 * seats} or more, or use fewer seats"
        )


def check_barrier(limit: float, grace: float, waits: float) -> None:
    """Raises `ConfigError` unless the group waits for as long as a barrier may take, and for the record after it. (In
    non-exclusive mode it waits for no barrier.)"""
    if limit + grace > waits:
        raise ConfigError(
            f"barrier_timeout is {limit:g} s, and this group waits {waits:g} s for a member that gives partitions up, of which "
            f"{grace:g} s are for the record that says so: then others take them. Use at most {max(0.0, waits - grace):g} s, "
            "or have it wait longer: on Kafka by the client setting "
            f"max.poll.interval.ms={math.ceil(1000 * (limit + grace))} in options= or config="
        )


def check_times(ledger: Log) -> None:
    """Raises `CapabilityError` unless the log's times are by one clock (exclusive NELI rests on them)."""
    if ledger.kind in HOST_CLOCK or getattr(ledger, "broker_time", False):
        return
    raise CapabilityError(
        f"exclusive NELI takes the time of a record from the broker, and the times in {ledger.url} are by its writers' "
        f"clocks: on "
        "Kafka set message.timestamp.type=LogAppendTime on the topic; or use protocol='fast-neli' or 'claims', which need no "
        "times, or overlap > 0 (non-exclusive)"
    )


def config(
    protocol: str, checked: dict[str, Any], ledger: Log, bound: float, own: dict[str, float | None], seen: int = 0
) -> Config:
    """One incarnation's. `bound`: seconds after which the group may give a silent member's partitions away."""
    exclusive = checked["overlap_ms"] == 0
    session_ms = int(bound * 1000)
    error_ms = 0
    if protocol == "fast-neli":
        if not exclusive:
            raise ConfigError(
                f"overlap is {checked['overlap_ms'] / 1000:g}: Fast NELI is exclusive; use protocol='neli' or 'claims' for "
                f"an overlap"
            )
        threshold_ms = _ms(
            "heartbeat_timeout", own["heartbeat_timeout"], usual_deadline_ms(session_ms, checked["drift"])
        )
        interval_ms = _ms("poll_interval", own["poll_interval"], min(POLL_INTERVAL_MS, threshold_ms // BEATS))
    else:
        if exclusive:
            check_times(ledger)
            usual = 0.0 if ledger.kind in HOST_CLOCK else CLOCK_ERROR
            error = usual if own["clock_error"] is None else own["clock_error"]
            error_ms = seconds_to_ms("clock_error", error, 0, 60)
            threshold_ms = _ms("T", own["T"], (session_ms - error_ms) // 2)
        elif own["clock_error"] is not None:
            raise ConfigError(
                "clock_error is given with overlap: non-exclusive NELI compares no clocks; leave one of them out"
            )
        else:
            threshold_ms = _ms("T", own["T"], session_ms + checked["overlap_ms"])
        interval_ms = _ms("interval", own["interval"], (threshold_ms - error_ms) // (BEACONS + 1))
    return Config(
        group=checked["group"],
        id=f"{checked['name']}~{os.urandom(4).hex()}",
        name=checked["name"],
        host=checked["host"],
        partitions=ledger.partitions,
        roles=tuple(role.name for role in checked["roles"]),
        threshold_ms=threshold_ms,
        interval_ms=interval_ms,
        session_ms=session_ms,
        drift=checked["drift"],
        barrier_ms=checked["barrier_ms"],
        exclusive=exclusive,
        error_ms=error_ms,
        seen=seen,
        seats=checked["seats"],
        budget=BUDGET,
        restate_ms=0 if ledger.retention is None else max(1000, int(ledger.retention * 1000) // RESTATED),
    )


def usual_deadline_ms(session_ms: int, drift: float) -> int:
    """Fast NELI's deadline, unless one is given: so long that beats may be late, and no longer than lets a takeover after a
    crash wait for the group only. An owner that is cut off has stopped, and its successor has waited for it by a stopwatch that
    is off by `drift`, before the group looks for another: the deadline, stretched by `drift`, stays below the session. Five
    sixths are what Kafka's client leaves of a session, as the owner's last heartbeat is up to a sixth of it old."""
    return min(HEARTBEAT_TIMEOUT_MS, session_ms * 5 // 6, int(session_ms * 0.95 / (1 + drift)))


def _ms(what: str, given: float | None, usual_ms: int) -> int:
    return max(1, usual_ms) if given is None else seconds_to_ms(what, given, 0.001, 60)
