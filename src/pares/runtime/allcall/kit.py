"""How a member of ALLCALL is put together: see `driver.kit.Kit`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pares.ledger import Bus, Ledger
from pares.runtime.allcall.binding import AllCallBinding
from pares.runtime.allcall.settings import check_foreign, medium, settings_of
from pares.runtime.allcall.view import AllCallView
from pares.runtime.config.protocols import AllCall
from pares.runtime.driver.kit import Engine, Medium, Parts
from pares.runtime.driver.loop import Driver
from pares.runtime.host import Host

check = check_foreign


def open(ledger: str | Ledger | Bus, options: Mapping[str, Any], given: Mapping[str, Any], host: Host) -> Medium:
    bus = medium(ledger, options, host)
    return Medium(bus, bus is not ledger)


def assemble(parts: Parts, ledger: Bus) -> Engine:
    own, checked, _, inbox, life, host, _ = parts
    assert isinstance(own, AllCall)
    made = settings_of(checked, own, host.random())
    binding = AllCallBinding(ledger, made, inbox, life, host, away=not checked["ready"])
    life.measures.reads_back = False
    # Its lease is the session.
    return Engine(Driver(binding, inbox, life, host), AllCallView(binding), checked["eligible"], made.lease_ms / 1000)
