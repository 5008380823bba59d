"""Releases of different format versions that follow one another, one process after the other (R11).

What a release writes is a setting of its process (PARES_FORMAT). What it reads is no setting of anybody's: while a play lasts
that has such releases, members are made as theirs would have made them.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pares.core.wire.records import VERSION
from pares.runtime.death import incarnation
from pares.runtime.here import here

if TYPE_CHECKING:
    from pares.sim.members.claims.ground import Ground
    from pares.sim.members.users import User
    from pares.sim.world.process import Process

READS: Final = "SIMULATED_READS"


@contextmanager
def released(releases: tuple[tuple[int, int], ...]) -> Generator[None, None, None]:
    """Members of a process read what its release does."""
    if not releases:
        yield
        return
    made: Any = incarnation.Config  # type: ignore[attr-defined]

    def config(**fields: Any) -> Any:
        reads = here().env.get(READS)
        return made(**fields) if reads is None else made(**{**fields, "reads": int(reads)})

    incarnation.Config = config  # type: ignore[attr-defined, misc, assignment]
    try:
        yield
    finally:
        incarnation.Config = made  # type: ignore[attr-defined, misc]


class Releases:
    """Each of the plan's has its part of the storm, and the last one the calm."""

    def __init__(self, stage: Ground) -> None:
        self._stage = stage
        count = len(stage.plan.releases)
        until = int(stage.plan.storm * stage.plan.unit)
        for phase in range(1, count):
            stage.world.at(until * phase // count, self._roll)

    def _roll(self) -> None:
        for place, user in enumerate(self._stage.own):
            self._stage.world.after(place * self._stage.plan.unit // 3, self._replace, user)

    def _replace(self, user: User) -> None:
        if user.running:
            user.close()
            self._stage.disturbed()
            self._stage.world.after(5 * self._stage.plan.unit, self._begin, user)

    def _begin(self, user: User) -> None:
        if user.process is not None:
            self._stage.world.kill(user.process)
        user.start()


def of_now(stage: Ground) -> dict[str, str]:
    """The environment of a process that starts now."""
    releases = stage.plan.releases
    if not releases:
        return {}
    now = stage.world.now * len(releases) // max(1, int(stage.plan.storm * stage.plan.unit))
    writes, reads = releases[min(now, len(releases) - 1)]
    return {"PARES_FORMAT": str(writes), READS: str(reads)}


def writes(process: Process) -> int:
    """The newest version that the release of this process writes."""
    return int(process.env.get("PARES_FORMAT", VERSION))
