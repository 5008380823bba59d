"""What one incarnation of a member is made with."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from pares.core.wire.records import READS, VERSION, Lock


class RoleSpec(Struct, frozen=True):
    """A role as its users declare it."""

    name: str
    seats: int = 1
    weight: float = 1.0
    spread: str = "host"


class Config(Struct, frozen=True):
    """One incarnation. All of it is fixed for the incarnation's life (R4)."""

    group: str
    id: str
    name: str
    session_ms: int = 1000
    drift: float = 0.1
    overlap_ms: int = 0
    host: str = ""
    zone: str = ""
    labels: dict[str, str] = {}
    rank: int = 0
    weight: float = 1.0
    eligible: tuple[str, ...] | None = None
    roles: tuple[RoleSpec, ...] = ()
    settle_ms: int = 500
    barrier_ms: int = 30_000
    lock: Lock | None = None
    witness: str = ""
    """The boot of a host of whose members this one watches every lock (R22); empty: it watches those whose turn it is (R7)."""
    retention_ms: int | None = None
    ready: bool = True
    """Whether it may lead before the first `Ready` says so."""
    seen: int = 0
    """The largest token that earlier incarnations of this process have seen: a log that it begins is above it (R9)."""
    writes: int = VERSION
    """The newest format version that it writes, once all members can read it (R11)."""
    reads: int = READS
    """The newest format version that it reads. Both are the release's own; others are for simulations of an upgrade."""

    def said(self) -> dict[str, Any]:
        """What the member says about itself when it joins."""
        return {
            "name": self.name,
            "session": self.session_ms,
            "host": self.host,
            "zone": self.zone,
            "labels": self.labels,
            "rank": self.rank,
            "weight": self.weight,
            "eligible": self.eligible,
            "drift": self.drift,
            "overlap": self.overlap_ms,
            "reads": self.reads,
            "lock": self.lock,
        }
