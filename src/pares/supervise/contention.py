"""By which protocol `pares run` contends, and with which settings: the same for its member and for what ends the command."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from pares.core.errors import ConfigError
from pares.ledger import parse
from pares.ledger.registry import scheme_of
from pares.runtime.config.protocols import TRAITS, ProtocolName, protocol_of
from pares.supervise.grace import rhythm

SESSION: Final = 5.0


class Contention(NamedTuple):
    """What was asked for, and what that means."""

    name: ProtocolName
    session: float
    """Seconds of silence after which others may take over."""
    clock_error: float
    """Of NELI: seconds by which clocks may be apart."""
    settings: dict[str, Any]
    """What `Member` is made with for it."""


def contention(protocol: str, session: float | None, seats: int, url: str) -> Contention:
    """`session`: None for the usual one. Raises `CapabilityError` for a protocol that there is not, `ConfigError` for a session
    that can't be."""
    name, own = protocol_of(protocol)
    if own is None:
        session = SESSION if session is None else session
        return Contention(name, session, 0.0, {"session": session})
    scheme, traits = scheme_of(url), TRAITS[name]
    native = scheme.least_session if traits.partitions and seats == 1 else None
    session = (native or SESSION) if session is None else session
    if not 0.05 <= session <= 60:
        raise ConfigError(f"a session of {session:g} s can't be with protocol {name!r}: give 0.05 to 60 s")
    clock_error = 0.0
    if traits.by_clocks:
        from pares.runtime.neli.settings import CLOCK_ERROR, one_clock

        clock_error = 0.0 if one_clock(scheme.scope) else CLOCK_ERROR
        if session / 1.1 <= 4 * clock_error:
            raise ConfigError(
                f"a session of {session:g} s can't be with protocol 'neli' on {parse(url).scheme}: clocks may be off by "
                f"{clock_error:g} s, which has to be little beside it; take a second or more"
            )
    settings: dict[str, Any] = {"protocol": rhythm(name, session, clock_error=clock_error).protocol}
    if traits.on_log:  # elsewhere the session is the lease, which its own settings have
        settings["session"] = session
    return Contention(name, session, clock_error, settings)
