"""A member says that it could lead only when it has shown it, lately and by a round trip of its own (R6): so nobody hands
anything to one that writes and does not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pares.core.wire.records import AT_ONCE, BadRecord, Beat, decode
from pares.sim.engine import MS
from pares.sim.members.promises.base import Promise

if TYPE_CHECKING:
    from pares.sim.members.claims.ground import Ground
    from pares.sim.world.process import Process


class Shown(Promise):
    name = "only a member that reads is handed things"

    def __init__(self, stage: Ground) -> None:
        super().__init__(stage)
        self.ground = stage
        plan = stage.plan
        ready = "ready" in plan.faults or any(plan.starts) or plan.warm
        if not (ready or any(plan.slow) or plan.releases):  # those have other ways to say that they can't
            self.world.on_sent.append(self._sent)
        self.hindered: dict[Process, int] = {}
        """When each was frozen, thawed or held up last."""
        self.world.on_hindered.append(self._is_hindered)

    def _sent(self, process: Process, ledger: object, partition: int, payloads: Sequence[bytes]) -> None:
        """By a task."""
        user = self.stage.user_of(process)
        if user is None or user.member is None or not payloads[0].startswith(b'{"k":"beat"'):
            return
        try:
            beat = decode(payloads[0])
        except BadRecord:
            return
        world = self.ground.judge.judge.world
        if not isinstance(beat, Beat) or beat.m != user.member.id or beat.s <= AT_ONCE or world.held.get(beat.m):
            return
        driver: Any = user.member._loop  # pyright: ignore[reportPrivateUsage]
        shown = driver.read_back_at
        if beat.m in driver.binding.world.unready:
            return  # the others know, by a word of its own
        longest = (2 * max(beat.s, user.session_ms) + user.session_ms // 4 + self.stage.plan.overlap_ms) * MS
        ago = process.reading() - (shown or 0)
        if shown is not None and ago > longest + 2 * MS and not self._held_up(process):
            self.fail(f"{beat.m} says that it could lead, and its last round trip began {ago / 1e6:.0f} ms ago")

    def _is_hindered(self, process: Process) -> None:
        self.hindered[process] = self.world.now

    def _held_up(self, process: Process) -> bool:
        """Whether it may have stood still between reading its clock and writing."""
        since = max(self.hindered.get(process, 0), process.starved_at)
        return bool(process.starving or process.raised) or self.world.now < since + self.stage.plan.unit
