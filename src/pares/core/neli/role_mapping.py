"""Which number a role has, and which partition a role belongs to: the same for all members, for ever (docs/neli.md).

Role number j belongs to partition j mod M. A name that is a whole number is its own j. Any other name gets its j from the log,
in partition 0, where every reader finds the same (R1): 0, 1, 2 ... in the order in which `number` records first name them. So
roles share out evenly, with as many partitions as roles each has one of its own, and a role that is added moves no other. A
name that no member has declared, and every name in a group with members of release 0.1, has a hash for its j, which is part of
the format: 64 bits of BLAKE2b, big-endian, of the name in UTF-8. So every role has a partition, whatever M and the roles are
(with more partitions than roles some partitions have nothing to do, with fewer several roles share one).

A name keeps its number for ever, also when its role is removed: so no role moves because another one comes or goes. [a number
that is given to another name: its partition's leader may lead the new role before the removal of the old one was read]

A log may forget old records. So members write the numbers down again (`whole`), for later readers. A reader that does not know
all numbers yet keeps the names that it sees proposed, and numbers them in their order once it knows what came before. If no
member writes the numbers down, it `settle`s for what it has read.
"""

from __future__ import annotations

from collections.abc import Mapping

from pares.core.wire.hashes import stable_hash
from pares.core.wire.neli_records import Number
from pares.core.wire.records import MAX_ROLES


def is_number(role: str) -> bool:
    """Whether a name is its own j: a whole number as people write it ("7", not "07")."""
    return role.isascii() and role.isdigit() and (role == "0" or role[0] != "0")


def role_number(role: str) -> int:
    """The j of a role that the log gives no number: its own value for a whole number, else the hash of its name."""
    return int(role) if is_number(role) else stable_hash(role)


def partition_of_number(number: int, partitions: int, seats: int = 1, seat: int = 0) -> int:
    """j mod M. With several seats, the partitions are as many blocks of equal size, and each seat has the same place in its
    own block; partitions that are left over are nobody's."""
    block = partitions // seats
    return seat * block + number % block


def partition_of_role(role: str, partitions: int, seats: int = 1, seat: int = 0) -> int:
    """The partition of a seat of a role that the log gives no number."""
    return partition_of_number(role_number(role), partitions, seats, seat)


def seat_of_partition(partition: int, partitions: int, seats: int = 1) -> int:
    """Which seat of its roles belongs to a partition; `seats` or more for a partition that is left over."""
    return partition // (partitions // seats)


class Numbering:
    """The numbers of names, as one reader of partition 0 knows them. Feed it `number` records in order."""

    def __init__(self) -> None:
        self.of: dict[str, int] = {}
        self.complete = True
        """Whether it knows all numbers that were given before."""
        self.said_at = 0
        """When a record was read that wrote them down again, by the reader's stopwatch."""
        self.conflict = ""
        """A number in another member's record that contradicts a known one, in words; empty: there is none."""
        self._next = 0
        self._proposed: dict[str, None] = {}

    def enter(self, *, whole: bool) -> None:
        """The reader begins; `whole`: at the log's true beginning."""
        self.complete = whole

    def fold(self, record: Number, now: int) -> None:
        """The next record that counts."""
        if not record.numbers:
            for name in record.names:
                if self.complete:
                    self._number(name)
                elif len(self._proposed) < MAX_ROLES:
                    self._proposed[name] = None
            return
        self.said_at = now
        for name, number in zip(record.names, record.numbers, strict=True):
            known = self.of.get(name)
            if known is not None and self.complete and known != number:
                self.conflict = f"role {name!r} has number {known}, and {record.m} says {number}"
            elif (known is None or not self.complete) and number >= 0 and not is_number(name):
                self._give(name, number)
        if not self.complete and len(self.of) >= record.whole:
            self.settle()

    def settle(self) -> None:
        """Takes what was read for all there is, and numbers the names that were proposed."""
        self.complete = True
        for name in self._proposed:
            self._number(name)
        self._proposed.clear()

    def number(self, role: str) -> int | None:
        """The j of a role; None if the log has yet to give it one."""
        known = self.of.get(role)
        return role_number(role) if known is None and (self.full or is_number(role)) else known

    def missing(self, roles: Mapping[str, object]) -> list[str]:
        """Those of `roles` that need a number and have none."""
        return [role for role in roles if self.number(role) is None]

    @property
    def full(self) -> bool:
        """Whether no more names can be numbered."""
        return len(self.of) >= MAX_ROLES

    def _number(self, name: str) -> None:
        if name not in self.of and not is_number(name):
            self._give(name, self._next)

    def _give(self, name: str, number: int) -> None:
        if name in self.of or not self.full:
            self.of[name] = number
            self._next = max(self._next, number + 1)
