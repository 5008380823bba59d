"""How the work of a term begins: after the user's barrier has returned from `Acquired` (goNELI: "initialise any state").

The belief is there before, and `holds()` says so; but what waits for a term (`terms`, `wait`, `pulse`, `only`, `background`,
`aio`) gets it only then. A barrier that raises there, or takes longer than `barrier_timeout`, has initialised nothing: the
term is given up, so that somebody else may try. Where nobody else can, the seat comes back to this member at once; so a member
that has failed tries again only after a pause, which doubles each time. [a barrier that can't reach its database gains and
gives up a term a thousand times a second]
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import nullcontext
from typing import Final

from pares.core.errors import ParesError
from pares.core.reasons import BARRIER_LATE, BARRIER_RAISED
from pares.core.wire.records import Seat
from pares.runtime.events import Acquired
from pares.runtime.host import Host
from pares.runtime.term import Term
from pares.runtime.work.barriers import Barriers

log: Final = logging.getLogger("pares.member")

FIRST_PAUSE: Final = 0.25
"""Seconds after a first failure, before the barrier gets the next `Acquired` of that seat."""
LONGEST_PAUSE: Final = 60.0


class Beginnings:
    """Of one member's terms. `limit`: seconds that the barrier may take; with 0 nothing waits for it. `work`: called when the
    work of a term may begin. `problem`: told what a person should know. `give_up`: asks the protocol to give a role up,
    with a reason."""

    def __init__(
        self,
        barriers: Barriers,
        limit: float,
        work: Callable[[Term], object],
        problem: Callable[[str, str], object],
        give_up: Callable[[str, str], object],
        host: Host,
    ) -> None:
        self._host = host
        self._give_up = give_up
        self._problem = problem
        self._barriers = barriers
        self._limit = limit
        self._work = work
        self._pauses: dict[Seat, float] = {}
        """Seats at whose beginning the barrier failed last, and the pause that followed."""

    def begin(self, term: Term, event: Acquired) -> None:
        """A term has begun. `work` is called when the barrier has returned from `event`: at once, where there is none."""
        if self._barriers.silent:
            self._work(term)
            return
        pause = self._pauses.get((term.role, term.seat))
        if pause is None:
            self._tell(term, event)
        else:
            self._later(term, event, pause)
        if not self._limit:
            self._work(term)

    def _tell(self, term: Term, event: Acquired) -> None:
        self._barriers.tell(event, lambda call: self._call(term, event, call))

    def _later(self, term: Term, event: Acquired, pause: float) -> None:
        """After a pause, on a thread that does nothing else; not if the term is over by then."""

        def wait() -> None:
            if not term.wait_lost(pause):
                self._barriers.tell(event, lambda call: self._call(term, event, call) if term else None)

        self._host.spawn(wait, f"{term.member}: pause")

    def _call(self, term: Term, event: Acquired, call: Callable[[], object]) -> None:
        """Calls the barrier, on a thread of the barriers'."""
        late = self._barriers.watch.over(term.role, self._limit, lambda: self._fail(term, event, BARRIER_LATE))
        try:
            with late if self._limit else nullcontext():
                call()
        except BaseException:
            self._fail(term, event, BARRIER_RAISED)
            raise  # to be logged, as of any other call
        if term:
            self._pauses.pop((term.role, term.seat), None)
            self._work(term)

    def _fail(self, term: Term, event: Acquired, why: str) -> None:
        if not term:
            return
        seat = (term.role, term.seat)
        pause = self._pauses[seat] = min(max(2 * self._pauses.get(seat, 0.0), FIRST_PAUSE), LONGEST_PAUSE)
        self._problem("not-begun", f"{term.role!r} is given up: {why}; tried again after {pause:g} s at the earliest")
        try:
            self._give_up(term.role, why)
        except ParesError as error:
            log.warning("%s can't give %r up now: %s", term.member, term.role, error)
        if why == BARRIER_RAISED:
            self._later(term, event, pause)  # where nobody else can take it, a protocol may leave it here
