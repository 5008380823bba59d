"""One ledger's world: where it is kept, the members on it, and what its log has decided."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

import pares
from chaos.ledgers.grounds import Emulated, Ground
from chaos.processes import ROLES, Crew
from chaos.verdict.judge import led_since
from pares.core.errors import CapabilityError, ParesError
from pares.core.wire.changes import SeatChanged

GROUP: Final = "g"
CALM: Final = 90.0
"""Seconds that it may take after a heal until all is well again."""
PATIENCE: Final = 60.0
"""Seconds after a heal until leadership that is not back is taken for lost."""
_LOOK: Final = 0.03
T = TypeVar("T")


class OneHost:
    """Members run where this runs: nothing comes before their command lines."""

    def prefix(self, place: str) -> list[str]:
        return []


class Stage:
    """`name`: of a ledger that nobody has used. Used in a `with` statement, which begins and ends the members."""

    def __init__(
        self,
        folder: Path,
        ground: Ground,
        name: str,
        session: float,
        members: int,
        dice: random.Random,
        script: list[str],
    ) -> None:
        folder.mkdir()
        self.folder, self.ground, self.session, self.dice = folder, ground, session, dice
        self.url = ground.url(name)
        places = [f"m{number + 1}" for number in range(members)]
        self.crew = Crew(folder, OneHost(), places, self.url, session, script)
        self.tokens: dict[tuple[str, int], str] = {}
        """(role, token) -> name of the holder, as the log has decided it."""
        self.notes: list[str] = []
        """Of members that could not open their ledger in time, on a busy machine: an error tells them, and others come."""
        self._observer: pares.Observer | None = None

    def __enter__(self) -> Self:
        try:
            self.ground.settle(self.url)
            self.crew.begin()
        except BaseException:
            self.crew.end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.crew.end()
        if self._observer is not None:
            self._observer.close()

    @property
    def emulated(self) -> Emulated:
        assert isinstance(self.ground, Emulated), "that fault is for an emulator"
        return self.ground

    def a_leading_member(self) -> str:
        """The place of a member that leads something now, picked by chance."""
        return self.until(lambda: self.dice.choice([*self.crew.leaders().values()] or [""]), "somebody leads")

    def calm(self) -> None:
        """Waits until every member is at work and every role is led. Raises `CapabilityError`."""

        def look() -> bool:
            self.renew()
            return self.crew.all_begun() and self.crew.all_led()

        self.until(look, "all members work, and every role is led", CALM)

    def renew(self) -> None:
        """Others come for members that ended before they came to their work."""
        self.notes += self.crew.unbegun()

    def led_again(self, since: int) -> int | None:
        """The first instant from `since` on from which every role is known to have had a leader; None if that does not come."""
        end = time.monotonic() + PATIENCE
        while (found := led_since(self.crew.beliefs(), len(ROLES), since)) is None and time.monotonic() < end:
            time.sleep(_LOOK)
        return found

    def read_log(self) -> None:
        """Takes note of whom the log has given which token, up to its end."""

        def look() -> bool:
            if self._observer is None:
                self._observer = pares.Observer(self.url, group=GROUP)
            for change in self._observer.read():
                if isinstance(change, SeatChanged) and change.holder is not None:
                    self.tokens[change.seat[0], change.token] = change.holder.partition("~")[0]
            return True

        self.until(look, "the log can be read")

    def until(self, look: Callable[[], T], what: str, patience: float = 60.0) -> T:
        """What `look` finds once it finds something. Raises `CapabilityError` if that takes longer than `patience` seconds."""
        end, trouble = time.monotonic() + patience, ""
        while True:
            try:
                if found := look():
                    return found
            except ParesError as error:
                trouble = f" ({error})"
            if time.monotonic() >= end:
                raise CapabilityError(f"not within {patience:g} s: {what}{trouble}")
            time.sleep(_LOOK)
