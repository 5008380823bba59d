"""How a member of NELI or Fast NELI is put together: its settings, the way into its group, and the loop."""

from __future__ import annotations

from typing import Any

from pares.core.shares import Config
from pares.ledger import Group, Ledger, Membership
from pares.runtime.assignment import GRACE, Callbacks
from pares.runtime.claims_group import CALLBACK_LIMIT, group_of
from pares.runtime.induction import InductionLoop
from pares.runtime.induction_settings import check_seats, check_shape
from pares.runtime.induction_settings import config as config_of
from pares.runtime.life import Life


def begin_induction(
    ledger: Ledger, protocol: str, checked: dict[str, Any], eligible: object, own: dict[str, float | None], life: Life
) -> InductionLoop:
    """A loop for these settings, which has joined its group. Raises `ConfigError` and `CapabilityError` for what can't be."""
    seats: int = checked["seats"]
    native = isinstance(ledger, Group) and seats == 1
    check_shape(protocol, checked, eligible, native)
    check_seats(ledger, seats)
    settings = {key: checked[key] for key in ("name", "host", "zone", "rank", "weight", "drift")}
    settings |= {"session": checked["session_ms"] / 1000, "settle": checked["settle_ms"] / 1000}
    settings["callback_limit"] = max(CALLBACK_LIMIT, life.barrier_limit + 2 * GRACE)

    def join(callbacks: Callbacks) -> Membership:
        told = (callbacks.assigned, callbacks.revoked, callbacks.lost)
        return group_of(ledger, seats, **settings).join(checked["group"], ledger.partitions, *told)

    def make(bound: float, seen: int) -> tuple[str, Config]:
        return protocol, config_of(protocol, checked, ledger, bound, own, seen)

    return InductionLoop(ledger, make, join, life, away=not checked["ready"], native=native)
