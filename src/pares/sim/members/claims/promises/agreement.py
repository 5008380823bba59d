"""Promise 5: two readers that have read the same prefix agree exactly, from wherever they started.

Every reader keeps a hash of its world at fixed places. Those of all members are compared with the judge's, whenever a process
ends and when the play does; and then new readers begin wherever one may begin (the origin, each snapshot) and must reach the
same world.

A log that loses its tail breaks A1. A member that had read beyond the loss finds that out when it reads on (R12); but a
snapshot that it had sent before may land behind the loss. What R10 promises then is that it is found false by all that have
read the rest. So a reader that ends in another world is excused if the log has lost its tail, and if the judge has found false
the very snapshot that the reader began with; in no other case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pares.core.wire.reader import Reader, State
from pares.runtime.driver.loop import Driver
from pares.runtime.member import Member
from pares.sim.members.promises.base import Promise

if TYPE_CHECKING:
    from pares.sim.members.claims.ground import Ground
    from pares.sim.world.process import Process


class Agreement(Promise):
    name = "same log, same world"

    def __init__(self, stage: Ground) -> None:
        super().__init__(stage)
        self.ground = stage
        self.rng = self.world.random("readers")
        self.compared = 0
        self.world.on_end.append(self._of_process)

    def _of_process(self, process: Process) -> None:
        for member in self.stage.sight.members.get(process, ()):
            if member.group == self.stage.group:
                self._compare(member)

    def _reader(self, member: Member) -> Reader | None:
        """Of its core: what a member makes of its log shows nowhere else to the last field."""
        driver: Any = member._loop  # pyright: ignore[reportPrivateUsage]
        if not isinstance(driver, Driver):
            return None  # its ledger is still being opened
        binding: Any = driver.binding
        reader: Reader = binding.core.reader
        return reader

    def _compare(self, member: Member) -> None:
        reader = self._reader(member)
        if reader is None:
            return
        judge = self.ground.judge.judge
        if self.ground.between_logs() or reader.state is not State.FOLDING or reader.world.base != judge.world.base:
            return
        if reader.defects and not self.ground.log.partitions[0].lost:
            raise self.broken(f"{member.id} finds a snapshot false: {reader.defects[-1]}")
        for place, digest in reader.places.items():
            theirs = judge.places.get(place)
            self.compared += theirs is not None
            if theirs is not None and theirs != digest:
                raise self.broken(f"{member.id} lives in another world at {place}")
        if reader.position == judge.position and reader.world.digest() != judge.world.digest():
            raise self.broken(f"{member.id} lives in another world at the end ({reader.position})")

    def end(self) -> None:
        for process in list(self.stage.sight.members):
            self._of_process(process)
        self._begin_anywhere()

    def _begin_anywhere(self) -> None:
        log, judge = self.ground.log.partitions[0], self.ground.judge.judge
        entries = log.entries()
        if not entries:
            return
        for begin in sorted({log.start, *(self.rng.randint(log.start, log.end) for _ in range(3))}):
            reader = Reader(self.ground.group)
            reader.attach(begin, log.end)
            for _ in range(12):
                reader.feed([entry for entry in entries if entry[0] >= reader.position])
                if reader.state is not State.SEARCHING and reader.position >= log.end:
                    break
            other = reader.state is State.FOLDING and reader.world.digest() != judge.world.digest()
            if other and not self._excused(reader):
                raise self.broken(f"a reader that begins when the log starts at {begin} ends in another world")

    def _excused(self, reader: Reader) -> bool:
        began = next(iter(reader.places), -1)
        return self.ground.log.partitions[0].lost > 0 and any(
            defect.upto == began for defect in self.ground.judge.judge.defects
        )
