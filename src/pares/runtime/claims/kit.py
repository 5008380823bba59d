"""How a member of the claims protocol is put together: see `driver.kit.Kit`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pares.core.lease import lease_ns
from pares.ledger import Bus, Ledger, partition_of
from pares.runtime.claims.binding import ClaimsBinding
from pares.runtime.death.incarnation import Incarnation
from pares.runtime.driver.kit import Engine, Medium, Parts, keep_retention, open_log
from pares.runtime.driver.loop import Driver
from pares.runtime.driver.view import WorldView
from pares.runtime.host import Host


def check(given: Mapping[str, Any]) -> None:
    """Checks nothing: the claims protocol takes all settings."""


def open(ledger: str | Ledger | Bus, options: Mapping[str, Any], given: Mapping[str, Any], host: Host) -> Medium:
    return open_log(ledger, options, host)


def assemble(parts: Parts, ledger: Ledger) -> Engine:
    _, checked, given, inbox, life, host, _ = parts
    keep_retention(checked, ledger)
    folder = host.lock_folder(ledger, given["lock_folder"])
    partition = partition_of(ledger.url)
    binding = ClaimsBinding(ledger, partition, lambda seen: Incarnation(host, checked, folder, seen), life, host)
    life.measures.lease_ns = lease_ns(checked["session_ms"], checked["drift"], checked["overlap_ms"])
    if given["witness"] and binding.incarnation.folder is not None:
        what: dict[str, Any] = {"ledger": ledger.url, "options": given["options"], "group": checked["group"]}
        host.start_witness(what | {"lock_folder": str(binding.incarnation.folder)})
    loop = Driver(binding, inbox, life, host)
    return Engine(loop, WorldView(binding, life), checked["eligible"], checked["session_ms"] / 1000)
