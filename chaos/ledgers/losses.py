"""What becomes of the promises where a server loses what it has acknowledged, by a failover or by coming back as it was before.

The first assumption (A1) is broken then, so promises may be. Which of them, docs/choosing.md says, ledger by ledger; here it is
shown, named, and held to that: for how long two may believe, and whether tokens rise all the same.

In the part that is lost another member comes to lead: its predecessor is killed. So those that have read it must notice.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final

from process_beliefs import Belief

from chaos.ledgers.stage import PATIENCE, Stage
from chaos.processes import ROLES
from chaos.progress import Tell
from chaos.verdict.judge import Judge, Outcome, longest_without
from pares.runtime.clock import stopwatch

RISING: Final = frozenset({"redis"})
"""Ledgers on which tokens rise all the same, so that no stale write passes a fence."""


@dataclass
class Losses:
    """What was seen. Times in seconds."""

    ledger: str
    kind: str
    session: float
    made: int = 0
    overlaps: list[float] = field(default_factory=list[float])
    """Of each two that believed at once: for how long."""
    stale: int = 0
    falling: int = 0
    led: list[float] = field(default_factory=list[float])
    """From when the server answered again until every role was led."""
    never: int = 0
    """How often leadership did not come back."""
    ended: list[str] = field(default_factory=list[str])
    """Members that ended by themselves."""

    @property
    def broken(self) -> list[str]:
        """What not even docs/choosing.md gives up."""
        found = [
            f"after a loss two believed for {length:.3f} s, and a session is {self.session:g} s"
            for length in self.overlaps
            if length > self.session
        ]
        found += [f"after a loss: {words}" for words in self.ended]
        found += [f"after a loss nobody led again within {PATIENCE:g} s, {self.never} times"] if self.never else []
        if self.ledger in RISING:
            found += (
                [f"{self.falling} tokens fell after a loss, on {self.ledger}, where they rise"] if self.falling else []
            )
            found += [f"{self.stale} stale writes passed the fence after a loss"] if self.stale else []
        return found

    @property
    def named(self) -> list[str]:
        """The promises that were seen to be lost, in words."""
        found: list[str] = []
        if self.overlaps:
            longest = max(self.overlaps)
            found.append(
                f"only one believes ({len(self.overlaps)} times two did, at most {longest:.3f} s of a session of "
                f"{self.session:g} s)"
            )
        if self.falling:
            found.append(f"tokens rise ({self.falling} fell)")
        if self.stale:
            found.append(f"a fence refuses what comes late ({self.stale} stale writes passed)")
        return found


def suffer(stage: Stage, found: Losses, count: int, tell: Tell) -> None:
    """Has the server lose what it acknowledged, `count` times."""
    judge = Judge()
    known = 0
    for number in range(1, count + 1):
        tell(f"{found.ledger}: loss {number} of {count}: waiting until all is well", None)
        stage.calm()
        with stage.ground.losing() as lose:
            began = stopwatch()
            stage.calm()
            place = stage.a_leading_member()
            stage.crew.kill(place)
            stage.crew.enlist(place)
            stage.calm()
            tell(f"{found.ledger}: loss {number} of {count}: {found.kind}", None)
            lose()
        healed = stopwatch()
        led = stage.led_again(healed)
        time.sleep(2 * stage.session)
        found.made += 1
        beliefs = stage.crew.beliefs()
        seen = crossings(beliefs)
        found.overlaps, new = seen, len(seen) - known
        known = len(seen)
        _, falling = judge.beliefs(beliefs)
        stale = judge.stale(stage.crew.new_writes())
        found.falling += len(falling)
        found.stale += len(stale)
        stage.renew()
        found.ended += stage.crew.fallen()
        if led is None:
            found.never += 1
        else:
            found.led.append((led - healed) / 1e9)
        tell("", _outcome(number, found, stage, began, led, healed, new, falling, stale))


def crossings(beliefs: Iterable[Belief]) -> list[float]:
    """Of each two beliefs of different members in one role that cross: for how many seconds."""
    found: list[float] = []
    for one, other in combinations(sorted(beliefs, key=lambda b: b.first), 2):
        if one.role == other.role and one.member != other.member and other.first <= one.last:
            found.append((min(one.last, other.last) - other.first) / 1e9)
    return found


def _outcome(
    number: int,
    found: Losses,
    stage: Stage,
    began: int,
    led: int | None,
    healed: int,
    new: int,
    falling: list[str],
    stale: list[str],
) -> Outcome:
    """As it is told: what is broken here is no fault of the run's."""
    ended = stopwatch() if led is None else led
    seen = ((new, "overlaps"), (len(falling), "tokens fell"), (len(stale), "stale writes passed"))
    lost = ", ".join(f"{count} {words}" for count, words in seen if count)
    what = "what was acknowledged is lost" + (f"; promises with it: {lost}" if lost else "")
    without = longest_without(stage.crew.beliefs(), len(ROLES), began, ended) / 1e9
    return Outcome(
        number, found.kind, what, (healed - began) / 1e9, None, None if led is None else (led - healed) / 1e9, without
    )
