"""A witness' place in a group of the claims protocol (R22): a member that is eligible for nothing, states no lock of its own,
watches the locks of all members of its host, and writes the obituaries of those that are gone.

It joins as an administrator does, for only what a member writes counts (R2). It has no part in the ring in which the group's
members watch each other: so a witness that is frozen or late leaves the group no worse off than without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pares.core import events as ev
from pares.core.errors import CapabilityError
from pares.core.lease import lease_ns
from pares.ledger import Bus, Ledger, partition_of
from pares.runtime.claims.binding import ClaimsBinding
from pares.runtime.death.incarnation import Incarnation
from pares.runtime.detect import runs_induced
from pares.runtime.driver.kit import Engine, Medium, Parts, keep_retention, open_log
from pares.runtime.driver.loop import Driver
from pares.runtime.driver.view import WorldView
from pares.runtime.host import Host

Died = Callable[[str], object]
"""Called on the driver's task with the id of a member whose death was proven just now."""


class WitnessBinding(ClaimsBinding):
    """See `driver.binding.Binding`. `died`: see `Died`."""

    def __init__(self, *more: Any, died: Died) -> None:
        self._died = died
        self.provable: frozenset[str] = frozenset()
        """The members whose locks it watches. Read on any task."""
        self.unseen: frozenset[str] = frozenset()
        """The members of its host whose locks it can't find, or may not open."""
        super().__init__(*more)

    def look(self, *, thoroughly: bool) -> Sequence[ev.Event]:
        found = super().look(thoroughly=thoroughly)
        for event in found:
            if isinstance(event, ev.Died):
                self._died(event.member)
        if found:
            self._sees()
        return found

    def _watch(self, effect: ev.Watch) -> None:
        super()._watch(effect)
        self._sees()

    def _sees(self) -> None:
        if self._deaths is not None:
            self.provable = self._deaths.provable
            self.unseen = frozenset(self._locks) - self.provable - self._deaths.proven


class WitnessKit:
    """See `driver.kit.Kit`. A witness has one for each of its groups."""

    def __init__(self, died: Died) -> None:
        self._died = died
        self.binding: WitnessBinding | None = None
        """None until its ledger is opened."""

    def check(self, given: Mapping[str, Any]) -> None:
        """Checks nothing: the claims protocol takes all settings."""

    def open(
        self, ledger: str | Ledger | Bus, options: Mapping[str, Any], given: Mapping[str, Any], host: Host
    ) -> Medium:
        return open_log(ledger, options, host)

    def assemble(self, parts: Parts, ledger: Ledger) -> Engine:
        _, checked, given, inbox, life, host, _ = parts
        group, partition = checked["group"], partition_of(ledger.url)
        if runs_induced(ledger, group, partition):
            raise CapabilityError(
                f"group {group!r} runs NELI or Fast NELI, whose members have no locks of their own. Where claims share its "
                f"partitions out (on any ledger but Kafka, or with seats above 1), give the witness {group + '/partitions'!r}"
            )
        keep_retention(checked, ledger)
        folder = host.lock_folder(ledger, given["lock_folder"])
        if folder is None:
            raise CapabilityError(
                f"a witness looks for the locks of members, and those on {ledger.url} have none: give lock_folder=, and the "
                "same to the members"
            )

        def begin(seen: int) -> Incarnation:
            return Incarnation(host, checked, folder, seen, witness=True)

        binding = self.binding = WitnessBinding(ledger, partition, begin, life, host, died=self._died)
        life.measures.lease_ns = lease_ns(checked["session_ms"], checked["drift"], checked["overlap_ms"])
        return Engine(Driver(binding, inbox, life, host), WorldView(binding, life), (), checked["session_ms"] / 1000)
