"""How a member is: looked at from outside its loop, so that it can be told also when the loop is gone or stands still."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pares.runtime.clock import stopwatch
from pares.runtime.views import Health

if TYPE_CHECKING:
    from pares.runtime.life import Life
    from pares.runtime.loop import Loop
    from pares.runtime.world_view import View

SHORTEST: Final = 1.0
"""Seconds without a look at the ledger that are no illness, however short the session."""


def look(name: str, group: str, session: float, life: Life, loop: Loop, view: View) -> Health:
    age = (stopwatch() - loop.read_at) / 1e9
    alive = loop.thread.is_alive()
    back = loop.read_back_at
    fresh = age < max(session, SHORTEST)
    unreachable = loop.unreachable or loop.unwritten
    knows = fresh or unreachable is not None
    terms = [term for term in list(life.beliefs.terms.values()) if term]
    stuck = life.barriers.watch.stuck()
    state = life.state  # once: what is said of it must fit together
    ok = alive and knows and not stuck and state in ("joining", "live", "closing")
    return Health(
        ok=ok,
        ready=ok and fresh and state == "live" and loop.joined and unreachable is None,
        state=state,
        name=name,
        group=group,
        leads=tuple(sorted(term.role for term in terms)),
        thread_alive=alive,
        read_age=age,
        read_back_age=None if back is None else (stopwatch() - back) / 1e9,
        stuck=stuck,
        lease_left=max((term.remaining() for term in terms), default=0.0),
        unreachable=unreachable,
        failure=None if loop.failure is None else repr(loop.failure),
        no_proof=view.no_proof,
        terms=life.beliefs.begun,
        takeovers=life.measures.takeovers,
        fences=life.journal.fences,
        lapses=life.journal.lapses,
        restarts=life.journal.restarts,
        records=life.measures.records,
        beats=life.measures.beats,
        failed_appends=life.measures.failed_appends,
        bad_records=view.bad_records,
        uncounted_records=view.uncounted_records,
        problems=life.journal.problems,
    )
