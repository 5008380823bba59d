"""What must hold while the kernel is played: told by the scene, as a person with perfect instruments would see it.

Real members have many more promises (`pares.sim.members`); these are the ones by which a scenario shows what a rule is for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernel.trace import seat_name
from pares.core.events import Append, Barrier, Closed, Follow, Lead, Report, Stop
from pares.core.wire.reader import Reader, State
from pares.core.wire.records import Leave, Release, Seat, Transfer, decode
from pares.sim.checker import Broken
from pares.sim.members.claims.judge import Landed

if TYPE_CHECKING:
    from kernel.process import Process
    from kernel.scene import Scene

ROUTINE = (b'{"k":"beat"', b'{"k":"did"', b'{"k":"claim"')


class Checker:
    """Does nothing; a checker overrides what it needs to see. `promise` names what it guards."""

    promise = ""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def broken(self, what: str) -> Broken:
        return Broken(self.promise, self.scene.engine.now, what)

    def began(self, process: Process) -> None:
        """A new incarnation."""

    def ended(self, process: Process, id: str) -> None:
        """An incarnation is over: killed, closed, stopped or begun anew."""

    def killed(self, process: Process) -> None:
        """It is about to be killed: its beliefs are still there to be seen."""

    def frozen(self, process: Process, length: int | None) -> None:
        """It stands still."""

    def joined(self, process: Process) -> None:
        """It has read its own join."""

    def over(self, process: Process, effect: Closed | Stop) -> None:
        """It has left, or it stopped with an error."""

    def led(self, process: Process, effect: Lead) -> None:
        """A belief begins."""

    def renewed(self, process: Process) -> None:
        """Its beliefs last longer."""

    def stepped(self, process: Process, now: int) -> None:
        """The kernel of a member that leads has done a step, by this reading of its stopwatch, and what followed is done."""

    def followed(self, process: Process, effect: Follow) -> None:
        """A belief is over."""

    def barrier(self, process: Process, effect: Barrier) -> None:
        """A barrier begins."""

    def barrier_over(self, process: Process, effect: Barrier) -> None:
        """A barrier returned."""

    def sent(self, process: Process, effect: Append) -> None:
        """Records are handed over for sending."""

    def landed(self, landed: Landed) -> None:
        """A record has come to stand in the log."""

    def replaced(self) -> None:
        """Another log took the place of this one, or nothing of the group is left in it."""

    def turned(self, process: Process) -> None:
        """By its user's check it is ready now, or not any more, as it is now and then."""

    def reported(self, process: Process, effect: Report) -> None:
        """Something that a person should know."""

    def disturbed(self) -> None:
        """The world was disturbed: a fault, or an administrator, so that what depends on calm begins anew."""

    def end(self) -> None:
        """The simulation is over, all faults healed long ago."""


HOOKS = tuple(name for name in vars(Checker) if not name.startswith("_") and name not in ("promise", "broken"))


class Exclusive(Checker):
    """Promise 1: at no instant do two members believe that they hold one seat; in overlap mode, no longer than `overlap`."""

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


class Terms(Checker):
    """Giving up is final (R4c, R5): a term that was given up, or has run out, is never believed again, and is not believed
    while it is given up."""

    promise = "giving up is final"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.given: dict[str, set[int]] = {}
        """By incarnation: tokens that it gave up, or lost."""
        self.left: set[str] = set()
        self.ends: dict[tuple[str, Seat, int], int] = {}
        """When each belief is over, by its member's stopwatch, if nothing prolongs it."""
        self.barriers: dict[tuple[str, int], tuple[Seat, int]] = {}
        """Barriers that have not returned: since when, by the process' stopwatch."""

    def led(self, process: Process, effect: Lead) -> None:
        if effect.token in self.given.get(process.id, ()):
            raise self.broken(f"{process.id} believes again in its term {effect.token} of {seat_name(effect.seat)}")
        if process.id in self.left:
            raise self.broken(f"{process.id} believes in {seat_name(effect.seat)} after its leave")
        self.ends[process.id, effect.seat, effect.token] = effect.until

    def renewed(self, process: Process) -> None:
        """What has run out was seen to be over: it must not come back (R4)."""
        for seat, token in process.beliefs.items():
            key, until = (process.id, seat, token), process.until[seat]
            ended = self.ends.get(key, until)
            if until > ended and process.now >= ended:
                late = (process.now - ended) / 1e6
                raise self.broken(
                    f"{process.id} believes in {seat_name(seat)} again: {token} had run out {late:.3f} ms ago"
                )
            self.ends[key] = until

    def stepped(self, process: Process, now: int) -> None:
        """What has run out is ended before anything else is looked at: whoever works under it is told so."""
        for seat, token in process.beliefs.items():
            if now >= process.until[seat] and (seat, token) not in process.lapsed:
                late = (now - process.until[seat]) / 1e6
                raise self.broken(
                    f"{process.id} goes on with {seat_name(seat)}, which had run out {late:.3f} ms before"
                )

    def followed(self, process: Process, effect: Follow) -> None:
        self.given.setdefault(process.id, set()).add(effect.token)
        if effect.fenced:
            self.barriers.pop((process.id, effect.token), None)
        self.ends.pop((process.id, effect.seat, effect.token), None)

    def barrier(self, process: Process, effect: Barrier) -> None:
        self.barriers[process.id, effect.token] = (effect.seat, process.now)
        if process.beliefs.get(effect.seat) == effect.token:
            raise self.broken(f"{process.id} still believes in {seat_name(effect.seat)} when its barrier is called")

    def barrier_over(self, process: Process, effect: Barrier) -> None:
        self.barriers.pop((process.id, effect.token), None)

    def sent(self, process: Process, effect: Append) -> None:
        for payload in effect.payloads:
            if payload.startswith(ROUTINE):
                continue
            record = decode(payload)
            if isinstance(record, Release | Transfer):
                self._gives_up(process, record.seat, record.token)
            elif isinstance(record, Leave):
                self.left.add(process.id)
                if any(process.believes(seat) for seat in process.beliefs):
                    raise self.broken(f"{process.id} leaves while it believes that it holds {sorted(process.beliefs)}")

    def _gives_up(self, process: Process, seat: Seat, token: int) -> None:
        self.given.setdefault(process.id, set()).add(token)
        if process.beliefs.get(seat) == token and process.believes(seat):
            raise self.broken(f"{process.id} gives up {seat_name(seat)} while it believes that it holds it")
        if (process.id, token) in self.barriers:
            raise self.broken(f"{process.id} gives up {seat_name(seat)} before its barrier has returned")

    def ended(self, process: Process, id: str) -> None:
        self.given.pop(id, None)
        for ended in [key for key in self.ends if key[0] == id]:
            del self.ends[ended]
        for key in [key for key in self.barriers if key[0] == id]:
            del self.barriers[key]


class Agreement(Checker):
    """Promise 5: two readers that have read the same prefix agree exactly, from wherever they started."""

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


def always(scene: Scene) -> list[Checker]:
    return [Exclusive(scene), Terms(scene), Agreement(scene)]
