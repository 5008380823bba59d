"""Steering a group of the claims protocol: by a member that is eligible for nothing. It asks, holders act (R13)."""

from __future__ import annotations

from collections.abc import Mapping

from pares.core.errors import ConfigError
from pares.core.events import Ask, RewindTo
from pares.core.wire.records import MAX_INT
from pares.core.wire.world import World
from pares.runtime.config.numbers import whole
from pares.runtime.config.settings import Spread
from pares.runtime.driver.kit import seat_to_move
from pares.runtime.driver.view import WorldView
from pares.runtime.member import Member


class ClaimsAdmin:
    """See `driver.kit.Steers`."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._requests = member._requests  # pyright: ignore[reportPrivateUsage]

    def _live(self) -> Member:
        """Waits until the administrator's join has counted, so that checks look at a whole world."""
        self._requests.perform(Ask())
        return self._member

    def roles(self) -> dict[str, int]:
        return self._live().roles()

    def add_role(self, name: str, seats: int, weight: float, spread: Spread) -> None:
        self._live().add_role(name, seats, weight, spread)

    def remove_role(self, name: str) -> None:
        self._live().remove_role(name)

    def pause(self, role: str | None, *, seconds: float) -> None:
        self._live().pause(role, seconds=seconds)

    def resume(self, role: str | None) -> None:
        self._live().resume(role)

    def hand_over(self, role: str, to: str | None, seat: int | None) -> None:
        member = self._live()
        self._requests.check_known(role)
        seat = seat_to_move(role, seat, [holder.seat for holder in member.leaders(role)])
        self._requests.perform(Ask(seat=(role, seat), to=None if to is None else self._requests.resolve(to)))

    def drain(self, member: str) -> None:
        self._live()
        self._requests.perform(Ask(drain=self._requests.resolve(member)))

    def positions(self) -> dict[tuple[str, int], int]:
        return {seat.seat: seat.mark for seat in sorted(self._world().seats.values(), key=lambda s: s.seat)}

    def rewind(self, marks: Mapping[tuple[str, int], int]) -> None:
        world = self._world()
        for key, mark in marks.items():
            whole(f"the mark of {key}", mark, 0, MAX_INT - 1)
            seat = world.seats.get(key)
            if seat is None:
                raise ConfigError(f"group {self._member.group!r} has no seat {key}")
            if seat.holder is not None or not world.paused(seat.role):
                raise ConfigError(f"the mark of {key} can't be moved: pause the role and wait until nobody holds it")
        self._requests.perform(RewindTo(tuple((*seat, mark) for seat, mark in sorted(marks.items()))))

    def _world(self) -> World:
        view = self._live()._view  # pyright: ignore[reportPrivateUsage]
        assert isinstance(view, WorldView)
        return view.world

    def close(self) -> None:
        self._member.close()
