"""What only a process that runs claims can do on the stage: those of the other protocols refuse it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from pares.core.errors import ConfigError
from pares.core.wire.records import Seat
from pares.testing.actor import Actor


class RefusingActor(Actor, ABC):
    """One that runs another protocol than claims: it has no marks, and no log whose appends a test could hold back."""

    def hold(self) -> None:
        raise self._not_here("hold()")

    def let_go(self) -> None:
        raise self._not_here("let_go()")

    def next_append(self, fate: str) -> None:
        raise self._not_here("next_append()")

    def stall(self, seconds: float) -> None:
        raise self._not_here("stall()")

    def rewind(self, marks: Mapping[Seat, int]) -> None:
        raise self._not_here("rewind()")

    def mark(self, role: str, mark: int, *, index: int = 0) -> None:
        raise self._not_here("mark()")

    @abstractmethod
    def _not_here(self, what: str) -> ConfigError:
        """Why this process can't do `what`, and what can."""
