"""What a term says of itself: once over it is over, as its own users see it; each token is one term; `holds` says no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pares.sim.engine import MS
from pares.sim.members.promises.base import Promise
from pares.sim.members.sight import Held, Seat

if TYPE_CHECKING:
    from pares.runtime.member import Member
    from pares.sim.members.stage import Stage
    from pares.sim.world.process import Process


SLACK: Final = 2 * MS
"""Nanoseconds from a time that is over to what follows from it."""


class Terms(Promise):
    name = "giving up is final"

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self.seen_over: dict[Process, dict[Any, int]] = {}
        """Terms that code of a process has seen to be False, and when."""
        self.begun: dict[tuple[str, Seat, int], Held] = {}
        self.over: dict[Any, int] = {}
        """Members whose `close` has returned, and when."""
        self.latest: dict[Any, int] = {}
        """Members whose `close` was given so much time: the true time at which that is over."""
        stage.sight.began.append(self._began)
        stage.sight.prolonged.append(self._closed)
        stage.sight.closely.append(self._holds)

    def saw(self, process: Process, term: Any, truth: bool) -> None:
        """Code of a process asked a term."""
        over = self.seen_over.setdefault(process, {})
        if not truth:
            over.setdefault(term, self.world.now)
        elif term in over:
            ago = (self.world.now - over[term]) / 1e6
            self.fail(f"{term.member} believes again in {term.role!r} (token {term.token}), seen over {ago:.3f} ms ago")

    def closing(self, process: Process, member: Member, timeout: float) -> None:
        """`close(timeout)` is called: after so long nothing is believed, whatever the ledger does. By a task."""
        self.latest[member] = process.stopwatch.when(process.reading() + int(timeout * 1e9)) + SLACK

    def closed(self, process: Process, member: Member) -> None:
        """`close` has returned: the member believes nothing, now or ever. By a task."""
        self.over[member] = self.world.now
        for held in self.stage.sight.of_process(process):
            if held.member is member and held.term.deadline_ns > process.reading():
                self.fail(f"{held} believes, and its member was closed")

    def _closed(self, held: Held) -> None:
        if held.member in self.over and held.believing():
            ago = (self.world.now - self.over[held.member]) / 1e6
            raise self.broken(f"{held} believes, and its member was closed {ago:.3f} ms ago")
        latest = self.latest.get(held.member)
        if (
            latest is not None
            and self.world.now > latest
            and held.believing()
            and self._unhindered(held.process, latest)
        ):
            late = (self.world.now - latest) / 1e6
            raise self.broken(f"{held} believes, {late:.3f} ms after the time that its member was given to close")

    def _unhindered(self, process: Process, since: int) -> bool:
        return max(process.well_since, process.starved_at) < since and not process.starving

    def _began(self, held: Held) -> None:
        self._closed(held)
        key = (held.term.member, held.seat, held.token)
        before = self.begun.get(key)
        if before is not None:
            raise self.broken(f"{held} begins a second time")
        self.begun[key] = held

    def _holds(self, process: Process) -> None:
        """`holds` is asked without a look at the term: it must not say more."""
        for member in self.stage.sight.members[process]:
            beliefs = member._life.beliefs  # pyright: ignore[reportPrivateUsage]
            for role, until in beliefs.until.items():
                term = beliefs.terms.get(role)
                lasts = 0 if term is None else term._until  # pyright: ignore[reportPrivateUsage]
                if lasts < until and lasts <= process.reading() < until:
                    raise self.broken(f"{member.id} says that it holds {role!r}, and has no term that lasts")
