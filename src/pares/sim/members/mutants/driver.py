"""Defects planted in the runtime that ships: each must be caught by some seed of real members."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pares.core.events import Follow, Lead, Read
from pares.runtime import term
from pares.runtime.claims import binding as claims
from pares.runtime.death.incarnation import Incarnation
from pares.runtime.driver import beliefs, logs, loop
from pares.runtime.driver import lifecycle as life
from pares.runtime.work import barriers, beginnings, readiness
from pares.sim.members.mutants.troubles import CALMLY, FROZEN, MOVED, STARVED
from pares.sim.mutant import Mutant, Patch

REVIVED: Final[dict[str, Any]] = {
    **STARVED,
    "pace": 5.0,
    "styles": ("wait", "wait", "terms", "wait", "poll"),
    "members": 2,
    "roles": 3,
    "barrier": -1.0,
    "session_ms": 100,
    "calm": 2.0,
    "storm": 20.0,
}
"""Tasks come back late often, and programs ask for a term again when it was over."""


def _believes_while_failing() -> list[Patch]:
    """The loop fails, and its beliefs go on until somebody else ends them."""
    stop = beliefs.Beliefs.stop

    def late(self: beliefs.Beliefs, why: str) -> None:
        if why != loop.OVER:
            stop(self, why)

    return [(beliefs.Beliefs, "stop", late)]


def _renewal_revives() -> list[Patch]:
    """A renewal does not look whether the lease had run out, or was seen to have."""

    def anyway(self: term.Term, until: int) -> bool:
        if self._lease is None and self._until == term.NEVER:  # pyright: ignore[reportPrivateUsage]
            return False
        self._lease, self._until = term.Lease(until), until  # pyright: ignore[reportPrivateUsage]
        return True

    return [(term.Term, "_renew", anyway)]


def _lock_not_looked_at() -> list[Patch]:
    look = claims.ClaimsBinding.look

    def trusting(self: claims.ClaimsBinding, *, thoroughly: bool) -> Any:
        lock, self.incarnation.lock = self.incarnation.lock, None
        try:
            return look(self, thoroughly=thoroughly)
        finally:
            self.incarnation.lock = lock

    return [(claims.ClaimsBinding, "look", trusting)]


def _stop_does_not_last() -> list[Patch]:
    """What was ended from another thread may be believed again: the loop is not told to begin nothing more."""

    def once(self: beliefs.Beliefs, why: str) -> None:
        with self._lock:  # pyright: ignore[reportPrivateUsage]
            self._end_terms(why)  # pyright: ignore[reportPrivateUsage]

    def leads(self: life.Life, effect: Lead) -> None:
        outcome, self._outcome = self._outcome, None  # pyright: ignore[reportPrivateUsage]
        try:
            lead(self, effect)
        finally:
            self._outcome = outcome  # pyright: ignore[reportPrivateUsage]

    lead = life.Life._lead  # pyright: ignore[reportPrivateUsage]
    return [(beliefs.Beliefs, "stop", once), (life.Life, "_lead", leads), (life._CARRY, Lead, leads)]  # type: ignore[list-item]


def _barrier_returns_early() -> list[Patch]:
    """A planned end waits for no work."""
    begin = barriers.Barriers.begin

    def unknown(self: barriers.Barriers, key: barriers.Key, thread: int | None = None) -> barriers.Body:
        body = begin(self, key, thread)
        if thread is None:
            self.finish(body)
        return body

    return [(barriers.Barriers, "begin", unknown)]


def _callback_not_awaited() -> list[Patch]:
    """A planned end does not wait for the user's barrier."""
    call = barriers.Barriers._call  # pyright: ignore[reportPrivateUsage]

    def at_once(self: barriers.Barriers, callback: Any, event: Any, returning: barriers.Body) -> None:
        self.finish(returning)
        call(self, callback, event, returning)

    return [(barriers.Barriers, "_call", at_once)]


def _read_judged_by_an_old_clock() -> list[Patch]:
    """What was read is judged by a stopwatch that was read before the fetch."""
    read = logs.Logs._read  # pyright: ignore[reportPrivateUsage]

    def early(self: logs.Logs, number: int, new: bool) -> Iterator[tuple[Any, int | None]]:
        mine: Any = self
        found, before = read(self, number, new), mine._now()
        for event, now in found:
            yield event, before if isinstance(event, Read) else now
            before = mine._now()

    return [(logs.Logs, "_read", early)]


def _tick_before_read() -> list[Patch]:
    """A round ticks before it reads, so it acts on what it knew before it waited: not only for a beat."""
    return [(loop.Driver, "_may_read_later", lambda self: True)]


def _follow_forgets_the_deadline() -> list[Patch]:
    """The term is ended, and what `holds` looks at stays."""

    def half(self: beliefs.Beliefs, effect: Follow) -> Any:
        with self._lock:  # pyright: ignore[reportPrivateUsage]
            held = self.terms.get(effect.seat[0])
            if held is None or held.key != (*effect.seat, effect.token):
                return None
            held._end(effect.why)  # pyright: ignore[reportPrivateUsage]
            del self.terms[effect.seat[0]]
            return held

    return [(beliefs.Beliefs, "follow", half)]


def _term_ends_before_its_deadline_goes() -> list[Patch]:
    """The term is ended first, and what `holds` looks at afterwards."""

    def late(self: beliefs.Beliefs, effect: Follow) -> Any:
        with self._lock:  # pyright: ignore[reportPrivateUsage]
            held = self.terms.get(effect.seat[0])
            if held is None or held.key != (*effect.seat, effect.token):
                return None
            held._end(effect.why)  # pyright: ignore[reportPrivateUsage]
            self.until.pop(effect.seat[0], None)
            self._begun.pop(effect.seat[0], None)  # pyright: ignore[reportPrivateUsage]
            del self.terms[effect.seat[0]]
            return held

    return [(beliefs.Beliefs, "follow", late)]


def _work_beside_the_barrier() -> list[Patch]:
    """The work of a term begins while the barrier still has `Acquired`."""
    begin = beginnings.Beginnings.begin

    def beside(self: beginnings.Beginnings, held: term.Term, event: Any) -> None:
        self._work(held)  # pyright: ignore[reportPrivateUsage]
        begin(self, held, event)

    return [(beginnings.Beginnings, "begin", beside)]


def _lock_before_beliefs() -> list[Patch]:
    """A loop that ends cleans up before it ends beliefs."""
    stop = beliefs.Beliefs.stop

    def late(self: beliefs.Beliefs, why: str) -> None:
        if why != loop.OVER:
            stop(self, why)

    def cleans(self: Any) -> None:
        self._clean_up()

    return [(beliefs.Beliefs, "stop", late), (loop.Driver, "_end_terms", cleans)]


def _unready_is_ready() -> list[Patch]:
    """A no of the user's check is not passed on."""

    def silent(self: readiness.Readiness, ready: bool) -> bool:
        if ready:
            return say(self, ready)
        return False

    say = readiness.Readiness._say  # pyright: ignore[reportPrivateUsage]
    return [(readiness.Readiness, "_say", silent)]


def _lapses_are_kept() -> list[Patch]:
    """A term that has run out when it was to be renewed is not given up: its seat stays held, and nobody leads."""

    def untold(self: life.Life, until: int, before: int, lapsed: list[term.Term]) -> None:
        """Nobody is told."""

    return [(life.Life, "_renewed", untold)]


def _foreign_log_folded_on() -> list[Patch]:
    """Neither the log's identity is looked at, nor the last entry that was read."""

    def trusting(self: logs.Logs, number: int = 0) -> Iterator[tuple[Any, int | None]]:
        self._doubted.discard(number)  # pyright: ignore[reportPrivateUsage]
        return iter(())

    return [(logs.Logs, "_look", trusting), (logs.Logs, "_check", trusting), *_gone_on_unasked()]


def _anchor_not_read() -> list[Patch]:
    def trusting(self: logs.Logs, number: int) -> Iterator[tuple[Any, int | None]]:
        self._doubted.discard(number)  # pyright: ignore[reportPrivateUsage]
        return iter(())

    return [(logs.Logs, "_check", trusting), *_gone_on_unasked()]


def _gone_on_unasked() -> list[Patch]:
    """What is read is taken for the continuation of what was read before, without a look whether that is still there."""
    return [(logs.Logs, "_lost", lambda self, number: "")]  # pyright: ignore[reportUnknownLambdaType]


def _old_lock_kept() -> list[Patch]:
    """A member that begins anew keeps the lock of the incarnation before."""

    def kept(self: Incarnation) -> None:
        if self is not current.get(id(self)):
            return
        abandon(self)

    abandon = Incarnation.abandon
    current: dict[int, Incarnation] = {}
    close = claims.ClaimsBinding.close

    def closes(self: claims.ClaimsBinding, *, left: bool) -> None:
        current[id(self.incarnation)] = self.incarnation
        try:
            close(self, left=left)
        finally:
            current.clear()

    return [(Incarnation, "abandon", kept), (claims.ClaimsBinding, "close", closes)]


def _forgotten_before_its_end() -> list[Patch]:
    """A term is taken out of the table, and ended afterwards."""

    def early(self: beliefs.Beliefs, effect: Follow) -> Any:
        with self._lock:  # pyright: ignore[reportPrivateUsage]
            held = self.terms.get(effect.seat[0])
            if held is None or held.key != (*effect.seat, effect.token):
                return None
            del self.terms[effect.seat[0]]
            self.until.pop(effect.seat[0], None)
            self._begun.pop(effect.seat[0], None)  # pyright: ignore[reportPrivateUsage]
        held._end(effect.why)  # pyright: ignore[reportPrivateUsage]
        return held

    return [(beliefs.Beliefs, "follow", early)]


def _renew_forgets_the_others() -> list[Patch]:
    """Only the first of a member's terms is prolonged."""
    renew = beliefs.Beliefs._renew  # pyright: ignore[reportPrivateUsage]

    def one(self: beliefs.Beliefs, terms: list[term.Term], until: int) -> tuple[int, list[term.Term]]:
        return renew(self, terms[:1], until)

    return [(beliefs.Beliefs, "_renew", one)]


DRIVER: Final = (
    Mutant(
        "believes-while-failing",
        "R4",
        "the loop fails, and its beliefs are not ended first",
        _believes_while_failing,
        {"faults": {"raise_at": 1.0}, "pace": 1.5, "proof": True},
    ),
    Mutant(
        "revives-what-ran-out", "R4", "a renewal revives a term that was seen to be over", _renewal_revives, REVIVED
    ),
    Mutant(
        "lock-not-looked-at",
        "A3",
        "the lock is not looked at before something is written",
        _lock_not_looked_at,
        {"faults": {"lose_lock": 1.0}, "pace": 1.0, "proof": True},
    ),
    Mutant(
        "stop-does-not-last",
        "R4c",
        "a member that was closed believes again",
        _stop_does_not_last,
        {
            "faults": {"close": 1.0},
            "pace": 3.0,
            "weather": {**CALMLY, "slow": 0.3},
            "connect": ("now",) * 5,
            "session_ms": 100,
            "seats": 1,
        },
    ),
    Mutant("barrier-returns-early", "R5", "a planned end waits for no work", _barrier_returns_early, MOVED),
    Mutant("callback-not-awaited", "R5", "a planned end does not wait for the barrier", _callback_not_awaited, MOVED),
    Mutant(
        "judged-before-the-fetch",
        "R4",
        "what was read is judged by a stopwatch that was read before the fetch",
        _read_judged_by_an_old_clock,
        FROZEN,
    ),
    Mutant("tick-before-read", "R4", "a round ticks before it reads", _tick_before_read, FROZEN),
    Mutant(
        "follow-leaves-the-deadline", "R4", "a term is ended, and `holds` goes on", _follow_forgets_the_deadline, MOVED
    ),
    Mutant(
        "term-ends-before-its-deadline-goes",
        "R4",
        "`holds` says for a moment what the term says no more",
        _term_ends_before_its_deadline_goes,
        STARVED,
    ),
    Mutant(
        "work-beside-the-barrier", "R5", "work begins before the barrier has returned", _work_beside_the_barrier, MOVED
    ),
    Mutant(
        "lock-before-beliefs",
        "R7",
        "a loop that ends gives its lock up while it believes",
        _lock_before_beliefs,
        {"faults": {"raise_at": 1.0, "close": 1.0}, "pace": 1.5, "proof": True},
    ),
    Mutant(
        "unready-is-ready",
        "R19",
        "a no of the user's check is not passed on",
        _unready_is_ready,
        {"faults": {"ready": 1.0}, "pace": 1.0, "acts": {}},
    ),
    Mutant(
        "lapses-are-kept",
        "R4",
        "a term that has run out is kept and not given up",
        _lapses_are_kept,
        {
            **STARVED,
            "weather": CALMLY,
            "acts": {},
            "barrier_timeout": 0.05,
            "barrier": -1.0,
            "storm": 8.0,
            "calm": 25.0,
        },
    ),
    Mutant(
        "foreign-log-folded-on",
        "R12",
        "a log that took the place of another is read on",
        _foreign_log_folded_on,
        {"faults": {"replace": 3.0, "outage": 1.0}, "pace": 1.0},
    ),
    Mutant(
        "anchor-not-read",
        "R12",
        "the last entry is not read again after an outage, of a log that can't be asked each time",
        _anchor_not_read,
        {
            "faults": {"replace": 1.0, "deaf": 2.0, "cut": 2.0},
            "acts": {},
            "overlap_ms": 0,
            "members": 3,
            "roles": 1,
            "cut": 25.0,
            "storm": 40.0,
            "proof": False,
        },
    ),
    Mutant(
        "gone-on-unasked",
        "R12",
        "a member that stood still reads on in a log that lost its tail meanwhile, and grew past that",
        _gone_on_unasked,
        {
            "faults": {"lose_behind": 1.0, "freeze": 1.0, "crash": 1.0},
            "acts": {},
            "overlap_ms": 0,
            "members": 3,
            "roles": 1,
            "seats": 1,
            "proof": False,
            "pace": 0.6,
            "weather": CALMLY,
        },
    ),
    Mutant(
        "old-lock-kept",
        "R8",
        "a member that begins anew keeps the lock of the incarnation before",
        _old_lock_kept,
        {"faults": {"replace": 1.0, "lose_lock": 1.0, "cut": 1.0}, "pace": 1.0, "proof": True},
    ),
    Mutant(
        "forgotten-before-its-end",
        "R4",
        "a term is taken out of the table before it is ended: a fork may come in between",
        _forgotten_before_its_end,
        MOVED,
    ),
    Mutant(
        "one-term-is-prolonged",
        "R4",
        "of a member's terms only the first is prolonged",
        _renew_forgets_the_others,
        {"roles": 3, "faults": {}, "acts": {}, "weather": CALMLY},
    ),
)
