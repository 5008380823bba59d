"""In the calm one thing is done at a time, and it is measured how long the group takes to come right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pares.core.wire.records import Seat
from pares.sim.allcall.process import AllCallProcess
from pares.sim.checker import Broken

if TYPE_CHECKING:
    from pares.sim.allcall.play import AllCallPlay

FINE = 40
"""How often a beat is looked while something is measured."""


class Probes:
    """`measured`: by what was done, how long it took, in nanoseconds."""

    def __init__(self, play: AllCallPlay) -> None:
        self.play = play
        self.scene = play.scene
        self.engine = play.scene.engine
        self.bounds = play.bounds
        self.rng = play.scene.random("probes")
        self.measured: dict[str, list[int]] = {}

    def broken(self, what: str) -> Broken:
        return Broken("it comes right in time", self.engine.now, what)

    def expect_dawn(self, begins: list[tuple[AllCallProcess, int]]) -> None:
        """Somebody leads each role in time. A better ranked member that begins within a beat of one is waited for."""
        for seat in self.play.seats:
            able = [(p, at) for p, at in begins if seat[0] in p.roles]
            if not able:
                continue
            first, at = able[0]
            near = self.bounds.beat + 2 * self.bounds.delay + int(2 * self.play.knobs.drift * self.bounds.cold)
            for process, began in able:
                if process.key() < first.key() and began <= at + near:
                    first, at = process, began
            self.engine.at(at, self._measure, "cold", seat, self.bounds.cold, at)

    def plan(self, first: int, rest: int) -> int:
        """Puts all probes on their days; returns the time of the last one's evening."""
        at = first
        self.engine.at(at, self._calm)
        for kind in self.play.knobs.probes:
            self.engine.at(at, self._probe, kind)
            at += rest + (self.bounds.quiet if kind == "split" else 0) + self.bounds.quiet
        return at

    def _calm(self) -> None:
        self.play.no_gap.calm = True

    def _probe(self, kind: str) -> None:
        self.play.settled.check()
        seat = self.rng.choice(self.play.seats)
        leaders = self.scene.believers(seat)
        others = [p for p in self.play.own if p.acts and p.ready and seat[0] in p.roles and p not in leaders]
        if not leaders or not others:
            return
        leader = leaders[0]
        self.scene.note("--", f"probe: {kind}", seat=seat)
        getattr(self, f"_{kind}")(seat, leader)

    # What is done ----------------------------------------------------------------------------------------------------

    def _crash(self, seat: Seat, leader: AllCallProcess) -> None:
        leader.kill()
        self.scene.disturbed()
        self.engine.after(self.bounds.quiet, self.play.start, leader)
        self._measure("crash", seat, self.bounds.crash, self.engine.now)

    def _restart(self, seat: Seat, leader: AllCallProcess) -> None:
        """It comes back within its own lease: as somebody else, who was not there before."""
        leader.kill()
        self.scene.disturbed()
        self.engine.after(self.play.unit // 4, self.play.start, leader)
        # The one that came back is the best one again, and waits for answers to its first call.
        self._measure("restart", seat, self.bounds.crash + self.bounds.beat, self.engine.now)

    def _close(self, seat: Seat, leader: AllCallProcess) -> None:
        leader.close()
        self.scene.disturbed()
        self.engine.after(self.bounds.quiet, self.play.start, leader)
        self._measure("close", seat, self.bounds.stop, self.engine.now)

    def _step_down(self, seat: Seat, leader: AllCallProcess) -> None:
        self.scene.disturbed()
        leader.step_down(seat[0])
        self._measure("step_down", seat, self.bounds.stop, self.engine.now)

    def _join(self, seat: Seat, leader: AllCallProcess) -> None:
        """A better ranked one comes: it leads when the term in force ends, without a gap."""
        process = self.play.add_better()
        process.settings["roles"] = self.play.roles
        self.play.start(process)
        # It hears a call within a beat; then the leader must have renewed just now.
        bounds = self.bounds
        bound = 2 * bounds.beat + bounds.lease + 3 * bounds.delay + bounds.step + bounds.clocks + bounds.barrier
        self._measure("join", seat, bound, self.engine.now, process)

    def _split(self, seat: Seat, leader: AllCallProcess) -> None:
        cut = self.play.sides(self.rng)
        self.scene.disturbed()
        self.play.no_gap.calm = False
        self.scene.net.cuts.append(cut)
        self.engine.after(self.bounds.quiet, self._heal, seat, cut)

    def _heal(self, seat: Seat, cut: object) -> None:
        best = self.play.settled.best(seat)
        self.scene.disturbed()
        self.scene.note("--", "heals")
        self.scene.net.cuts.remove(cut)  # pyright: ignore[reportArgumentType]
        now = self.engine.now
        self.play.one_goes_on.watch(seat, self.bounds.heal)
        self.engine.after(self.bounds.heal, self._calm)
        self._measure("heal", seat, self.bounds.heal, now)
        self._measure("best", seat, self.bounds.best, now, best)

    # How long it takes -----------------------------------------------------------------------------------------------

    def _measure(self, what: str, seat: Seat, bound: int, since: int, who: AllCallProcess | None = None) -> None:
        """Until one leads (`who`, if it must be that one)."""
        leaders = self.scene.believers(seat)
        if len(leaders) == 1 and who in (None, leaders[0]):
            self.measured.setdefault(what, []).append(self.engine.now - since)
        elif self.engine.now > since + bound:
            names = [p.id for p in leaders]
            raise self.broken(
                f"{bound / 1e6:.1f} ms after {what} {seat[0]} is led by {names}"
                + (f", and should be by {who.id}" if who is not None else "")
            )
        else:
            self.engine.after(self.bounds.beat // FINE, self._measure, what, seat, bound, since, who)
