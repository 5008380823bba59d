"""What can happen to one partition of a member, and what follows: a table for exclusive protocols, and one for NELE.

    IDLE         the group does not give it to this member
    WANTED       it does; an announcement is due, or under way
    RETRYING     as WANTED, after a tenure of its own: another member that announces itself meanwhile goes first (N3)
    GRACE        announced and read back (N1): waits until every earlier tenure must have ended (N2)
    LEADING      the belief (N4)
    STOPPING     by plan, the group waits: the belief is over, the barrier still runs (N5)
    RENEWING     as STOPPING, but the partition stays: when the barrier has returned, there is another announcement
    LINGERING    NELE: taken away, and believed in until another member leads or the threshold has passed
    SUPERSEDED   the group still gives it to this member, but another member has announced itself later (N3)

Two rules. What follows from an input depends on the phase alone, and stands in these tables and nowhere else. And an input that
has no row in a phase can't come in that phase: `Impossible` is raised.

A tenure begins with an announcement and is never resumed: after a fence there is a new announcement, with a new token. So only
an announcement that was read back leads into GRACE, and only GRACE leads into LEADING; and LINGERING, in which the member
believes.

In exclusive mode a belief ends at once with each record or call by which another owner may begin: the group takes the partition
back, or another member's announcement is read. In NELE it ends only when another member writes that it *leads*, or with T.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, TypeAlias


class Phase(Enum):
    IDLE = "idle"
    WANTED = "wanted"
    RETRYING = "retrying"
    GRACE = "grace"
    LEADING = "leading"
    STOPPING = "stopping"
    RENEWING = "renewing"
    LINGERING = "lingering"
    SUPERSEDED = "superseded"


class On(Enum):
    """What happens. The first three come from the group (the second also from closing), the next five from records that were
    read; the rest from clocks, barriers, changed roles, replaced logs and the end of the incarnation."""

    ASSIGNED = "the group gives it to this member"
    REVOKED = "the group wants it back, or this member closes"
    LOST = "the group has taken it"
    ANNOUNCED = "this member's announcement was read back"
    OUTDATED = "an announcement of this member was read back that a later one has replaced"
    BESIDE_CLAIMS = "this member's announcement was read back, behind a member of the claims protocol"
    RIVAL = "another member's announcement was read"
    RIVAL_LEADS = "a record was read in which another member says that it leads, by a later tenure"
    RIVAL_SILENT = "the other member's tenure must have ended"
    READY = "every tenure before this member's own must have ended, and its lease is fresh"
    RAN_OUT = "no record that was read back prolongs the belief"
    UNFOLLOWED = "the same, of a member that closes and has waited for a successor"
    RETURNED = "the barrier and the bodies have come to their end"
    OVERDUE = "the barrier has run for longer than it may"
    ROLE_BACK = "a role that was removed under this tenure is there again, and needs a greater token"
    REPLACED = "the log is another one"
    RENUMBERED = "the log with the numbers of roles is another one"
    ENDED = "this incarnation is over"


class Act(Enum):
    """What is done on the way, in order."""

    FENCE = "the belief is over and nothing waits: a fencing `Follow`, also for terms whose barriers still run"
    STOP = "the belief is over by plan, and the barrier is waited for: `Follow`, `Barrier`"
    END = "the belief is over by plan, and nothing waits for the barrier: `Follow`, `Barrier`"
    OWE = "a `yield` is due, if a tenure of this member stands open in the log"
    BEGIN = "a tenure begins, by the announcement that was read back last"
    LEAD = "the belief begins: `Lead`"


class Impossible(Exception):
    """An input came that can't come in this phase: a defect of pares."""


IDLE, WANTED, RETRYING, GRACE, LEADING, STOPPING, RENEWING, LINGERING, SUPERSEDED = Phase
FENCE, STOP, END, OWE, BEGIN, LEAD = Act

Row: TypeAlias = tuple[Phase, *tuple[Act, ...]]
Table: TypeAlias = dict[Phase, dict[On, Row | None]]


def stays(*inputs: On) -> dict[On, Row | None]:
    """Nothing follows from these."""
    return dict.fromkeys(inputs)


WITHOUT_BELIEF: Final[Table] = {
    IDLE: {
        On.ASSIGNED: (WANTED,),
        On.REVOKED: (IDLE, OWE),
        On.LOST: (IDLE, OWE),
        On.ANNOUNCED: (IDLE, OWE),
        On.OUTDATED: (IDLE, OWE),
        On.ENDED: (IDLE,),
        **stays(On.RIVAL, On.RIVAL_LEADS, On.REPLACED, On.RENUMBERED),
    },
    WANTED: {
        On.REVOKED: (IDLE, OWE),
        On.LOST: (IDLE, OWE),
        On.ANNOUNCED: (GRACE, BEGIN),
        On.BESIDE_CLAIMS: (WANTED, OWE),
        On.REPLACED: (WANTED,),
        On.ENDED: (IDLE,),
        **stays(On.ASSIGNED, On.OUTDATED, On.RIVAL, On.RIVAL_LEADS, On.RENUMBERED),
    },
    RETRYING: {
        On.REVOKED: (IDLE, OWE),
        On.LOST: (IDLE, OWE),
        On.ANNOUNCED: (GRACE, BEGIN),
        On.BESIDE_CLAIMS: (RETRYING, OWE),
        On.RIVAL: (SUPERSEDED,),
        On.RIVAL_LEADS: (SUPERSEDED,),
        On.REPLACED: (RETRYING,),
        On.ENDED: (IDLE,),
        **stays(On.ASSIGNED, On.OUTDATED, On.RENUMBERED),
    },
    GRACE: {
        On.REVOKED: (IDLE, OWE),
        On.LOST: (IDLE, OWE),
        On.RIVAL: (SUPERSEDED, OWE),
        On.RIVAL_LEADS: (SUPERSEDED, OWE),
        On.READY: (LEADING, LEAD),
        On.REPLACED: (RETRYING,),
        On.RENUMBERED: (RETRYING,),
        On.ENDED: (IDLE,),
        **stays(On.ASSIGNED),
    },
    SUPERSEDED: {
        On.ASSIGNED: (WANTED,),
        On.REVOKED: (IDLE, OWE),
        On.LOST: (IDLE, OWE),
        On.ANNOUNCED: (GRACE, BEGIN),
        On.OUTDATED: (SUPERSEDED, OWE),
        On.BESIDE_CLAIMS: (RETRYING, OWE),
        On.RIVAL_SILENT: (RETRYING,),
        On.REPLACED: (RETRYING,),
        On.ENDED: (IDLE,),
        **stays(On.RIVAL, On.RIVAL_LEADS, On.RENUMBERED),
    },
}

EXCLUSIVE: Final[Table] = {
    **WITHOUT_BELIEF,
    LEADING: {
        On.REVOKED: (STOPPING, STOP),
        On.LOST: (IDLE, FENCE, OWE),
        On.RIVAL: (SUPERSEDED, FENCE, OWE),
        On.RIVAL_LEADS: (SUPERSEDED, FENCE, OWE),
        On.RAN_OUT: (RETRYING, FENCE),
        On.ROLE_BACK: (RENEWING, STOP),
        On.REPLACED: (RETRYING, FENCE),
        On.RENUMBERED: (RETRYING, FENCE),
        On.ENDED: (IDLE, FENCE),
        **stays(On.ASSIGNED),
    },
    STOPPING: {
        On.ASSIGNED: (RENEWING,),
        On.LOST: (IDLE, FENCE, OWE),
        On.RIVAL: (IDLE, FENCE, OWE),
        On.RIVAL_LEADS: (IDLE, FENCE, OWE),
        On.RAN_OUT: (IDLE, FENCE, OWE),
        On.RETURNED: (IDLE, OWE),
        On.OVERDUE: (IDLE, FENCE, OWE),
        On.REPLACED: (IDLE, FENCE),
        On.ENDED: (IDLE, FENCE),
        **stays(On.REVOKED, On.RENUMBERED),
    },
    RENEWING: {
        On.REVOKED: (STOPPING,),
        On.LOST: (IDLE, FENCE, OWE),
        On.RIVAL: (SUPERSEDED, FENCE, OWE),
        On.RIVAL_LEADS: (SUPERSEDED, FENCE, OWE),
        On.RAN_OUT: (RETRYING, FENCE, OWE),
        On.RETURNED: (RETRYING, OWE),
        On.OVERDUE: (RETRYING, FENCE, OWE),
        On.REPLACED: (RETRYING, FENCE),
        On.ENDED: (IDLE, FENCE),
        **stays(On.ASSIGNED, On.RENUMBERED),
    },
}
"""NELI and Fast NELI."""

NON_EXCLUSIVE: Final[Table] = {
    **WITHOUT_BELIEF,
    LEADING: {
        On.REVOKED: (LINGERING,),
        On.LOST: (LINGERING,),
        On.RIVAL_LEADS: (SUPERSEDED, END, OWE),
        On.RAN_OUT: (RETRYING, FENCE),
        On.ROLE_BACK: (RETRYING, END, OWE),
        On.REPLACED: (RETRYING, FENCE),
        On.RENUMBERED: (RETRYING, FENCE),
        On.ENDED: (IDLE, FENCE),
        **stays(On.ASSIGNED, On.RIVAL),
    },
    LINGERING: {
        On.ASSIGNED: (LEADING,),
        On.RIVAL_LEADS: (IDLE, END, OWE),
        On.RAN_OUT: (IDLE, FENCE, OWE),
        On.UNFOLLOWED: (IDLE, END, OWE),
        On.REPLACED: (IDLE, FENCE),
        On.RENUMBERED: (IDLE, FENCE, OWE),
        On.ENDED: (IDLE, FENCE),
        **stays(On.REVOKED, On.LOST, On.RIVAL, On.ROLE_BACK),
    },
}
"""NELE."""

SEEKING: Final = (WANTED, RETRYING)
"""An announcement is due, or under way."""
BELIEVING: Final = (LEADING, LINGERING)
AT_BARRIER: Final = (STOPPING, RENEWING)
STANDING: Final = (GRACE, *BELIEVING, *AT_BARRIER)
"""A tenure of this member is announced, and its beats name that tenure."""
GIVEN: Final = (*SEEKING, GRACE, LEADING, RENEWING, SUPERSEDED)
"""The group gives the partition to this member."""
AT_REST: Final = (IDLE, *SEEKING, SUPERSEDED)
"""This member believes nothing here, and has no tenure by which it may begin to."""
