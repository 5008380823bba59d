"""How many seats a member claims at once, where its machine or its ledger may be too slow for more (R18).

Each claim, and what follows from it, costs every member of the group a little. Where members are as slow as their session
just allows, a burst of claims makes all of them too slow: leases run out, what is lost is claimed again at once, and that is
the next burst. [a machine that is too slow for a moment keeps a large group busy with itself for ever: each session a
thousand terms begin and run out] So each member finds out how much it may do, as senders find out what a network carries:

* a newcomer does not know yet how slow its machine is. It begins with its fair share in a large group, whose members take turns
  at that (`forming`), and with a small part of it in one of few members that has many seats; it takes twice as much
  after a few round trips each time, at least as long apart as it takes to see what came of it; as much again, and no more,
  while its trips take longer than a `QUICK`-th part of its session; [what a hundred have claimed in one burst is read by each
  of them, and takes the machine longer than their leases last]
* a member that is late (`Pace.unhurried`) falls back to little, and for as long as it is late it waits twice as long after each
  claim; [one claim a session of each of a hundred is enough to keep them late]
* little is one seat a session; in a large group it is half of what it took before, its share at most, later half of its share,
  and then nothing for `APART_MS` for each member, or for up to half of that more or less, as its id says, each time
  differently; for a record that wakes all costs them far more than one more seat in it does; [a hundred claim one seat a
  session each, eighty records a second that wake all of them, and lose everything together after ten seconds, without end]
  [all that became late together wait equally long, claim together, and are late again]
* once it is well it takes twice as much after each session, up to half of what was too much, and more only after `GOOD`
  sessions. [it finds out again and again what is too much, and each time the group loses all that it leads]

While a member is late, what it hands over for balance counts as what it claims does. Members of a group as small as `EAGER`
are not enough to make one another late.
"""

from __future__ import annotations

from typing import Final

from pares.core.claims.chores.duties import EAGER, part
from pares.core.claims.fitness.pace import Pace
from pares.core.lease import MS

FIRST_PART: Final = 8
"""The part of its share with which it begins, if it has no turn: one by this. Where it is late, that is little."""
WHOLE: Final = 3
"""That many times twice as much is its share: a member of a large group begins with that."""
MOST_WAITS: Final = 4
"""How often a member that stays late waits twice as long, at the most."""
LOOK_NS: Final = 500 * MS
"""What a newcomer has taken shows in its round trips after so long, or half of its session if that is shorter."""
QUICK: Final = 16
"""The part of a session within which a record comes back on a machine, and from a ledger, that have time to spare."""
GOOD: Final = 4
"""Sessions after which it tries once more what was too much."""
APART_MS: Final = 50
"""Milliseconds for each member over which a larger group spreads the claims of members that are late, or lately were."""


class Appetite:
    """One member's. Times are of its own stopwatch, in nanoseconds."""

    def __init__(self, me: str, session_ms: int, pace: Pace) -> None:
        self._me = me
        self._session = session_ms * MS
        self._pace = pace
        self._begun = False
        self._doublings: int | None = 0
        """How often it took twice as much since it began with little; None: it takes what there is."""
        self._least = 0
        """How often it does so from the start, and when it is well: 0 unless its group is a large one."""
        self._waits = 0
        """How often it waits twice as long while it is late; one less after each session in which it was well."""
        self._most: int | None = None
        """More doublings than that were too many, not long ago."""
        self._since = 0
        """When this session of its began, or these round trips; and how much it has taken since."""
        self._taken = 0
        self._window = self._session
        """For how long what it may claim counts."""
        self._windows = 0
        """How many have begun."""
        self._good = 0
        """Sessions at the most that it may take, in a row."""
        self._hurried = False
        self._new = True
        """It has not been hurried yet."""

    def left(self, now: int, share: int, seats: int, *, late: bool, members: int) -> int:
        """How many more it may claim now, or hand over. `share`: seats, of so many, that each would hold if all that are in the
        group lived; `late`: whether its own records, or its trips, have been; `members`: how many are in the group."""
        crowd = members > EAGER
        self._least = WHOLE if crowd else 0
        apart = members * APART_MS * MS if crowd else 0
        self._window = max(self._session, apart // 2 + part(f"{self._me} {self._windows}", apart))
        if not self._begun:
            self._begun, self._doublings = True, self._least
        if late:
            self._slow_down(now, share)
        elif self._doublings is None:
            return seats
        elif now >= self.more_at:
            self._speed_up(now)
        most = (share << (self._doublings or 0)) // FIRST_PART
        if most >= seats:
            self._doublings = self._most = None
            return seats
        return max(0, max(1, most) - self._taken)

    def _slow_down(self, now: int, share: int) -> None:
        little = max(0, self._least - 1)
        if not self._hurried:
            before = (8 * share).bit_length() if self._doublings is None else self._doublings
            self._most = max(little, min(before - 1, WHOLE))
            self._hurried, self._new = True, False
            self._waits = max(1, self._waits)
            self._begin(min(self._most, self._least), now)
        elif now >= self._since + (self._window << self._waits):
            self._waits = min(self._waits + 1, MOST_WAITS)
            self._begin(little, now)

    def _speed_up(self, now: int) -> None:
        trip = self._pace.trip
        quick = trip is not None and QUICK * trip <= self._session
        doublings = max(self._least, (self._doublings or 0) + quick)
        if self._most is not None and doublings > self._most:
            doublings, self._good = self._most, self._good + 1
            if self._good >= GOOD:
                self._most, self._good = self._most + 1, 0
        self._hurried, self._waits = False, max(0, self._waits - 1)
        self._begin(doublings, now)

    def _begin(self, doublings: int, now: int) -> None:
        self._doublings, self._since, self._taken = doublings, now, 0
        self._windows += 1

    @property
    def more_at(self) -> int:
        """When it may claim more, if it is well by then."""
        return self._since + (
            self._pace.gap(min(self._session // 2, LOOK_NS), self._session) if self._new else self._window
        )

    def took(self, count: int) -> None:
        self._taken += count
