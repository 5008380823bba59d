"""One seed of NELI or Fast NELI, played: a cast, a storm of faults, a calm in which everything must come right, a verdict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pares.core.wire.records import Seat
from pares.sim.engine import MS, SECOND, Stopwatch, WallClock
from pares.sim.faults.random_events import Chance
from pares.sim.log import SimLog
from pares.sim.neli.checkers import Barriers, Emergence, Frugal, NoGap, OneLeader, Tokens
from pares.sim.neli.knobs import FAULTS, NeliKnobs
from pares.sim.neli.overlap import Crowd, Overlap
from pares.sim.neli.process import NeliProcess
from pares.sim.neli.scene import GROUP, NeliChecker, NeliScene
from pares.sim.outcome import Outcome, judged
from pares.sim.wire import fair

PROBES: Final = (0.3, 0.65)
LONGEST_FREEZE: Final = 4.0
LONGEST_CUT: Final = 6.0


class NeliPlay:
    """One seed."""

    def __init__(self, knobs: NeliKnobs, *, told: bool = False) -> None:
        self.knobs = knobs
        self.unit = knobs.session_ms * MS
        self.scene = NeliScene(
            f"{knobs.seed}/{knobs.mode}",
            protocol=knobs.protocol,
            partitions=knobs.partitions,
            session=self.unit,
            group_delay=knobs.group_delay,
            weather=knobs.weather,
            told=told,
        )
        self.rng = self.scene.random("cast")
        self.calm_since = int(knobs.storm * self.unit)
        self.length = int((knobs.storm + knobs.calm) * self.unit)
        self.roles = tuple(str(i) for i in range(knobs.roles))
        self.seats: list[Seat] = [(role, 0) for role in self.roles]
        self.own = [self._add(chr(ord("a") + i)) for i in range(knobs.members)]
        for process in self.own:
            self.scene.engine.at(int(self.rng.uniform(0, 2) * self.unit), self.start, process)
        self.neighbours = [self._add(f"next{k}", f"next{k}") for k in range(knobs.neighbours)]
        for process in self.neighbours:
            self.scene.engine.at(int(self.rng.uniform(0, 2) * self.unit), self.start, process)
        self.emergence = Emergence(self.scene, self.seats, self.bound)
        self.scene.watch([Tokens(self.scene, exclusive=knobs.exclusive), self.emergence])
        self.scene.watch([OneLeader(self.scene), Barriers(self.scene)] if knobs.exclusive else self._of_nele())
        if knobs.neighbours:
            self.scene.watch(
                [Frugal(self.scene, knobs, {p.name for p in self.neighbours}, self.calm_since, self.length)]
            )
        self.storm = NeliStorm(self)
        self.scene.engine.at(self.calm_since, self._heal_all)
        for part in PROBES:
            self.scene.engine.at(self.calm_since + int(part * (self.length - self.calm_since)), self._probe)

    def _of_nele(self) -> list[NeliChecker]:
        knobs = self.knobs
        crowd = Crowd(
            self.scene, knobs.budget, knobs.interval_ms, self.unit, int((LONGEST_FREEZE + LONGEST_CUT) * self.unit)
        )
        slack = knobs.weather.lag[1] + 10 * MS
        overlap = Overlap(self.scene, knobs.threshold_ms * MS, drift=knobs.drift, slack=slack, crowd=crowd)
        return [overlap, NoGap(self.scene)]

    @property
    def bound(self) -> int:
        """By when somebody leads, if a member crashes in the calm: the coordinator looks every twentieth of a session, tells,
        and the announcement comes back; for an owner with a threshold above the session the rest of that is waited for."""
        knobs = self.knobs
        quick = knobs.weather.send[1] + knobs.weather.lag[1] + 20 * MS
        beat = knobs.beat_ms if knobs.neighbours else knobs.interval_ms
        words = 6 * knobs.group_delay[1] + 6 * quick + int(2 * beat * MS)
        reach = self.unit * 21 // 20
        # After a lie of the group's, whoever it gave a partition to that is another's: that one's silence is waited for.
        silence = {
            "fast-neli": knobs.threshold_ms,
            "neli": knobs.threshold_ms + knobs.error_ms,
            "nele": knobs.session_ms,
        }
        if "lie" in knobs.faults or knobs.law.by_own_beats:
            reach = max(reach, int(silence[knobs.mode] * MS * (1 + knobs.drift) ** 2))
        return reach + words + int(knobs.barrier * self.unit)

    def play(self) -> Outcome:
        return judged(
            self._run,
            self.scene.engine,
            self.scene.story,
            self.knobs,
            unstoppable="nothing stops a member",
            records=lambda: sum(log.end for log in self.scene.logs),
        )

    def _run(self) -> None:
        self.scene.engine.run(self.length)
        self.scene.tell("end")

    def _add(self, name: str, group: str = GROUP) -> NeliProcess:
        knobs, rng = self.knobs, self.rng
        settings = {
            "group": group,
            "roles": self.roles if group == GROUP else (f"of {group}",),
            "budget": knobs.budget,
            "threshold_ms": knobs.threshold_ms,
            "interval_ms": knobs.interval_ms,
            "session_ms": knobs.session_ms,
            "drift": knobs.drift,
            "barrier_ms": knobs.barrier_ms,
            "exclusive": knobs.exclusive,
            "error_ms": knobs.error_ms,
        }
        swing = rng.choice((-1.0, 1.0)) if knobs.extreme else rng.uniform(-1, 1)
        stopwatch = Stopwatch(rng.randint(0, 10**6) * SECOND, 1.0 + knobs.drift * swing)
        error = rng.choice((-1.0, 1.0)) if knobs.extreme else rng.uniform(-1, 1)
        # NELI's clocks are within e of the broker's; for the other modes they are anywhere.
        spread = knobs.error_ms if knobs.law.by_clocks else 10_000_000
        process = self.scene.add(name, settings, stopwatch=stopwatch, wall=WallClock(int(error * spread * 1000)))
        if 0 < knobs.narrow < knobs.partitions and len(name) == 1 and ord(name) % 2:
            process.settings["partitions"] = knobs.narrow
        process.poll = max(MS, min(self.unit, knobs.threshold_ms * MS) // 10)
        longest = int(knobs.barrier * self.unit)
        process.barrier_time = lambda seat: rng.randint(0, longest) if longest else 0
        return process

    def start(self, process: NeliProcess) -> None:
        if not process.running:
            process.start()

    def restart_if_over(self, process: NeliProcess) -> None:
        if process.over is not None:
            process.kill()
        self.start(process)

    def _heal_all(self) -> None:
        """The storm is over."""
        self.scene.note("--", "the calm begins")
        longest = int(self.knobs.barrier * self.unit)
        for process in self.neighbours:
            for part in process.parts:
                part.wire.weather = fair(self.knobs.weather)
        for process in self.own:
            process.thaw()
            process.cut()
            process.freeze_at = None
            process.barrier_time = lambda seat: self.rng.randint(0, longest) if longest else 0
            for part in process.parts:
                part.wire.weather = fair(self.knobs.weather)
            if not process.running or process.over is not None:
                self.restart_if_over(process)

    def _probe(self) -> None:
        """In the calm one thing happens, and a bound says by when it has come right."""
        leaders = [p for p in self.own if p.well() and p.beliefs]
        if len([p for p in self.own if p.well()]) < 2 or not leaders:
            return
        chosen, kind = self.rng.choice(leaders), self.rng.choice(("crash", "crash", "close", "shuffle"))
        if kind == "crash":
            chosen.kill()
        elif kind == "close":
            chosen.close()
        else:
            self.scene.coordinator.shuffle()
        self.emergence.probe()


class NeliStorm(Chance[NeliProcess]):
    """Draws faults, at random times, until it is over."""

    RATHER = 0.7

    def __init__(self, play: NeliPlay) -> None:
        self.play = play
        self.scene = play.scene
        rng, knobs = play.scene.random("storm"), play.knobs
        super().__init__(play.scene.engine, rng, knobs.faults, pace=knobs.pace, unit=play.unit, until=play.calm_since)

    def happen(self, kind: str) -> None:
        STRIKES[kind](self)

    def own(self) -> list[NeliProcess]:
        return self.play.own

    def crash(self) -> None:
        process = self.someone()
        if process is not None:
            process.kill()
            self.engine.after(self.span(0, 4), self.play.start, process)

    def freeze(self) -> None:
        process = self.someone()
        if process is not None:
            process.freeze(self.span(0.05, LONGEST_FREEZE))

    def freeze_buffered(self) -> None:
        process = self.someone()
        if process is not None:
            process.freeze_at = ("buffered", self.span(0.2, LONGEST_FREEZE))

    def freeze_clocks(self) -> None:
        """For less than a belief lasts: one that ran out meanwhile is over, whatever was read of the clocks."""
        process = self.someone()
        if process is not None:
            process.freeze_at = ("clocks", self.span(0.05, 1))

    def freeze_ticked(self) -> None:
        process = self.someone()
        if process is not None:
            process.freeze_at = ("ticked", self.span(0.2, LONGEST_FREEZE))

    def _cut(self, what: str, **ways: bool) -> None:
        process = self.someone()
        if process is not None:
            self.scene.note(process.name, what)
            process.cut(**ways)
            self.engine.after(self.span(0.3, LONGEST_CUT), self._heal, process)

    def _heal(self, process: NeliProcess) -> None:
        self.scene.note(process.name, "is healed")
        process.cut()

    def cut_log(self) -> None:
        self._cut("is cut off the log", log=True)

    def cut_group(self) -> None:
        self._cut("is cut off the group", group=True)

    def oblivious(self) -> None:
        self._cut("is cut off the group, and does not notice", group=True, oblivious=True)

    def cut_all(self) -> None:
        self._cut("is cut off everything", log=True, group=True)

    def deaf(self) -> None:
        self._cut("is deaf", reads=True)

    def mute(self) -> None:
        self._cut("is mute", writes=True)

    def outage(self) -> None:
        """The logs are out of everybody's reach."""
        length = self.span(0.1, 3)
        self.scene.note("logs", "out of reach")
        for process in self.play.own:
            process.cut(log=True)
            self.engine.after(length, self._heal, process)

    def shuffle(self) -> None:
        self.scene.coordinator.shuffle()

    def lie(self) -> None:
        """The group's word means nothing: a partition is given to whomever, or declared lost to whoever has it."""
        process = self.someone()
        if process is not None:
            self.scene.coordinator.lie(process, self.rng.randrange(self.play.knobs.partitions), self.rng.random() < 0.5)

    def close(self) -> None:
        process = self.someone()
        if process is not None:
            process.close()
            self.engine.after(self.span(1, 6), self.play.restart_if_over, process)

    def replay(self) -> None:
        """Copies of what stood in a log, of any age, land again."""
        log = self.rng.choice(self.scene.logs)
        entries = log.entries()
        for _ in range(self.rng.randint(1, 6)):
            if entries:
                self.engine.after(self.span(0, 1), self._append, log, self.rng.choice(entries)[2])

    def _append(self, log: SimLog, payload: bytes) -> None:
        log.append([payload], self.engine.now)

    def garbage(self) -> None:
        log = self.rng.choice(self.scene.logs)
        for payload in (b"", b"{", b"\xff", b'{"k":"announce"}', b"[" * 1000):
            log.append([payload], self.engine.now)

    def broken(self) -> None:
        """Another log takes the place of one partition's; its name may be the same."""
        number = self.rng.randrange(self.play.knobs.partitions)
        self.scene.replace_log(number, same=self.rng.random() < 0.3)

    def forgetful(self) -> None:
        """One partition's log loses all that stands in it; its place goes on."""
        number = self.rng.randrange(self.play.knobs.partitions)
        log = self.scene.logs[number]
        log.trim(log.end)
        self.scene.tell("replaced", number)

    def barrier(self) -> None:
        """Somebody's next barriers are slow, or never return."""
        process = self.someone()
        if process is not None:
            length = None if self.rng.random() < 0.3 else self.span(0.1, 3)
            process.barrier_time = lambda seat: length


STRIKES: Final[dict[str, Callable[[NeliStorm], None]]] = {name: getattr(NeliStorm, name) for name in FAULTS}


def play(knobs: NeliKnobs, *, told: bool = False) -> Outcome:
    return NeliPlay(knobs, told=told).play()
