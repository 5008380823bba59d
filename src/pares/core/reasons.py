"""Why a term ended, in the words that members write into the log.

`why` is text for people, and the fold decides nothing by it (R1). But the parts that count what happened (the audit, the demo,
a member's health) tells a planned handover from a lease that ran out by these words alone; so they stand here once.
A user may give others: to `hand_over`, or as the reason of a jump; those count as what the record says: a handover, a
release.
"""

from __future__ import annotations

from typing import Final

LEASE_RAN_OUT: Final = "lease ran out"
FENCED: Final = "fenced"
"""Of the release that follows when a lease ran out."""
BARRIER_TIMED_OUT: Final = "barrier timed out"

ROLE_REMOVED: Final = "role removed"
PAUSED: Final = "paused"
DRAINED: Final = "drained"
CLOSED: Final = "closed"
LEFT: Final = "left"
NOT_READY: Final = "not ready"
SLOW: Final = "slow"
"""Its round trips are too long to lead (R18)."""
ASKED: Final = "asked"
"""By an administrator."""
HANDED_OVER: Final = "handed over"
"""By the holder's own `hand_over`."""
STEPPED_DOWN: Final = "stepped down"
BARRIER_RAISED: Final = "stepped down: the barrier raised"
BARRIER_LATE: Final = "stepped down: the barrier did not return from Acquired"
BALANCE: Final = "balance"
BEHIND: Final = "fell behind"
"""A consumer's partition grows faster than it is worked off (C7)."""
STUCK: Final = "stood still"
"""A consumer's partition has work waiting, and its position does not move (C7)."""

PLANNED: Final = frozenset(
    {ROLE_REMOVED, PAUSED, DRAINED, CLOSED, LEFT, NOT_READY, SLOW, ASKED, HANDED_OVER, BALANCE}
    | {STEPPED_DOWN, BARRIER_RAISED, BARRIER_LATE, BEHIND, STUCK}
)
UNPLANNED: Final = frozenset({LEASE_RAN_OUT, FENCED, BARRIER_TIMED_OUT})
REASONS: Final = PLANNED | UNPLANNED
"""All that members write of their own accord."""

# Of the protocols over shared-out partitions (NELI, Fast NELI), where the group's word counts too.

REVOKED: Final = "revoked"
"""The group wanted the partition back, and waited."""
LOST: Final = "lost"
"""The group had taken it already."""
ROLE_ADDED: Final = "role added"
"""By plan: a role that was removed during the tenure is there again, and its next term needs a token of its own."""
SUPERSEDED: Final = "superseded"
"""Another owner has announced itself; in ALLCALL: another's claim counts."""

# Of ALLCALL, where nothing is written down.

OUTRANKED: Final = "outranked"
"""By plan, at the end of a term: somebody better ranked is there."""
OUTBID: Final = "outbid"
"""A later term was heard of when sides of a split met: the same member goes on at once, in a new term above it."""
ISOLATED: Final = "isolated"
"""It did not even hear itself, and was told to step down then."""
