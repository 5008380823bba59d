"""What is told of a log that goes on: violations, each once, and what became of them.

After any record the violations that were told, and not taken back, are those that a whole audit of the same records finds, with
the same verdicts. What differs has one of these names, and no other:

    settled      what was told first as `possible` became certain, or was explained by a later word: it is told so, once more
    under way    a gap that goes on is told `LAG_MS` later than it is too long: the leader's word may be on its way
    later steps  stamps that go back further than any before make evidence weaker, also of what is no longer kept
    later words  a member that is asked to drain, or has the longest session so far, excuses gaps that are no longer kept
    window       a word about a term that ended before the window (or before the last `ENDED` of its seat) is not judged; such
                 words are counted, and said
    entered      of a log without its beginning nothing is told until a snapshot stands on its feet
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct, field

from pares.core.errors import CapabilityError
from pares.spark.facts.base import Fact
from pares.spark.follow.groups import NONE, Change, Group
from pares.spark.rules.base import Allowed, Row

WINDOW_MS: Final = 600_000
"""How long terms are kept that have ended."""
RAISED, SETTLED = "raised", "settled"
_TOLD: Final = (
    *("rule", "role", "seat", "token_a", "token_b", "member_a", "member_b", "from_ms", "to_ms", "length_ms"),
    *("offsets", "evidence"),
)


class Alarm(Struct, frozen=True, kw_only=True):
    """A violation that was not told before (`raised`), or another verdict on one that was (`settled`)."""

    id: str
    """Of the violation: the same when its verdict changes, and after a restart."""
    what: str
    verdict: str
    """`certain`, `possible`, or `none`: what the log said since explains it."""
    before: str | None
    """The verdict that was told last."""
    group: str
    rule: str
    role: str | None = None
    seat: int | None = None
    token_a: int | None = None
    token_b: int | None = None
    member_a: str | None = None
    member_b: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    length_ms: int | None = None
    offsets: list[int | None] = field(default_factory=list[int | None])
    evidence: str = ""


class Judge(Struct):
    """Of one log. A function of what it is fed; the stopwatch only says how soon it looks again at what time may change."""

    allowed: Allowed
    window_ms: int = WINDOW_MS
    groups: dict[str, Group] = field(default_factory=dict[str, Group])

    def feed(self, shares: Iterable[tuple[str | None, list[Fact]]]) -> None:
        """The facts of the next records of a partition, by group."""
        for name, facts in shares:
            if name is not None:
                self._group(name).feed(facts)

    def at_end(self, partition: int, shares: Iterable[tuple[str | None, list[Fact]]]) -> None:
        """What the end of a partition says now. Raises `CapabilityError` for a group that writes a newer format than this
        version reads."""
        for name, facts in shares:
            for fact in facts:
                if fact.kind == "newer":
                    raise CapabilityError(str(fact.cause))
            if name is not None:
                self._group(name).at_end(partition, facts)

    def alarms(self, at_s: float, *, last: bool = False) -> list[Alarm]:
        """What is new since they were asked for last, at `at_s` of a stopwatch, in seconds. `last`: the log ends here."""
        found: list[Alarm] = []
        for group in self.groups.values():
            changes = group.changes(self.allowed, self.window_ms, at_s, last=last)
            found += [_alarm(group.name, change) for change in changes]
        return found

    def wake(self) -> None:
        """Has all that time may change looked at next: another process's stopwatch told when."""
        for group in self.groups.values():
            group.touched |= dict.fromkeys(group.restless)
            group.restless.clear()

    def kept(self) -> dict[str, int]:
        """What is held: terms, members, words about terms that were no longer known."""
        pairs = [group.kept() for group in self.groups.values()]
        unjudged = sum(group.unjudged() for group in self.groups.values())
        return {"terms": sum(t for t, _ in pairs), "members": sum(m for _, m in pairs), "unjudged": unjudged}

    def _group(self, name: str) -> Group:
        group = self.groups.get(name)
        if group is None:
            group = self.groups[name] = Group.of(name)
        return group


def _alarm(group: str, change: Change) -> Alarm:
    row: Row = change.row
    told: dict[str, Any] = {name: row[name] for name in _TOLD if name in row}
    if row.get("from_ms") is not None and row.get("to_ms") is not None:
        told["length_ms"] = row["to_ms"] - row["from_ms"]
    named = repr((group, row.get("role"), row.get("seat"), change.key))
    return Alarm(
        id=hashlib.sha256(named.encode()).hexdigest()[:16],
        what=RAISED if change.before is None else SETTLED,
        verdict=change.verdict,
        before=change.before,
        group=group,
        **told,
    )


def standing(alarms: Iterable[Alarm], before: dict[str, Alarm] | None = None) -> dict[str, Alarm]:
    """By id, what is left when each verdict has taken the place of the one before; `before`: what was left earlier."""
    left = dict(before or {})
    for alarm in alarms:
        if alarm.verdict == NONE:
            left.pop(alarm.id, None)
        else:
            left[alarm.id] = alarm
    return left
