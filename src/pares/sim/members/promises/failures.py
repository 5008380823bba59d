"""Nothing that comes from outside ends a member, or a task of its, by an exception (R11).

Faults may raise in a process, at any call of its host; then its member may fail, and must say so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pares.core.errors import ParesError
from pares.sim.members.promises.base import Promise

if TYPE_CHECKING:
    from pares.sim.members.stage import Stage
    from pares.sim.world.process import Process


class Failures(Promise):
    name = "nothing ends a member"

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        stage.sight.closely.append(self._looked)

    def _looked(self, process: Process) -> None:
        if process.raised:
            return
        for name, error in process.failures:
            if not isinstance(error, ParesError):
                raise self.broken(f"task {name!r} of {process.name} was ended by {error!r}")
        for member in self.stage.sight.members[process]:
            failure = member._loop.failure  # pyright: ignore[reportPrivateUsage]
            if failure is not None:
                raise self.broken(f"the loop of {member.id} failed: {failure!r}")
