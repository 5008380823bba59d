"""A run: fault after fault, each begun when all is well, healed, waited for, and judged."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from chaos.faults import CLOCKS, KINDS, STEP, Kind, NotMade
from chaos.processes import ROLES
from chaos.progress import Tell
from chaos.scene import Scene
from chaos.verdict.audits import Audits, audit_all
from chaos.verdict.judge import ALLOWANCE, Judge, Outcome, bound, led_since, longest_without
from pares.core.errors import CapabilityError
from pares.runtime.clock import stopwatch

PATIENCE: Final = 30.0
"""Seconds after a heal until what has not come back is taken for lost. The run goes on all the same."""
CALM: Final = 90.0
"""Seconds that it may take after a heal until every replica has caught up."""
_LOOK: Final = 0.03
_UNJUDGED: Final = 2_000_000_000


@dataclass
class Result:
    """Everything that a run has found out."""

    seed: int
    session: float
    wanted: int
    outcomes: list[Outcome] = field(default_factory=list[Outcome])
    not_made: dict[str, str] = field(default_factory=dict[str, str])
    """Kinds that could not be made here, and why."""
    notes: list[str] = field(default_factory=list[str])
    unlogged: list[str] = field(default_factory=list[str])
    """Beliefs and writes under tokens that the log never gave to that member."""
    at_the_end: list[str] = field(default_factory=list[str])
    """What was broken after the last fault."""
    aborted: str | None = None
    terms: int = 0
    writes: int = 0
    appends: int = 0
    audits: Audits | None = None
    """None: not asked for."""
    seconds: float = 0.0
    protocol: str = "claims"
    aftermath: float = 0.0
    """Seconds after which the next fault may come, once all are led again."""
    allowance: float = ALLOWANCE
    """Seconds by which leadership may come back later than the protocol has it."""

    @property
    def bound(self) -> float:
        """Seconds in which leadership has to be back."""
        return bound(self.protocol, self.session, self.allowance)

    @property
    def broken(self) -> list[str]:
        found = [f"fault {o.number} ({o.kind}): {words}" for o in self.outcomes for words in o.broken()]
        found += [*self.unlogged, *(f"at the end: {words}" for words in self.at_the_end)]
        if self.audits is not None:
            promises = self.audits.promises
            found += [f"audit: {p['promise']}: {p['evidence']}" for p in promises if p["verdict"] == "broken"]
        return found

    @property
    def misses(self) -> list[str]:
        found: list[str] = []
        for o in self.outcomes:
            if o.missed(self.bound):
                took = f"after {o.led:.3f} s" if o.led is not None else f"not within {PATIENCE:g} s"
                took += f", and lost again for {o.lost:.3f} s" if o.lost > self.bound else ""
                found.append(f"fault {o.number} ({o.kind}: {o.what}): leadership was back {took}")
        return found

    @property
    def fallen(self) -> list[str]:
        return [f"fault {o.number} ({o.kind}): {words}" for o in self.outcomes for words in o.fallen]

    @property
    def unmade(self) -> list[str]:
        return [f"fault {o.number} ({o.kind}): {o.unmade}" for o in self.outcomes if o.unmade]

    @property
    def exit_code(self) -> int:
        """3: a promise was broken, leadership came back late, or a member ended by itself; 1: the run, one of its faults or its
        audit could not be made or finished."""
        if self.broken or self.misses or self.fallen:
            return 3
        return 1 if self.aborted or self.unmade or (self.audits is not None and self.audits.failed) else 0


def schedule(kinds: Sequence[str], count: int, seed: int) -> list[str]:
    """Which fault comes when: each kind once, in an order drawn by chance, then all again."""
    dice = random.Random(f"order {seed}")
    found: list[str] = []
    while len(found) < count:
        found += dice.sample(kinds, len(kinds))
    return found[:count]


def possible(
    scene_faketime: Path | None, only: Sequence[str], protocol: str = "claims"
) -> tuple[list[str], dict[str, str]]:
    """The kinds to be made, and those that can't be, with the reason."""
    kinds = list(only) or list(KINDS)
    missing: dict[str, str] = {}
    for kind in kinds:
        if kind in CLOCKS and scene_faketime is None:
            missing[kind] = "libfaketime is not installed (Debian: apt install libfaketime; or name it with --faketime)"
        elif kind in CLOCKS and protocol == "neli" and kind not in only:
            missing[kind] = "exclusive NELI is promised only while brokers' clocks are right within clock_error"
    return [kind for kind in kinds if kind not in missing], missing


def run(scene: Scene, result: Result, kinds: Sequence[str], tell: Tell) -> None:
    """Makes the faults in a scene that is up. Outcomes are in `result` at once: nothing is lost if it breaks off."""
    judge = Judge()
    windows: list[tuple[int, int]] = []
    for number, name in enumerate(schedule(kinds, result.wanted, result.seed), 1):
        tell(f"{number} of {result.wanted}: waiting until all is well", None)
        _calm(scene, result, number)
        outcome, window = _fault(scene, judge, number, KINDS[name], result.aftermath, tell)
        windows.append(window)
        result.outcomes.append(outcome)
        tell("", outcome)
    time.sleep(scene.session)
    _finish(scene, judge, result, [w for w, o in zip(windows, result.outcomes, strict=True) if o.kind == "topic-anew"])


def _calm(scene: Scene, result: Result, number: int) -> None:
    try:
        scene.until(
            lambda: scene.whole() and scene.joined() and scene.crew.all_led(),
            "all replicas are in step, all members have joined, and every role is led",
            CALM,
        )
    except CapabilityError as error:
        # Said, not waited for: the next fault comes on top of what is still wrong.
        result.notes.append(f"before fault {number}: {error}")


def _fault(
    scene: Scene, judge: Judge, number: int, kind: Kind, aftermath: float, tell: Tell
) -> tuple[Outcome, tuple[int, int]]:
    lasts = scene.dice.uniform(*kind.lasts) * scene.session
    began = made = lasted = stopwatch()
    what, unmade = kind.what, ""
    try:
        with kind.make(scene) as what:
            made = stopwatch()
            tell(f"{number}: {what}", None)
            time.sleep(lasts)
            lasted = stopwatch()
    except NotMade as error:
        unmade = str(error)
    healed = stopwatch()
    tell(f"{number}: {what}; healed", None)
    acknowledged = _wait(lambda: scene.acks.first_after(healed))
    led = None
    if acknowledged is not None:
        since = acknowledged
        led = _wait(lambda: led_since(scene.crew.beliefs(), len(ROLES), since))
    ended = led if led is not None else stopwatch()
    calm = _aftermath(scene, led, aftermath)
    scene.read_log()
    beliefs = scene.crew.beliefs()
    double, falling = judge.beliefs(beliefs)
    outcome = Outcome(
        number=number,
        kind=kind.name,
        what=what,
        lasted=(lasted - made) / 1e9,
        acknowledged=None if acknowledged is None else (acknowledged - healed) / 1e9,
        led=None if acknowledged is None or led is None else (led - acknowledged) / 1e9,
        without=longest_without(beliefs, len(ROLES), began, ended) / 1e9,
        silent=scene.acks.longest_without(began, ended) / 1e9,
        overlaps=double,
        stale=judge.stale(scene.crew.new_writes()),
        falling=falling,
        fallen=scene.crew.fallen(),
        lost=longest_without(beliefs, len(ROLES), ended, calm) / 1e9,
        unmade=unmade,
    )
    return outcome, (began - _UNJUDGED, ended + _UNJUDGED)


def _aftermath(scene: Scene, led: int | None, seconds: float) -> int:
    """Some seconds and a look after all were led again: what is lost until then, this fault has cost. When all are
    led once more."""
    if led is None:
        return stopwatch()
    time.sleep(seconds + _LOOK)
    since = stopwatch()
    again = _wait(lambda: led_since(scene.crew.beliefs(), len(ROLES), since))
    return stopwatch() if again is None else again


def _wait(look: Callable[[], int | None]) -> int | None:
    end = time.monotonic() + PATIENCE
    while (found := look()) is None and time.monotonic() < end:
        time.sleep(_LOOK)
    return found


def _finish(scene: Scene, judge: Judge, result: Result, replaced: Sequence[tuple[int, int]]) -> None:
    """The last look, with the members ended, and the audit.

    `replaced`: when the topic was deleted. What the log decided in its last moments before that, nobody may have read.
    """
    scene.crew.end()
    scene.read_log()
    beliefs = scene.crew.beliefs()
    double, falling = judge.beliefs(beliefs)
    result.at_the_end = [*double, *falling, *judge.stale(scene.crew.new_writes())]
    unread = {
        (ROLES[b.role], b.token) for b in beliefs if any(begin <= b.first <= end for begin, end in replaced)
    } - scene.tokens.keys()
    log = scene.tokens | {(ROLES[b.role], b.token): b.member for b in beliefs if (ROLES[b.role], b.token) in unread}
    result.unlogged = judge.unlogged(beliefs, log, ROLES)
    if unread:
        result.notes.append(f"{len(unread)} terms began while the topic was deleted, and were not looked up in the log")
    result.terms, result.writes, result.appends = len(beliefs), judge.writes, len(scene.acks.all())


def audit(scene: Scene, result: Result, tell: Tell) -> None:
    """Has Spark audit every log that the run has had, and the writes made under its tokens."""
    if scene.stamped:
        told = f"{scene.stamped} of the group's records were stamped {STEP} s off, and the audit of a log with such was told so"
        result.notes.append(told)
    result.audits = audit_all(scene, lambda what: tell(what, None))
