"""Steering a group from outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pares.ledger import Ledger
from pares.runtime.config.settings import Spread
from pares.runtime.driver.kit import Steers
from pares.runtime.here import here
from pares.runtime.host import Host
from pares.runtime.kits import steerers
from pares.runtime.views import Rewound
from pares.runtime.work.closing import Closing


class Admin(Closing):
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
        try:
            self._steers = _steering(self._ledger, group, name, host)
        except BaseException:
            self._close_ledger()
            raise

    def pause(self, role: str | None = None, *, seconds: float) -> None:
        """Nobody holds `role` (None: any role) for `seconds`, or until `resume`."""
        self._steers.pause(role, seconds=seconds)

    def resume(self, role: str | None = None) -> None:
        """Ends the pauses of `role` (None: those of the whole group)."""
        self._steers.resume(role)

    def roles(self) -> dict[str, int]:
        """The group's roles and how many seats each has."""
        return self._steers.roles()

    def add_role(self, name: str, seats: int = 1, weight: float = 1, spread: Spread = "host") -> None:
        """Adds a role, or changes it; held by members that are eligible for it."""
        self._steers.add_role(name, seats, weight, spread)

    def remove_role(self, name: str) -> None:
        """Removes a role: its holders run their barriers and release, then it is gone."""
        self._steers.remove_role(name)

    def hand_over(self, role: str, to: str | None = None, seat: int | None = None) -> None:
        """Asks the holder of `role` (of its seat `seat`; None: the first that is held) to hand it over, to the member `to`
        (name or id) or to anybody else."""
        self._steers.hand_over(role, to, seat)

    def drain(self, member: str) -> None:
        """Asks a member (name or id) to hand everything over and to take nothing more."""
        self._steers.drain(member)

    def positions(self) -> dict[tuple[str, int], int]:
        """The mark of every seat: the next offset to consume (R15), by role and seat; of consumers by topic and partition."""
        return self._steers.positions()

    def rewind(self, marks: Mapping[tuple[str, int], int]) -> list[Rewound]:
        """Moves marks, also backwards; of consumers by topic and partition, and the next one begins there. It works only for
        free seats under a pause (R15): pause, wait until nobody holds them, rewind, resume. Raises `ConfigError` for others,
        and when the pause ended before.

        Returns, for each seat that was moved (of a partition its slots', too), a token above those of all terms before: what
        bars them from a database, as `pares.fence.Positions.forget` does, or any fence that checks it."""
        return self._steers.rewind(marks)

    def close(self) -> None:
        """Leaves the group."""
        self._steers.close()
        self._close_ledger()

    def _close_ledger(self) -> None:
        if self._own:
            self._ledger.close()


def _steering(ledger: Ledger, group: str, name: str | None, host: Host) -> Steers:
    """By the protocol that the group runs, as its records say: each protocol is asked whether it does."""
    found = (
        steer(ledger, group, name, host, lambda other: _steering(ledger, other, name, host)) for steer in steerers()
    )
    return next(steers for steers in found if steers is not None)
