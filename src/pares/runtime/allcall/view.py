"""What a member that runs ALLCALL tells of its group: the members that it has heard lately, and what they say."""

from __future__ import annotations

from pares.core.allcall.messages import token
from pares.core.errors import CapabilityError
from pares.runtime.allcall.binding import AllCallBinding, name_of
from pares.runtime.driver.view import View, no_partitions
from pares.runtime.views import Holder, Peer

_HAS_NOT = frozenset({"pause", "resume", "mark"})


class AllCallView(View):
    """See `driver.view.View`. There is no log, so it knows only what the member has heard."""

    def __init__(self, binding: AllCallBinding) -> None:
        self._binding = binding

    @property
    def id(self) -> str:
        return self._binding.settings.id

    @property
    def no_proof(self) -> str | None:
        return "ALLCALL proves no deaths: the lease decides"

    @property
    def bad_records(self) -> int:
        return self._binding.core.bad

    @property
    def uncounted_records(self) -> int:
        return self._binding.core.stale + self._binding.calls.lost_count

    def members(self) -> list[Peer]:
        """The members heard lately, and the leader of each role as each of them sees it (`Peer.views`)."""
        settings, found = self._binding.settings, self._binding.core.peers()
        leaders = {role: held[0].member for role in self.roles() if (held := self.leaders(role))}
        everybody = {m: (p.host, p.rank, dict(p.views)) for m, p in found.items()}
        everybody[settings.id] = (settings.host, settings.rank, leaders)
        lease = settings.lease_ms / 1000
        return [
            Peer(id, name_of(id), host, "", {}, rank, 1.0, lease, False, _led_by(id, leaders), views)
            for id, (host, rank, views) in sorted(everybody.items())
        ]

    def leaders(self, role: str) -> list[Holder]:
        claim = self._binding.core.claim(role, self._binding.now())
        if claim is None:
            return []
        peer = self._binding.core.peers().get(claim.holder)
        mine = claim.holder == self._binding.settings.id
        host = self._binding.settings.host if mine else "" if peer is None else peer.host
        name = token(claim.term, claim.holder)
        return [Holder(claim.holder, name_of(claim.holder), host, role, 0, name, self._binding.since.get(role))]

    def roles(self) -> dict[str, int]:
        """The member's own roles, and those that any member leads now."""
        return dict.fromkeys(sorted({*self._binding.settings.roles, *self._binding.core.led(self._binding.now())}), 1)

    def partition(self, role: str, seat: int) -> int:
        raise no_partitions("allcall", role)

    def known(self, role: str) -> bool:
        return role in self._binding.settings.roles

    def resolve(self, member: str, group: str) -> str:
        raise CapabilityError(
            f"to is {member!r}, and ALLCALL has nobody chosen: of those who are there the lowest rank leads next; leave it "
            "out, give the member a lower rank, or use protocol='claims'"
        )

    def check(self, what: str) -> None:
        """Raises `CapabilityError` for what needs a log."""
        if what in _HAS_NOT:
            raise CapabilityError(
                f"{what} is not in protocol 'allcall', which keeps nothing: a member that joins later could not know of it; "
                "use protocol='claims'" + (", or step_down() and ready=" if what != "mark" else "")
            )


def _led_by(id: str, leaders: dict[str, str]) -> tuple[str, ...]:
    return tuple(sorted(role for role, leader in leaders.items() if leader == id))
