"""What a checker of a promise may look at, and how it says that the promise was broken.

One file a promise (checkers/). A checker sees what a person with perfect instruments would see: true time, everybody's
beliefs, and every record at its place in the log with what it changed. It does not look into the kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pares.core.events import Append, Barrier, Closed, Follow, Lead, Report, Stop
from pares.core.wire.changes import Change
from pares.core.wire.records import AnyRecord, Unknown

if TYPE_CHECKING:
    from pares.sim.process import Process
    from pares.sim.scene import Scene


class Broken(Exception):
    """A promise was broken."""

    def __init__(self, promise: str, at: int, what: str) -> None:
        super().__init__(f"{promise}: {what} (at {at / 1e9:.4f} s)")
        self.promise = promise
        self.at = at
        self.what = what


class Landed(Struct, frozen=True):
    """One record of the group at its place in the log, as the judge folded it."""

    at: int
    offset: int
    payload: bytes
    record: AnyRecord | Unknown | None
    """None: not a record at all."""
    counted: bool
    changes: list[Change]


class Checker:
    """Does nothing; a checker overrides what it needs to see. `promise` names what it guards."""

    promise = ""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def broken(self, what: str) -> Broken:
        return Broken(self.promise, self.scene.engine.now, what)

    def began(self, process: Process) -> None:
        """A new incarnation."""

    def ended(self, process: Process, id: str) -> None:
        """An incarnation is over: killed, closed, stopped or begun anew."""

    def killed(self, process: Process) -> None:
        """It is about to be killed: its beliefs are still there to be seen."""

    def frozen(self, process: Process, length: int | None) -> None:
        """It stands still."""

    def joined(self, process: Process) -> None:
        """It has read its own join."""

    def over(self, process: Process, effect: Closed | Stop) -> None:
        """It has left, or it stopped with an error."""

    def led(self, process: Process, effect: Lead) -> None:
        """A belief begins."""

    def renewed(self, process: Process) -> None:
        """Its beliefs last longer."""

    def stepped(self, process: Process, now: int) -> None:
        """The kernel of a member that leads has done a step, by this reading of its stopwatch, and what followed is done."""

    def followed(self, process: Process, effect: Follow) -> None:
        """A belief is over."""

    def barrier(self, process: Process, effect: Barrier) -> None:
        """A barrier begins."""

    def barrier_over(self, process: Process, effect: Barrier) -> None:
        """A barrier returned."""

    def sent(self, process: Process, effect: Append) -> None:
        """Records are handed over for sending."""

    def landed(self, landed: Landed) -> None:
        """A record has come to stand in the log."""

    def replaced(self) -> None:
        """Another log took the place of this one, or nothing of the group is left in it."""

    def turned(self, process: Process) -> None:
        """By its user's check it is ready now, or not any more, as it is now and then."""

    def reported(self, process: Process, effect: Report) -> None:
        """Something that a person should know."""

    def disturbed(self) -> None:
        """The world was disturbed: a fault, or an administrator, so that what depends on calm begins anew."""

    def end(self) -> None:
        """The simulation is over, all faults healed long ago."""


HOOKS = tuple(name for name in vars(Checker) if not name.startswith("_") and name not in ("promise", "broken"))
