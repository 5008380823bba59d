"""How a member of NELI, NELE or Fast NELI is put together, and its way into its group: see `driver.kit.Kit`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from pares.core.errors import ParesError
from pares.core.neli.config import Config
from pares.ledger import Bus, Group, Ledger, Membership, parse
from pares.runtime.config.protocols import FastNeli, Nele, Neli, protocol_of
from pares.runtime.config.settings import Usual
from pares.runtime.driver.kit import Engine, Medium, Parts, keep_retention, open_log
from pares.runtime.driver.loop import Driver
from pares.runtime.host import Host
from pares.runtime.neli.assignment import GRACE, Callbacks
from pares.runtime.neli.binding import NeliBinding
from pares.runtime.neli.claims_group import CALLBACK_LIMIT, group_of
from pares.runtime.neli.settings import check_seats, check_shape, check_sum
from pares.runtime.neli.settings import config as config_of
from pares.runtime.neli.view import InductionView

log: Final = logging.getLogger("pares.member")

MOST_PARTITIONS: Final = 8
"""The most partitions that a new log gets by itself, for each seat of a role: every partition costs beats."""


def check(given: Mapping[str, Any]) -> None:
    """Checks nothing: which settings these protocols take depends on the ledger, so `assemble` checks them."""


def open(ledger: str | Ledger | Bus, options: Mapping[str, Any], given: Mapping[str, Any], host: Host) -> Medium:
    medium = open_log(ledger, options, host)
    return Medium(_shared_out(medium.ledger, ledger, options, given, host), True) if isinstance(ledger, str) else medium


def _shared_out(opened: Ledger, url: str, options: Mapping[str, Any], given: Mapping[str, Any], host: Host) -> Ledger:
    """A new log whose URL does not say how many partitions it has gets one for each role that this member declares (and each
    seat), so that members share the roles out. A later member takes the log as it is."""
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


def assemble(parts: Parts, ledger: Ledger) -> Engine:
    """Puts a member together; its binding has then asked to join its group."""
    own, checked, given, inbox, life, host, contender = parts
    assert isinstance(own, Nele | Neli | FastNeli)
    keep_retention(checked, ledger)
    seats: int = given["seats"]
    checked["seats"] = seats
    native = isinstance(ledger, Group) and seats == 1
    name, _ = protocol_of(own)
    check_shape(name, given, native)
    check_seats(ledger, seats)
    settings = {key: checked[key] for key in ("name", "host", "zone", "rank", "weight", "drift")}
    settings |= {"session": checked["session_ms"] / 1000, "settle": checked["settle_ms"] / 1000}
    settings |= {key: given[key] for key in ("lock_folder", "witness", "options")}
    settings["callback_limit"] = max(CALLBACK_LIMIT, life.barrier_limit + 2 * GRACE)
    session = None if native else settings["session"]

    def join(callbacks: Callbacks) -> Membership:
        told = (callbacks.assigned, callbacks.revoked, callbacks.lost)
        asked: dict[str, float] = {} if isinstance(given["session"], Usual) else {"session": given["session"]}
        group = group_of(ledger, contender, seats, **settings)
        return group.join(checked["group"], ledger.partitions, *told, **asked)

    def make(bound: float, seen: int) -> tuple[str, Config]:
        id = f"{checked['name']}~{host.random().token_hex(4)}"
        made = config_of(own, checked, ledger, bound, session, seen, id=id)
        if not isinstance(own, FastNeli):
            check_sum(made, bound, bound if session is None else session)
        return name, made

    binding = NeliBinding(ledger, make, join, inbox, life, host, away=not checked["ready"], native=native)
    in_force: float = binding.assignment.bound if native else settings["session"]
    # None: the group may give this member the partition of any role, whatever roles it was made with.
    return Engine(Driver(binding, inbox, life, host), InductionView(binding), None, in_force)
