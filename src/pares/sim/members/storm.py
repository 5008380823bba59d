"""Faults: what befalls processes and the log while the storm lasts. One method a kind; each does what could happen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from pares.sim.engine import MS
from pares.sim.members.claims.intruders import Intruders
from pares.sim.members.crowds import Crowds
from pares.sim.members.striking import Striking
from pares.sim.members.users import User
from pares.sim.world.faults import Strike
from pares.sim.world.scheduler import NEVER

if TYPE_CHECKING:
    from pares.sim.members.claims.ground import Ground
    from pares.sim.world.logs.ledger import SimLedger

SOON: Final = 400
"""A fault that strikes at a call does so within so many calls of its process."""
KINDS: Final = (
    "append",
    "append:sent",
    "append:answered",
    "read",
    "read:fetched",
    "lock",
    "lock:held",
    "spawn",
    "lost",
)
"""Calls of which one may be chosen by its kind."""


class Storm(Striking):
    """Draws faults at random times, until it is over."""

    kinds: ClassVar[tuple[str, ...]] = KINDS

    def __init__(self, stage: Ground) -> None:
        super().__init__(stage)
        self.replaced = False
        self.cuts: dict[SimLedger, list[dict[str, Any]]] = {}
        """What cuts each handle off."""
        self.families = (Crowds(self), Intruders(self))
        """What befalls many, or one again and again; and what others write."""

    def happen(self, kind: str) -> None:
        self.stage.disturbed()
        mine = getattr(self, f"_{kind}", None)
        strike = mine or next(getattr(family, kind) for family in self.families if hasattr(family, kind))
        strike()

    # Processes -------------------------------------------------------------------------------------------------------

    def _crash(self) -> None:
        user = self.someone()
        if user is not None and user.process is not None:
            self.world.kill(user.process)
            self.again(user)

    def _arm(self, action: Literal["kill", "freeze", "starve", "raise"], **more: Any) -> User | None:
        user = self.someone()
        if user is None or user.process is None:
            return None
        kind = self.rng.choice(self.kinds) if self.rng.random() < 0.5 else ""
        at = self.rng.randint(1, 8 if kind else SOON)
        user.process.arm(Strike(action, at, kind, late=self.rng.random() < 0.5, **more))
        return user

    def _crash_at(self) -> None:
        user = self._arm("kill")
        if user is not None:
            self.again(user)
            self.world.after(self.span(1, 5), user.start)

    def _freeze(self) -> None:
        user = self.someone()
        if user is not None and user.process is not None:
            self.world.freeze(user.process, self.span(0.1, 4))

    def _freeze_at(self) -> None:
        self._arm("freeze", length=self.span(0.1, 4))

    def _starve_at(self) -> None:
        # About as long as a lease lasts, in half of the cases: a member that comes back then meets what has just changed.
        self._arm("starve", length=self.span(0.3, 1) if self.rng.random() < 0.5 else self.span(0.05, 4))

    def _raise_at(self) -> None:
        error = self.rng.choice(("MemoryError", "OSError", "RuntimeError"))
        kind = "spawn" if error == "RuntimeError" else self.rng.choice(("", "", *self.kinds))
        user = self.someone()
        if user is not None and user.process is not None:
            at = self.rng.randint(1, 8 if kind else SOON)
            user.process.arm(Strike("raise", at, kind, error=error))
            self.world.after(self.span(3, 6), self._replace_failed, user)

    def _replace_failed(self, user: User) -> None:
        """A process in which something was raised is replaced by its people."""
        if user.process is not None and user.process.alive and user.process.raised:
            self.world.kill(user.process)
        user.start()

    def _starve(self) -> None:
        """For a while each of its tasks may come back late."""
        user = self.someone()
        if user is None or user.process is None:
            return
        process, length = user.process, self.span(0.5, 3)
        usual = self.plan.starving, int(self.plan.starving_by * self.plan.unit)
        process.starving, process.starving_by = 0.3, (longest := self.span(0.1, 1))
        process.well_since = NEVER

        def over() -> None:
            if not self.stage.calm:  # which has ended it already
                process.starving, process.starving_by = usual
            process.well_since = self.world.now
            process.starved_at = self.world.now + longest  # a task that was woken before comes back that late
            self.stage.disturbed()

        self.world.after(length, over)

    def _close(self) -> None:
        user = self.someone()
        if user is not None:
            user.close()
            self.world.after(self.span(2, 6), user.start)

    def _ready(self) -> None:
        user = self.someone()
        if user is not None:
            user.ready = not user.ready

    def _rate(self) -> None:
        """Its stopwatch runs at another rate from now on, within drift (A2)."""
        user = self.someone()
        if user is not None and user.process is not None:
            user.process.set_rate(1 + self.plan.drift * self.rng.choice((-1, 1, self.rng.uniform(-1, 1))))

    def _barrier(self) -> None:
        """The next barriers of somebody are slow, or never return."""
        user = self.someone(holder=True)
        if user is not None:
            user.barrier_time = self.plan.unit * 1000 if self.rng.random() < 0.3 else self.span(0.1, 3)
            self.world.after(self.span(1, 4), user.usual_barrier)

    def _wall(self) -> None:
        user = self.someone()
        if user is not None:
            user.wall.offset_us += int(self.rng.choice((1, 1000)) * self.rng.uniform(-1, 1) * 1e6)

    def _lose_lock(self) -> None:
        """Some code of its process has closed a descriptor that is not its own."""
        user = self.someone()
        if user is not None and user.member is not None:
            lock = self.world.locks.of(user.member.id)
            if lock is not None and lock.process.alive:
                self.world.told(lock.process, "its lock is lost")
                self.world.locks.lose(lock)

    def _tamper(self) -> None:
        """Somebody removes the lock file of a member that lives, or puts another in its place: nothing is proven by either."""
        user = self.someone()
        lock = None if user is None or user.member is None else self.world.locks.of(user.member.id)
        if lock is None:
            return
        if self.rng.random() < 0.5:
            self.world.locks.replace(lock)
        else:
            self.world.locks.remove_file_of(lock)
        self.world.told(lock.process, "its lock file is tampered with")

    # Ways to the log -------------------------------------------------------------------------------------------------

    def _cut_off(self, **what: bool) -> None:
        user = self.someone()
        if user is not None:
            self.block(user, **what)

    def block(self, user: User, *, only: int | None = None, **what: bool) -> None:
        """`only`: of this partition."""
        ledger, process = user.ledger, user.process
        if ledger is None or process is None:
            return
        cut: dict[str, Any] = {"only": only, **what}
        cuts = self.cuts.setdefault(ledger, [])
        cuts.append(cut)
        ledger.cut(**cut)
        self.world.told(process, f"cut off: {', '.join(name for name in what if what[name])}")
        process.well_since = NEVER

        def heal() -> None:
            """Of this; what else cuts it off goes on."""
            cuts.remove(cut)
            if not process.alive or not ledger.is_cut:
                return
            ledger.heal()
            for other in cuts:
                ledger.cut(**other)
            if not cuts:
                self.world.told(process, "healed")
                process.well_since = self.world.now
                self.stage.disturbed()

        self.world.after(self.span(0.2, self.plan.cut), heal)

    def _cut(self) -> None:
        self._cut_off(reads=True, writes=True, acks=True)

    def _deaf(self) -> None:
        self._cut_off(reads=True, writes=False, acks=False)

    def _mute(self) -> None:
        self._cut_off(reads=False, writes=True, acks=True)

    def _one_way(self) -> None:
        self._cut_off(reads=False, writes=False, acks=True)

    def _nothing_back(self) -> None:
        """What it sends arrives; nothing comes back, and no answers either."""
        self._cut_off(reads=True, writes=False, acks=True)

    def _outage(self) -> None:
        for user in self.own():
            if user.running:
                self.block(user, reads=True, writes=True, acks=True)

    # The log ---------------------------------------------------------------------------------------------------------

    def _replay(self) -> None:
        """Copies of what stands in the log land again."""
        entries, partition = self.stage.log.entries(), self.stage.log.partitions[0]
        for _ in range(self.rng.randint(1, 6)):
            if entries:
                payload = self.rng.choice(entries)[2]
                self.world.after(self.span(0, 1), lambda payload=payload: partition.append([payload], self.world.now))

    def _replace(self) -> None:
        if not self.replaced:
            self.replaced = True
            self.stage.log.replace(same=self.rng.random() < 0.5)
            for handle in self.world.handles:
                handle.sever()
            self.world.told(None, "the log is replaced")

    def _lose_tail(self) -> None:
        """The log loses what it has acknowledged, as after a failover that should not have been (A1)."""
        if not self.replaced:
            self.replaced = True
            self.stage.log.lose_tail(self.rng.randint(1, 12))
            self.world.told(None, "the log has lost its tail")

    def _lose_behind(self) -> None:
        """It does so while somebody stands still that has read what is lost, and has grown past that when it goes on."""
        user = self.someone()
        if user is not None and user.process is not None and not self.replaced:
            self.replaced = True
            self.world.freeze(user.process, self.span(1, 4))
            self.stage.log.lose_tail(self.rng.randint(1, 3))
            self.world.told(None, "the log has lost its tail")

    def _forgetful(self) -> None:
        """The log keeps far less than it should: what is older than one of the longest sessions is gone, snapshots too. That
        is no reason for two to lead: a member that finds no way in knows that it knows nothing (R12)."""
        longest = max(self.plan.sessions) * MS / (1 - self.plan.drift)
        self.stage.trim(int(1.1 * longest))

    def _trim(self) -> None:
        """Retention: what is older than the log says that it keeps goes."""
        log = self.stage.log
        if log.retention is not None:
            self.stage.trim(int(log.retention * 1e9))
