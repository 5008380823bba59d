"""The protocols that a group may run, by name, and the settings that belong to one of them.

`Member(protocol=...)` takes a name, or one of these values. What every protocol has (session, rank, barriers) is a keyword
of `Member`; what only one has is a field here, so that no keyword can be given in vain. Each value checks itself when it is
made; what depends on the group's session or on the ledger is checked when a member is made with it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, Literal, ParamSpec, TypeAlias, get_args

from msgspec import Struct

from pares.core.errors import CapabilityError, ConfigError
from pares.core.neli.protocols import MODES, Mode
from pares.core.wire.records import MAX_SESSION_MS
from pares.runtime.config.numbers import one_of, seconds_to_ms

ProtocolName: TypeAlias = Literal["claims", "nele", "neli", "fast-neli", "allcall"]
Order: TypeAlias = Literal["lease", "rank"]
WhenIsolated: TypeAlias = Literal["lead", "step_down"]

PROTOCOLS: Final[tuple[ProtocolName, ...]] = get_args(ProtocolName)
SHORTEST_T: Final = 0.001
LONGEST_T: Final = 2 * MAX_SESSION_MS / 1000
"""Seconds: what a record can say (`core.wire.neli_records`). NELE's own example has a session of 10 s and T of 30 s."""
LEASE_BEATS: Final = 3
"""Beats that a lease of ALLCALL must last for: it is prolonged when so many are left."""


class Nele(Struct, frozen=True, kw_only=True):
    """Settings of NELE, non-exclusive leader emergence: each role has at least one leader, and two while it moves.

    Source: "Non-Exclusive Leader Emergence in Highly Available Systems", section "Protocol definition".

    `T`: seconds for which a beacon that is read keeps its reader a leader. Must be above `Member`'s `session`, or a role
    would have no leader while its partition moves; of an owner that is cut off two lead for at most T less the session
    and a heartbeat of the group's, with the last of which the session begins.
    None: `session + overlap` if `Member` is given an `overlap`, else three sessions, as in the paper's example (10 s, 30 s).
    `interval`: seconds between two beacons of one member on one partition (1 / F; "a few seconds apart" in the paper); four
    must fit into T. With n groups on a topic it is n times as long, and T follows where that needs it. None: a fifth of T.

    Raises `ConfigError` for a value out of its range, when it is made; `Member` raises it for values that contradict its own.
    """

    T: float | None = None
    interval: float | None = None

    def __post_init__(self) -> None:
        _check_seconds("T", self.T)
        _check_seconds("interval", self.interval)


class Neli(Struct, frozen=True, kw_only=True):
    """Settings of NELI in its exclusive mode: each role has at most one leader, if clocks are as close as is said.

    Source: "Not-only Exclusive Leader Induction in Highly Available Distributed Systems" (the mode that is not exclusive has
    settings of its own, `Nele`).

    `T`: seconds for which a beacon keeps its sender a leader, by the log's time and its own wall clock. T + `clock_error` must
    be below the time after which the group may give a silent member's partitions away: `session` on Kafka, elsewhere
    ``session / (1 + drift)``. None: half of what `clock_error` leaves of that.
    `clock_error`: seconds by which any member's wall clock and the log's may be apart, at most. None: 0.05; on a ledger whose
    members all share one host's clock (SQLite, memory) 0.
    `interval`: seconds between two beacons of an owner on its partition (1 / F); four must fit into T less `clock_error`. With
    n groups on a topic it is n times as long, as far as that leaves two in T; on others a member beacons twice a session
    at most. None: a fifth of T less `clock_error`.

    Raises `ConfigError` for a value out of its range, when it is made; `Member` raises it for values that contradict its own.
    """

    T: float | None = None
    clock_error: float | None = None
    interval: float | None = None

    def __post_init__(self) -> None:
        _check_seconds("T", self.T)
        if self.clock_error is not None:
            seconds_to_ms("clock_error", self.clock_error, 0, 60)
        _check_seconds("interval", self.interval)


class FastNeli(Struct, frozen=True, kw_only=True):
    """Settings of Fast NELI: only the owner of a partition beats, and leads while its own beats come back in time.

    Source: the same text's variation "Fast NELI", and goNELI, whose names these are (HeartbeatTimeout, MinPollInterval).

    `heartbeat_timeout`: seconds within which a beat of the owner's own must come back. None: a third of the group's session,
    5 at most.
    `poll_interval`: seconds between two beats (1 / F) of a group that is alone on its topic; with n groups there it is n times
    as long, as far as that leaves two beats in what `drift` leaves of `heartbeat_timeout`. None: a fifth of
    `heartbeat_timeout`.

    Raises `ConfigError` for a value out of its range, when it is made; `Member` raises it for values that contradict its own.
    """

    heartbeat_timeout: float | None = None
    poll_interval: float | None = None

    def __post_init__(self) -> None:
        _check_seconds("heartbeat_timeout", self.heartbeat_timeout)
        _check_seconds("poll_interval", self.poll_interval)


class AllCall(Struct, frozen=True, kw_only=True):
    """Settings of ALLCALL, which needs a bus and no log: one leader on each side of a split, one again after it.

    Source: Aten, "The ALLCALL leased-leader election algorithm". All members of a group should have the same settings.

    `heartbeat`: seconds between two calls (1). A member that is not heard for 2.5 of them is taken for gone.
    `lease`: seconds for which a claim lasts (10); at least three heartbeats.
    `skew`: seconds that others wait beyond the end of a lease (1); at most the lease.
    `order`: which of two claims counts after a split: "lease" (as in the paper), the one that lasts longer; "rank", the lower
    rank's.
    `when_isolated`: what a member does that does not even hear itself: "lead" (as in the paper), or "step_down".
    `silence`: seconds for which a member that starts only listens (the paper's "Init phase"), as it may have forgotten whom it
    follows. None: lease + skew. Less is safe only where nobody can have led within that time, as in a group that is new.

    Raises `ConfigError` for values out of their ranges, and for sums that do not work out, when it is made.
    """

    heartbeat: float = 1.0
    lease: float = 10.0
    skew: float = 1.0
    order: Order = "lease"
    when_isolated: WhenIsolated = "lead"
    silence: float | None = None

    def __post_init__(self) -> None:
        seconds_to_ms("heartbeat", self.heartbeat, 0.005, 60)
        seconds_to_ms("lease", self.lease, 0.015, 600)
        seconds_to_ms("skew", self.skew, 0, 600)
        one_of("order", self.order, get_args(Order))
        one_of("when_isolated", self.when_isolated, get_args(WhenIsolated))
        if self.silence is not None:
            seconds_to_ms("silence", self.silence, 0, 1200)
        least = LEASE_BEATS * self.heartbeat
        if round(1000 * self.lease) < round(1000 * least):
            raise ConfigError(
                f"lease {self.lease:g} s is less than {LEASE_BEATS} heartbeats, {LEASE_BEATS} x {self.heartbeat:g} s = "
                f"{least:g} s: a lease must outlast a beat that is lost; raise lease, or lower heartbeat"
            )
        if self.skew > self.lease:
            raise ConfigError(
                f"skew {self.skew:g} s is more than the lease, {self.lease:g} s: a crash would leave a role without a leader "
                f"for lease + skew = {self.lease + self.skew:g} s; lower skew, or raise lease"
            )


Partitioned: TypeAlias = Nele | Neli | FastNeli
"""Settings of the protocols whose groups share out the partitions of a log."""
ProtocolSettings: TypeAlias = Partitioned | AllCall
Protocol: TypeAlias = ProtocolName | ProtocolSettings
"""What `Member(protocol=...)` takes."""


class Traits(Struct, frozen=True, kw_only=True):
    """One protocol, as all that is above its core is told of it: nothing else compares names."""

    name: ProtocolName
    settings: type[ProtocolSettings] | None = None
    """What `Member(protocol=...)` takes, made without arguments for its name alone."""
    on_log: bool = True
    """Its groups live in a log, where they can be read and steered. Else on a bus: they can be listened to."""
    placed: bool = False
    """The log says who holds what, by placement: so members settle, and roles can be handed over by an `Admin`."""
    mode: Mode | None = None
    """Of those that share out partitions."""
    exclusive: bool = True
    """One leader at most, unless an overlap is asked for."""
    overlap: bool = False
    """Takes an `overlap`."""
    any_rank: bool = False
    """Ranks are any integers, and not the small ones that a join has room for."""

    @property
    def partitions(self) -> bool:
        """Whether it shares out the partitions of a log: each role needs one."""
        return self.mode is not None

    @property
    def by_clocks(self) -> bool:
        """Whether it rests on clocks that are close to each other."""
        return self.mode is not None and self.mode.by_clocks


TRAITS: Final[dict[str, Traits]] = {
    each.name: each
    for each in (
        Traits(name="claims", placed=True, overlap=True),
        Traits(name="nele", settings=Nele, mode=MODES["nele"], exclusive=False, overlap=True),
        Traits(name="neli", settings=Neli, mode=MODES["neli"]),
        Traits(name="fast-neli", settings=FastNeli, mode=MODES["fast-neli"]),
        Traits(name="allcall", settings=AllCall, on_log=False, exclusive=False, any_rank=True),
    )
}
"""All protocols, in the order in which they are named to users."""
USUAL: Final = TRAITS["claims"]
"""What a group runs unless it says otherwise."""
INDUCED: Final = next(each for each in TRAITS.values() if each.partitions)
"""What a group of NELI's family is to those that look on: its protocols have their records in common, so that the first stands
for all of them."""
_MOVED: Final[dict[str, tuple[str, ...]]] = {
    "T": ("Neli", "Nele"),
    "clock_error": ("Neli",),
    "interval": ("Neli", "Nele"),
    "heartbeat_timeout": ("FastNeli",),
    "poll_interval": ("FastNeli",),
    "heartbeat": ("AllCall",),
    "lease": ("AllCall",),
    "skew": ("AllCall",),
    "order": ("AllCall",),
    "when_isolated": ("AllCall",),
}
"""Keywords that `Member` had in release 0.1, and the settings that have them now."""

P = ParamSpec("P")


def protocol_of(given: object) -> tuple[ProtocolName, ProtocolSettings | None]:
    """The name of what was given as `protocol`, and its settings (claims has none of its own).

    Raises `CapabilityError` for a name that there is not, `ConfigError` for what is neither a name nor settings.
    """
    if isinstance(given, str):
        found = TRAITS.get(given)
        if found is not None:
            return found.name, None if found.settings is None else found.settings()
        raise CapabilityError(f"protocol {given!r} is not in this version of pares; it has: {', '.join(PROTOCOLS)}")
    for each in TRAITS.values():
        kind = each.settings
        if kind is not None and isinstance(given, kind):
            return each.name, given
        if kind is not None and given is kind:
            raise ConfigError(f"protocol is the class {kind.__name__}: make one, protocol=pares.{kind.__name__}()")
    raise ConfigError(
        f"protocol is {given!r:.80}: give one of {', '.join(map(repr, PROTOCOLS))}, or settings such as pares.Neli(T=2.0)"
    )


def moved_keywords(make: Callable[P, None]) -> Callable[P, None]:
    """Decorator: a keyword of release 0.1 that has moved is refused with its new place."""

    @functools.wraps(make)
    def checked(*args: P.args, **kwargs: P.kwargs) -> None:
        check_moved(kwargs)
        make(*args, **kwargs)

    return checked


def check_moved(given: dict[str, Any]) -> None:
    """Raises `ConfigError` for a keyword of release 0.1 that belongs to one protocol only, and says where it is now."""
    for what, value in given.items():
        if what in _MOVED:
            where = " or ".join(f"protocol=pares.{kind}({what}={value!r})" for kind in _MOVED[what])
            raise ConfigError(f"{what}= moved: {where}")


def _check_seconds(what: str, value: float | None) -> None:
    if value is not None:
        seconds_to_ms(what, value, SHORTEST_T, LONGEST_T)
