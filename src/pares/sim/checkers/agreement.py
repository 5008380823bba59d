"""Promise 5: two readers that have read the same prefix agree exactly, from wherever they started.

Every reader keeps a hash of its world at fixed places. The hashes of all members, in all their incarnations, are compared with
the judge's; and at the end new readers begin wherever one may begin (the origin, each snapshot) and must reach the same world.
"""

from __future__ import annotations

from pares.core.events import Report
from pares.core.wire.reader import Reader, State
from pares.sim.checker import Checker
from pares.sim.process import Process
from pares.sim.scene import Scene


class Agreement(Checker):
    promise = "same log, same world"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.rng = scene.random("readers")

    def killed(self, process: Process) -> None:
        self._compare(process)

    def ended(self, process: Process, id: str) -> None:
        if process.over is not None:
            self._compare(process)

    def reported(self, process: Process, effect: Report) -> None:
        if effect.kind == "defect":
            raise self.broken(f"{process.id}: {effect.text}")

    def end(self) -> None:
        for process in self.scene.processes.values():
            if process.running and process.settings["group"] == self.scene.group:
                self._compare(process)
        self._begin_anywhere()

    def _compare(self, process: Process) -> None:
        scene, claims = self.scene, process.claims
        if (
            claims is None
            or process.wire.generation != scene.log.generation
            or claims.reader.state is not State.FOLDING
        ):
            return
        judge, reader = scene.judge, claims.reader
        if reader.world.base != judge.world.base:
            return
        for place, digest in reader.places.items():
            theirs = judge.places.get(place)
            if theirs is not None and theirs != digest:
                raise self.broken(f"{process.id} lives in another world at {place}")
        if reader.position == judge.position and reader.world.digest() != judge.world.digest():
            raise self.broken(f"{process.id} lives in another world at the end ({reader.position})")

    def _begin_anywhere(self) -> None:
        scene = self.scene
        entries, judge = scene.log.entries(), scene.judge
        if not entries:
            return
        begins = {scene.log.start, *(self.rng.randint(scene.log.start, scene.log.end) for _ in range(3))}
        for begin in sorted(begins):
            reader = Reader(scene.group)
            reader.attach(begin, scene.log.end)
            for _ in range(12):
                reader.feed([e for e in entries if e[0] >= reader.position])
                if reader.state is not State.SEARCHING and reader.position >= scene.log.end:
                    break
            if reader.state is State.FOLDING and reader.world.digest() != judge.world.digest():
                raise self.broken(f"a reader that begins when the log starts at {begin} ends in another world")
