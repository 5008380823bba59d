"""Giving up is final (R4c, R5): a term that was given up, or has run out, is never believed again, and is not believed while it
is given up.

Looked at where a record leaves the process: whoever writes a release, a transfer or a leave has stopped believing before, has
let the barrier return (or time out), and will not believe in that term again, whatever becomes of the record.
"""

from __future__ import annotations

from pares.core.events import Append, Barrier, Follow, Lead
from pares.core.wire.records import Leave, Release, Seat, Transfer, decode
from pares.sim.checker import Checker
from pares.sim.process import Process
from pares.sim.scene import Scene
from pares.sim.trace import seat_name

ROUTINE = (b'{"k":"beat"', b'{"k":"did"', b'{"k":"claim"')


class Terms(Checker):
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
