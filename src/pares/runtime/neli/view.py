"""What a member that runs NELI, NELE or Fast NELI tells of its group: as much as the logs of the partitions say."""

from __future__ import annotations

from pares.core.errors import CapabilityError, ConfigError
from pares.core.wire.records import Seat
from pares.runtime.driver.view import View
from pares.runtime.neli.binding import NeliBinding
from pares.runtime.neli.claims_group import ClaimsMembership
from pares.runtime.neli.idle import group_members
from pares.runtime.views import Holder, Peer


class InductionView(View):
    """See `driver.view.View`. These logs have no joins, so the members known are those that have written lately: in Fast NELI
    the owners, and those that the claims know which share partitions out."""

    def __init__(self, binding: NeliBinding) -> None:
        self._binding = binding

    @property
    def id(self) -> str:
        return self._binding.core.me

    @property
    def no_proof(self) -> str | None:
        return "the group's session decides"

    @property
    def linger(self) -> float:
        return self._binding.linger

    @property
    def bad_records(self) -> int:
        return sum(sum(list(part.track.bad.values())) for part in self._binding.core.parts)

    @property
    def uncounted_records(self) -> int:
        return sum(part.track.uncounted for part in self._binding.core.parts)

    def held(self) -> dict[Seat, int]:
        """The seats of partitions that the group gives to this member. An owner that rightly waits (for an earlier owner,
        another member's announcement or a barrier) is not counted."""
        return self._binding.core.could_lead()

    def members(self) -> list[Peer]:
        session = self._binding.assignment.bound
        found = group_members(self._binding.core, self._binding.assignment.membership, self._binding.now())
        return [
            Peer(id, id.rpartition("~")[0], host, "", {}, 0, 1.0, session, False, self._led_by(id))
            for id, host in sorted(found.items())
        ]

    def _led_by(self, id: str) -> tuple[str, ...]:
        return tuple(sorted(role for role in self.roles() if any(h.member == id for h in self.leaders(role))))

    def leaders(self, role: str) -> list[Holder]:
        return [
            Holder(t.member, t.name, t.host, role, seat, t.token, t.began_ms / 1000 if t.began_ms else None)
            for seat, t in self._binding.core.leaders(role)
        ]

    def roles(self) -> dict[str, int]:
        return dict.fromkeys(self._binding.core.roles.names, self._binding.core.config.seats)

    def partition(self, role: str, seat: int) -> int:
        core = self._binding.core
        if not 0 <= seat < core.config.seats:
            raise ConfigError(
                f"seat is {seat}, and each role has {core.config.seats} here: give 0 to {core.config.seats - 1}"
            )
        return core.roles.partition(role, seat)

    def known(self, role: str) -> bool:
        return role in self._binding.core.roles.names

    def paused(self, role: str) -> bool:
        """Whether the claims group that shares the partitions out has paused it; a ledger's own service knows no pauses."""
        membership = self._binding.assignment.membership
        return isinstance(membership, ClaimsMembership) and membership.paused(self._binding.core.roles.partition(role))

    def expects(self, role: str) -> bool:
        """Whether the log has the role, or this member is about to write it there."""
        # Wishes first: a role may move from the wishes to the log between the two looks, never back.
        return role in self._binding.core.roles.wanted(there=True) or self.known(role)

    def resolve(self, member: str, group: str) -> str:
        for peer in self.members():
            if member in (peer.id, peer.name):
                return peer.id
        raise ConfigError(f"group {group!r} has no member {member!r} that has written lately")

    def check_role(self, seats: int, weight: float, spread: str) -> None:
        of = self._binding.core.config.seats
        if (weight, spread) != (1, "host") or seats not in (1, of):
            name = self._binding.core.rules.name
            raise CapabilityError(
                f"seats={seats}, weight={weight:g}, spread={spread!r}: in protocol {name!r} all roles have "
                f"as many seats as the members' seats= says, which is {of}, on different hosts, and no weights; leave them "
                "out, or use protocol='claims'"
            )

    def check(self, what: str) -> None:
        """Raises `CapabilityError` for what this protocol, or the group on this ledger, does not have."""
        name = self._binding.core.rules.name
        if what == "mark":
            raise CapabilityError(
                f"mark is not in protocol {name!r}, whose records carry no marks: keep them beside your data, or use "
                "protocol='claims'"
            )
        if self._binding.native:
            raise CapabilityError(
                f"{what} is not in protocol {name!r} on this ledger: its own service gives out partitions, to whom it likes, "
                "and takes no wishes; use step_down() or drain(), which leave its group, another ledger (there claims share "
                "partitions out, which can be moved and paused), or protocol='claims'"
            )
