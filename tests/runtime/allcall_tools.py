"""What the tests of ALLCALL's members share: short leases, a band of members, and a bus that can be split."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from runtime_tools import PATIENCE, Crew, binding, until

import pares
from pares.core.errors import LedgerUnavailable, ParesError
from pares.ledger import Bus

TIMES: dict[str, Any] = {"heartbeat": 0.4, "lease": 1.6, "skew": 0.2}
"""A busy machine may stand still for most of a second, and nobody seems to be gone, and no lease runs out."""
PAST_A_LEASE = 2.1
"""Seconds: longer than the lease of `TIMES` and its skew."""
CALM: dict[str, Any] = {"heartbeat": 0.6, "lease": 3.0, "skew": 0.2}
"""For tests in which no lease may run out by itself: it is prolonged when 1.8 s are left."""


def member(crew: Crew, name: str, rank: int = 0, roles: tuple[str, ...] = ("x",), **settings: Any) -> pares.Member:
    """A member. The first of a crew does not listen for a lease before it calls (H12): in a group that is new nobody can have
    led. Those that come later hear its claim, and need not wait either."""
    given = {"ledger": crew.ledger, **TIMES, "silence": None if crew.members else 0.0, **settings}
    own = pares.AllCall(**{what: given.pop(what) for what in pares.AllCall.__struct_fields__ if what in given})
    made = pares.Member(given.pop("ledger"), group=crew.group, roles=roles, name=name, rank=rank, protocol=own, **given)
    crew.members.append(made)
    return made


def band(crew: Crew, names: str = "abc", **settings: Any) -> list[pares.Member]:
    """Members of ranks 0, 1, ..., of which the first leads "x", and all know each other."""
    made = [member(crew, name, rank, **settings) for rank, name in enumerate(names)]
    settle(made)
    return made


def settle(members: list[pares.Member], leader: pares.Member | None = None, role: str = "x") -> None:
    """Waits until all of them know each other, and that this one (the first) leads."""
    first = leader or members[0]
    everybody = {m.id for m in members}
    until(lambda: leading(members, role) == [first.name], f"{first.name} leads {role}, and nobody else does")
    until(lambda: all({p.id for p in m.members()} >= everybody for m in members), "all know each other")
    until(lambda: all(led_by(m, role) == first.id for m in members), f"all know that {first.name} leads")
    until(lambda: not any(waiting(m, everybody) for m in members), "nobody takes another one for too new to lead")


def waiting(member: pares.Member, others: set[str]) -> set[str]:
    """Which of them, as far as this member has heard, have to listen for a while before they may lead (H12)."""
    peers = binding(member).core.peers()  # type: ignore[attr-defined]  # pyright: ignore
    return {id for id, peer in peers.items() if id in others and peer.phase == "init"}


def leading(members: list[pares.Member], role: str = "x") -> list[str]:
    return [m.name for m in members if m.holds(role)]


def led_by(member: pares.Member, role: str = "x") -> str | None:
    holder = member.leader(role)
    return None if holder is None else holder.member


class Wire:
    """Ports to one bus, between which messages can be kept from passing."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.cut: Callable[[str, str], bool] = lambda source, target: False
        self._numbers = itertools.count()

    def split(self, *sides: str) -> None:
        """Messages pass only within a side; each is named by the letters of its ports."""
        self.cut = lambda source, target: not any(source in side and target in side for side in sides)

    def heal(self) -> None:
        self.cut = lambda source, target: False


class Port:
    """One member's end of a wire. `away`: it can send nothing, and is told so, and hears nothing."""

    def __init__(self, wire: Wire, name: str) -> None:
        self.wire, self.name, self.away = wire, name, False
        self.error: ParesError = LedgerUnavailable("out of reach, by the test")

    def publish(self, subject: str, payload: bytes) -> None:
        if self.away:
            raise self.error
        self.wire.bus.publish(subject, self.name.encode() + b"\n" + payload)

    def listen(self, subject: str, on_message: Callable[[bytes], None]) -> Callable[[], None]:
        def heard(message: bytes) -> None:
            source, _, payload = message.partition(b"\n")
            if not self.away and not self.wire.cut(source.decode(), self.name):
                on_message(payload)

        return self.wire.bus.listen(subject, heard)

    def close(self) -> None:
        """The bus is the wire's."""


__all__ = [
    "CALM",
    "PAST_A_LEASE",
    "PATIENCE",
    "TIMES",
    "Port",
    "Wire",
    "band",
    "leading",
    "led_by",
    "member",
    "settle",
]
