"""How a member is: looked at from outside its loop, so that it can be told also when the loop is gone or stands still."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pares.runtime.views import Health

if TYPE_CHECKING:
    from pares.runtime.driver.binding import Drives
    from pares.runtime.driver.lifecycle import Life
    from pares.runtime.driver.view import View

SHORTEST: Final = 1.0
"""Seconds without a look at the ledger that are no illness, however short the session."""


def look(name: str, group: str, session: float, life: Life, loop: Drives, view: View, now: Callable[[], int]) -> Health:
    """`now`: the member's stopwatch."""
    age = (now() - loop.read_at) / 1e9
    alive = loop.thread.is_alive()
    back = loop.read_back_at
    fresh = age < max(session, SHORTEST)
    unreachable = loop.unreachable or loop.unwritten
    knows = fresh or unreachable is not None
    terms = [term for term in list(life.beliefs.terms.values()) if term]
    stuck = life.barriers.watch.stuck()
    state = life.state  # once: what is said of it must fit together
    unled = _unled(session, life, view, now()) if state == "live" and unreachable is None else ()
    why = _why(alive, knows, age, stuck, unled, state, life)
    ok = not why
    return Health(
        ok=ok,
        ready=ok and fresh and state == "live" and loop.joined and unreachable is None,
        state=state,
        name=name,
        group=group,
        leads=tuple(sorted(term.role for term in terms)),
        thread_alive=alive,
        read_age=age,
        read_back_age=None if back is None else (now() - back) / 1e9,
        stuck=stuck,
        unled=unled,
        why=why,
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
        problems=(*life.journal.problems, *loop.problems),
    )


def _unled(session: float, life: Life, view: View, now: int) -> tuple[str, ...]:
    """Roles that are held and not led, by no plan, for longer than taking over may last."""
    patience = int(max(session, SHORTEST) * 1e9)
    ending = life.barriers.ending()
    found: set[str] = set()
    for (role, seat), could in view.held().items():
        term = life.beliefs.terms.get(role)
        since = max(could, life.unreached_at, 0 if term is None else term.deadline_ns)
        if not term and (role, seat) not in ending and now > since + patience:
            found.add(role)
    return tuple(sorted(found))


def _why(
    alive: bool, knows: bool, age: float, stuck: tuple[str, ...], unled: tuple[str, ...], state: str, life: Life
) -> str:
    said: list[str] = []
    if state == "failed":
        said.append(str(life.failure()))
    elif state == "closed":
        said.append("the member was closed")
    elif not alive:
        said.append("the member's own thread has ended")
    elif not knows:
        said.append(f"the ledger was last read {age:.1f} s ago: the member's own thread hangs in a call")
    if stuck:
        said.append(f"work does not come back: {', '.join(map(repr, stuck))}")
    if unled:
        back = life.measures.last_append
        late = "" if back is None else f" (the last one took {back:.2f} s)"
        said.append(
            f"it holds {', '.join(map(repr, unled))} and leads not: its own records come back too late to believe by{late}"
        )
    return "; ".join(said)
