"""What came of each fault: who believed, who led again and when, and what should not have been.

Leadership is back at the instant from which every role is known to have had a leader; it is measured from the independent
probe's first append that was acknowledged after the heal. A role that somebody leads at that instant counts as nothing. The
beliefs are exact to the moment at which the member that leads has looked (see `process_beliefs`).
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from process_beliefs import Belief
from process_judge import Write, falling_tokens, overlaps, zombie_writes

from pares.runtime.neli.settings import CLOCK_ERROR

DRIFT: Final = 0.1
"""A member's usual one."""
PROTOCOLS: Final = ("claims", "fast-neli", "neli")
ALLOWANCE: Final = 1.0
"""Seconds beside the session, and beside what a new owner waits, in which leadership has to be back."""


def bound(protocol: str, session: float, allowance: float = ALLOWANCE) -> float:
    """Seconds in which leadership has to be back; `allowance` of them for the machine. A new owner of NELI's waits, beside the
    group's session, until its predecessor can't believe any more: with Fast NELI for one deadline, stretched by drift, with
    NELI for T and the clock error."""
    waits = {
        "claims": 0.0,
        "fast-neli": session / 3 * (1 + DRIFT) / (1 - DRIFT),
        "neli": (session - CLOCK_ERROR) / 2 + CLOCK_ERROR,
    }
    return session + allowance + waits[protocol]


@dataclass
class Outcome:
    """One fault. Times in seconds."""

    number: int
    kind: str
    what: str
    lasted: float
    acknowledged: float | None
    """From the heal to the probe's first acknowledged append; None: none within the patience."""
    led: float | None
    """From that append until every role was led; None: not within the patience."""
    without: float
    """The longest time for which a role had no leader, from the beginning of the fault until all were led again."""
    silent: float = 0.0
    """The longest time, from the beginning of the fault until all were led again, for which the probe got no acknowledgement:
    what the fault cost those that append to the brokers."""
    overlaps: list[str] = field(default_factory=list[str])
    stale: list[str] = field(default_factory=list[str])
    falling: list[str] = field(default_factory=list[str])
    fallen: list[str] = field(default_factory=list[str])
    """Members that ended by themselves."""
    lost: float = 0.0
    """The longest time for which a role had no leader after all were led again, up to the next fault."""
    unmade: str = ""
    """Why the fault did not come about; else empty. What happened meanwhile is judged all the same."""

    def missed(self, bound: float) -> bool:
        """Whether leadership was not back in time, or was lost again for as long."""
        return self.led is None or self.led > bound or self.lost > bound

    def broken(self) -> list[str]:
        return [*self.overlaps, *self.stale, *self.falling]


def led_since(beliefs: Iterable[Belief], roles: int, instant: int) -> int | None:
    """The first instant, not before `instant`, at which it is known of each role that it is, or meanwhile was, led; None if
    that has not come yet."""
    latest = instant
    for role in range(roles):
        found = [max(b.first, instant) for b in beliefs if b.role == role and b.last >= instant]
        if not found:
            return None
        latest = max(latest, min(found))
    return latest


def longest_without(beliefs: Sequence[Belief], roles: int, begin: int, end: int) -> int:
    """The longest stretch between two instants in which one role had no leader. All instants in nanoseconds."""
    longest = 0
    for role in range(roles):
        at = begin
        for belief in sorted((b for b in beliefs if b.role == role and b.last >= begin), key=lambda b: b.first):
            if belief.first >= end:
                break
            longest = max(longest, belief.first - at)
            at = max(at, belief.last)
        longest = max(longest, end - at)
    return longest


class Judge:
    """Holds everything against the promises, again after each fault; says what is new."""

    def __init__(self) -> None:
        self._known: Counter[str] = Counter()
        self._highest: dict[str, Write] = {}
        self._owners: dict[tuple[str, int], Write] = {}
        self.writes = 0
        """How many it has seen."""

    def beliefs(self, beliefs: Sequence[Belief]) -> tuple[list[str], list[str]]:
        """(overlaps, tokens that fell) that were not there before, in words."""
        return self._new(overlaps(beliefs)), self._new(falling_tokens(beliefs))

    def stale(self, writes: Sequence[Write]) -> list[str]:
        """Writes among these, the sink's next ones, that the fence should have refused."""
        # What came before is told in short: the first write of each token, and the highest of each role.
        before = sorted([*self._owners.values(), *self._highest.values()], key=lambda write: write.token)
        for write in writes:
            highest = self._highest.get(write.role)
            if highest is None or write.token > highest.token:
                self._highest[write.role] = write
            self._owners.setdefault((write.role, write.token), write)
        self.writes += len(writes)
        return zombie_writes([*before, *writes])[len(zombie_writes(before)) :]

    def unlogged(
        self, beliefs: Iterable[Belief], log: Mapping[tuple[str, int], str], roles: Sequence[str]
    ) -> list[str]:
        """Terms that somebody believed in, or wrote under, and that the log never gave to that member."""
        wrong = [
            f"{belief.member} believed in {belief.token} of role {roles[belief.role]}, which the log gave to "
            f"{log.get((roles[belief.role], belief.token), 'nobody')}"
            for belief in beliefs
            if log.get((roles[belief.role], belief.token)) != belief.member
        ]
        wrong += [
            f"{write.member} wrote under {write.token} of role {role}, which the log gave to {log.get((role, token), 'nobody')}"
            for (role, token), write in self._owners.items()
            if log.get((role, token)) != write.member
        ]
        return wrong

    def _new(self, found: list[str]) -> list[str]:
        """Those not there before. How long an overlap was may have grown since: it is still the same one."""
        new: list[str] = []
        count: Counter[str] = Counter()
        for words in found:
            what = words.partition(" both believed")[0]
            count[what] += 1
            if count[what] > self._known[what]:
                new.append(words)
        self._known |= count
        return new


@dataclass(frozen=True)
class Row:
    """One kind of fault in the report."""

    kind: str
    count: int
    overlaps: int
    stale: int
    falling: int
    fallen: int
    silent_max: float
    acknowledged_max: float | None
    led_p50: float | None
    led_max: float | None
    without_p50: float
    without_max: float
    lost_max: float
    misses: int
    never: int
    unmade: int
    """Faults that did not come about; they are not in `count`."""


def rows(outcomes: Sequence[Outcome], bound: float) -> list[Row]:
    """The report's table, a row for each kind, in the order in which kinds came first, and one for all."""
    kinds = list(dict.fromkeys(outcome.kind for outcome in outcomes))
    table = [_row(kind, [o for o in outcomes if o.kind == kind], bound) for kind in kinds]
    return [*table, _row("all", outcomes, bound)] if outcomes else []


def _row(kind: str, outcomes: Sequence[Outcome], bound: float) -> Row:
    led = [o.led for o in outcomes if o.led is not None]
    acknowledged = [o.acknowledged for o in outcomes if o.acknowledged is not None]
    without = [o.without for o in outcomes]
    return Row(
        kind=kind,
        count=sum(not o.unmade for o in outcomes),
        overlaps=sum(len(o.overlaps) for o in outcomes),
        stale=sum(len(o.stale) for o in outcomes),
        falling=sum(len(o.falling) for o in outcomes),
        fallen=sum(len(o.fallen) for o in outcomes),
        silent_max=max(o.silent for o in outcomes),
        acknowledged_max=max(acknowledged, default=None),
        led_p50=statistics.median(led) if led else None,
        led_max=max(led, default=None),
        without_p50=statistics.median(without),
        without_max=max(without),
        misses=sum(o.missed(bound) for o in outcomes),
        lost_max=max(o.lost for o in outcomes),
        never=sum(o.led is None for o in outcomes),
        unmade=sum(bool(o.unmade) for o in outcomes),
    )
