"""What a member that runs NELI or Fast NELI is made with, checked; see `settings` for what all members have."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from pares.core.errors import CapabilityError, ConfigError
from pares.core.neli.budget import BUDGET
from pares.core.neli.classic import BEACONS
from pares.core.neli.config import Config
from pares.ledger import Log, Stamping
from pares.ledger.base import Scope
from pares.runtime.config.numbers import seconds_to_ms
from pares.runtime.config.protocols import LONGEST_T, SHORTEST_T, FastNeli, Nele, Partitioned, protocol_of

_CLAIMS_PLACE: Final[dict[str, Any]] = {"rank": 0, "weight": 1, "zone": None, "settle": None, "lock_folder": None}
_CLAIMS_PLACE["witness"] = False
"""Settings of the claims that share partitions out where no broker does, with their defaults."""
BEATS: Final = 5
"""Beats in Fast NELI's deadline, unless an interval is given."""
HEARTBEAT_TIMEOUT_MS: Final = 5000
"""The most that Fast NELI's deadline is by default; the value of goNELI."""
DEADLINES: Final = 3
"""How many of Fast NELI's deadlines fit into the group's session: seed 002 asks for a third of it or less, as goNELI does."""
NELE_SESSIONS: Final = 3
"""How many sessions NELE's T is, unless T or an overlap is given: as in the paper's example of 10 s and 30 s."""
RESTATED: Final = 4
"""How often the group's roles are written down within the log's retention."""
NOT_YET: Final = "00000000"
"""In the id of an incarnation that is only checked, and never started."""
CLOCK_ERROR: Final = 0.05
"""Seconds by which clocks may be apart, unless said otherwise, where the log's times are not this host's own."""


def check_shape(protocol: str, given: Mapping[str, Any], native: bool) -> None:
    """Raises `CapabilityError` for what a group that shares out partitions can't do. `given`: as to `Member`."""
    where = f"protocol {protocol!r}"
    if given["eligible"] is not None:
        raise CapabilityError(
            f"{where} gives each member whole partitions, whatever roles they carry, and eligible is given: leave it out, "
            "or use protocol='claims'"
        )
    if given["labels"]:
        raise CapabilityError(
            f"labels is {given['labels']!r:.80}, and members of {where} don't tell labels: leave it out, or use "
            "protocol='claims'"
        )
    if not native:
        return
    for what, usual in _CLAIMS_PLACE.items():
        if given[what] != usual:
            raise CapabilityError(
                f"{what} is {given[what]!r}, and {where} on this ledger leaves the assignment to the broker, which knows no "
                f"{what}: leave it out, or use protocol='claims'"
            )


def check_seats(ledger: Log, seats: int) -> None:
    """Raises `ConfigError` unless each seat has a partition of its own."""
    if seats > ledger.partitions:
        raise ConfigError(
            f"seats is {seats}, and each seat of a role needs a partition of its own: {ledger.url} has {ledger.partitions}; "
            f"open it with ?partitions={2 * seats} or more, or use fewer seats"
        )


def check_barrier(limit: float, grace: float, waits: float) -> None:
    """Raises `ConfigError` unless the group waits for as long as a barrier may take, and `grace` seconds more for the record
    after it. For exclusive modes: in NELE no group waits for a barrier."""
    if limit + grace > waits:
        raise ConfigError(
            f"barrier_timeout is {limit:g} s, and this group waits {waits:g} s for a member that gives partitions up, of which "
            f"{grace:g} s are for the record that says so: then others take them. Use at most {max(0.0, waits - grace):g} s, "
            "or have it wait longer: on Kafka by the client setting "
            f"max.poll.interval.ms={math.ceil(1000 * (limit + grace))} in options= or config="
        )


def one_clock(scope: Scope) -> bool:
    """Whether the times in such a ledger are by the clock of the host that all its members are on."""
    return scope != "network"


def check_times(ledger: Log) -> None:
    """Raises `CapabilityError` unless the log's times are by one clock (exclusive NELI rests on them)."""
    if one_clock(ledger.capabilities.scope) or (isinstance(ledger, Stamping) and ledger.broker_time()):
        return
    raise CapabilityError(
        f"exclusive NELI takes the time of a record from the broker, and the times in {ledger.url} are by its writers' clocks, "
        "or by some of the service that it does not vouch for: on Kafka set message.timestamp.type=LogAppendTime on the topic; "
        "or use protocol='fast-neli' or 'claims', which need no times, or protocol='nele' (non-exclusive)"
    )


class Times(NamedTuple):
    """The times of one member, in milliseconds."""

    threshold: int
    interval: int
    error: int = 0
    exclusive: bool = True


def config(
    own: Partitioned,
    checked: dict[str, Any],
    ledger: Log,
    bound: float,
    session: float | None = None,
    seen: int = 0,
    *,
    id: str | None = None,
) -> Config:
    """The settings of one incarnation. `bound`: seconds after which the group may give a silent member's partitions away.
    `session`: the user's setting from which `bound` follows (None: the two are the same). `id`: None if it has none yet."""
    times = _times(own, checked, ledger, bound, bound if session is None else session)
    return Config(
        group=checked["group"],
        id=f"{checked['name']}~{NOT_YET}" if id is None else id,
        name=checked["name"],
        host=checked["host"],
        partitions=ledger.partitions,
        roles=tuple(role.name for role in checked["roles"]),
        threshold_ms=times.threshold,
        interval_ms=times.interval,
        session_ms=int(bound * 1000),
        drift=checked["drift"],
        barrier_ms=checked["barrier_ms"],
        exclusive=times.exclusive,
        error_ms=times.error,
        seen=seen,
        seats=checked["seats"],
        budget=BUDGET,
        restate_ms=0 if ledger.retention is None else max(1000, int(ledger.retention * 1000) // RESTATED),
    )


def _times(own: Partitioned, checked: dict[str, Any], ledger: Log, bound: float, session: float) -> Times:
    overlap = checked["overlap_ms"] / 1000
    if isinstance(own, Nele):
        threshold = _nele_threshold(own, overlap, session)
        return Times(threshold, _ms("interval", own.interval, threshold // (BEACONS + 1)), exclusive=False)
    if overlap:
        instead = f"protocol='nele' (T is session + overlap there, {session + overlap:g} s) or protocol='claims'"
        raise ConfigError(
            f"overlap is {overlap:g}, and protocol {protocol_of(own)[0]!r} is exclusive: leave it out, or use {instead}"
        )
    if isinstance(own, FastNeli):
        threshold = _ms("heartbeat_timeout", own.heartbeat_timeout, usual_deadline_ms(int(bound * 1000)))
        return Times(threshold, _ms("poll_interval", own.poll_interval, threshold // BEATS))
    check_times(ledger)
    usual = 0.0 if one_clock(ledger.capabilities.scope) else CLOCK_ERROR
    error = seconds_to_ms("clock_error", usual if own.clock_error is None else own.clock_error, 0, 60)
    most = round(LONGEST_T * 1000) - error  # a record says how long a belief may last, which is T and the error
    threshold = _ms("T", own.T, min((int(bound * 1000) - error) // 2, most))
    if threshold > most:
        raise ConfigError(
            f"T is {threshold / 1000:g} s and clock_error {error / 1000:g} s, and together they can be {LONGEST_T:g} s at the "
            f"most: use T={most / 1000:g} or less"
        )
    return Times(threshold, _ms("interval", own.interval, (threshold - error) // (BEACONS + 1)), error)


def _nele_threshold(own: Nele, overlap: float, session: float) -> int:
    """T of NELE, in milliseconds. Raises `ConfigError` unless what was given agrees."""
    usual = session + overlap if overlap else NELE_SESSIONS * session
    if usual > LONGEST_T and (overlap or own.T is None):
        if overlap:
            what, instead = f"session + overlap = {session:g} s + {overlap:g} s", "use a shorter session or overlap"
        else:
            what = f"{NELE_SESSIONS} sessions of {session:g} s each unless it is said"
            instead = f"use a session of {LONGEST_T / NELE_SESSIONS:g} s at the most"
            if session < LONGEST_T:
                instead += f", or say T, as by pares.Nele(T={LONGEST_T:g})"
        raise ConfigError(f"NELE's T is {what}, {usual:g} s, and it can be {LONGEST_T:g} s at the most: {instead}")
    threshold = _ms("T", own.T, round(usual * 1000))
    if overlap and abs(threshold - 1000 * usual) >= 1:
        raise ConfigError(
            f"overlap={overlap:g} and T={own.T:g} contradict each other: with a session of {session:g} s that overlap means T "
            f"= {usual:g} s, and that T means an overlap of {max(0.0, threshold / 1000 - session):g} s; give one of them"
        )
    return threshold


def check_sum(made: Config, bound: float, session: float) -> None:
    """Raises `ConfigError` unless T suits the session, in the numbers that the user gave (`bound`, `session`:
    as of `config`)."""
    t, error = made.threshold_ms / 1000, made.error_ms / 1000
    if not made.exclusive and made.threshold_ms <= round(1000 * session):
        raise ConfigError(
            f"T is {t:g} s and the session {session:g} s: NELE needs T above the session, or a role has no leader while its "
            "partition moves; use a larger T, a shorter session, or, for one leader at most, protocol='neli'"
        )
    if not made.exclusive or made.threshold_ms + made.error_ms < made.session_ms:
        return
    why = (
        "" if bound == session else f" (session / (1 + drift), as another member's clock may run faster: {bound:.4g} s)"
    )
    raise ConfigError(
        f"T is {t:g} s and clock_error {error:g} s, {t + error:g} s together, and the session is {session:g} s: exclusive NELI "
        f"needs T + clock_error below the session{why}, or a takeover would wait for it. Use T below "
        f"{max(0.0, bound - error):.4g}, session above {(t + error) * session / bound:.4g}, or, where two may lead for a "
        f"moment, protocol=pares.Nele(T={t:g})"
    )


def usual_deadline_ms(session_ms: int) -> int:
    """Fast NELI's default deadline. It is far below the session: so an owner that is cut off has stopped, and a successor with
    a slow stopwatch would have waited for it, before the group looks for another owner. Where the group learns of a death at
    once, a takeover waits for no more than this."""
    return min(HEARTBEAT_TIMEOUT_MS, session_ms // DEADLINES)


def _ms(what: str, given: float | None, usual_ms: int) -> int:
    return max(1, usual_ms) if given is None else seconds_to_ms(what, given, SHORTEST_T, LONGEST_T)
