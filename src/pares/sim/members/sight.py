"""The beliefs of all members, in true time, seen from outside: no member's clock is asked, and looking decides nothing.

A term is asked for its deadline, never for its truth, because a term that was seen to be over is over for good: an onlooker
that asked would hide a member that revives its terms. Two beliefs can meet only when one begins or is prolonged; so after each
stretch that a task has run, what it began and prolonged is looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from pares.sim.world.scheduler import NEVER

if TYPE_CHECKING:
    from pares.runtime.member import Member
    from pares.runtime.term import Term
    from pares.sim.world.process import Process
    from pares.sim.world.simulation import World

DEADLINE: Final = attrgetter("_until")
"""Of a term, as it has it: asked through the property this costs a tenth of all looking."""
Seat = tuple[str, str, int]
"""Group, role, index."""


class Held:
    """One term of one member, as it is believed. `until`: by its process' stopwatch, 0 when it has been ended;
    `last`: what that was before."""

    __slots__ = ("began", "last", "member", "over_at", "process", "seat", "term", "token", "until")

    def __init__(self, process: Process, member: Member, term: Term, at: int) -> None:
        self.process = process
        self.member = member
        self.term = term
        self.seat: Seat = (member.group, term.role, term.seat)
        self.token = term.token
        self.began = at
        self.until = self.last = term.deadline_ns
        self.over_at: int | None = None
        """The true time at which it was seen to be ended, or its process was gone."""

    def __repr__(self) -> str:
        return f"{self.term.member} in {self.seat[1]}/{self.seat[2]} (token {self.token})"

    def believing(self) -> bool:
        """Whether its member believes now, as it would find out by asking."""
        process = self.process
        return process.alive and process.stopwatch.read(process.world.now) < self.until

    def left(self) -> float:
        """Milliseconds of its own stopwatch for which it goes on believing."""
        return (self.until - self.process.reading()) / 1e6


class Eye:
    """What was seen of one member at the last close look, if all was well."""

    __slots__ = ("beliefs", "id", "life", "member", "says", "soonest", "terms", "untils")

    def __init__(self, member: Member) -> None:
        self.member = member
        self.life = member._life  # pyright: ignore[reportPrivateUsage]
        self.beliefs = self.life.beliefs
        self.id = ""
        self.says: dict[str, int] = {}
        self.terms: dict[str, Term] = {}
        self.untils: list[int] = []
        self.soonest = -NEVER
        """When the first of its terms runs out, by its stopwatch; long ago if it is to be looked at closely again."""

    def remember(self, known: dict[Term, Held]) -> None:
        """`known`: what the process believes, as it was just looked at."""
        says, terms = dict(self.beliefs.until), dict(self.beliefs.terms)
        untils = list(map(DEADLINE, terms.values()))
        mine = [held for held in known.values() if held.member is self.member]
        listed = all(terms.get(held.term.role) is held.term and says.get(held.term.role) == held.until for held in mine)
        if listed and len(mine) == len(terms) == len(says) and untils == [known[term].until for term in terms.values()]:
            self.says, self.terms, self.untils, self.id = says, terms, untils, self.life.id
            self.soonest = min(untils, default=NEVER)
        else:
            self.soonest = -NEVER


class Sight:
    """All beliefs of a world. `began`, `prolonged` and `ended` are called with what was seen."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.members: dict[Process, list[Member]] = {}
        self.open: dict[Process, dict[Term, Held]] = {}
        self.seats: dict[Seat, list[Held]] = {}
        """Those that are not over."""
        self.began: list[Callable[[Held], object]] = []
        self.prolonged: list[Callable[[Held], object]] = []
        self.ended: list[Callable[[Held], object]] = []
        self.looked: list[Callable[[Process], object]] = []
        """Called after each look at a process that has members."""
        self.closely: list[Callable[[Process], object]] = []
        """Called before these unless all is as it was when they were called last: what each member of the process believes, and
        its tables say; its id, its loop, and whether that or a task of the process has failed; and no term has run out."""
        self._eyes: dict[Process, list[Eye]] = {}
        world.on_member.append(self._member)
        world.on_end.append(self.look)
        world.on_gone.append(self._gone)
        world.watchers.append(self.look)

    def _member(self, process: Process, member: Any) -> None:
        self.members.setdefault(process, []).append(member)
        self._eyes.setdefault(process, []).append(Eye(member))
        self.open.setdefault(process, {})

    def _gone(self, process: Process) -> None:
        """It has ended: whatever it believed, it believes no more."""
        for held in list(self.open.get(process, {}).values()):
            self._over(held)
        self.open.pop(process, None)
        self.members.pop(process, None)
        self._eyes.pop(process, None)

    def look(self, process: Process) -> None:
        """A task of it has run."""
        members = self.members.get(process)
        if members is None:
            return
        # Thousands of times a second, so a close look only if something has changed since the last one found nothing odd.
        watch = process.stopwatch
        now = watch.offset + int((self.world.now - watch.since) * watch.rate)
        for eye in self._eyes[process]:
            beliefs, loop = eye.beliefs, eye.member._loop  # pyright: ignore[reportPrivateUsage]
            terms = beliefs.terms
            if (
                now >= eye.soonest
                or beliefs.until != eye.says
                or terms != eye.terms
                or (terms and (list(map(DEADLINE, terms.values())) != eye.untils or loop.thread.over))  # type: ignore[union-attr]
                or eye.life.id != eye.id
                or loop.failure is not None
                or process.failures
            ):
                self._look_closely(process, members)
                break
        for call in self.looked:
            call(process)

    def _look_closely(self, process: Process, members: list[Member]) -> None:
        known = self.open[process]
        for member in members:
            for term in member._life.beliefs.terms.values():  # pyright: ignore[reportPrivateUsage]
                if term not in known:
                    self._begins(process, member, term)
        self._compare(known)
        for call in self.closely:
            call(process)
        for eye in self._eyes[process]:
            eye.remember(known)

    def _compare(self, known: dict[Term, Held]) -> None:
        for held in [held for held in known.values() if held.term._until != held.until]:  # pyright: ignore[reportPrivateUsage]
            self._changed(known, held)

    def _changed(self, known: dict[Term, Held], held: Held) -> None:
        before, until = held.until, held.term.deadline_ns
        held.until, held.last = until, until or held.last
        if until > before:
            self._tell(self.prolonged, held)
        elif not until:
            del known[held.term]
            self._over(held)

    def _begins(self, process: Process, member: Member, term: Term) -> None:
        if not term.deadline_ns:
            return  # it has been ended, and stays in the table for its end to be told
        held = Held(process, member, term, self.world.now)
        self.open[process][term] = held
        self._tell(self.began, held)
        self.seats.setdefault(held.seat, []).append(held)

    def _over(self, held: Held) -> None:
        held.over_at, held.until = self.world.now, 0
        if held in self.seats.get(held.seat, ()):
            self.seats[held.seat].remove(held)
        self._tell(self.ended, held)

    def _tell(self, calls: list[Callable[[Held], object]], held: Held) -> None:
        for call in calls:
            call(held)

    def believers(self, seat: Seat) -> list[Held]:
        return [held for held in self.seats.get(seat, ()) if held.believing()]

    def of_process(self, process: Process) -> list[Held]:
        return list(self.open.get(process, {}).values())
