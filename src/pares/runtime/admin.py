"""Steering a group from outside. An administrator is a member that is eligible for nothing: it asks, holders act (R13)."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from pares.core.errors import ConfigError
from pares.core.events import Ask, RewindTo
from pares.core.wire.records import MAX_INT
from pares.core.wire.world import World
from pares.ledger import Ledger, partition_of
from pares.runtime.config.numbers import whole
from pares.runtime.config.settings import Spread
from pares.runtime.death.incarnation import default_name
from pares.runtime.detect import check_no_allcall, runs_induced
from pares.runtime.driver.view import WorldView
from pares.runtime.here import here
from pares.runtime.member import Member
from pares.runtime.neli.admin import TenureAdmin


class Admin:
    """Pauses, drains, hands over, adds and removes roles, moves marks.

    Promised: when a call returns, what it asks stands in the group's log. Not promised: that holders have done it; they do when
    they read it and their barriers have returned. Raises `LedgerUnavailable` when the ledger does not answer in time, and
    `ConfigError` for a role or member that the group doesn't have. Raises `CapabilityError` for a group that runs
    ALLCALL, which has no log to ask in. (NATS keeps no trace of one: if its log has nothing of the group, it listens for 2.5 s,
    and can't hear members that call more seldom.)

    `ledger`: a URL or an opened ledger, of which `options` are the options if it is a URL. `group`: which group. `name`:
    shown as who asked (default: "admin-" and host, process id and time). Close it, or use it in a `with`.
    """

    def __init__(
        self, ledger: str | Ledger, *, group: str, name: str | None = None, options: Mapping[str, Any] | None = None
    ) -> None:
        self._own = isinstance(ledger, str)
        host = here()
        self._ledger = host.open(ledger, **(options or {})) if isinstance(ledger, str) else ledger
        self._tenures: TenureAdmin | None = None
        """Of a group that runs NELI or Fast NELI: a member of the claims protocol in it would be in the way there."""
        try:
            if runs_induced(self._ledger, group, partition_of(self._ledger.url)):
                self._tenures = TenureAdmin(
                    self._ledger, group, name, lambda g: Admin(self._ledger, group=g, name=name), host
                )
            else:
                check_no_allcall(self._ledger, group, host)
                self._member = Member(self._ledger, group=group, roles=(), name=name or f"admin-{default_name(host)}")
        except BaseException:
            self._close_ledger()
            raise

    def pause(self, role: str | None = None, *, seconds: float) -> None:
        """Nobody holds `role` (None: any role) for `seconds`, or until `resume`."""
        if self._tenures is not None:
            self._tenures.pause(role, seconds=seconds)
            return
        self._live()
        self._member.pause(role, seconds=seconds)

    def resume(self, role: str | None = None) -> None:
        """Ends the pauses of `role` (None: those of the whole group)."""
        if self._tenures is not None:
            self._tenures.resume(role)
            return
        self._live()
        self._member.resume(role)

    def roles(self) -> dict[str, int]:
        """The group's roles and how many seats each has."""
        if self._tenures is not None:
            return self._tenures.roles()
        self._live()
        return self._member.roles()

    def add_role(self, name: str, seats: int = 1, weight: float = 1, spread: Spread = "host") -> None:
        """Adds a role, or changes it; held by members that are eligible for it."""
        if self._tenures is not None:
            self._tenures.add_role(name, seats, weight, spread)
            return
        self._live()
        self._member.add_role(name, seats, weight, spread)

    def remove_role(self, name: str) -> None:
        """Removes a role: its holders run their barriers and release, then it is gone."""
        if self._tenures is not None:
            self._tenures.remove_role(name)
            return
        self._live()
        self._member.remove_role(name)

    def hand_over(self, role: str, to: str | None = None, seat: int | None = None) -> None:
        """Asks the holder of `role` (of its seat `seat`; None: the first that is held) to hand it over, to the member `to`
        (name or id) or to anybody else."""
        if self._tenures is not None:
            self._tenures.hand_over(role, to, seat)
            return
        self._live()
        member = self._member
        member._requests.check_known(role)  # pyright: ignore[reportPrivateUsage]
        held = [holder.seat for holder in member.leaders(role)]
        if seat is None and held:
            seat = held[0]
        if seat not in held:
            what = f"{role!r}" if seat is None else f"seat {seat} of {role!r}"
            raise ConfigError(f"nobody holds {what} now, so nobody can hand it over")
        target = None if to is None else member._requests.resolve(to)  # pyright: ignore[reportPrivateUsage]
        member._requests.perform(Ask(seat=(role, seat), to=target))  # pyright: ignore[reportPrivateUsage]

    def drain(self, member: str) -> None:
        """Asks a member (name or id) to hand everything over and to take nothing more."""
        if self._tenures is not None:
            self._tenures.drain(member)
            return
        self._live()
        target = self._member._requests.resolve(member)  # pyright: ignore[reportPrivateUsage]
        self._member._requests.perform(Ask(drain=target))  # pyright: ignore[reportPrivateUsage]

    def positions(self) -> dict[tuple[str, int], int]:
        """The mark of every seat: the next offset to consume (R15)."""
        if self._tenures is not None:
            raise self._tenures.cannot("positions")
        self._live()
        world = self._world()
        return {seat.seat: seat.mark for seat in sorted(world.seats.values(), key=lambda s: s.seat)}

    def rewind(self, marks: Mapping[tuple[str, int], int]) -> None:
        """Moves marks, also backwards. It works only for free seats under a pause (R15); raises `ConfigError` for others."""
        if self._tenures is not None:
            raise self._tenures.cannot("rewind")
        self._live()
        world = self._world()
        for key, mark in marks.items():
            whole(f"the mark of {key}", mark, 0, MAX_INT - 1)
            seat = world.seats.get(key)
            if seat is None:
                raise ConfigError(f"group {self._member.group!r} has no seat {key}")
            if seat.holder is not None or not world.paused(seat.role):
                raise ConfigError(f"the mark of {key} can't be moved: pause the role and wait until nobody holds it")
        moves = tuple((role, index, mark) for (role, index), mark in sorted(marks.items()))
        self._member._requests.perform(RewindTo(moves))  # pyright: ignore[reportPrivateUsage]

    def _world(self) -> World:
        view = self._member._view  # pyright: ignore[reportPrivateUsage]
        assert isinstance(view, WorldView)
        return view.world

    def close(self) -> None:
        """Leaves the group."""
        if self._tenures is not None:
            self._tenures.close()
        else:
            self._member.close()
        self._close_ledger()

    def _close_ledger(self) -> None:
        if self._own:
            self._ledger.close()

    def _live(self) -> None:
        """Waits until the administrator's join has counted, so that checks look at a whole world."""
        self._member._requests.perform(Ask())  # pyright: ignore[reportPrivateUsage]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
