"""What NELI and Fast NELI promise. No checker knows how the protocols work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pares.core.events import Lead
from pares.core.reasons import SUPERSEDED
from pares.core.wire.neli_records import Announce, Beacon, Foreign, InductionRecord, Pulse, decode
from pares.core.wire.records import BadRecord, Seat
from pares.sim.engine import MS, SECOND
from pares.sim.neli.process import NeliProcess
from pares.sim.neli.scene import NeliChecker, NeliScene
from pares.sim.trace import seat_name

if TYPE_CHECKING:
    from pares.sim.neli.knobs import NeliKnobs

SETTLED: Final = 4
"""Sessions of calm, after which everybody has heard everybody."""


def decoded(payload: bytes) -> InductionRecord | Foreign | None:
    """What stands in a log; None for what is no record."""
    try:
        return decode(payload)
    except BadRecord:
        return None


class OneLeader(NeliChecker):
    """Exclusive: at no instant do two members believe that they hold one seat."""

    promise = "exclusive belief"

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
            if other is not process and other.believes(seat):
                left = (min(process.belief_ends(seat), other.belief_ends(seat)) - now) / 1e6
                raise self.broken(
                    f"{process.id} and {other.id} both believe that they hold {seat_name(seat)}, "
                    f"for {left:.3f} ms if nobody stops"
                )


class Tokens(NeliChecker):
    """Each token is base + offset of an announcement that its holder made in the seat's log, and a member's grow. Exclusive: so
    do those of a seat, in the order in which it is led. Non-exclusive: who has read of a later one does not begin to lead."""

    promise = "tokens grow"

    def __init__(self, scene: NeliScene, *, exclusive: bool = True) -> None:
        super().__init__(scene)
        self.exclusive = exclusive
        self.last: dict[Seat, tuple[str, int]] = {}
        self.own: dict[tuple[Seat, str], int] = {}
        self.announced: dict[tuple[str, int], list[tuple[int, int]]] = {}
        """Where (log, offset) somebody has announced itself by a token."""
        for number, log in enumerate(scene.logs):
            log.listeners.append(lambda entries, number=number: self._landed(number, entries))

    def _landed(self, number: int, entries: list[Any]) -> None:
        for offset, _, payload in entries:
            record = decoded(payload)
            if isinstance(record, Announce):
                self.announced.setdefault((record.m, record.b + offset), []).append((number, offset))

    def replaced(self, number: int) -> None:
        """Between logs tokens grow if clocks do (R9): from here on they are measured anew."""
        self.last.clear()
        self.own.clear()

    def led(self, process: NeliProcess, effect: Lead) -> None:
        seat, token = effect.seat, effect.token
        if (process.id, token) not in self.announced:
            raise self.broken(f"{process.id} leads {seat_name(seat)} by {token}, which it never announced")
        own = self.own.get((seat, process.name), 0)
        if token <= own:
            raise self.broken(f"{process.id} leads {seat_name(seat)} by {token}, after its own {own}")
        self.own[seat, process.name] = token
        last = self.last.get(seat, ("", 0))
        if token > last[1]:
            self.last[seat] = process.id, token
        elif self.exclusive or self._has_read(process, last):
            raise self.broken(f"{process.id} leads {seat_name(seat)} by {token}, after {last[1]} of {last[0]}")

    def _has_read(self, process: NeliProcess, last: tuple[str, int]) -> bool:
        core = process.core
        assert core is not None
        return all(number < len(core.parts) and core.position(number) > at for number, at in self.announced[last])


class Emergence(NeliChecker):
    """In the calm somebody leads every seat: within the bound after what was done to the group last, and in the end."""

    promise = "a leader emerges"

    def __init__(self, scene: NeliScene, seats: list[Seat], bound: int) -> None:
        super().__init__(scene)
        self.seats, self.bound = seats, bound
        self._due = 0

    def probe(self) -> None:
        """Something is done to the group: from now on the bound runs."""
        self._due = self.scene.engine.now + self.bound
        self.scene.engine.after(self.bound, self.end)

    def end(self) -> None:
        if self.scene.engine.now < self._due:
            return  # something else was done to it meanwhile
        for seat in self.seats:
            if not any(p.believes(seat) for p in self.scene.processes.values()):
                raise self.broken(
                    f"nobody leads {seat_name(seat)} {self.bound / 1e6:.0f} ms after the last disturbance"
                )


class Barriers(NeliChecker):
    """Exclusive: after a planned end nobody else leads before the barrier has returned, was fenced, or was lost with its
    process, as long as the lease lasts that was in force when it began."""

    promise = "barriers are awaited"

    def __init__(self, scene: NeliScene) -> None:
        super().__init__(scene)
        self.running: dict[Seat, tuple[NeliProcess, int, int]] = {}
        """The process that runs it, for which token, and until when by its stopwatch."""

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
        if not effect.why.startswith(SUPERSEDED):
            return
        everybody = self.scene.processes.values()
        rival = effect.why.removeprefix(f"{SUPERSEDED} by ")
        if not any(p.running and not p.frozen and p.id == rival for p in everybody):
            return  # it crashed meanwhile, or stands still
        others = [p for p in everybody if p is not process and p.believes(effect.seat)]
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
            self.beats += sum(isinstance(decoded(payload), Pulse | Beacon) for _, _, payload in entries)

    def followed(self, process: NeliProcess, effect: Any) -> None:
        if process.name in self.neighbours and self.scene.engine.now >= self.since:
            raise self.broken(f"{process.id} lost {seat_name(effect.seat)} ({effect.why}), and nothing was done to it")

    def end(self) -> None:
        knobs, seconds = self.knobs, (self.until - self.since) / SECOND
        everybody = knobs.neighbours + (1 if knobs.law.by_own_beats else knobs.members)
        needed = (
            0.0
            if not knobs.exclusive
            else everybody * knobs.partitions * 1000 / max(knobs.slowest_ms, knobs.interval_ms)
        )
        # A clock may be fast. A member that begins to lead says so at once; one that crashed or came is counted late.
        most = (
            max(knobs.budget, needed) * seconds * (1 + knobs.drift) * 1.1
            + 8 * len(self.scene.processes) * knobs.partitions
        )
        if self.beats > most:
            raise self.broken(
                f"{self.beats} beats in {seconds:.3f} s of calm, where {most:.0f} are allowed: the budget is {knobs.budget} a "
                "second"
            )
