"""Faults that befall many at once, or one again and again; members of one name; and two faults at a time."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pares.sim.members.striking import Striking
    from pares.sim.members.users import User

NAMES: Final = 40
"""Names under which a process that dies again and again starts, at most."""
TWINS: Final = 2
ON_ONE: Final = (
    "freeze",
    "freeze_at",
    "starve_at",
    "starve",
    "crash_at",
    "raise_at",
    "cut",
    "deaf",
    "mute",
    "one_way",
    "rate",
    "lose_lock",
)
"""What befalls one process, so that two of it can."""


class Crowds:
    """One method a kind."""

    def __init__(self, storm: Striking) -> None:
        self._storm = storm
        self._stage, self._world = storm.stage, storm.world
        self._looping: User | None = None
        """One at a time dies again and again."""
        self._names = self._twins = 0

    @property
    def _rng(self) -> Random:
        """Of what happens now."""
        return self._storm.rng

    def half(self) -> None:
        """Half of the members die in one instant; rather those who lead."""
        storm = self._storm
        running = [user for user in storm.own() if user.running]
        self._rng.shuffle(running)
        running.sort(key=lambda user: not user.beliefs)
        soon = self._rng.random() < 0.5
        for user in running[: len(running) // 2]:
            if user.process is not None:
                self._world.kill(user.process)
                self._world.after(storm.span(*((0, 6) if soon else (3, 8))), user.start)

    def double(self) -> None:
        """Two faults at once on one process, or a second one while the first lasts."""
        storm = self._storm
        user = storm.someone()
        if user is None:
            return
        first, second = self._rng.sample(ON_ONE, 2)
        self._befalls(user, first)
        if self._rng.random() < 0.5:
            self._befalls(user, second)
        else:
            self._world.after(storm.span(0, 1), self._befalls, user, second)

    def _befalls(self, user: User, kind: str) -> None:
        if not user.running or self._stage.calm:
            return
        self._storm.struck = user
        try:
            self._storm.happen(kind)
        finally:
            self._storm.struck = None

    def twin(self) -> None:
        """Another process starts under the name of one that may well be alive."""
        user = self._storm.someone()
        if user is not None and self._twins < TWINS:
            self._twins += 1
            name = f"{user.name}-twin{self._twins}"
            self._stage.add(name, like=user, member=user.member_name).start()

    def loop(self) -> None:
        """Somebody dies and starts again, under its name, as long as the storm lasts: at times before it has joined."""
        user = self._storm.someone()
        if user is not None and self._looping is None:
            self._looping = user
            self._again(user, self._rng.choice((0.2, 0.5, 1.5)))

    def _again(self, user: User, longest: float) -> None:
        if user.process is not None:
            self._world.kill(user.process)
        user.start()
        after = self._storm.span(0.02, longest)
        if self._world.now + after < self._storm.over_at:
            self._world.after(after, self._again, user, longest)

    def names(self) -> None:
        """A process made like one of them starts and dies again and again, each time under another name: some before they have
        joined, some when they hold something."""
        user = self._storm.someone()
        if user is not None and not self._names:
            self._another(user, self._rng.choice((0.2, 0.5, 1.0)))

    def _another(self, like: User, longest: float) -> None:
        self._names += 1
        newcomer = self._stage.add(f"new{self._names}", like=like)
        newcomer.start()
        self._world.after(self._storm.span(0.02, longest), self._gone, newcomer, longest)

    def _gone(self, newcomer: User, longest: float) -> None:
        if newcomer.process is not None:
            self._world.kill(newcomer.process)
        self._stage.own.remove(newcomer)
        after = self._storm.span(0.02, longest)
        if self._names < NAMES and self._world.now + after < self._storm.over_at:
            self._world.after(after, self._another, newcomer, longest)
