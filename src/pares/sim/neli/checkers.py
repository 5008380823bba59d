"""What NELI and Fast NELI promise. No checker knows how the protocols work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pares.core.beacons import Announce, Beacon, Pulse, decode
from pares.core.protocol import Lead
from pares.core.records import BadRecord, Seat
from pares.sim.engine import MS, SECOND
from pares.sim.neli.process import NeliProcess
from pares.sim.neli.scene import NeliChecker, NeliScene
from pares.sim.story import seat_name

if TYPE_CHECKING:
    from pares.sim.neli.knobs import NeliKnobs

SETTLED: Final = 4
"""Sessions of calm, after which everybody has heard everybody."""


class OneLeader(NeliChecker):
    """Exclusive: at no instant do two members believe that they hold one seat. `allowed` (nanoseconds): for how long they may,
    in non-exclusive mode."""

    promise = "exclusive belief"

    def __init__(self, scene: NeliScene, allowed: int = 0) -> None:
        super().__init__(scene)
        self.allowed = allowed
        self.meetings: dict[tuple[Seat, str, str], int] = {}
        self.longest = 0

    def led(self, process: NeliProcess, effect: Lead) -> None:
        self._look(process, effect.seat)

    def renewed(self, process: NeliProcess, effect: Any) -> None:
        for seat in effect.seats:
            self._look(process, seat)

    def _look(self, process: NeliProcess, seat: Seat) -> None:
        if not process.believes(seat):
            return
        now = self.scene.engine.now
        for other in self.scene.processes.values():
            if other is process or not other.believes(seat):
                continue
            if not self.allowed:
                left = (min(process.belief_ends(seat), other.belief_ends(seat)) - now) / 1e6
                raise self.broken(
                    f"{process.id} and {other.id} both believe that they hold {seat_name(seat)}, "
                    f"for {left:.3f} ms if nobody stops"
                )
            one, two = sorted((process.name, other.name))
            began = self.meetings.get((seat, one, two))
            if began is None or not self._since(process, other, seat, began):
                self.meetings[seat, one, two] = now

    def _since(self, process: NeliProcess, other: NeliProcess, seat: Seat, began: int) -> bool:
        """Whether that meeting still lasts; one that has ended by itself is measured here."""
        return not self._measure(process, other, seat, began, self.scene.engine.now)

    def _measure(self, process: NeliProcess, other: NeliProcess, seat: Seat, began: int, at: int) -> bool:
        ends = min(p.belief_ends(seat) if seat in p.beliefs else at for p in (process, other))
        met = min(ends, at) - began
        self.longest = max(self.longest, met)
        if met > self.allowed:
            raise self.broken(
                f"{process.id} and {other.id} both believed in {seat_name(seat)} for {met / 1e6:.3f} ms, "
                f"{self.allowed / 1e6:.0f} ms are allowed"
            )
        return ends < at

    def followed(self, process: NeliProcess, effect: Any) -> None:
        self._part(process, effect.seat)

    def killed(self, process: NeliProcess) -> None:
        for seat in list(process.beliefs):
            self._part(process, seat)

    def _part(self, process: NeliProcess, seat: Seat) -> None:
        for key in [k for k in self.meetings if k[0] == seat and process.name in k[1:]]:
            other = self.scene.processes[key[1] if key[2] == process.name else key[2]]
            began = self.meetings.pop(key)
            if seat in process.beliefs:
                self._measure(process, other, seat, began, self.scene.engine.now)


class Tokens(NeliChecker):
    """Tokens of a seat strictly grow, and each is base + offset of an announcement that its holder made in the seat's log."""

    promise = "tokens grow"

    def __init__(self, scene: NeliScene) -> None:
        super().__init__(scene)
        self.last: dict[Seat, int] = {}
        self.announced: dict[int, set[tuple[str, int]]] = {}
        for number, log in enumerate(scene.logs):
            self.announced[number] = set()
            log.listeners.append(lambda entries, number=number: self._landed(number, entries))

    def _landed(self, number: int, entries: list[Any]) -> None:
        for offset, _, payload in entries:
            try:
                record = decode(payload)
            except BadRecord:
                continue
            if isinstance(record, Announce):
                self.announced[number].add((record.m, record.b + offset))

    def led(self, process: NeliProcess, effect: Lead) -> None:
        last = self.last.get(effect.seat, 0)
        if effect.token <= last:
            raise self.broken(f"{process.id} leads {seat_name(effect.seat)} by {effect.token}, after {last}")
        self.last[effect.seat] = effect.token
        if not any((process.id, effect.token) in found for found in self.announced.values()):
            raise self.broken(
                f"{process.id} leads {seat_name(effect.seat)} by {effect.token}, which it never announced"
            )


class Emergence(NeliChecker):
    """In the calm somebody leads every seat: after what was done to the group, within the bound; and in the end."""

    promise = "a leader emerges"

    def __init__(self, scene: NeliScene, seats: list[Seat], bound: int) -> None:
        super().__init__(scene)
        self.seats, self.bound = seats, bound

    def probe(self) -> None:
        """Something is done to the group: from now on the bound runs."""
        self.look()
        self.scene.engine.after(self.bound, self.look, True)

    def look(self, must: bool = False) -> None:
        for seat in self.seats:
            if not any(p.believes(seat) for p in self.scene.processes.values()) and must:
                raise self.broken(
                    f"nobody leads {seat_name(seat)} {self.bound / 1e6:.0f} ms after the last disturbance"
                )

    def end(self) -> None:
        self.look(True)


class Barriers(NeliChecker):
    """Exclusive: after a planned end nobody else leads before the barrier has returned, was fenced, or was lost with its
    process, as long as the lease lasts that was in force when it began."""

    promise = "barriers are awaited"

    def __init__(self, scene: NeliScene) -> None:
        super().__init__(scene)
        self.running: dict[Seat, tuple[NeliProcess, int, int]] = {}
        """Who runs it, for which token, and until when by its stopwatch."""

    def followed(self, process: NeliProcess, effect: Any) -> None:
        running = self.running.get(effect.seat)
        if effect.fenced:
            if running is not None and running[0] is process:
                del self.running[effect.seat]
        elif effect.seat in process.beliefs:
            self.running[effect.seat] = (process, effect.token, process.beliefs[effect.seat][1])

    def barrier_over(self, process: NeliProcess, effect: Any) -> None:
        running = self.running.get(effect.seat)
        if running is not None and running[0] is process and running[1] == effect.token:
            del self.running[effect.seat]

    def killed(self, process: NeliProcess) -> None:
        for seat in [seat for seat, running in self.running.items() if running[0] is process]:
            del self.running[seat]

    def led(self, process: NeliProcess, effect: Lead) -> None:
        running = self.running.get(effect.seat)
        if running is not None and running[0] is not process and running[0].now < running[2]:
            raise self.broken(f"{process.id} leads {seat_name(effect.seat)} while the barrier of {running[0].id} runs")


class NoGap(NeliChecker):
    """Non-exclusive: partitions that move between members who live leave no instant without a leader."""

    promise = "no gap"

    def followed(self, process: NeliProcess, effect: Any) -> None:
        if not effect.why.startswith("superseded"):
            return
        others = [p for p in self.scene.processes.values() if p is not process and p.believes(effect.seat)]
        if process.believes(effect.seat) and not others:
            raise self.broken(f"{process.id} stopped to lead {seat_name(effect.seat)} before anybody else led it")


class Frugal(NeliChecker):
    """Groups that share a topic stay within its budget of beats in the calm; where their beliefs need more, they beat as seldom
    as those bear. And nobody loses anything by it."""

    promise = "the budget is shared"

    def __init__(self, scene: NeliScene, knobs: NeliKnobs, neighbours: set[str], calm: int, end: int) -> None:
        super().__init__(scene)
        self.knobs = knobs
        self.neighbours = neighbours
        self.since, self.until = calm + SETTLED * knobs.session_ms * MS, end
        self.beats = 0
        for log in scene.logs:
            log.listeners.append(self._landed)

    def _landed(self, entries: list[Any]) -> None:
        if self.scene.engine.now >= self.since:
            self.beats += sum(isinstance(_decoded(payload), Pulse | Beacon) for _, _, payload in entries)

    def followed(self, process: NeliProcess, effect: Any) -> None:
        if process.name in self.neighbours and self.scene.engine.now >= self.since:
            raise self.broken(f"{process.id} lost {seat_name(effect.seat)} ({effect.why}), and nothing was done to it")

    def end(self) -> None:
        knobs, seconds = self.knobs, (self.until - self.since) / SECOND
        everybody = knobs.neighbours + (1 if knobs.mode == "fast-neli" else knobs.members)
        needed = (
            0.0
            if knobs.mode == "nele"
            else everybody * knobs.partitions * 1000 / max(knobs.slowest_ms, knobs.interval_ms)
        )
        # A clock may be fast. Whoever begins to lead says so at once; who crashed or came is counted late.
        most = (
            max(knobs.budget, needed) * seconds * (1 + knobs.drift) * 1.1
            + 8 * len(self.scene.processes) * knobs.partitions
        )
        if self.beats > most:
            raise self.broken(
                f"{self.beats} beats in {seconds:.3f} s of calm, where {most:.0f} are allowed: the budget is {knobs.budget} a "
                "second"
            )


def _decoded(payload: bytes) -> Any:
    try:
        return decode(payload)
    except BadRecord:
        return None
