"""How a member is put together: the ledger that it was given, and the loop and the view of its protocol.

Modules of the other protocols are imported by whoever needs them: the larger a process, the later its death is known (R7).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, cast

from pares.core.errors import CapabilityError, ConfigError, ParesError
from pares.core.events import BarrierReturned
from pares.core.lease import lease_ns
from pares.ledger import Bus, Ledger, Log, parse, partition_of
from pares.runtime.config.protocols import AllCall, ProtocolSettings
from pares.runtime.death.incarnation import Incarnation
from pares.runtime.driver.lifecycle import Life
from pares.runtime.driver.loop import Loop
from pares.runtime.driver.view import View, WorldView
from pares.runtime.host import Host
from pares.runtime.work.barriers import Key

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

    loop: Loop
    """Of the claims protocol; the others' have whatever `Member` makes use of."""
    view: View
    work_over: Callable[[Key], None]
    """Told when no barrier and no body of that term runs any more."""
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
    if getattr(opened, "readonly", False):
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
    life: Life,
    host: Host,
) -> Engine:
    """`own`: the settings of its protocol alone (claims has none); `checked`: all others, as `settings.settings` gives them;
    `given`: as they were given to `Member`."""
    session = checked["session_ms"] / 1000
    if isinstance(own, AllCall):
        from pares.runtime.allcall.loop import AllcallLoop
        from pares.runtime.allcall.settings import settings_of
        from pares.runtime.allcall.view import AllcallView

        made = settings_of(checked, own, host.random())
        calls = AllcallLoop(cast("Bus", ledger), made, life, host, away=not checked["ready"])
        life.measures.reads_back = False
        # Its lease is the session.
        return Engine(
            cast("Loop", calls), AllcallView(calls), calls.work_over, checked["eligible"], made.lease_ms / 1000
        )
    if ledger.retention is not None:
        checked["retention_ms"] = int(ledger.retention * 1000)
    if own is not None:
        from pares.runtime.neli.build import begin_induction
        from pares.runtime.neli.view import InductionView

        induced = begin_induction(ledger, own, checked, given, life, host)
        # Any role's partition may come here, whatever this member was made with.
        in_force = induced.assignment.bound if induced.native else session
        return Engine(cast("Loop", induced), InductionView(induced), induced.work_over, None, in_force)
    folder = host.lock_folder(ledger, given["lock_folder"])
    loop = Loop(ledger, partition_of(ledger.url), lambda seen: Incarnation(host, checked, folder, seen), life, host)
    life.measures.waits_known = True
    life.measures.lease_ns = lease_ns(checked["session_ms"], checked["drift"], checked["overlap_ms"])

    said = set[str]()

    def compare() -> None:
        """What the log says of a role counts, whatever this member was made with (U4): that is said, once a role."""
        for role in checked["roles"]:
            there = loop.claims.reader.world.roles.get(role.name)
            if there is not None and not there.removed and there.seats != role.seats and role.name not in said:
                said.add(role.name)
                text = (
                    f"seats={role.seats} was asked for role {role.name!r}, which has {there.seats} in the group's log: the log "
                    f"counts; change it for the whole group by add_role({role.name!r}, seats={role.seats}) or `pares roles add`"
                )
                life.journal.problem("seats", text)

    life.entered = compare

    def work_over(key: Key) -> None:
        loop.request(BarrierReturned(key[2]))

    return Engine(loop, WorldView(loop, life), work_over, checked["eligible"], session)
