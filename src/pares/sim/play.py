"""One seed, played: a cast drawn from the knobs, a storm of faults, a calm in which everything must come right, a verdict."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from random import Random
from typing import Any, Final

from pares.core.claims import duties, outbox, snapshotting
from pares.core.claims.protocol import RoleSpec
from pares.core.events import Close, HandOver, Ready, Stop
from pares.core.wire import forgetting, reader, world
from pares.sim.checkers import everything
from pares.sim.engine import MS, SECOND, Stopwatch, WallClock
from pares.sim.faults.storm import Storm
from pares.sim.faults.user_actions import Acts
from pares.sim.knobs import Knobs
from pares.sim.outcome import Outcome, judged
from pares.sim.process import NEVER, Process
from pares.sim.scene import Scene
from pares.sim.wire import fair, slowed

PROBES: Final = (0.45, 0.72)
"""At which parts of the calm something is measured."""
HOME: Final = "stage"
NEXT_DOOR: Final = "next door"


class Play:
    """One seed. `own` are the processes of the group that is judged, without its administrator."""

    def __init__(self, knobs: Knobs, *, told: bool = False) -> None:
        self.knobs = knobs
        self.unit = knobs.session_ms * MS
        self.scene = Scene(knobs.seed, group=HOME, weather=knobs.weather, told=told, begin=knobs.begin)
        self.scene.trims = max(knobs.sessions) * MS if knobs.trims else None
        self.scene.proof_delay = (MS // 2, max(MS, int(knobs.proof_delay_ms * MS)))
        self.length = int((knobs.storm + knobs.calm) * self.unit) + self._grace()
        self.fair_since = int(knobs.storm * self.unit)
        """From when on the ledger does what it is told at once, whatever it did before."""
        self.own: list[Process] = []
        self.admin: Process | None = None
        self._strangers = 0
        self._rng = self.scene.random("cast")
        self._moods = self.scene.random("moods")
        self.scene.release = self._release
        self._cast()
        self.checkers = everything(self)
        self.scene.watch(self.checkers)
        self.storm = Storm(self)
        self.acts = Acts(self)
        calm = self.fair_since
        phases = len(knobs.releases)
        for phase in range(1, phases):
            self.scene.engine.at(calm * phase // phases, self._roll)
        self.scene.engine.at(calm, self._heal_all)
        for part in PROBES:
            self.scene.engine.at(calm + int(part * (self.length - calm)), self._probe)

    def healthy(self) -> bool:
        """Whether the ledger has treated everybody well for so long that nothing of before is still on its way."""
        fair = self.scene.engine.now > self.fair_since + self.knobs.weather.late_by[1]
        return self.knobs.healthy or (fair and "forge" not in self.knobs.faults)

    def _grace(self) -> int:
        """Members with long sessions need longer until everything has come right."""
        return int((max(self.knobs.sessions) - self.knobs.session_ms) * MS * 4)

    def play(self) -> Outcome:
        """Plays the seed to its end, or to the first promise that is broken."""
        scene = self.scene
        records = lambda: scene.log.end  # noqa: E731
        return judged(
            self._run, scene.engine, scene.story, self.knobs, unstoppable="nothing stops a reader", records=records
        )

    def _run(self) -> None:
        with shrunk(self.knobs.scale):
            self.scene.engine.run(self.length)
            for checker in self.checkers:
                checker.end()

    # The cast --------------------------------------------------------------------------------------------------------

    def _cast(self) -> None:
        knobs, rng = self.knobs, self._rng
        roles = tuple(RoleSpec(f"r{i}", seats) for i, seats in enumerate(knobs.seats))
        late = "late_joiner" in knobs.faults
        for i in range(knobs.members):
            process = self._add(chr(ord("a") + i), knobs.sessions[i], self._settings(rng, i, roles))
            self._make_slow(process, knobs.slow[i] if knobs.slow else 0)
            process.warm = knobs.starts[i] if knobs.starts else "ready"
            self.own.append(process)
            if i < 2 or not late:
                self.scene.engine.at(int(rng.uniform(0, 1) ** 3 * 3 * self.unit), self.start, process)
        if knobs.admin:
            self.admin = self._add("admin", knobs.session_ms, {"eligible": ()})
            self.admin.start()
        for i in range(knobs.neighbours):
            there = {"group": NEXT_DOOR, "roles": (RoleSpec("r0"),), "eligible": ("r0",)}
            self._add(f"n{i}", knobs.session_ms, there).start()

    def _settings(self, rng: Random, i: int, roles: tuple[RoleSpec, ...]) -> dict[str, Any]:
        knobs = self.knobs
        mine = roles
        if knobs.picky and i > 0:
            mine = tuple(role for role in roles if rng.random() < 0.7)
        settings: dict[str, Any] = {"roles": mine, "eligible": tuple(role.name for role in mine)}
        settings["drift"] = knobs.drifts[i]
        if not knobs.picky and (knobs.acts or rng.random() < 0.3):
            settings["eligible"] = None
        if knobs.ranks:
            settings["rank"] = rng.randint(0, 2)
        if knobs.weights:
            settings["weight"] = rng.choice((1.0, 1.0, 2.0))
        if knobs.hosts:
            settings["host"] = f"h{i % knobs.hosts}"
            settings["zone"] = f"z{i % 2}"
        return settings

    def _add(self, name: str, session_ms: int, settings: dict[str, Any]) -> Process:
        knobs, rng = self.knobs, self._rng
        drift = settings.get("drift", knobs.drift)
        retention = None if knobs.retention is None else int(knobs.retention * max(knobs.sessions))
        settings = {
            "session_ms": session_ms,
            "drift": drift,
            "overlap_ms": knobs.overlap_ms,
            "settle_ms": int(knobs.settle * knobs.session_ms),
            "barrier_ms": max(1, int(knobs.barrier_timeout * knobs.session_ms)),
            "retention_ms": retention,
            **settings,
        }
        swing = rng.choice((-1.0, 1.0)) if knobs.extreme else rng.uniform(-1, 1)
        stopwatch = Stopwatch(rng.randint(0, 10**6) * SECOND, 1.0 + drift * swing)
        wall = WallClock(int(rng.uniform(-1, 1) * knobs.wall_spread * 1e6))
        process = self.scene.add(name, settings, stopwatch=stopwatch, wall=wall)
        process.proof = knobs.proof
        if self.scene.engine.now >= self.fair_since > 0:
            process.wire.weather = fair(knobs.weather)
        process.poll = max(MS, self.unit // 4)
        self.usual_barrier(process)
        return process

    def _make_slow(self, process: Process, trip: float) -> None:
        """Its round trip takes so many of its sessions; where the time is lost differs from one to another."""
        if trip:
            weather, length = process.wire.weather, int(trip * process.settings["session_ms"] * MS)
            process.wire.weather = slowed(weather, length, process.rng.choice((0.1, 0.5, 0.9)))

    def add_twin(self, process: Process) -> Process:
        """Another process of the same name."""
        settings = {k: v for k, v in process.settings.items() if k != "group"}
        twin = self._add(f"{process.name}-{len(self.own)}", settings["session_ms"], settings)
        twin.settings["name"] = process.settings.get("name", process.name)
        self.own.append(twin)
        return twin

    def add_another(self, like: Process, name: str | None = None) -> Process:
        """One more process, made like that one, under a name of its own."""
        settings = {k: v for k, v in like.settings.items() if k not in ("group", "name")}
        process = self._add(name or f"more{len(self.own)}", settings["session_ms"], settings)
        self.own.append(process)
        return process

    def usual_barrier(self, process: Process) -> None:
        rng, longest = process.rng, int(self.knobs.barrier * self.unit)
        process.barrier_time = lambda seat, token: rng.randint(0, longest) if longest else 0

    def strangers(self) -> int:
        self._strangers += 1
        return self._strangers

    def of_id(self, id: str) -> Process | None:
        return next((p for p in self.own if p.running and p.id == id), None)

    # What is done to processes ---------------------------------------------------------------------------------------

    def disturb(self) -> None:
        self.scene.disturbed()

    def troubled(self, process: Process) -> None:
        """From now until it is healed nothing is expected of it."""
        process.well_since = NEVER
        self.scene.disturbed()

    def forget(self, process: Process) -> None:
        """It dies, and never starts again."""
        self.scene.kill(process)
        self.own.remove(process)
        del self.scene.processes[process.name]

    def start(self, process: Process) -> None:
        if not process.running and process.name in self.scene.processes:
            self.scene.disturbed()
            process.ready = process.warm == "ready"
            process.start()
            if process.warm in ("later", "flaps"):
                self._warm_up(process, process.starts)

    def start_if_over(self, process: Process) -> None:
        """A member that closed, or stopped with an error, is started again by its operators."""
        if process.running and process.over is not None:
            process.kill()
        self.start(process)

    def _release(self) -> dict[str, int]:
        """What who starts now writes and reads; also in the calm, when it is the last release."""
        releases = self.knobs.releases
        if len(releases) == 1:
            return {}
        now = self.scene.engine.now * len(releases) // self.fair_since
        writes, reads = releases[min(now, len(releases) - 1)]
        return {"writes": writes, "reads": reads}

    def _roll(self) -> None:
        """Another release from now on: one process after the other is closed, and started again."""
        everybody = [*self.own, *([self.admin] if self.admin else [])]
        for place, process in enumerate(everybody):
            self.scene.engine.after(place * self.unit // 3, self._replace, process)

    def _replace(self, process: Process) -> None:
        if process.running and process.over is None:
            self.disturb()
            self.scene.note(process.name, "gets another release")
            process.request(Close())
        if process.incarnations:
            self.scene.engine.after(self.unit, self.start_if_over, process)

    def restart(self, process: Process) -> None:
        if process.running:
            self.scene.kill(process)
        self.start(process)

    def make_ready(self, process: Process) -> None:
        if process.running and not process.ready and process.warm == "ready":
            self.scene.disturbed()
            self.scene.note(process.name, "is ready")
            process.ready = True
            process.request(Ready(True))

    def _warm_up(self, process: Process, life: int) -> None:
        after = int(self._moods.uniform(0.05, 1) * self.knobs.warm_up * self.unit)
        self.scene.engine.after(after, self._turn, process, life)

    def _turn(self, process: Process, life: int) -> None:
        """It is ready now, or not any more. That disturbs nobody else: whatever others lead is led."""
        if process.starts != life or not process.running or process.over is not None:
            return
        process.ready = process.warm == "later" or not process.ready
        self.scene.turned(process)
        if process.well_since != NEVER:
            process.well_since = self.scene.engine.now
        process.request(Ready(process.ready))
        if process.warm == "flaps":
            self._warm_up(process, life)

    def heal(self, process: Process) -> None:
        wire = process.wire
        if wire.reads_cut or wire.writes_cut or wire.acks_cut:
            wire.reads_cut = wire.writes_cut = wire.acks_cut = False
            process.well_since = self.scene.engine.now
            self.scene.note(process.name, "is healed")
            self.scene.disturbed()
            process.wake(self.scene.engine.now)

    def _heal_all(self) -> None:
        """The storm is over."""
        self.scene.note("--", "the calm begins")
        everybody: Iterable[Process] = [*self.own, *([self.admin] if self.admin else [])]
        for process in everybody:
            self.scene.thaw(process)
            self.heal(process)
            process.wire.weather = fair(process.wire.weather)
            process.freeze_at, process.stall_next = None, 0
            if not process.running and process.incarnations and self._rng.random() < 0.6:
                self.start(process)
            elif isinstance(process.over, Stop) and process.over.kind == "cloned":
                self.start_if_over(process)
            self.make_ready(process)
            self.usual_barrier(process)
        self.scene.disturbed()
        if not any(p.running and p.over is None for p in self.own):
            self.start_if_over(self.own[0])

    # Measuring -------------------------------------------------------------------------------------------------------

    def _probe(self) -> None:
        """In the calm one thing happens, and nothing else: so that it can be seen how long it takes, and what it moves."""
        rng = self._rng
        holders = [p for p in self.own if p.well() and p.beliefs]
        if not holders:
            return
        holder = rng.choice(holders)
        kind = rng.choice(("crash", "crash", "close", "hand over", "join", "join"))
        if kind == "crash":
            self.scene.kill(holder)
        elif kind == "close":
            self.scene.note(holder.name, "is closed")
            holder.request(Close())
        elif kind == "hand over":
            seat = rng.choice(sorted(holder.beliefs))
            self.scene.note(holder.name, "hands over", seat=seat)
            holder.request(HandOver(seat[0]))
        else:
            self.add_another(holder).start()


@contextmanager
def shrunk(scale: dict[str, int]) -> Generator[None, None, None]:
    """Constants of the kernel, smaller for everybody while this lasts."""
    before = [(module, name, getattr(module, name)) for key in scale for module, name in SCALED[key]]
    try:
        for key, value in scale.items():
            for module, name in SCALED[key]:
                setattr(module, name, value)
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


SCALED: Final = {
    "forget": ((world, "FORGET"),),
    "keep": ((forgetting, "KEPT"),),
    "window": ((reader, "WINDOW"),),
    "text": ((duties, "SNAPSHOT_TEXT"), (snapshotting, "SNAPSHOT_TEXT")),
    "batch": ((outbox, "MAX_BATCH"),),
    "place": ((world, "PLACE_EVERY"),),
}


def play(knobs: Knobs, *, told: bool = False) -> Outcome:
    return Play(knobs, told=told).play()
