"""Defects planted between ALLCALL's core and its members: in the binding, and in what all protocols share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pares.core import events as ev
from pares.core.allcall.protocol import AllCall
from pares.runtime.allcall.binding import AllCallBinding
from pares.runtime.config.settings import SESSION
from pares.runtime.host import Host
from pares.runtime.work.readiness import Readiness
from pares.sim.mutant import Patch

# pyright: reportPrivateUsage=false


def led_before_it_is_said() -> list[Patch]:
    """What is claimed is believed, and then said."""
    usual = AllCallBinding.step

    def step(self: AllCallBinding, event: ev.Event, now: int) -> Sequence[Any]:
        return sorted(usual(self, event, now), key=lambda effect: isinstance(effect, ev.Publish))

    return [(AllCallBinding, "step", step)]


def renewals_dropped() -> list[Patch]:
    """A claim is prolonged, and the belief is not."""
    usual = AllCallBinding.carry

    def carry(self: AllCallBinding, effect: Any) -> None:
        if not (isinstance(effect, ev.Lead) and effect.why == "renewed"):
            usual(self, effect)

    return [(AllCallBinding, "carry", carry)]


def fences_dropped() -> list[Patch]:
    """What the core gives up is believed until the lease runs out."""
    usual = AllCallBinding.carry

    def carry(self: AllCallBinding, effect: Any) -> None:
        if not (isinstance(effect, ev.Follow) and effect.fenced):
            usual(self, effect)

    return [(AllCallBinding, "carry", carry)]


def closes_at_once() -> list[Patch]:
    """A member that is closed says goodbye before its barriers have returned."""
    usual = AllCall.step

    def step(self: AllCall, event: ev.Event, now: int) -> list[ev.Effect]:
        effects = usual(self, event, now)
        if isinstance(event, ev.Close):
            self._barriers.clear()
            effects += usual(self, event, now)
        return effects

    return [(AllCall, "step", step)]


def asked_by_another_session() -> list[Patch]:
    """A check is asked as often as in claims, however short the lease."""
    usual = Readiness.__init__

    def init(
        self: Readiness,
        ready: Callable[[], bool],
        session: float,
        run: Callable[[Callable[[], object], str], None],
        tell: Callable[[bool], None],
        host: Host,
    ) -> None:
        usual(self, ready, SESSION, run, tell, host)

    return [(Readiness, "__init__", init)]
