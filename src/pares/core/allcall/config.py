"""What a member of ALLCALL is made with, and what of that can work."""

from __future__ import annotations

from msgspec import Struct

from pares.core.allcall.election import Order
from pares.core.errors import ConfigError


class Settings(Struct, frozen=True):
    """One incarnation of a member. Times are milliseconds; all members of a group should have the same ones."""

    group: str
    id: str
    """`name~incarnation`: no two members have the same, nor two incarnations of one member."""
    rank: int = 0
    roles: tuple[str, ...] = ()
    heartbeat_ms: int = 1000
    lease_ms: int = 10_000
    skew_ms: int = 1000
    order: Order = "lease"
    when_isolated: str = "lead"
    start_offset_ms: int = 0
    """By how much its beats are behind others', so that not all call at once: a random part of a beat."""
    init_ms: int | None = None
    """How long it is silent to begin with. None: `lease + skew`, which is needed wherever it may have forgotten a claim
    (H12)."""
    barrier_ms: int = 0
    """How long a role that is given up by plan may wait for `WorkOver` before it is released; 0: it does not wait."""
    host: str = ""


def check(settings: Settings) -> None:
    """Raise `ConfigError` for settings that can't work."""
    beat, lease = settings.heartbeat_ms, settings.lease_ms
    if beat < 1 or lease < 3 * beat:
        raise ConfigError(
            f"lease {lease} ms and heartbeat {beat} ms: a lease must last for 3 beats at least, and a beat 1 ms"
        )
    if min(settings.skew_ms, settings.start_offset_ms, settings.init_ms or 0, settings.barrier_ms) < 0:
        raise ConfigError("skew, start offset, init and barrier must not be negative")
    if lease > 600_000:
        raise ConfigError(f"a lease of {lease} ms: no claim may last longer than 600000 ms")
    if settings.order not in ("lease", "rank"):
        raise ConfigError(f"order {settings.order!r} is neither 'lease' nor 'rank'")
    if settings.when_isolated not in ("lead", "step_down"):
        raise ConfigError(f"when_isolated {settings.when_isolated!r} is neither 'lead' nor 'step_down'")
