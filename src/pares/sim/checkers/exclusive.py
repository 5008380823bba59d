"""Promise 1: at no instant do two members believe that they hold one seat; in overlap mode, for no longer than `overlap`.

A belief is an interval of true time: from `Lead` to `Follow`, or to where the believer's own stopwatch reaches `until`,
whichever is first. Nobody is asked what it does meanwhile: a frozen process believes too, as far as its clock lets it.

Two beliefs can meet only when one begins, or is prolonged; so that is when it is looked at.
"""

from __future__ import annotations

from pares.core.events import Follow, Lead
from pares.core.wire.records import Seat
from pares.sim.checker import Checker
from pares.sim.process import Process
from pares.sim.scene import Scene
from pares.sim.trace import seat_name


class Exclusive(Checker):
    promise = "exclusive belief"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.believers: dict[Seat, list[Process]] = {}
        self.meetings: dict[tuple[Seat, str, str], int] = {}
        """Overlap mode: since when two believe in the same seat."""
        self.generations: dict[tuple[Seat, str], tuple[int, int]] = {}
        """In which log a belief began, and when."""
        self.replaced_at = 0

    def led(self, process: Process, effect: Lead) -> None:
        self.generations[effect.seat, process.name] = (process.wire.generation, self.scene.engine.now)
        self._look(process, effect.seat)
        self.believers.setdefault(effect.seat, []).append(process)

    def renewed(self, process: Process) -> None:
        for seat in process.beliefs:
            self._look(process, seat)

    def followed(self, process: Process, effect: Follow) -> None:
        believers = self.believers.get(effect.seat, [])
        if process in believers and effect.seat not in process.beliefs:
            self._part(process, effect.seat, self.scene.engine.now)
            believers.remove(process)

    def ended(self, process: Process, id: str) -> None:
        for seat, believers in self.believers.items():
            if process in believers:
                self._part(process, seat, self.scene.engine.now)
                believers.remove(process)

    def replaced(self) -> None:
        self.replaced_at = self.scene.engine.now

    def _look(self, process: Process, seat: Seat) -> None:
        now = self.scene.engine.now
        if not process.believes(seat):
            return
        for other in self.believers.get(seat, ()):
            if other is process or not other.believes(seat):
                continue
            if self._excused(process, other, seat):
                continue
            allowed = self._overlap(process) + self._overlap(other)
            if not allowed:
                tokens = f"{self._token(process, seat)} and {self._token(other, seat)}"
                left = (min(process.belief_ends(seat), other.belief_ends(seat)) - now) / 1e6
                raise self.broken(
                    f"{process.id} and {other.id} both believe that they hold {seat_name(seat)} ({tokens}), "
                    f"for {left:.3f} ms if nobody stops"
                )
            self.meetings.setdefault(self._pair(seat, process, other), now)

    def _excused(self, process: Process, other: Process, seat: Seat) -> bool:
        """Beliefs from two logs may meet while a lease of the old one lasts: that log lost what it acknowledged (A1)."""
        mine, theirs = (self.generations.get((seat, p.name), (0, 0)) for p in (process, other))
        if mine[0] == theirs[0]:
            return False
        longest = max(p.settings.get("session_ms", 1000) + p.settings.get("overlap_ms", 0) for p in (process, other))
        return self.scene.engine.now < self.replaced_at + int(longest * 1_250_000)

    def _part(self, process: Process, seat: Seat, now: int) -> None:
        ends = min(now, process.belief_ends(seat))
        for other in self.believers.get(seat, ()):
            if other is process:
                continue
            began = self.meetings.pop(self._pair(seat, process, other), None)
            if began is None:
                continue
            met = min(ends, other.belief_ends(seat)) - began
            allowed = max(self._overlap(process), self._overlap(other))
            # The clock of either may run slow by its drift, which stretches the overlap as well.
            slowest = max(p.settings["drift"] for p in (process, other))
            if met > allowed / (1 - slowest) + 2_000_000:
                raise self.broken(
                    f"{process.id} and {other.id} both believed in {seat_name(seat)} for {met / 1e6:.3f} ms, "
                    f"{allowed / 1e6:.0f} ms of overlap are allowed"
                )

    def end(self) -> None:
        for seat, believers in list(self.believers.items()):
            for process in list(believers):
                self._part(process, seat, self.scene.engine.now)

    def _overlap(self, process: Process) -> int:
        return int(process.settings.get("overlap_ms", 0)) * 1_000_000

    def _pair(self, seat: Seat, one: Process, other: Process) -> tuple[Seat, str, str]:
        first, second = sorted((one.name, other.name))
        return (seat, first, second)

    def _token(self, process: Process, seat: Seat) -> str:
        return self.scene.story.token(process.beliefs.get(seat, 0))
