"""By which protocol the demo's members share the feeds: what they are made with, what is said of it, what can be judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pares.demo.schedule import OVERLAP, SESSION
from pares.runtime.config.protocols import AllCall, Nele, ProtocolName, protocol_of


@dataclass(frozen=True, slots=True)
class Law:
    """One protocol, as the demo plays it."""

    name: ProtocolName
    two: bool
    """Two may lead for a moment, or on both sides of a split: rather that than nobody."""
    words: str
    """What to expect; empty for what a stranger expects anyway."""
    settings: dict[str, Any]
    """What `Member` is made with."""
    why_no_audit: str = ""
    """Why there is nothing that could be audited afterwards."""

    @property
    def shares_out(self) -> bool:
        """Whether each instrument needs a partition of its own."""
        return self.name in ("nele", "neli", "fast-neli")

    @property
    def calls(self) -> bool:
        return self.name == "allcall"


_WORDS: Final[dict[ProtocolName, str]] = {
    "claims": "",
    "neli": "NELI, exclusive: each instrument is a partition, whose owner leads while its beacons are young.\n",
    "fast-neli": "Fast NELI: each instrument is a partition, whose owner leads while its own beats come back in time.\n",
    "nele": "NELE, non-exclusive: rather two leaders for a moment than none. One that is cut off goes on until T is over.\n",
    "allcall": "ALLCALL: the lowest rank leads everything, and the next one when it is not heard. One that is cut off\n"
    "leads on, and on the other side another does: rather two than none.\n",
}
EXCLUSIVE_SESSION: Final = 2.0
"""Seconds: a belief is less than half of the group's session in NELI, and the demo's machine may be a busy one."""
_OVERLAP: Final = "Non-exclusive mode: rather two leaders for a moment than none.\n"
_NO_HISTORY: Final = (
    "ALLCALL keeps no log: there is no history that Spark could judge. What was published is counted, from the table; who led "
    "when, and for how long two did, nobody can say afterwards"
)


def law_of(protocol: str, *, overlap: bool) -> Law:
    """Raises `CapabilityError` for a protocol that there is not, `ConfigError` for an overlap in one that is exclusive."""
    from pares.core.errors import ConfigError

    name, _ = protocol_of(protocol)
    if overlap and name not in ("claims", "nele"):
        raise ConfigError(f"--overlap does not go with --protocol {name}: it is of claims, and what nele is about")
    session: dict[str, Any] = {"session": SESSION}
    if name == "claims":
        settings = {**session, "overlap": OVERLAP if overlap else 0.0}
        return Law(name, overlap, _OVERLAP if overlap else "", settings)
    if name == "allcall":
        calls = {"protocol": AllCall(heartbeat=0.3, lease=1.5 * SESSION, skew=0.3)}
        return Law(name, True, _WORDS[name], calls, _NO_HISTORY)
    if name == "nele":
        return Law(name, True, _WORDS[name], {**session, "protocol": Nele(T=3 * SESSION)})
    return Law(name, False, _WORDS[name], {"session": EXCLUSIVE_SESSION, "protocol": name})
