"""How often members beat (seeds 000 and 002 in docs/seeds.md): F, divided by the groups on a topic, and within a budget.

F is what was asked for: one beat in `wanted` on a partition. The paper divides it by the number of NELI groups on a topic, n.
Here each member computes n, and its own share of the budget, from the records that it reads:

    interval = max(n * wanted, owners / budget)

An *owner* is a member that beats for a tenure of its own in a partition; a member that owns three partitions counts three
times. All members read the same logs, so they compute with the same numbers, whatever protocol they run, and need not agree.

In exclusive NELI a belief rests on the owner's own beacons only, and a beacon of a member that owns nothing says only that
this member is there. Such members share what the owners leave of the budget, and never beat more often than twice a session.
[with eight partitions three members wrote 264 records a second, and the number grew with that of the members]

No leader stops for this: the interval of an owner never exceeds `slowest`, the longest that its beliefs bear. A report says
when that exceeds the budget.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pares.core.lease import MS
from pares.core.neli.partition_log import Track

BUDGET: Final = 200
"""Beats a second that all members of all groups stay within, on all partitions of a topic together."""

REMEMBERED: Final = 4
"""For at least so many of its own intervals a member counts another one after it was last heard. A group that the budget has
made slower must not drop out of the count for that."""
LEFT: Final = 4
"""One part in so many of the budget is for members that own nothing, whatever the owners need."""
SECOND: Final = 1000 * MS


class Share:
    """One member's share of the budget.

    `wanted_ms` is the interval that was asked for (1 / F), `slowest_ns` the longest that its beliefs bear (None: any).
    `apart_ns`: members that own nothing in a partition are counted apart, and beat no more often than this (None: all count
    alike). Promised: the interval is never shorter than `wanted_ms` nor longer than `slowest_ns`; between them it is the share.
    Not promised: that the sum stays within the budget at every instant, as members hear of each other one by one.
    """

    def __init__(
        self, budget: int, wanted_ms: int, slowest_ns: int | None, memory_ns: int, apart_ns: int | None = None
    ) -> None:
        self._budget = budget
        self._wanted = wanted_ms * MS
        self._slowest = slowest_ns
        self._memory = memory_ns
        self._apart = apart_ns
        self._next = 0
        self.interval_ns = self._wanted
        self.standby_ns = max(self._wanted, apart_ns or 0)
        """Nanoseconds between two beacons on a partition that the member does not own."""
        self.groups = 1
        """How many groups were heard lately, the member's own included."""
        self.exceeded = False
        """Whether this member's beliefs need more beats than its share."""

    def reckon(self, tracks: Iterable[Track], me: tuple[str, str], everywhere: bool, now: int) -> None:
        """Computes the intervals from the members heard lately in each partition. Does so a few times an interval, however
        often it is called. `everywhere`: `me` (group, member) beats in each partition, and counts there, heard or not."""
        if now < self._next:
            return
        since = now - max(REMEMBERED * self.interval_ns, self._memory)
        groups, owners, standbys = {me[0]}, 0, 0
        for track in tracks:
            there = track.writers(since, now)
            groups.update(group for group, _ in there)
            own = sum(1 for writer in there.values() if writer.owns) if self._apart is not None else len(there)
            owners, standbys = owners + own, standbys + len(there) - own
            if everywhere and me not in there:
                owners, standbys = (owners + 1, standbys) if self._apart is None else (owners, standbys + 1)
        self.groups = len(groups)
        share = owners * SECOND // self._budget
        wanted = max(self._wanted * len(groups), share)
        most = wanted if self._slowest is None else max(self._wanted, self._slowest)
        self.interval_ns, self.exceeded = min(wanted, most), share > most
        self._reckon_standbys(owners, standbys)
        self._next = now + self.interval_ns // 4

    def _reckon_standbys(self, owners: int, standbys: int) -> None:
        if self._apart is None:
            self.standby_ns = self.interval_ns
            return
        left = max(self._budget * SECOND - owners * SECOND * SECOND // self.interval_ns, self._budget * SECOND // LEFT)
        self.standby_ns = max(self.interval_ns, self._apart, standbys * SECOND * SECOND // left)
