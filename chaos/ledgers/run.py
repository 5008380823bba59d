"""A run on one ledger: fault after fault, each begun when all is well, healed, waited for, and judged; and what was lost."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos.ledgers.faults import KINDS, Kind
from chaos.ledgers.grounds import Ground
from chaos.ledgers.losses import Losses, suffer
from chaos.ledgers.stage import GROUP, PATIENCE, Stage
from chaos.processes import ROLES
from chaos.progress import Tell
from chaos.run import schedule
from chaos.verdict.judge import Judge, Outcome, longest_without
from pares.core.errors import CapabilityError
from pares.runtime.clock import stopwatch


@dataclass(frozen=True)
class Plan:
    """What is to be done on each ledger. Times in seconds."""

    faults: int
    losses: int
    seed: int
    session: float
    members: int = 3
    only: tuple[str, ...] = ()
    script: tuple[str, ...] = ()
    """What runs the members; none: the usual worker."""
    audit: bool = True
    lasts: float | None = None
    """In sessions, how long each fault lasts; None: as long as is drawn, within what its kind says."""

    def kinds(self, ground: Ground) -> list[str]:
        """Those that can be made there."""
        return [kind for kind in ground.kinds if not self.only or kind in self.only]

    def schedule(self, ground: Ground) -> list[str]:
        kinds = self.kinds(ground)
        return schedule(kinds, self.faults, self.seed) if kinds else []


@dataclass
class Found:
    """Everything that was found out on one ledger."""

    ledger: str
    wanted: int
    outcomes: list[Outcome] = field(default_factory=list[Outcome])
    losses: Losses | None = None
    """None: there is no way to lose anything there, or none was asked for."""
    unlogged: list[str] = field(default_factory=list[str])
    """Beliefs and writes under tokens that the log never gave to that member."""
    at_the_end: list[str] = field(default_factory=list[str])
    """What was broken after the last fault."""
    notes: list[str] = field(default_factory=list[str])
    promises: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """The audit's."""
    unaudited: str = ""
    """Why there is no audit."""
    aborted: str = ""
    terms: int = 0
    writes: int = 0
    seconds: float = 0.0
    session: float = 1.0
    """The members', in seconds."""

    @property
    def broken(self) -> list[str]:
        found = [f"fault {o.number} ({o.kind}): {words}" for o in self.outcomes for words in (*o.broken(), *o.fallen)]
        found += [
            f"fault {o.number} ({o.kind}): nobody led again within {PATIENCE:g} s"
            for o in self.outcomes
            if o.led is None
        ]
        found += [*self.unlogged, *(f"at the end: {words}" for words in self.at_the_end)]
        found += [f"audit: {p['promise']}: {p['evidence']}" for p in self.promises if p["verdict"] == "broken"]
        return found + (self.losses.broken if self.losses is not None else [])

    @property
    def exit_code(self) -> int:
        if self.broken:
            return 3
        return 1 if self.aborted or self.unaudited else 0


def run(ground: Ground, found: Found, plan: Plan, folder: Path, tell: Tell) -> None:
    """Both acts on one ledger. What is found is in `found` at once: nothing is lost if it breaks off."""
    began = time.monotonic()
    dice = random.Random(f"{found.ledger} {plan.seed}")
    try:
        kinds = plan.schedule(ground)
        if kinds:
            _faults(ground, found, plan, kinds, folder / "kept", dice, tell)
        if ground.loss and plan.losses and (not plan.only or ground.loss in plan.only):
            found.losses = Losses(found.ledger, ground.loss, plan.session)
            with _stage(ground, plan, folder / "lost", "lost", dice) as stage:
                suffer(stage, found.losses, plan.losses, tell)
                found.notes += stage.notes
    finally:
        found.seconds = time.monotonic() - began


def _stage(ground: Ground, plan: Plan, folder: Path, name: str, dice: random.Random) -> Stage:
    return Stage(folder, ground, f"chaos_{name}", plan.session, plan.members, dice, [*plan.script])


def _faults(
    ground: Ground, found: Found, plan: Plan, kinds: Sequence[str], folder: Path, dice: random.Random, tell: Tell
) -> None:
    judge = Judge()
    with _stage(ground, plan, folder, "kept", dice) as stage:
        for number, name in enumerate(kinds, 1):
            tell(f"{found.ledger}: {number} of {len(kinds)}: waiting until all is well", None)
            try:
                stage.calm()
            except CapabilityError as error:
                # Said, not waited for: the next fault comes on top of what is still wrong.
                found.notes.append(f"before fault {number}: {error}")
            outcome = _fault(stage, judge, number, KINDS[name], plan, found.ledger, tell)
            found.outcomes.append(outcome)
            tell("", outcome)
        found.notes += stage.notes
        time.sleep(stage.session)
        stage.crew.end()
        stage.read_log()
        beliefs = stage.crew.beliefs()
        double, falling = judge.beliefs(beliefs)
        found.at_the_end = [*double, *falling, *judge.stale(stage.crew.new_writes())]
        found.unlogged = judge.unlogged(beliefs, stage.tokens, ROLES)
        found.terms, found.writes = len(beliefs), judge.writes
        if plan.audit:
            tell(f"{found.ledger}: the audit", None)
            _audit(stage, found)


def _fault(stage: Stage, judge: Judge, number: int, kind: Kind, plan: Plan, ledger: str, tell: Tell) -> Outcome:
    drawn = stage.dice.uniform(*kind.lasts)
    lasts = stage.session * (drawn if plan.lasts is None else plan.lasts)
    began = stopwatch()
    with kind.make(stage) as what:
        made = stopwatch()
        tell(f"{ledger}: {number}: {what}", None)
        time.sleep(lasts)
        lasted = stopwatch()
    healed = stopwatch()
    led = stage.led_again(healed)
    ended = led if led is not None else stopwatch()
    time.sleep(stage.session)
    beliefs = stage.crew.beliefs()
    double, falling = judge.beliefs(beliefs)
    stage.renew()
    return Outcome(
        number=number,
        kind=kind.name,
        what=what,
        lasted=(lasted - made) / 1e9,
        acknowledged=None,
        led=None if led is None else (led - healed) / 1e9,
        without=longest_without(beliefs, len(ROLES), began, ended) / 1e9,
        overlaps=double,
        stale=judge.stale(stage.crew.new_writes()),
        falling=falling,
        fallen=stage.crew.fallen(),
        lost=longest_without(beliefs, len(ROLES), ended, stopwatch() - 200_000_000) / 1e9,
    )


def _audit(stage: Stage, found: Found) -> None:
    """By pares' own audit, in plain Python: it reads the log, and the log alone. The writes were judged as they were made."""
    from pares.spark.audit import audit

    try:
        found.promises = audit(stage.url, GROUP, engine="python").to_json()["promises"]
    except Exception as error:  # whatever it is: what the run has found out is not to be lost with it
        found.unaudited = repr(error)
