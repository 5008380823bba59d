"""The parts of each protocol: one row in a table says where each is.

A part is "module:name", and imported by those that need it only: the larger a process, the later its death is known (R7). So
the table may name parts of layers above this one, too, which nothing here imports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from pares.runtime.config.protocols import TRAITS, USUAL, ProtocolName

if TYPE_CHECKING:
    from pares.runtime.config.rhythm import Rhythm
    from pares.runtime.driver.kit import Follows, Kit, Listens, Steerer

Part: TypeAlias = Literal["kit", "observer", "admin", "rhythm", "doctor", "demo"]


class Row(Struct, frozen=True, kw_only=True):
    """One protocol, by where its parts are."""

    kit: str
    """A module: a `Kit`, which makes members."""
    observer: str
    """A `Follows` of a group in a log, or a `Listens` of one on a bus."""
    admin: str
    """A `Steerer`."""
    rhythm: str
    """From a session, its drift and the clock error, all in seconds (the drift is a share): a `Rhythm`."""
    doctor: str
    """What `pares doctor` finds: from a `Case` in a log and a `Plan` a `Checkup`, or None if the group is not of this protocol.
    On a bus: as `examine_heard`."""
    demo: str
    """A `Played`: what `pares demo` makes its members with, and says of them (`pares.demo.law`)."""


_NELI: Final = Row(
    kit="pares.runtime.neli.kit",
    observer="pares.runtime.neli.observer:NeliFollower",
    admin="pares.runtime.neli.admin:steer",
    rhythm="pares.runtime.neli.rhythm:neli",
    doctor="pares.view.checkup:examine_induction",
    demo="pares.demo.law:NELI",
)
KITS: Final[dict[ProtocolName, Row]] = {
    "claims": Row(
        kit="pares.runtime.claims.kit",
        observer="pares.runtime.claims.observer:ClaimsFollower",
        admin="pares.runtime.claims.admin:steer",
        rhythm="pares.runtime.claims.rhythm:rhythm",
        doctor="pares.view.checkup:examine_claims",
        demo="pares.demo.law:CLAIMS",
    ),
    "nele": replace(_NELI, rhythm="pares.runtime.neli.rhythm:nele", demo="pares.demo.law:NELE"),
    "neli": _NELI,
    "fast-neli": replace(_NELI, rhythm="pares.runtime.neli.rhythm:fast_neli", demo="pares.demo.law:FAST_NELI"),
    "allcall": Row(
        kit="pares.runtime.allcall.kit",
        observer="pares.runtime.allcall.observer:AllCallObserver",
        admin="pares.runtime.allcall.admin:steer",
        rhythm="pares.runtime.allcall.rhythm:rhythm",
        doctor="pares.view.allcall_checkup:examine_heard",
        demo="pares.demo.law:ALLCALL",
    ),
}


def part_of(protocol: ProtocolName, part: Part) -> Any:
    """This part of a protocol, imported now."""
    return _there(getattr(KITS[protocol], part))


def ways(part: Part, *, on_log: bool | None = None) -> Iterator[Any]:
    """The different ones of all protocols, the usual one's last: so one that knows its own groups is asked before the one that
    takes all others. `on_log`: only of those whose groups live in a log, or of those on a bus."""
    asked = [each for each in TRAITS.values() if each is not USUAL and on_log in (None, each.on_log)]
    last = [USUAL] if on_log in (None, USUAL.on_log) else []
    for where in dict.fromkeys(getattr(KITS[each.name], part) for each in (*asked, *last)):
        yield _there(where)


def kit_of(protocol: ProtocolName) -> Kit:
    return part_of(protocol, "kit")


def follower_of(protocol: ProtocolName) -> Callable[..., Follows]:
    return part_of(protocol, "observer")


def listener_of(protocol: ProtocolName) -> Listens:
    return part_of(protocol, "observer")


def steerers() -> Iterator[Steerer]:
    return ways("admin")


def rhythm_of(protocol: ProtocolName) -> Callable[[float, float, float], Rhythm]:
    return part_of(protocol, "rhythm")


def _there(where: str) -> Any:
    module, _, name = where.partition(":")
    loaded = import_module(module)
    return getattr(loaded, name) if name else loaded
