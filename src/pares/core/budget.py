"""The budget of beats (design, section 5): all who beat on a topic, of whatever group, share so many records a second.

The paper divides the frequency F by the number of groups on a topic. Here everybody reckons its own share, from what it hears:

    interval = writers / budget

A *writer* is a member as one partition hears it. Who beacons on all M partitions is M of them (NELI); who beats on those that
it owns is as many as it owns (Fast NELI). All read the same logs, so all reckon with the same number, whatever they run, and
nobody is asked for anything. A group that is alone, and within the budget, beats as often as it was told to.

The budget yields where a belief must be renewed so and so often (`slowest`): there it is exceeded, and a report says so.
[a budget that wins there takes leaders down because others have come]
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pares.core.lease import MS
from pares.core.track import Track

BUDGET: Final = 200
"""Beats a second that all members of all groups stay within, on all partitions of a topic together."""

REMEMBERED: Final = 4
"""Of its own intervals: for so long at the least others are counted after they were heard last. Who has become slower by the
budget must not drop out of the count for it."""


class Share:
    """One member's share of the budget.

    `wanted_ms` is the interval that was asked for, `slowest_ns` the longest that its beliefs bear (None: any). Promised: the
    interval is never shorter than the one nor longer than the other; between them it is the share. Not promised: that the sum
    stays within the budget at every instant. Members hear of each other one by one, and beats are whole.
    """

    def __init__(self, budget: int, wanted_ms: int, slowest_ns: int | None, memory_ns: int) -> None:
        self._budget = budget
        self._wanted = wanted_ms * MS
        self._slowest = slowest_ns
        self._memory = memory_ns
        self._next = 0
        self.interval_ns = self._wanted
        self.exceeded = False
        """What this member's beliefs need is more than its share."""

    def reckon(self, tracks: Iterable[Track], me: tuple[str, str] | None, now: int) -> None:
        """Anew, from who was heard lately in each partition; a few times an interval, however often it is called. `me` counts
        in each, if given, heard or not."""
        if now < self._next:
            return
        since = now - max(REMEMBERED * self.interval_ns, self._memory)
        share = sum(track.writers(since, me) for track in tracks) * 1_000_000_000 // self._budget
        wanted = max(self._wanted, share)
        most = wanted if self._slowest is None else max(self._wanted, self._slowest)
        self.interval_ns, self.exceeded = min(wanted, most), wanted > most
        self._next = now + self.interval_ns // 4
