"""How a member is put together: the ledger that it was given, and the loop and the view of its protocol.

Modules of the other protocols are imported by whoever needs them: the larger a process, the later its death is known (R7).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

from pares.core.errors import CapabilityError, ConfigError, ParesError
from pares.core.lease import lease_ns
from pares.ledger import Bus, Ledger, Log, parse, partition_of
from pares.runtime.claims.binding import ClaimsBinding
from pares.runtime.config.protocols import AllCall, ProtocolSettings
from pares.runtime.death.incarnation import Incarnation
from pares.runtime.driver.binding import Drives
from pares.runtime.driver.inbox import Inbox
from pares.runtime.driver.lifecycle import Life
from pares.runtime.driver.loop import Driver
from pares.runtime.driver.view import View, WorldView
from pares.runtime.host import Host

log: Final = logging.getLogger("pares.member")

MOST_PARTITIONS: Final = 8
"""Of a new log, by itself, for each seat of a role: each costs beats, whoever owns it."""


class Medium(NamedTuple):
    """What a member writes to."""

    ledger: Ledger
    """For ALLCALL a bus, which its own loop asks nothing else of."""
    own: bool
    """It was opened here, so it is closed with the member."""


class Engine(NamedTuple):
    """What drives a member."""

    loop: Drives
    view: View
    eligible: tuple[str, ...] | None
    """The roles that it may lead; None: any."""
    session: float


def check_own(own: ProtocolSettings | None, given: dict[str, Any]) -> None:
    """What can be said of a protocol's settings without a ledger. Raises `ConfigError`."""
    if isinstance(own, AllCall):
        from pares.runtime.allcall.settings import check_foreign

        check_foreign(given)


def open_medium(
    ledger: str | Ledger | Bus,
    options: Mapping[str, Any] | None,
    own: ProtocolSettings | None,
    given: dict[str, Any],
    host: Host,
) -> Medium:
    """The ledger of a member with these arguments, opened if it is given as a URL. Raises as `Member` does."""
    check_own(own, given)
    if isinstance(own, AllCall):
        from pares.runtime.allcall.settings import medium

        bus = medium(ledger, options, host)
        return Medium(cast("Ledger", bus), bus is not ledger)
    opens = isinstance(ledger, str)
    opened = host.open(ledger, **(options or {})) if isinstance(ledger, str) else ledger
    if not isinstance(opened, Log):
        raise ConfigError(f"ledger is {ledger!r}: give a URL such as sqlite:///work.db, or an opened ledger")
    if opened.capabilities.readonly:
        if opens:
            opened.close()
        raise CapabilityError(f"{opened.url} is opened read-only, and a member writes: use an Observer to look on")
    if own is not None and isinstance(ledger, str):
        opened = _shared_out(opened, ledger, dict(options or {}), given, host)
    return Medium(opened, opens)


def _shared_out(opened: Ledger, url: str, options: dict[str, Any], given: dict[str, Any], host: Host) -> Ledger:
    """Of a protocol that shares out partitions, on a log that is new and whose number of partitions nobody has named: one for
    each role that this member declares (and each of its seats), so that members share the roles out. A later member takes the
    log as it is."""
    wanted = given["seats"] * min(MOST_PARTITIONS, given["declared"])
    if "partitions" in options or "partitions" in parse(url).query or wanted <= 1:
        return opened
    try:
        if opened.partitions > 1 or opened.end(0) > 0:
            return opened
        wider = host.open(url, **options, partitions=wanted)
    except ParesError as error:  # somebody was quicker, or this member may not
        log.info("%s keeps its %d partitions: %s", opened.url, opened.partitions, error)
        return opened
    opened.close()
    return wider


def assemble(
    own: ProtocolSettings | None,
    ledger: Ledger,
    checked: dict[str, Any],
    given: dict[str, Any],
    inbox: Inbox,
    life: Life,
    host: Host,
) -> Engine:
    """`own`: the settings of its protocol alone (claims has none); `checked`: all others, as `settings.settings` gives them;
    `given`: as they were given to `Member`."""
    session = checked["session_ms"] / 1000
    if isinstance(own, AllCall):
        from pares.runtime.allcall.binding import AllCallBinding
        from pares.runtime.allcall.settings import settings_of
        from pares.runtime.allcall.view import AllcallView

        made = settings_of(checked, own, host.random())
        calls = AllCallBinding(cast("Bus", ledger), made, inbox, life, host, away=not checked["ready"])
        life.measures.reads_back = False
        in_force = made.lease_ms / 1000  # its lease is the session
        return Engine(Driver(calls, inbox, life, host), AllcallView(calls), checked["eligible"], in_force)
    if ledger.retention is not None:
        checked["retention_ms"] = int(ledger.retention * 1000)
    if own is not None:
        from pares.runtime.neli.build import bind
        from pares.runtime.neli.view import InductionView

        induced = bind(ledger, own, checked, given, inbox, life, host)
        # Any role's partition may come here, whatever this member was made with.
        in_force = induced.assignment.bound if induced.native else session
        return Engine(Driver(induced, inbox, life, host), InductionView(induced), None, in_force)
    folder = host.lock_folder(ledger, given["lock_folder"])
    partition = partition_of(ledger.url)
    claims = ClaimsBinding(ledger, partition, lambda seen: Incarnation(host, checked, folder, seen), life, host)
    life.measures.lease_ns = lease_ns(checked["session_ms"], checked["drift"], checked["overlap_ms"])
    return Engine(Driver(claims, inbox, life, host), WorldView(claims, life), checked["eligible"], session)
