"""The metrics: their names, what they say, and where their values come from. Times are in seconds.

Names are those of Prometheus; a counter gets `_total` there. OpenTelemetry has `pares.terms` for `pares_terms`, and a unit
instead of `_seconds`.
"""

from __future__ import annotations

import operator
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from pares.runtime import Health, Member
from pares.runtime.death.incarnation import is_default_name
from pares.runtime.driver.counters import Histogram, Measures
from pares.runtime.here import here
from pares.runtime.views import Claim, Consumption

Labelled = Mapping[str, float]


def measures_of(member: Member) -> Measures:
    return member._life.measures  # pyright: ignore[reportPrivateUsage]


class Value(NamedTuple):
    """A counter (it never falls, but for a restart of the member), or a gauge."""

    name: str
    help: str
    counts: bool
    read: Callable[[Health, Member], float | None]
    """None: there is nothing to tell, now or in this protocol."""


class Split(NamedTuple):
    """A counter or a gauge with a label of its own."""

    name: str
    help: str
    counts: bool
    label: str
    read: Callable[[Member], Labelled]


class OfPartitions(NamedTuple):
    """A gauge of a consumer, for each partition that it holds: with the labels `topic` and `partition`. With ranges it is the
    sum, or the least, over the slots of the partition that it holds."""

    name: str
    help: str
    read: Callable[[Claim], float]
    several: Callable[[float, float], float]


class Times(NamedTuple):
    """A histogram."""

    name: str
    help: str
    read: Callable[[Measures], Histogram | None]
    """None: the protocol has no such times."""


def _read_backs(measures: Measures) -> Histogram | None:
    return measures.read_backs if measures.reads_back else None


def roles_of(member: Member) -> list[str]:
    """The roles that it may lead: of those that its group has, once it knows them, and what it leads."""
    there = member._view.roles()  # pyright: ignore[reportPrivateUsage]
    eligible = member._requests.eligible  # pyright: ignore[reportPrivateUsage]
    if eligible is None:
        may = set(there)
    else:
        may = {role for role in eligible if role in there} if there else set(eligible)
    return sorted(may | set(member.health().leads))


def _leads(member: Member) -> Labelled:
    leads = member.health().leads
    return {role: float(role in leads) for role in roles_of(member)}


def _holds(member: Member) -> Labelled:
    view, me = member._view, member.id  # pyright: ignore[reportPrivateUsage]
    return {role: float(any(holder.member == me for holder in view.leaders(role))) for role in roles_of(member)}


def _seats(member: Member) -> Labelled:
    view = member._view  # pyright: ignore[reportPrivateUsage]
    there = view.roles()
    return {role: 0.0 if view.paused(role) else float(there[role]) for role in roles_of(member) if role in there}


def _consumed(what: Callable[[Consumption], float | None]) -> Callable[[Health, Member], float | None]:
    """Nothing of a member that consumes nothing."""
    return lambda health, _: None if health.consumption is None else what(health.consumption)


def by_partition(metric: OfPartitions, health: Health) -> dict[tuple[str, str], float]:
    """By topic and partition."""
    found: dict[tuple[str, str], float] = {}
    for claim in () if health.consumption is None else health.consumption.claims:
        key, value = (claim.topic, str(claim.partition)), metric.read(claim)
        found[key] = metric.several(found[key], value) if key in found else value
    return found


VALUES: Final = (
    Value("pares_live", "1 if the member's health is ok: what a liveness probe looks at", False, lambda h, _: h.ok),
    Value("pares_ready", "1 if it is in its group and the ledger is in reach", False, lambda h, _: h.ready),
    Value("pares_session_seconds", "its session, which times are to be compared with", False, lambda _, m: m.session),
    Value("pares_read_age_seconds", "since the ledger was last read", False, lambda h, _: h.read_age),
    Value(
        "pares_read_back_age_seconds",
        "since the newest of its own records that it has read back was sent",
        False,
        lambda h, _: h.read_back_age,
    ),
    Value(
        "pares_lease_left_seconds", "what is left of the lease; 0 if it leads nothing", False, lambda h, _: h.lease_left
    ),
    Value("pares_takeovers", "terms gained from a holder that was silent or dead", True, lambda h, _: h.takeovers),
    Value("pares_fences", "terms that ended otherwise than by plan", True, lambda h, _: h.fences),
    Value("pares_lapses", "of these, those whose lease ran out", True, lambda h, _: h.lapses),
    Value("pares_restarts", "how often the member began anew in its process", True, lambda h, _: h.restarts),
    Value("pares_records_written", "records written, most of them beats", True, lambda h, _: h.records),
    Value("pares_beats", "of these, beats", True, lambda h, _: h.beats),
    Value("pares_failed_appends", "appends that failed, or of unknown outcome", True, lambda h, _: h.failed_appends),
    Value("pares_bad_records", "records read that could not be understood", True, lambda h, _: h.bad_records),
    Value("pares_uncounted_records", "records read that changed nothing", True, lambda h, _: h.uncounted_records),
)
CONSUMING: Final = (
    Value(
        "pares_consumer_load",
        "partitions that a consumer holds; with ranges, slots",
        False,
        _consumed(lambda c: c.load),
    ),
    Value(
        "pares_consumer_failed_commits",
        "commits of positions to a broker's group offsets that failed",
        True,
        _consumed(lambda c: None if c.group_offsets is None else c.commits_failed),
    ),
)
"""Of consumers, and of no other member."""
PARTITIONS: Final = (
    OfPartitions(
        "pares_consumer_lag", "offsets of a partition held that are not done", lambda c: c.lag or 0, operator.add
    ),
    OfPartitions("pares_consumer_position", "the first offset of it that is not done", lambda c: c.position, min),
)
SPLITS: Final = (
    Split("pares_terms", "terms begun, by how they were gained", True, "cause", lambda m: dict(measures_of(m).gained)),
    Split("pares_lost_terms", "terms ended, by why", True, "why", lambda m: dict(measures_of(m).lost)),
    Split("pares_leads", "for each role that it may lead: 1 if it leads it, else 0", False, "role", _leads),
    Split("pares_holds", "for each of these: 1 if the log names it as the leader, else 0", False, "role", _holds),
    Split("pares_seats", "for each of these: how many are to lead it at once; 0 while paused", False, "role", _seats),
    Split("pares_member_info", "1; the id of its present incarnation in the log", False, "id", lambda m: {m.id: 1}),
)
TIMES: Final = (
    Times("pares_append_seconds", "an append, until it is acknowledged or has failed", lambda m: m.appends),
    Times("pares_read_back_seconds", "from handing a beat over to having read it back", _read_backs),
    Times("pares_lease_slack_seconds", "what was left of the lease when it was renewed", lambda m: m.slack),
    Times(
        "pares_takeover_seconds", "from the last record of a silent or dead leader to the own term", lambda m: m.waits
    ),
    Times("pares_barrier_seconds", "a planned end, until barrier and bodies are through", lambda m: m.barriers),
)


UNNAMED: Final = "unnamed"
_lock: Final = threading.Lock()
_places: Final[weakref.WeakKeyDictionary[Member, int]] = weakref.WeakKeyDictionary()


def labels_of(member: Member) -> dict[str, str]:
    """The same after each restart of a process, or the number of series would grow with the number of restarts."""
    return {"group": member.group, "member": _label(member) if is_default_name(member.name, here()) else member.name}


def _label(member: Member) -> str:
    """A member that was given no name has one that is new at each start. Here it is told from the other ones of this process
    and group by the lowest number that is free."""
    with _lock:
        place = _places.get(member)
        if place is None:
            taken = {at for m, at in _places.items() if m.group == member.group and not over(m)}
            place = next(at for at in range(1, len(taken) + 2) if at not in taken)
            _places[member] = place
    return UNNAMED if place == 1 else f"{UNNAMED}-{place}"


def over(member: Member) -> bool:
    """Whether it is to be told of no more. (One that failed is: that is what a metric is for.)"""
    return member.state == "closed"
