"""The metrics: their names, what they say, and where their values come from. Times are in seconds.

Names are those of Prometheus; a counter gets `_total` there. OpenTelemetry has `pares.terms` for `pares_terms`, and a unit
instead of `_seconds`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from pares.runtime import Health, Member
from pares.runtime.measures import Histogram, Measures

Labelled = Mapping[str, float]


def measures_of(member: Member) -> Measures:
    return member._life.measures  # pyright: ignore[reportPrivateUsage]


class Value(NamedTuple):
    """A counter (it never falls, but for a restart of the member), or a gauge."""

    name: str
    help: str
    counts: bool
    read: Callable[[Health], float | None]
    """None: there is nothing to tell, now or in this protocol."""


class Split(NamedTuple):
    """A counter or a gauge with a label of its own."""

    name: str
    help: str
    counts: bool
    label: str
    read: Callable[[Member], Labelled]


class Times(NamedTuple):
    """A histogram."""

    name: str
    help: str
    read: Callable[[Measures], Histogram | None]
    """None: the protocol has no such times."""


def _read_backs(measures: Measures) -> Histogram | None:
    return measures.read_backs if measures.reads_back else None


VALUES: Final = (
    Value("pares_live", "1 if the member's loop runs and knows how the ledger is", False, lambda h: h.ok),
    Value("pares_ready", "1 if it is in its group and the ledger is in reach", False, lambda h: h.ready),
    Value("pares_read_age_seconds", "since the ledger was last read", False, lambda h: h.read_age),
    Value(
        "pares_read_back_age_seconds",
        "since the newest of its own records that it has read back was sent",
        False,
        lambda h: h.read_back_age,
    ),
    Value(
        "pares_lease_left_seconds", "what is left of the lease; 0 if it leads nothing", False, lambda h: h.lease_left
    ),
    Value("pares_takeovers", "terms gained from a holder that was silent or dead", True, lambda h: h.takeovers),
    Value("pares_fences", "terms that ended otherwise than by plan", True, lambda h: h.fences),
    Value("pares_lapses", "of these, those whose lease ran out", True, lambda h: h.lapses),
    Value("pares_restarts", "how often the member began anew in its process", True, lambda h: h.restarts),
    Value("pares_records_written", "records written, most of them beats", True, lambda h: h.records),
    Value("pares_beats", "of these, beats", True, lambda h: h.beats),
    Value("pares_failed_appends", "appends that failed, or of unknown outcome", True, lambda h: h.failed_appends),
    Value("pares_bad_records", "records read that could not be understood", True, lambda h: h.bad_records),
    Value("pares_uncounted_records", "records read that changed nothing", True, lambda h: h.uncounted_records),
)
SPLITS: Final = (
    Split("pares_terms", "terms begun, by how they were gained", True, "cause", lambda m: dict(measures_of(m).gained)),
    Split("pares_lost_terms", "terms ended, by why", True, "why", lambda m: dict(measures_of(m).lost)),
    Split("pares_leads", "1 for each role that it leads", False, "role", lambda m: dict.fromkeys(m.health().leads, 1)),
)
TIMES: Final = (
    Times("pares_append_seconds", "an append, until it is acknowledged or has failed", lambda m: m.appends),
    Times("pares_read_back_seconds", "from handing a beat over to having read it back", _read_backs),
    Times("pares_lease_slack_seconds", "what was left of the lease when it was renewed", lambda m: m.slack),
    Times("pares_barrier_seconds", "a planned end, until barrier and bodies are through", lambda m: m.barriers),
)


def labels_of(member: Member) -> dict[str, str]:
    return {"group": member.group, "member": member.name}


def over(member: Member) -> bool:
    """Whether it is to be told of no more. (One that failed is: that is what a metric is for.)"""
    return member.state == "closed"
