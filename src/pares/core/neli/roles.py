"""The roles of a group, as one member has read them in the logs, and the changes that this member wishes (N6).

Each partition's log names the roles that belong to it, and partition 0 numbers their names (`role_mapping`). A wish goes to its
partitions as soon as the role's number says which these are, and is done when their logs say it.
"""

from __future__ import annotations

from pares.core.events import ChangeRoles
from pares.core.lease import MS
from pares.core.neli.config import Config
from pares.core.neli.partition import Partition
from pares.core.neli.phases import AT_BARRIER, BELIEVING, STANDING, Phase
from pares.core.neli.role_mapping import Numbering, partition_of_number, role_number, seat_of_partition
from pares.core.wire.hashes import stable_hash
from pares.core.wire.neli_records import Number, PartitionCount, Place, RolesChanged
from pares.core.wire.records import Seat


class Wishes:
    """What is still to be written about roles in one partition's log."""

    def __init__(self) -> None:
        self.add: dict[str, None] = {}
        self.drop: dict[str, None] = {}
        self.again: list[str] = []
        """Roles that are to be written down again, with the number of partitions: a log may forget the first record of them."""
        self.again_at = 0


class Roles:
    """The roles of all partitions."""

    def __init__(self, config: Config, parts: list[Partition]) -> None:
        self.config = config
        self.parts = parts
        self.known = False
        """Whether all logs have been read, so that the group's roles are known."""
        self.numbered = config.numbered
        """Whether roles go by the numbers that the log gives to names. Else they go by hashes, as a member of the group knows
        nothing else. Decided for good when the logs have been read."""
        self.wishes: dict[str, bool] = dict.fromkeys(config.roles, True)
        """Roles that this member wants added (True) or removed (False), and that are not with their partitions (`of`) yet."""
        self.of = [Wishes() for _ in parts]
        """By partition."""
        self.again: list[str] = []
        """Names whose numbers are to be written down again in partition 0."""
        self._answer_at = 0
        """When this member tells newcomers the numbers; 0: there are none that nobody has told."""

    # Where roles are -------------------------------------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """The group's roles, as far as this member has read: those that belong to the partition that names them."""
        found = {role for part in self.parts for role in list(part.track.roles) if self.belongs(role, part)}
        return tuple(sorted(found))

    @property
    def numbering(self) -> Numbering:
        """The numbers of names, as partition 0 gives them."""
        return self.parts[0].track.numbering

    def number(self, role: str) -> int | None:
        """The j of a role; None while the log has yet to give it one."""
        return self.numbering.number(role) if self.numbered else role_number(role)

    def partition(self, role: str, seat: int = 0) -> int:
        """The partition of a seat of `role`: by its number, and by the hash of its name while it has none."""
        number = self.number(role)
        number = role_number(role) if number is None else number
        return partition_of_number(number, self.config.partitions, self.config.seats, seat)

    def belongs(self, role: str, part: Partition) -> bool:
        """Whether a role belongs to a partition. A log may name others, from when the number of partitions was another one."""
        index = self._seat(part)
        here = index < self.config.seats and self.partition(role, index) == part.number
        return here and self._said_already(role, part)

    def seats_of(self, part: Partition) -> list[Seat]:
        """The seats that this member may lead by owning the partition: of each role one seat only."""
        mine = {role for role in list(part.track.roles) if self.belongs(role, part)}
        if self.config.seats > 1:
            for other in self.parts:
                if other is not part and other.phase in (*BELIEVING, *AT_BARRIER):
                    mine -= {role for role, _ in other.seats}
        return [(role, self._seat(part)) for role in sorted(mine)]

    def _seat(self, part: Partition) -> int:
        return seat_of_partition(part.number, self.config.partitions, self.config.seats)

    # What this member wants ------------------------------------------------------------------------------------------------

    def change(self, event: ChangeRoles) -> None:
        for role in (*event.add, *event.drop):
            self.wishes.pop(role, None)
            self.wishes[role] = role in event.add
        self._place()

    def wanted(self, *, there: bool) -> set[str]:
        """Roles that this member wants added (`there`) or removed, and for which the log does not say it yet."""
        told = {role for wishes in self.of for role in list(wishes.add if there else wishes.drop)}
        return told | {role for role, add in list(self.wishes.items()) if add is there}

    def settled(self) -> bool:
        """Whether the logs say all that this member wants."""
        return not self.wishes and not any(wishes.add or wishes.drop for wishes in self.of)

    def _place(self) -> None:
        """Hands wishes to their partitions, as soon as the roles' numbers say which these are."""
        if not self.known:
            return
        for role, add in list(self.wishes.items()):
            if self.number(role) is None:
                if not add and self.numbering.complete:
                    del self.wishes[role]  # a name without a number was never a role
                continue
            del self.wishes[role]
            for seat in range(self.config.seats):
                part = self.parts[self.partition(role, seat)]
                wishes = self.of[part.number]
                (wishes.drop if add else wishes.add).pop(role, None)
                if add is not self._said_already(role, part):
                    (wishes.add if add else wishes.drop)[role] = None

    def _said_already(self, role: str, part: Partition) -> bool:
        number = part.track.roles.get(role)
        return number is not None and number == self.number(role)

    def settle(self, part: Partition) -> Wishes:
        """What is still to be written there, without what its log says already."""
        wishes = self.of[part.number]
        for role in [role for role in wishes.add if self._said_already(role, part)]:
            del wishes.add[role]
        for role in [role for role in wishes.drop if role not in part.track.roles]:
            del wishes.drop[role]
        return wishes

    # What is read ----------------------------------------------------------------------------------------------------------

    def all_read(self) -> None:
        """All logs have been read: the group's roles are known, and whether a member of it knows only hashes."""
        self.known = True
        self.numbered = self.numbered and not any(part.track.hashed for part in self.parts)
        self._place()

    def came(self, part: Partition, record: PartitionCount | RolesChanged | Place) -> None:
        """Roles have come to a partition, or gone."""
        if self.numbered and self.known and isinstance(record, RolesChanged) and part.phase in STANDING:
            # From a writer that knows no numbers, such as an administrator of release 0.1.
            self.wishes |= {role: True for role in record.add if self.number(role) != part.track.roles.get(role)}
            self._place()
        self.settle(part)

    def numbers_came(self, record: Number) -> None:
        if record.numbers:
            self._answer_at = 0
        self._place()
        for part in self.parts:
            self.settle(part)

    def newcomer(self, part: Partition, me: str, now: int) -> None:
        """A member has come that goes by numbers, and knows none. The leader of partition 0 tells it; if it has not for half
        a session, any other member does, in its turn. [where it is the leader that has lost its place in the log nobody did:
        after two sessions it numbered anew, and a role had two partitions, each with a leader]"""
        if not self.numbered:
            part.wants_width = True  # the newcomer reads it, begins anew, and goes by hashes, too
        elif part.number == 0 and part.phase is Phase.LEADING and self.numbering.complete and not self.again:
            self.again = list(self.numbering.of)
        elif part.number == 0 and part.phase is not Phase.LEADING and not self._answer_at:
            half = self.config.session_ms * MS // 2
            self._answer_at = now + half + stable_hash(me) % half

    def await_numbers(self, now: int, blind_ns: int, wakes: list[int]) -> bool:
        """Has the numbers written down again in time; where the log has lost them, and no member answers, settles for the
        rest. Returns whether it has just done so: then roles may have numbers that had none."""
        if not self.known or not self.numbered:
            return False
        settled = False
        part, numbering = self.parts[0], self.numbering
        # The leader of partition 0 writes the numbers down again; after twice that time without it, any other member does.
        after = self.config.restate_ms * (1 if part.phase is Phase.LEADING else 2) * MS
        if after and now >= numbering.said_at + after and numbering.complete and numbering.of and not self.again:
            self._restate_numbers(now)
        self._answer(now, wakes)
        if not numbering.complete:
            until = part.track.entered_at + max(blind_ns, 2 * self.config.session_ms * MS)
            if now < until:
                wakes.append(until)
                return False
            numbering.settle()
            settled = True
        if self.wishes:
            self._place()
        return settled

    def _answer(self, now: int, wakes: list[int]) -> None:
        """Tells newcomers the numbers, when it is its turn and it knows them."""
        if self._answer_at > now:
            wakes.append(self._answer_at)
        elif self._answer_at and self.numbering.complete:
            self._answer_at = 0
            self._restate_numbers(now)

    def _restate_numbers(self, now: int) -> None:
        self.numbering.said_at = now
        self.again = self.again or list(self.numbering.of)

    def restate(self, part: Partition, now: int) -> None:
        """An owner writes the partition's roles down again now and then: the log may forget the first record of them."""
        wishes = self.of[part.number]
        every = self.config.restate_ms * MS
        if every and part.phase is Phase.LEADING and now >= wishes.again_at + every:
            wishes.again_at, wishes.again = now, list(part.track.roles)

    # Another log -----------------------------------------------------------------------------------------------------------

    def log_replaced(self, part: Partition) -> None:
        """Called before the roles of the old log are forgotten. The group still has them, so they are to be written again."""
        self.of[part.number].add |= dict.fromkeys(part.track.roles)

    def place_again(self, part: Partition) -> None:
        """Turns what was to be written there into wishes again: the roles' numbers may have changed, or not be known yet. [a
        role without a number goes by its hash, to a partition that is not its own, and is written there again and again]"""
        wishes = self.of[part.number]
        self.wishes = dict.fromkeys((*self.wishes, *wishes.add), True) | self.wishes
        wishes.add.clear()
        self._place()

    def numbers_replaced(self, names: list[str]) -> None:
        """The numbers are gone with their log, and the new ones may differ. `names`: those that had numbers, in their order;
        they are proposed again in that order."""
        self.again.clear()
        told = {
            role for part, wishes in zip(self.parts, self.of, strict=True) for role in (*wishes.add, *part.track.roles)
        }
        known = told | self.wishes.keys()
        ordered = [*(name for name in names if name in known), *sorted(known - set(names))]
        self.wishes = {role: self.wishes.get(role, True) for role in ordered}
        for wishes in self.of:
            wishes.add.clear()
