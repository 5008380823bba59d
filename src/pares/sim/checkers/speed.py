"""Promises 2 and 3: how long a takeover and a handover may take when nothing else is the matter.

A takeover after a crash: the session of the holder, as measured by a stopwatch as slow as drift allows, plus one append and
read-back; where death can be proven, no session at all. A handover: one append and read-back after the barrier returned, and
one more if the receiver's lease has run out, as a standby's may. Rounds of members take a moment too: `_rounds` grants them.

Both are promised for a healthy ledger and for members that live, so a measurement is dropped as soon as anything else befalls
the group before its time is up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pares.core.events import Barrier, Closed, Lead, Stop
from pares.core.reasons import ASKED, BALANCE, CLOSED, DRAINED, HANDED_OVER, STEPPED_DOWN
from pares.core.wire.records import Seat
from pares.sim.checker import Checker, Landed
from pares.sim.engine import MS
from pares.sim.process import Process
from pares.sim.trace import seat_name

if TYPE_CHECKING:
    from pares.sim.play import Play

MOVED: Final = frozenset({ASKED, BALANCE, HANDED_OVER, CLOSED, DRAINED, STEPPED_DOWN})
"""Reasons for which a term is handed on: somebody else is expected to lead soon."""


class _Expected(Struct):
    since: int
    within: int
    who: str
    what: str


class Speed(Checker):
    promise = "takeover and handover in time"

    def __init__(self, play: Play) -> None:
        super().__init__(play.scene)
        self.play = play
        self.quiet_since = 0
        self.expected: dict[Seat, _Expected] = {}
        self.longest = max(play.knobs.sessions)
        self.last_words: dict[str, tuple[int, int]] = {}
        """When each member was heard last, and how long it said that its next word takes."""
        self.last_begun = 0

    def _rounds(self, count: int) -> int:
        weather = self.play.knobs.weather
        return count * (weather.send[1] + weather.ack[1] + weather.lag[1] + MS // 5) + MS

    def landed(self, landed: Landed) -> None:
        record = landed.record
        if landed.counted and record is not None:
            self.last_words[record.m] = (landed.at, record.s * MS)

    def began(self, process: Process) -> None:
        self.last_begun = self.scene.engine.now

    # What starts the clock -------------------------------------------------------------------------------------------

    def killed(self, process: Process) -> None:
        seats = [seat for seat in process.beliefs if process.believes(seat)]
        proven = process.proof
        calm = self._calm()
        self.disturbed()
        if not calm:
            return
        knobs = self.play.knobs
        for seat in seats:
            heirs = self._heirs(seat, process)
            if not heirs or self._ghosts(seat, process):
                continue
            session = process.settings["session_ms"] * MS
            # A challenger that grants its own clock more than the holder did waits longer by that.
            own, his = knobs.drift, process.settings["drift"]
            within = int(session * max(1.0, (1 + own) / (1 + his)) / (1 - own)) + self._rounds(5)
            if proven:
                within = min(within, self.scene.proof_delay[1] + self._rounds(6))
            self.expected[seat] = _Expected(self.scene.engine.now, within, process.id, "takeover after the crash of")

    def barrier_over(self, process: Process, effect: Barrier) -> None:
        if effect.why not in MOVED:
            return
        state = self.scene.judge.world.seats.get(effect.seat)
        if state is None or (state.holder, state.token) != (process.id, effect.token):
            return  # it has lost the seat meanwhile
        heirs = self._calm() and process.well() and self._heirs(effect.seat, process)
        if heirs and not self._ghosts(
            effect.seat, process
        ):  # else it may have gone to the dead, who are out-waited first
            self.expected.setdefault(
                effect.seat, _Expected(self.scene.engine.now, self._rounds(8), process.id, "handover by")
            )

    def _calm(self) -> bool:
        """A healthy ledger, and nothing happened lately that could still have effects."""
        while_ = 2 * self.longest * MS
        if any(self.play.knobs.slow) or not self.play.healthy() or self.scene.engine.now < self.quiet_since + while_:
            return False
        return all(p.well(while_) for p in self.play.own if p.running and p.over is None)

    def _heirs(self, seat: Seat, leaver: Process) -> list[str]:
        """The members that could take the seat, by the log."""
        world = self.scene.judge.world
        if not world.open(seat) or world.paused(seat[0]):
            return []
        found: list[str] = []
        for process in self.play.own:
            member = world.members.get(process.id)
            if process is leaver or member is None or not process.well(2 * self.longest * MS) or not process.ready:
                continue
            if world.may_hold(member, seat[0]) and not member.draining and not world.holds_in_role(member.id, seat[0]):
                found.append(process.id)
        return found

    def _ghosts(self, seat: Seat, leaver: Process) -> bool:
        """Whether somebody who went without a word may still be taken for alive, and so for the one to claim the seat. Where
        many share the budget of beats (R16) a standby's next word is due only after several sessions; it is waited for twice
        as long, and by a newcomer since it came."""
        world, now = self.scene.judge.world, self.scene.engine.now
        there = {p.id for p in self.play.own if p.running and p.over is None} | {leaver.id}
        for member in world.members.values():
            at, due = self.last_words.get(member.id, (0, 0))
            waited_for = now < max(at, self.last_begun) + 2 * due + self.longest * MS
            if member.id not in there and waited_for and world.may_hold(member, seat[0]):
                return True
        return False

    # What stops it ---------------------------------------------------------------------------------------------------

    def led(self, process: Process, effect: Lead) -> None:
        expected = self.expected.pop(effect.seat, None)
        if expected is not None:
            self._judge(effect.seat, expected, self.scene.engine.now)

    def disturbed(self) -> None:
        """Whatever was expected by now must have happened; the rest is off."""
        now = self.scene.engine.now
        self.quiet_since = now
        for seat, expected in self.expected.items():
            self._judge(seat, expected, now)
        self.expected.clear()

    def frozen(self, process: Process, length: int | None) -> None:
        self.disturbed()

    def over(self, process: Process, effect: Closed | Stop) -> None:
        if isinstance(effect, Stop):
            self.disturbed()

    def replaced(self) -> None:
        self.expected.clear()
        self.last_words.clear()
        self.quiet_since = self.scene.engine.now

    def end(self) -> None:
        self.disturbed()

    def _judge(self, seat: Seat, expected: _Expected, now: int) -> None:
        took = now - expected.since
        if took > expected.within:
            raise self.broken(
                f"the {expected.what} {expected.who}, which led {seat_name(seat)}, took {took / 1e6:.3f} ms, "
                f"{expected.within / 1e6:.3f} ms are allowed"
            )
