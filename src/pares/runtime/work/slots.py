"""Sharding: a fixed number of hash slots as roles, each led by one member, which owns the keys in it.

    cache = pares.Slots.names("cache", 256)
    with pares.Member(url, group="cache", roles=cache) as me:
        slots = pares.Slots(me, "cache", 256)
        if slots.mine(key): ...

A key's slot is a hash of it, modulo the number of slots; which member leads a slot is the protocol's matter, so owning a key
has every promise that leading a role has: in exclusive mode no two members believe that they own one key. With claims, members
own slots balanced within one, a newcomer takes only its share, and what a leaver had is all that moves.
"""

from __future__ import annotations

from typing import Final

from pares.core.errors import ConfigError
from pares.core.wire.hashes import stable_hash
from pares.core.wire.records import MAX_NAME, MAX_ROLES, check_name
from pares.runtime.config.numbers import whole
from pares.runtime.member import Member
from pares.runtime.term import Term
from pares.runtime.views import Holder

SLOTS: Final = 1024


class Slots:
    """The slots of one keyspace, as one member sees them.

    `name`: of the keyspace; `slots`: how many there are, the same for everybody and for ever (another number is another
    keyspace: keys move). Promised: `mine` is true for at most one member at an instant, for each key (exclusive mode); the
    slot of a key is the same in every process, version and language. Not promised: that somebody owns a key while its slot
    moves.

    Raises `ConfigError` for a member that does not lead these slots' roles: make it with ``roles=Slots.names(name, slots)``.
    """

    def __init__(self, member: Member, name: str, slots: int = SLOTS) -> None:
        self._member = member
        self.name = name
        self._roles = self.names(name, slots)
        self.slots = slots
        eligible = member._requests.eligible  # pyright: ignore[reportPrivateUsage]
        if eligible is not None and not set(self._roles) <= set(eligible):
            raise ConfigError(
                f"this member leads no slots of {name!r}: make it with roles=Slots.names({name!r}, {slots}), or "
                f"eligible='*' where "
                "others declare them"
            )

    @staticmethod
    def names(name: str, slots: int = SLOTS) -> tuple[str, ...]:
        """The roles that stand for the slots: "NAME/0", "NAME/1" ..., to make a member with."""
        whole("slots", slots, 1, MAX_ROLES)
        check_name("the name of slots", name)
        longest = MAX_NAME - len(str(slots)) - 1
        if len(name) > longest:
            raise ConfigError(f"the name of slots has {len(name)} characters: use at most {longest}")
        return tuple(f"{name}/{number}" for number in range(slots))

    def slot(self, key: str | bytes) -> int:
        """The number of a key's slot: 64 bits of BLAKE2b of the key (text in UTF-8), big-endian, modulo the number of slots."""
        return stable_hash(key) % self.slots

    def role(self, key: str | bytes) -> str:
        """The role that stands for a key's slot."""
        return self._roles[self.slot(key)]

    def owner(self, key: str | bytes) -> Holder | None:
        """The owner of a key, as far as this member has read; None while there is none."""
        return self._member.leader(self.role(key))

    def mine(self, key: str | bytes) -> bool:
        """Whether this member owns a key now: `Member.holds` of its slot, with the same promise."""
        return self._member.holds(self.role(key))

    def term(self, key: str | bytes) -> Term | None:
        """This member's term for a key's slot, with the fencing token; None if it does not own it."""
        return self._member.term(self.role(key))

    def owned(self) -> list[int]:
        """The slots that this member owns now."""
        return [number for number, role in enumerate(self._roles) if self._member.holds(role)]

    def __repr__(self) -> str:
        return f"<Slots {self.name!r}: {len(self.owned())} of {self.slots} owned by {self._member.id}>"
