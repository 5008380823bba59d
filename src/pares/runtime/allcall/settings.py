"""What a member that runs ALLCALL is made with, checked, and the bus that it uses; see `config.settings` for all members."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from pares.core.allcall.config import Settings
from pares.core.allcall.messages import MAX_CALL, MAX_ROLES, MAX_TERM, VERSION, Call, Claim, encode
from pares.core.errors import CapabilityError, ConfigError
from pares.ledger import Bus, Ledger, as_bus
from pares.ledger.base import Declaring, Log, offers
from pares.ledger.registry import ClosableBus
from pares.runtime.config.protocols import AllCall
from pares.runtime.config.settings import SESSION, Usual
from pares.runtime.host import Chance, Host

_INSTEAD: Final = "leave it out, or use protocol='claims'"
_FOREIGN: Final[dict[str, tuple[object, str]]] = {
    "session": (SESSION, "leaders have a lease here: protocol=pares.AllCall(lease=, heartbeat=)"),
    "overlap": (0.0, "two may lead while messages don't pass, by its nature: leave it out"),
    "drift": (0.1, "it allows for clocks by a skew: leave drift out, or give protocol=pares.AllCall(skew=)"),
    "zone": (None, f"nothing is placed by zones here: {_INSTEAD}"),
    "labels": (None, f"members don't tell labels here: {_INSTEAD}"),
    "weight": (1, f"the lowest rank leads, whatever a role weighs: {_INSTEAD}"),
    "eligible": (None, f"a member may lead the roles that it is made with: {_INSTEAD}"),
    "lock_folder": (None, f"no death is proven here: {_INSTEAD}"),
    "witness": (False, f"no death is proven here: {_INSTEAD}"),
    "settle": (None, f"nothing is balanced here: {_INSTEAD}"),
}
"""Settings of other protocols: their defaults, and what to do instead of giving them."""


def medium(ledger: object, options: Mapping[str, Any] | None, host: Host) -> ClosableBus:
    """The bus that members use: `ledger` itself, or one over a log. Closing it leaves a ledger open that was given opened."""
    if isinstance(ledger, str):
        opened = host.open_bus(ledger, **(options or {}))
        if opened.capabilities.readonly:
            opened.close()
            raise _read_only(ledger)
        return opened
    if isinstance(ledger, Declaring) and ledger.capabilities.readonly:
        raise _read_only(ledger.url if offers(ledger, Log) else "it")
    return medium_of(ledger)


def medium_of(ledger: object) -> ClosableBus:
    """The bus for something that is open already: a bus itself, or one over a ledger. Raises `ConfigError` for anything
    else."""
    if isinstance(ledger, Bus):
        return cast("ClosableBus", ledger)
    if offers(ledger, Ledger):
        return cast("ClosableBus", as_bus(ledger))
    raise ConfigError(
        f"ledger is {ledger!r}: give a URL such as nats://localhost:4222, or an opened ledger or bus (pares.ledger.open_bus)"
    )


def _read_only(where: object) -> CapabilityError:
    return CapabilityError(f"{where} is opened read-only, and a member speaks: use an Observer to look on")


def check_foreign(given: Mapping[str, Any]) -> None:
    """Raises `ConfigError` for a setting that ALLCALL has no use for: else its user would find out too late that it does
    nothing. Raises `CapabilityError` for several seats."""
    for what, (usual, instead) in _FOREIGN.items():
        if given[what] is not usual and (given[what] != usual or isinstance(usual, Usual)):
            raise ConfigError(f"{what} is {given[what]!r}, and protocol 'allcall' has none: {instead}")
    if given["seats"] != 1:
        raise CapabilityError(
            f"seats is {given['seats']!r}, and ALLCALL gives each role one leader: use protocol='claims', or a "
            "role for each seat"
        )


def settings_of(checked: Mapping[str, Any], own: AllCall, chance: Chance) -> Settings:
    """The settings of one incarnation. Raises `ConfigError` if they don't fit into a call."""
    beat = round(1000 * own.heartbeat)
    made = Settings(
        group=checked["group"],
        id=f"{checked['name']}~{chance.token_hex(4)}",
        rank=checked["rank"],
        roles=tuple(role.name for role in checked["roles"]),
        heartbeat_ms=beat,
        lease_ms=round(1000 * own.lease),
        skew_ms=round(1000 * own.skew),
        order=own.order,
        when_isolated=own.when_isolated,
        init_ms=None if own.silence is None else round(1000 * own.silence),
        start_offset_ms=chance.randrange(beat),
        barrier_ms=max(1, checked["barrier_ms"]),
        host=checked["host"],
    )
    _check_size(made)
    return made


def _check_size(made: Settings) -> None:
    """Raises `ConfigError` if the largest call of such a member would be larger than members accept."""
    if len(made.roles) > MAX_ROLES:
        raise ConfigError(f"{len(made.roles)} roles are over ALLCALL's limit of {MAX_ROLES}: use protocol='claims'")
    big = 2**52
    claims = [Claim(role, made.id, made.rank, MAX_TERM - 1, big, made.lease_ms, big) for role in made.roles]
    call = Call(VERSION, "ping", made.group, made.id, big, big, made.rank, "ping", [*made.roles], claims * 2, made.host)
    size = len(encode(call))
    if size > MAX_CALL:
        raise ConfigError(
            f"a call of this member may take {size} bytes, for {len(made.roles)} roles, and the limit is {MAX_CALL}: give it "
            "fewer roles or shorter names, or use protocol='claims'"
        )
