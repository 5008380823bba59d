"""Promises 2 and 3: how long a takeover and a handover may take when nothing else is the matter.

A takeover after a crash: the session of the holder, as measured by a stopwatch as slow as drift allows, plus one append and
read-back; where death can be proven, no session at all. A handover: one append and read-back after the work of the term is
over, and one more if the receiver's lease has run out, as a standby's may. Rounds of members take a moment too.

Both are promised for a healthy ledger and for members that live; a measurement is dropped when anything else befalls the group
before its time is up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pares.core.reasons import ASKED, BALANCE, CLOSED, DRAINED, HANDED_OVER, STEPPED_DOWN
from pares.sim.engine import MS
from pares.sim.members.claims.judge import Landed
from pares.sim.members.promises.base import Promise
from pares.sim.members.promises.work import Work
from pares.sim.members.sight import Held, Seat

if TYPE_CHECKING:
    from pares.sim.members.claims.ground import Ground
    from pares.sim.world.process import Process

MOVED: Final = frozenset({ASKED, BALANCE, HANDED_OVER, CLOSED, DRAINED, STEPPED_DOWN})
"""Reasons for which a term is handed on: somebody else is expected to lead soon."""


class Speed(Promise):
    name = "takeover and handover in time"

    def __init__(self, stage: Ground) -> None:
        super().__init__(stage)
        self.ground = stage
        self.longest = max(stage.plan.sessions) * MS
        self.while_ = 2 * self.longest
        """How long nothing must have happened before, and how long members must have been well."""
        self.last_words: dict[str, tuple[int, int]] = {}
        """When each member was heard last, and how long it said that its next word takes."""
        self.began_at: dict[Seat, int] = {}
        self.last_start = 0
        self.measured: dict[str, int] = {"takeover": 0, "handover": 0}
        self.took: list[tuple[str, int, int]] = []
        """What was measured: which, how long it took, and how long it may take."""
        stage.judge.landed.append(self._landed)
        stage.sight.began.append(self._began)
        stage.sight.ended.append(self._ended)
        self.world.on_end.append(self._crash)
        self.world.on_start.append(self._started)

    def _landed(self, landed: Landed) -> None:
        if landed.counted and landed.record is not None:
            self.last_words[landed.record.m] = (landed.at, landed.record.s * MS)

    def _started(self, process: Process) -> None:
        self.last_start = self.world.now

    # What starts the clock -------------------------------------------------------------------------------------------

    def _crash(self, process: Process) -> None:
        believed = [
            held for held in self.stage.sight.of_process(process) if held.believing() and self.stage.judged(held)
        ]
        if not process.alive or not self._calm(process):
            return
        user = self.stage.user_of(process)
        for held in believed:
            heirs = self._heirs(held)
            if user is None or not heirs or self._ghosts(held):
                continue
            within = int(user.session_ms * MS / (1 - self.stage.plan.drift)) + self.ground.rounds(5)
            if self.stage.plan.proof and any(heir.machine == process.machine for heir in heirs):
                within = min(within, self.world.locks.delay[1] + self.ground.rounds(8))
            self._expect("takeover", held, within)

    def _ended(self, held: Held) -> None:
        """By plan: from then on the work of the term is waited for."""
        if not held.process.alive or not self.stage.judged(held) or held.term.why not in MOVED or not self._calm():
            return
        state = self.ground.judge.judge.world.seats.get(held.seat[1:])
        if state is None or (state.holder, state.token) != (held.term.member, held.token):
            return  # it has lost the seat meanwhile
        user = self.stage.user_of(held.process)
        if user is not None and self._heirs(held) and not self._ghosts(held):
            self._expect("handover", held, self.ground.rounds(8))

    def _calm(self, but: Process | None = None) -> bool:
        """A healthy ledger, nothing happened lately that could still have effects, and everybody is well."""
        stage = self.stage
        if not self.ground.healthy() or self.world.now < stage.disturbed_at + self.while_:
            return False
        here = [user for user in stage.own if user.running and user.process is not but]
        return all(stage.able(user, self.while_) and self.ground.quick(user) for user in here)

    def _heirs(self, held: Held) -> list[Process]:
        """The processes of members that could take the seat, by the log."""
        able = self.stage.could_lead(held.seat[1], held.seat[2], self.while_)
        users = [user for user in self.stage.own if user.running and user.member.id in able]
        return [user.process for user in users if user.process is not held.process]

    def _ghosts(self, held: Held) -> bool:
        """Whether a member that went without a word may still be taken for alive, and so for the one to claim the seat. Where
        many share the budget of beats (R16) a standby's next word is due only after several sessions; it is waited for twice
        as long, and by a newcomer since it came."""
        world, now = self.ground.judge.judge.world, self.world.now
        there = {user.member.id for user in self.stage.own if user.running and user.member is not None}
        there.add(held.term.member)
        for member in world.members.values():
            at, due = self.last_words.get(member.id, (0, 0))
            waited_for = now < max(at, self.last_start) + 2 * due + self.longest
            if member.id not in there and waited_for and world.may_hold(member, held.seat[1]):
                return True
        return False

    # What stops it ---------------------------------------------------------------------------------------------------

    def _expect(self, what: str, held: Held, within: int) -> None:
        self.world.after(within, self._due, what, held, self.world.now, within)

    def _due(self, what: str, held: Held, since: int, within: int) -> None:
        if self.stage.disturbed_at > since or not self.ground.judge.judge.world.open(held.seat[1:]):
            return
        began = self.began_at.get(held.seat, -1)
        work = self._work_over_at(held) if what == "handover" else since
        if began <= since and self.world.now < work + within:
            self.world.at(work + within, self._due, what, held, since, within)  # it began when the work was over
            return
        if began <= since:
            raise self.broken(
                f"the {what} after {held} has taken {(self.world.now - max(since, work)) / 1e6:.3f} ms, "
                f"{within / 1e6:.3f} ms are allowed"
            )
        self.measured[what] += 1
        self.took.append((what, began - max(since, min(work, began)), within))

    def _work_over_at(self, held: Held) -> int:
        """When the last of it was over; now, while some of it runs."""
        key = (held.seat[1], held.seat[2], held.token)
        work: Work = self.stage.work
        if any(running.process is held.process and running.key == key for running in work.running):
            return self.world.now + MS
        return work.finished.get((held.process, key), 0)

    def _began(self, held: Held) -> None:
        self.began_at[held.seat] = self.world.now
