"""Which `Kit` each protocol has.

Each is imported by those that need it only: the larger a process, the later its death is known (R7).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pares.runtime.config.protocols import ProtocolName
from pares.runtime.driver.kit import Kit


def _claims() -> Kit:
    from pares.runtime.claims import kit

    return kit


def _neli() -> Kit:
    from pares.runtime.neli import kit

    return kit


def _allcall() -> Kit:
    from pares.runtime.allcall import kit

    return kit


KITS: Final[dict[ProtocolName, Callable[[], Kit]]] = {
    "claims": _claims,
    "nele": _neli,
    "neli": _neli,
    "fast-neli": _neli,
    "allcall": _allcall,
}


def kit_of(protocol: ProtocolName) -> Kit:
    return KITS[protocol]()
