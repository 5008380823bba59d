"""Promises 2 and 3: how long a takeover and a handover may take when nothing else is the matter.

A takeover after a crash: the session of the holder, as measured by a stopwatch as slow as drift allows, plus one append and
read-back; where all share a stopwatch and the log bears its stamps, no more than the lease; where beats wake nobody and bear
no stamp that can be read, a quarter of a session more; where death can be proven, on the same host or by a witness, no session
at all. A handover: one append and read-back after the work of the term is over, and one more if the receiver's lease has run
out, as a standby's may. Rounds of members take a moment too.

Both are promised for a healthy ledger and for members that live; a measurement is dropped when anything else befalls the group
before its time is up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pares.core.reasons import ASKED, BALANCE, CLOSED, DRAINED, HANDED_OVER, STEPPED_DOWN
from pares.core.wire.changes import SeatChanged
from pares.core.wire.records import Release, Transfer
from pares.sim.engine import MS
from pares.sim.members.claims.judge import Landed
from pares.sim.members.promises.base import Promise
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
        self.while_ = (2 if stage.plan.scale.get("eager") is None else 8) * self.longest
        """How long nothing must have happened before, and how long members must have been well. In a large group one that was
        late claims little for some sessions (R18), and is waited for."""
        self.last_words: dict[str, tuple[int, int]] = {}
        """When each member was heard last, and how long it said that its next word takes."""
        self.began_at: dict[Seat, int] = {}
        self.last_start = 0
        self.over: dict[tuple[str, int], Held] = {}
        """Terms that have ended while nothing was the matter, by member and token."""
        self.took: list[tuple[str, int, int]] = []
        """What was measured: which, how long it took, and how long it may take."""
        stage.judge.landed.append(self._landed)
        stage.sight.began.append(self._began)
        stage.sight.ended.append(self._ended)
        self.world.on_end.insert(0, self._crash)  # before the sight forgets what it believed
        self.world.on_start.append(self._started)

    def _landed(self, landed: Landed) -> None:
        record = landed.record
        if landed.counted and record is not None:
            self.last_words[record.m] = (landed.at, record.s * MS)
            if isinstance(record, Release | Transfer):
                self._gives(landed, record)

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
            # What it has sent by then still lands, and its silence counts from that.
            sent = 0 if self.ground.near(user) else self.ground.weather_of(user).send[1]
            within = sent + self.ground.out_waits(user.session_ms * MS, process, heirs) + self.ground.rounds(5)
            if self._is_seen(process, held, heirs):
                within = min(within, self.world.locks.delay[1] + self.ground.rounds(8))
            self._expect("takeover", held, within)

    def _is_seen(self, process: Process, held: Held, heirs: list[Process]) -> bool:
        """Whether its death can be proven, and somebody is there to do so: on its machine, an heir or a witness."""
        lock = self.world.locks.of(held.term.member)
        if not self.stage.plan.proof or lock is None or not self.world.locks.is_there(lock):
            return False
        here = any(heir.machine == process.machine for heir in heirs)
        return here or self.ground.witnessed(process, held.term.member, self.while_)

    def _ended(self, held: Held) -> None:
        if held.process.alive and self.stage.judged(held) and self._calm():
            self.over[held.term.member, held.token] = held

    def _gives(self, landed: Landed, record: Release | Transfer) -> None:
        """By plan: it says so as soon as the work of the term is over, and then the next one begins."""
        held = self.over.pop((record.m, record.token), None)
        if held is None or held.over_at is None or record.why not in MOVED or self.stage.disturbed_at > held.over_at:
            return
        if not any(type(change) is SeatChanged for change in landed.changes):
            return  # it had lost the seat meanwhile
        key = (held.seat[1], held.seat[2], held.token)
        work_over = max(held.over_at, self.stage.work.finished.get((held.process, key), 0))
        self._judge("word of a handover", held, landed.at - work_over, self.ground.rounds(5))
        if self._heirs(held) and not self._ghosts(held):
            self._expect("handover", held, self.ground.rounds(8))

    def _calm(self, but: Process | None = None) -> bool:
        """A healthy ledger, nothing happened lately that could still have effects, and everybody is well."""
        stage = self.stage
        # A ledger that has lost what it had acknowledged is not healthy (A1): a member that was frozen meanwhile may live in
        # the log of before, and hold seats there that nobody else knows of.
        if self.ground.between_logs():
            return False
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
        began = self.began_at.get(held.seat, -1)
        if self.stage.disturbed_at <= since and self.ground.judge.judge.world.open(held.seat[1:]):
            self._judge(what, held, (began if began > since else self.world.now + 1) - since, within)

    def _judge(self, what: str, held: Held, took: int, within: int) -> None:
        if took > within:
            raise self.broken(
                f"the {what} after {held} has taken {took / 1e6:.3f} ms, {within / 1e6:.3f} ms are allowed"
            )
        self.took.append((what, took, within))

    def _began(self, held: Held) -> None:
        self.began_at[held.seat] = self.world.now
