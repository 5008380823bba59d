"""What members count and time about themselves, for Prometheus and OpenTelemetry.

    pares.metrics.prometheus(member)      # pip install 'pares[prometheus]'
    pares.metrics.otel(member)            # pip install 'pares[otel]'

Every metric has the labels `group` and `member`: its name, or "unnamed" ("unnamed-2", ...) for a member that was given none,
since a name of pares' own making is another one after each start. `table.py` lists the metrics; nothing else is read or kept.
A consumer is a member, and has some more: its load, lag and positions. Called with one of `pares.aio`, that one must have been
entered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter
    from prometheus_client import CollectorRegistry

    from pares.runtime import Member, aio
    from pares.runtime.consume.consumer import Consumer

__all__ = ["otel", "prometheus"]


def prometheus(
    member: Member | Consumer | aio.Member | aio.Consumer, registry: CollectorRegistry | None = None
) -> None:
    """Adds `member`, or a consumer, to what `registry` (the usual one if None) shows to a scraper, until the member is closed.

    Several members may be added to one registry. Read when scraped; nothing runs in between. (prometheus_client's mode for
    several processes gathers no such metrics: let each worker be scraped, or use OpenTelemetry.)
    Raises `CapabilityError` if prometheus_client is not installed.
    """
    from pares.metrics.to_prometheus import add

    add(_plain(member), registry)


def otel(member: Member | Consumer | aio.Member | aio.Consumer, meter: Meter | None = None) -> None:
    """Has `meter` (named `pares`, of the global provider, if None) observe `member`, or a consumer, until the member is closed.

    Counters and gauges are read when the SDK collects; times go to histograms when they come up, on the member's own thread.
    Raises `CapabilityError` if the OpenTelemetry API is not installed.
    """
    from pares.metrics.to_otel import add

    add(_plain(member), meter)


def _plain(given: Any) -> Member:
    from pares.core.errors import ConfigError
    from pares.runtime import Member, aio
    from pares.runtime.consume.consumer import Consumer

    plain = given._made if isinstance(given, aio.Member | aio.Consumer) else given  # pyright: ignore[reportPrivateUsage]
    member = plain._member if isinstance(plain, Consumer) else plain  # pyright: ignore[reportPrivateUsage]
    if not isinstance(member, Member):
        raise ConfigError(f"metrics of {given!r}: give a Member or a Consumer, or one of pares.aio that was entered")
    return member
