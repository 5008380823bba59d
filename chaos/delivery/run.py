"""A run: one way after the other, each on a topic of its own, under faults; then it is worked off, and judged."""

from __future__ import annotations

import contextlib
import random
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from chaos.delivery.crew import Crew
from chaos.delivery.faults import LASTS
from chaos.delivery.grounds import Ground
from chaos.delivery.journal import lines
from chaos.delivery.judge import Effect, Verdict, judge
from chaos.delivery.plan import MUTANTS, PLAIN, TOPIC, Plan, Task, Way
from chaos.run import schedule
from pares.core.errors import LedgerUnavailable

LOOK: Final = 0.2
Tell = Callable[[str, float], None]
"""Is told what goes on now, and how much of the run is over, 0 to 1."""


def run(ground: Ground, plan: Plan, tell: Tell) -> list[Verdict]:
    """One verdict for each way."""
    ways = plan.ways if plan.mutant is None else (MUTANTS[plan.mutant][0],)
    found: list[Verdict] = []
    for number, way in enumerate(ways):

        def told(what: str, part: float, number: int = number, way: Way = way) -> None:
            tell(f"{way}: {what}", (number + part) / len(ways))

        found.append(_way(ground, plan, way, told))
    return found


def _way(ground: Ground, plan: Plan, way: Way, tell: Tell) -> Verdict:
    folder = ground.folder / f"run-{way.replace(' ', '-')}"
    folder.mkdir(parents=True)
    topic, sink = f"{TOPIC}-{way.replace(' ', '-')}", folder / "sink.db"
    ground.make_topic(way, topic, plan.partitions)
    log, source = ground.urls(way)

    def task(name: str, journal: Path) -> Task:
        place = (str(journal), log, source, topic, str(sink))
        return Task(way, name, *place, plan.session, plan.batch, plan.trip, plan.mutant)

    places = [f"w{number + 1}" for number in range(plan.workers)]
    ground.crew = crew = Crew(folder, places, task, ground.command, plan.seed)
    faults: dict[str, int] = {}
    notes: list[str] = []
    unfinished: list[str] = []
    began = time.monotonic()
    try:
        with ground.producing(topic, plan):
            tell("begins", 0.0)
            crew.begin_all()
            if not _until(crew.all_work, plan.patience, crew.look):
                notes.append(f"some workers were given nothing within {plan.patience:g} s")
            notes += _storm(ground, plan, faults, tell)
        tell("is worked off", 0.9)
        crew.look()
        off = _until(lambda: ground.worked_off(way, topic, plan.partitions), plan.patience, crew.look)
        if not off:
            unfinished.append(f"not worked off within {plan.patience:g} s after the last fault")
        # With at most once positions are at the ends when the last records are taken, and they are done after that.
        _until(crew.quiet(plan.session), plan.patience, crew.look)
        tell("is judged", 0.95)
    finally:
        crew.end()
    verdict = judge(
        way,
        ground.records(way, topic, plan.partitions),
        lines(folder),
        {} if not log else ground.begins(way),
        _rows(sink) if way == "fenced" else None,
        died=crew.died,
    )
    verdict.faults, verdict.seconds = faults, time.monotonic() - began
    verdict.notes += [*crew.fallen, *notes]
    if way != PLAIN:
        verdict.broken += unfinished
    else:
        verdict.notes += unfinished
    return verdict


def _storm(ground: Ground, plan: Plan, faults: dict[str, int], tell: Tell) -> list[str]:
    """So many faults, spread over the time. What should be known of them."""
    notes: list[str] = []
    dice = random.Random(plan.seed)
    kinds, began = schedule(plan.kinds or ground.kinds, plan.faults, plan.seed), time.monotonic()
    pace = plan.seconds / max(1, plan.faults)
    for number, kind in enumerate(kinds):
        time.sleep(max(0.0, began + number * pace - time.monotonic()))
        if not _until(ground.calm, plan.patience, ground.crew.look):
            notes.append(f"{kind} came while the one before it had not healed within {plan.patience:g} s")
        with ground.fault(kind) as what:
            tell(what, 0.9 * number / max(1, plan.faults))
            time.sleep(dice.uniform(*LASTS) * plan.session)
        faults[kind] = faults.get(kind, 0) + 1
    time.sleep(max(0.0, began + plan.seconds - time.monotonic()))
    return notes


def _until(true: Callable[[], bool], patience: float, meanwhile: Callable[[], object]) -> bool:
    end = time.monotonic() + patience
    while time.monotonic() < end:
        try:
            if true():
                return True
        except Exception as error:
            if not _passes(error):
                raise
        meanwhile()
        time.sleep(LOOK)
    return False


def _passes(error: Exception) -> bool:
    """Whether it is a service that can't be asked now."""
    return isinstance(error, LedgerUnavailable) or type(error).__name__ == "KafkaException"


def _rows(sink: Path) -> list[Effect]:
    with contextlib.closing(sqlite3.connect(sink)) as database:
        return database.execute("SELECT part, place, token FROM booked ORDER BY rowid").fetchall()
