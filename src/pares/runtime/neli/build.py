"""How a member of NELI or Fast NELI is put together: its settings, and the way into its group."""

from __future__ import annotations

from typing import Any

from pares.core.neli.config import Config
from pares.ledger import Group, Ledger, Membership
from pares.runtime.config.protocols import FastNeli, Partitioned, protocol_of
from pares.runtime.config.settings import Usual
from pares.runtime.driver.inbox import Inbox
from pares.runtime.driver.lifecycle import Life
from pares.runtime.host import Host
from pares.runtime.neli.assignment import GRACE, Callbacks
from pares.runtime.neli.binding import NeliBinding
from pares.runtime.neli.claims_group import CALLBACK_LIMIT, group_of
from pares.runtime.neli.settings import check_seats, check_shape, check_sum
from pares.runtime.neli.settings import config as config_of


def bind(
    ledger: Ledger,
    own: Partitioned,
    checked: dict[str, Any],
    given: dict[str, Any],
    inbox: Inbox,
    life: Life,
    host: Host,
) -> NeliBinding:
    """A binding with these settings, which has joined its group. Raises `ConfigError` and `CapabilityError`."""
    seats: int = given["seats"]
    checked = checked | {"seats": seats}
    native = isinstance(ledger, Group) and seats == 1
    name, _ = protocol_of(own)
    check_shape(name, given, native)
    check_seats(ledger, seats)
    settings = {key: checked[key] for key in ("name", "host", "zone", "rank", "weight", "drift")}
    settings |= {"session": checked["session_ms"] / 1000, "settle": checked["settle_ms"] / 1000}
    settings["lock_folder"] = given["lock_folder"]
    settings["callback_limit"] = max(CALLBACK_LIMIT, life.barrier_limit + 2 * GRACE)
    session = None if native else settings["session"]

    def join(callbacks: Callbacks) -> Membership:
        told = (callbacks.assigned, callbacks.revoked, callbacks.lost)
        asked = {} if isinstance(given["session"], Usual) else {"session": given["session"]}
        return group_of(ledger, seats, **settings).join(checked["group"], ledger.partitions, *told, **asked)

    def make(bound: float, seen: int) -> tuple[str, Config]:
        id = f"{checked['name']}~{host.random().token_hex(4)}"
        made = config_of(own, checked, ledger, bound, session, seen, id=id)
        if not isinstance(own, FastNeli):
            check_sum(made, bound, bound if session is None else session)
        return name, made

    return NeliBinding(ledger, make, join, inbox, life, host, away=not checked["ready"], native=native)
