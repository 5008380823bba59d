"""How the member of a consumer is put together: as one of claims, with the core of consumption and an ear for its effects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pares.core import events as ev
from pares.core.consume.freshness import Freshness, freshness
from pares.core.consume.protocol import Consume
from pares.core.lease import lease_ns
from pares.core.wire.states import MemberState
from pares.core.wire.world import World
from pares.ledger import Bus, Ledger, partition_of
from pares.runtime.claims.binding import ClaimsBinding
from pares.runtime.config.protocols import ProtocolName
from pares.runtime.death.incarnation import Incarnation
from pares.runtime.driver.beliefs import Beliefs
from pares.runtime.driver.kit import Engine, Kit, Medium, Parts, keep_retention, open_log
from pares.runtime.driver.lifecycle import Life
from pares.runtime.driver.loop import Driver
from pares.runtime.driver.view import WorldView
from pares.runtime.host import Host
from pares.runtime.member import Member
from pares.runtime.views import Consumption, Health
from pares.runtime.work.barriers import Barriers

Ear = Callable[[ev.ToConsumers | ev.Barrier], object]
"""Called on the driver's task; returns at once. Of a planned end it hears before anything else does: what it notes for the log
then goes before the record that gives the term up."""


class ConsumeBinding(ClaimsBinding):
    """Tells the consumer what only consumers are told."""

    def __init__(
        self, ledger: Ledger, partition: int, begin: Callable[[int], Incarnation], life: Life, host: Host, ear: Ear
    ) -> None:
        super().__init__(ledger, partition, begin, life, host)
        self._ear = ear

    def carry(self, effect: Any) -> None:
        if isinstance(effect, ev.Begins | ev.Taken | ev.Untaken | ev.Owns):
            self._ear(effect)
            return
        if isinstance(effect, ev.Barrier):
            self._ear(effect)
        super().carry(effect)


class ConsumeKit:
    """See `driver.kit.Kit`."""

    def __init__(self, ear: Ear) -> None:
        self._ear = ear

    def check(self, given: Mapping[str, Any]) -> None:
        """The consumer has checked its own."""

    def open(
        self, ledger: str | Ledger | Bus, options: Mapping[str, Any], given: Mapping[str, Any], host: Host
    ) -> Medium:
        return open_log(ledger, options, host)

    def assemble(self, parts: Parts, ledger: Ledger) -> Engine:
        _, checked, given, inbox, life, host, _ = parts
        keep_retention(checked, ledger)
        folder = host.lock_folder(ledger, given["lock_folder"])

        def begin(seen: int) -> Incarnation:
            return Incarnation(host, checked, folder, seen, Consume)

        binding = ConsumeBinding(ledger, partition_of(ledger.url), begin, life, host, self._ear)
        life.measures.lease_ns = lease_ns(checked["session_ms"], checked["drift"], checked["overlap_ms"])
        return Engine(Driver(binding, inbox, life, host), WorldView(binding, life), None, checked["session_ms"] / 1000)


class Seated(Member):
    """The member behind a consumer: nothing of it is the user's to call."""

    def __init__(self, ledger: str | Ledger, ear: Ear, **settings: Any) -> None:
        kit = ConsumeKit(ear)
        self._kit_of: Callable[[ProtocolName], Kit] = lambda _: kit  # pyright: ignore[reportIncompatibleMethodOverride]
        self.consumption: Callable[[], Consumption] | None = None
        """What `health()` says of the work; None before the consumer has set it."""
        super().__init__(ledger, **settings)

    def health(self) -> Health:
        """With what it consumes."""
        tells = self.consumption
        return replace(super().health(), consumption=None if tells is None else tells())

    def request(self, event: ev.Event) -> None:
        """For the protocol, by any task."""
        self._loop.request(event)

    def note(self, event: ev.Marked) -> None:
        """The same, for what may wait until the loop wakes up by itself: with a beat, or before a term is given up."""
        self._inbox.events.append(event)

    def perform(self, event: ev.Event) -> None:
        """Waits until it stands in the log. Raises as `Requests.perform`."""
        self._requests.perform(event)

    def check_usable(self) -> None:
        """Raises what ended this member, if something did."""
        self._requests.check_usable()

    @property
    def believes(self) -> Beliefs:
        return self._life.beliefs

    @property
    def works(self) -> Barriers:
        """Bodies that belong to terms."""
        return self._barriers

    @property
    def world(self) -> World:
        """As far as it has read; an empty one before it has begun to."""
        return self._view.world if isinstance(self._view, WorldView) else World()

    def has(self, role: str, token: int) -> bool:
        """Whether this member holds that role in that term, as far as it has read; one that has ended reads no more."""
        if self.state in ("closed", "failed"):
            return False
        seat = self.world.seats.get((role, 0))
        return seat is not None and seat.holder == self.id and seat.token == token

    def freshness(self, holder: MemberState) -> Freshness:
        """Of a holder, by this member's stopwatch."""
        binding = self._loop.binding if isinstance(self._loop, Driver) else None
        watches = binding.core.watches if isinstance(binding, ClaimsBinding) else None
        return "unknown" if watches is None else freshness(watches, holder, self._now())

    def problem(self, kind: str, text: str) -> None:
        """Something that a person should know."""
        self._life.journal.problem(kind, text)
