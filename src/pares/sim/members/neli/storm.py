"""What befalls a group that shares out partitions: see `members.storm`. One method a kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pares.sim.members.claims.acts import Act, Acts
from pares.sim.members.crowds import Crowds
from pares.sim.members.neli.broker import BrokerLedger, SimMembership
from pares.sim.members.storm import KINDS, Storm
from pares.sim.members.users import User

if TYPE_CHECKING:
    from pares.sim.members.neli.ground import NeliGround

MOST_PARTITIONS: Final = 6
ANNOUNCES: Final = b'{"k":"announce"'
GARBAGE: Final = (b"", b"{", b"\xff", b'{"k":"announce"}', b'{"k":"beacon","m":7}', b"[" * 1000)


class NeliStorm(Storm):
    stage: NeliGround
    kinds = (*KINDS, "wall")

    def __init__(self, stage: NeliGround) -> None:
        super().__init__(stage)
        self.families = (Crowds(self),)

    # The logs --------------------------------------------------------------------------------------------------------

    def _replay(self) -> None:
        """Copies of what stood in a log, of any age, land again."""
        partition = self.rng.choice(self.stage.log.partitions)
        entries = partition.entries()
        for _ in range(self.rng.randint(1, 6)):
            if entries:
                payload = self.rng.choice(entries)[2]
                self.world.after(self.span(0, 1), lambda payload=payload: partition.append([payload], self.world.now))

    def _garbage(self) -> None:
        self.rng.choice(self.stage.log.partitions).append(GARBAGE, self.world.now)

    def _replace_one(self) -> None:
        """Another log takes the place of one partition's; its name may be the same."""
        number = self.rng.randrange(len(self.stage.log.partitions))
        self.stage.log.replace_one(number, same=self.rng.random() < 0.3)
        for handle in self.world.handles:
            handle.sever()
        self.world.told(None, f"partition {number} is replaced")

    def _lose_tail(self) -> None:
        """One partition's log loses what it has acknowledged, as after a failover that should not have been (A1)."""
        if not self.replaced:
            self.replaced = True
            count, number = self.rng.randint(1, 12), self.rng.randrange(len(self.stage.log.partitions))
            self.stage.log.lose_tail(count, number)
            self.world.told(None, f"partition {number} has lost its tail")

    def _forget(self) -> None:
        """One partition's log loses all that stands in it, against A1; its place goes on. (Not that of claims: for them it
        is out of the question whether somebody with the longest session there may be still believes, for a minute.)"""
        numbers = range(0 if self.stage.plan.native else 1, len(self.stage.log.partitions))
        if numbers:
            number = self.rng.choice(numbers)
            self.stage.log.forget(number)
            self.world.told(None, f"partition {number} forgets everything")

    def _trim(self) -> None:
        log = self.stage.log
        if log.retention is not None:
            for partition in log.partitions:
                partition.trim(partition.older_than(self.world.now - int(log.retention * 1e9)))

    def _grow(self) -> None:
        """The topic grows, and somebody comes who knows that."""
        log = self.stage.log
        if len(log.partitions) < MOST_PARTITIONS and len(log.partitions) % self.plan.seats == 0:
            log.grow(len(log.partitions) + self.plan.seats)
            self.stage.judge.listen()
            self.world.told(None, f"there are {len(log.partitions)} partitions")
            self._crash()

    def _late_announcement(self) -> None:
        """Somebody's next announcement is reported as failed, and lands late: when another one may stand in the log."""
        user = self.someone()
        if user is not None and user.ledger is not None:
            for link in user.ledger.links:
                link.fates[ANNOUNCES] = "unknown"
            if user.process is not None:
                self.world.told(user.process, "its next announcements are late")

    # The group -------------------------------------------------------------------------------------------------------

    def _cut_group(self) -> None:
        """Somebody can't hear its group, or be heard, and the partitions' logs serve it as before."""
        self._part_from_group()

    def _oblivious(self) -> None:
        self._part_from_group(oblivious=True)

    def _cut_all(self) -> None:
        self._part_from_group(log=True)

    def _part_from_group(self, *, oblivious: bool = False, log: bool = False) -> None:
        user = self.someone()
        ledger = None if user is None else user.ledger
        if user is None or ledger is None or user.process is None:
            return
        if isinstance(ledger, BrokerLedger):
            ledger.group_cut, ledger.oblivious = True, oblivious
            self.world.told(user.process, f"cut off its group{', and does not notice' if oblivious else ''}")
            self.block(user, reads=log, writes=log, acks=log)
        elif len(ledger.links) > 1:  # claims share out in partition 0
            self.block(user, only=0, reads=True, writes=True, acks=True)

    def _shuffle(self) -> None:
        self.stage.coordinator.shuffle()

    def _lie(self) -> None:
        """The group's word means nothing: a partition is given to anybody, or declared lost to its owner."""
        user = self.someone()
        member = None if user is None else membership_of(user)
        if member is not None:
            number = self.rng.randrange(len(self.stage.log.partitions))
            self.stage.coordinator.lie(member, number, lost=self.rng.random() < 0.5)


class ClockStorm(NeliStorm):
    """Strikes processes while they look at their wall clocks."""

    kinds = ("wall",)


def membership_of(user: User) -> SimMembership | None:
    """Its place in a broker's group, if it has one."""
    ledger = user.ledger
    there = ledger.memberships if isinstance(ledger, BrokerLedger) else []
    return next((membership for membership in reversed(there) if membership.alive), None)


class NeliActs(Acts):
    stage: NeliGround

    def _role(self) -> str:
        return self.rng.choice(self.stage.roles)

    def _roles(self) -> Act:
        """A role is removed, and somebody wants it back after a while."""
        role, another = self._role(), self.someone()
        self.stage.unwanted.add(role)
        if another is not None:
            self.stage.world.after(self.span(0, 3), another.ask, lambda member: member.add_role(role), f"adds {role}")
        return lambda member: member.remove_role(role)
