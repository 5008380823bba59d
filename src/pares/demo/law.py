"""By which protocol the demo's members share the feeds: what they are made with, what is said of it, what can be judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pares.demo.schedule import OVERLAP, SESSION
from pares.runtime.config.protocols import TRAITS, AllCall, Nele, ProtocolName, protocol_of
from pares.runtime.kits import part_of


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
        return TRAITS[self.name].partitions

    @property
    def placed(self) -> bool:
        """Whether placement says who holds what: members settle, and an administrator can hand over."""
        return TRAITS[self.name].placed

    @property
    def calls(self) -> bool:
        return not TRAITS[self.name].on_log


EXCLUSIVE_SESSION: Final = 2.0
"""Seconds: a belief is less than half of the group's session in NELI, and the demo's machine may be a busy one."""
_OVERLAP: Final = "Non-exclusive mode: rather two leaders for a moment than none.\n"
_NO_HISTORY: Final = (
    "ALLCALL keeps no log: there is no history that Spark could judge. What was published is counted, from the table; who led "
    "when, and for how long two did, nobody can say afterwards"
)


class Played(NamedTuple):
    """One protocol: what `Member` is made with, and what to expect (empty: what a stranger expects anyway)."""

    settings: dict[str, Any]
    words: str = ""
    why_no_audit: str = ""


CLAIMS: Final = Played({"session": SESSION})
NELI: Final = Played(
    {"session": EXCLUSIVE_SESSION, "protocol": "neli"},
    "NELI, exclusive: each instrument is a partition, whose owner leads while its beacons are young.\n",
)
FAST_NELI: Final = Played(
    {"session": EXCLUSIVE_SESSION, "protocol": "fast-neli"},
    "Fast NELI: each instrument is a partition, whose owner leads while its own beats come back in time.\n",
)
NELE: Final = Played(
    {"session": SESSION, "protocol": Nele(T=3 * SESSION)},
    "NELE, non-exclusive: rather two leaders for a moment than none. One that is cut off goes on until T is over.\n",
)
ALLCALL: Final = Played(
    {"protocol": AllCall(heartbeat=0.3, lease=1.5 * SESSION, skew=0.3)},
    "ALLCALL: the lowest rank leads everything, and the next one when it is not heard. One that is cut off\n"
    "leads on, and on the other side another does: rather two than none.\n",
    _NO_HISTORY,
)


def law_of(protocol: str, *, overlap: bool) -> Law:
    """Raises `CapabilityError` for a protocol that there is not, `ConfigError` for an overlap in one that is exclusive."""
    from pares.core.errors import ConfigError

    name, _ = protocol_of(protocol)
    if overlap and not TRAITS[name].overlap:
        raise ConfigError(f"--overlap does not go with --protocol {name}: it is of claims, and what nele is about")
    played: Played = part_of(name, "demo")
    settings = dict(played.settings)
    if TRAITS[name].exclusive and TRAITS[name].overlap:
        settings["overlap"] = OVERLAP if overlap else 0.0
    two = overlap or not TRAITS[name].exclusive
    return Law(name, two, played.words or (_OVERLAP if overlap else ""), settings, played.why_no_audit)
