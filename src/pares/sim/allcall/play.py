"""One seed of ALLCALL, played: a dawn in which all begin, a storm of faults, a calm in which single things are done and
measured, and a verdict."""

from __future__ import annotations

from random import Random
from typing import Final

from pares.core.wire.records import Seat
from pares.sim.allcall.checkers import Alone, Claims, Emergence, NoGap, OneGoesOn, OneSide, Planned, Silence, Terms
from pares.sim.allcall.knobs import AllCallKnobs, Bounds, fair
from pares.sim.allcall.net import Cut
from pares.sim.allcall.others import Members, Settled, Traffic
from pares.sim.allcall.probes import Probes
from pares.sim.allcall.process import NEVER, AllCallProcess
from pares.sim.allcall.scene import AllCallScene
from pares.sim.allcall.storm import AllCallStorm
from pares.sim.engine import MS, SECOND, Stopwatch, WallClock
from pares.sim.outcome import Outcome, judged

LOOKS: Final = 5
"""How often a beat checkers look."""


class AllCallPlay:
    """One seed."""

    def __init__(self, knobs: AllCallKnobs, *, told: bool = False) -> None:
        self.knobs = knobs
        self.unit = lease = knobs.lease_ms * MS
        self.bounds = bounds = Bounds(knobs)
        self.scene = scene = AllCallScene(f"{knobs.seed}/allcall", weather=fair(knobs.weather), told=told)
        self.rng = scene.random("cast")
        self.roles = tuple(f"r{i}" for i in range(knobs.roles))
        self.seats: list[Seat] = [(role, 0) for role in self.roles]
        self.own = [self._add(i) for i in range(knobs.members)]
        self.settled = Settled(scene, self.seats)
        self.no_gap = NoGap(scene, bounds)
        self.one_goes_on = OneGoesOn(scene)
        scene.watch(
            (
                OneSide(scene, bounds, self.seats),
                Emergence(scene, bounds),
                Claims(scene, bounds, lease),
                Terms(scene, bounds, lease),
                Silence(scene, lease, knobs.skew_ms * MS),
                Alone(scene, bounds, lease),
                self.no_gap,
                Planned(scene, bounds),
                self.one_goes_on,
                Members(scene, bounds, knobs),
                Traffic(scene, knobs),
                self.settled,
            )
        )
        self.probes = Probes(self)
        begins = sorted(int(self.rng.uniform(0, knobs.dawn) * lease) for _ in self.own)
        first_to_last = list(zip(self.rng.sample(self.own, len(self.own)), begins, strict=True))
        for process, at in first_to_last:
            scene.engine.at(at, self.start, process)
        self.probes.expect_dawn(first_to_last)
        storm = begins[-1] + 2 * bounds.cold
        calm = storm + int(knobs.storm * lease)
        scene.engine.at(storm, self._begin_storm, calm)
        scene.engine.at(calm, self._heal_all)
        # What was late, or is repeated though it is old, may come for a while yet.
        rest = (
            bounds.quiet + bounds.lease + 2 * bounds.best + bounds.beat + int(knobs.barrier_ms * MS / (1 - knobs.drift))
        )
        first = calm + (knobs.weather.late_by[1] if knobs.weather.late or knobs.weather.doubled else 0) + rest
        self.length = self.probes.plan(first, rest)
        scene.engine.at(0, scene.look_every, bounds.beat // LOOKS)
        if "replay" in knobs.faults:
            scene.engine.at(storm, self._replay_on)

    def play(self) -> Outcome:
        scene = self.scene
        return judged(
            self._run,
            scene.engine,
            scene.story,
            self.knobs,
            unstoppable="nothing stops a member",
            records=lambda: scene.net.published,
        )

    def _run(self) -> None:
        self.scene.engine.run(self.length)
        self.scene.tell("end")

    # The cast --------------------------------------------------------------------------------------------------------

    def _add(self, number: int, *, rank: int | None = None) -> AllCallProcess:
        knobs, rng = self.knobs, self.rng
        mine = self.roles
        if knobs.picky and number > 0:
            mine = tuple(role for role in mine if rng.random() < 0.7) or mine[:1]
        settings = {
            "rank": knobs.ranks[number % len(knobs.ranks)] if rank is None else rank,
            "roles": mine,
            "heartbeat_ms": knobs.beat_ms,
            "lease_ms": knobs.lease_ms,
            "skew_ms": knobs.skew_ms,
            "order": knobs.order,
            "when_isolated": knobs.isolated[number % len(knobs.isolated)],
            "phase_ms": rng.randrange(knobs.beat_ms),
            "barrier_ms": knobs.barrier_ms,
        }
        swing = rng.choice((-1.0, 1.0)) if knobs.extreme else rng.uniform(-1, 1)
        stopwatch = Stopwatch(rng.randint(0, 10**6) * SECOND, 1.0 + knobs.drift * swing)
        process = self.scene.add(chr(ord("a") + number), settings, stopwatch=stopwatch, wall=WallClock())
        process.wakes_late = knobs.wakes_late
        self.set_wall(process, rng)
        self.usual_barrier(process)
        return process

    def usual_barrier(self, process: AllCallProcess) -> None:
        longest = int(self.knobs.barrier * self.unit)
        process.barrier_time = lambda: process.rng.randint(0, longest)

    def add_better(self) -> AllCallProcess:
        """One more, ranked before all others."""
        best = min(p.settings["rank"] for p in self.scene.processes.values())
        process = self._add(len(self.scene.processes), rank=best - 1)
        self.own.append(process)
        return process

    def set_wall(self, process: AllCallProcess, rng: Random) -> None:
        swing = rng.choice((-1.0, 1.0)) if self.knobs.extreme else rng.uniform(-1, 1)
        process.wall.offset_us = int(swing * self.knobs.wall_s * 1e6)

    # What is done ----------------------------------------------------------------------------------------------------

    def start(self, process: AllCallProcess) -> None:
        if not process.running:
            self.scene.disturbed()
            process.start()

    def hurt(self, process: AllCallProcess) -> None:
        process.well_since = NEVER

    def heal(self, process: AllCallProcess) -> None:
        station = process.station
        if not station.well:
            self.scene.note(process.name, "is healed")
            self.scene.disturbed()
            another = not station.connected
            station.mute = station.deaf = False
            self.scene.net.connect(process)
            process.connected_again(missed=another)

    def sides(self, rng: Random) -> Cut:
        """A split into two or three sides."""
        count = min(rng.choice((2, 2, 3)), len(self.own))
        names = rng.sample([p.name for p in self.own], len(self.own))
        side = {name: number % count for number, name in enumerate(names)}
        self.scene.note(
            "bus", "is split", why=" | ".join(" ".join(n for n in names if side[n] == s) for s in range(count))
        )
        return lambda source, target: side.get(source, 0) != side.get(target, 0)

    def mend(self, cut: Cut) -> None:
        if cut in self.scene.net.cuts:
            self.scene.note("bus", "is whole, or less cut")
            self.scene.disturbed()
            self.scene.net.cuts.remove(cut)

    def replay(self, rng: Random, count: int) -> None:
        net, now = self.scene.net, self.scene.engine.now
        old = int(1.1 * self.unit + 2e9 * self.knobs.wall_s)
        told = [message for message in net.history if message.at < now - old]
        for _ in range(count if told else 0):
            message = rng.choice(told)
            for process in self.own:
                net.deliver_after(rng.randint(0, self.unit // 4), message.sender, process.name, message)

    def _replay_on(self) -> None:
        self.replay(self.rng, 1)
        self.scene.engine.after(self.unit // 2, self._replay_on)

    def _begin_storm(self, until: int) -> None:
        self.scene.net.weather = self.knobs.weather
        self.storm = AllCallStorm(self, until)

    def _heal_all(self) -> None:
        """The storm is over."""
        self.scene.note("--", "the calm begins")
        self.scene.net.weather = fair(self.knobs.weather)
        self.scene.net.cuts.clear()
        for process in self.own:
            process.freeze_at = 0
            process.thaw(process.incarnations)
            self.heal(process)
            self.usual_barrier(process)
            process.become(ready=True)
            self.start(process)
        self.scene.disturbed()


def play(knobs: AllCallKnobs, *, told: bool = False) -> Outcome:
    return AllCallPlay(knobs, told=told).play()
