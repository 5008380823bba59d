"""Partitions of which a consumer can claim nothing, because other consumers of its group divide them in another way (C12): it
says so, and why, once for each reason."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pares.core.consume.names import Partition
from pares.core.wire.divided.divisions import bar
from pares.runtime.consume.kit import Seated
from pares.runtime.consume.settings import Settings

LOOKS: Final = 2
"""In a session."""


class Bars:
    """Of one consumer; called by its feeder alone."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._said: dict[Partition, str] = {}
        self._look_at = 0

    def look(self, now: int, member: Seated, partitions: Iterable[Partition]) -> None:
        if now < self._look_at or member.state != "live":
            return
        self._look_at = now + self._settings.session // LOOKS
        if not member.world.siblings:  # nobody divides any: it costs nothing to know that of a thousand partitions
            self._said.clear()
            return
        for partition in partitions:
            why = self._why(member, partition)
            if why and why != self._said.get(partition):
                mine = self._settings.terms(()).claims()
                member.problem("mixed", f"{partition.role}: no {mine} of it can be claimed now: {why}")
            self._said[partition] = why

    def _why(self, member: Seated, partition: Partition) -> str:
        world, slots = member.world, self._settings.slots_of(partition)
        role = slots[0].role if slots else partition.role
        if (role, 0) not in world.seats:
            return ""
        if self._settings.claim == "keys" and not world.in_force:
            return "a member of release 0.1 is in the group"
        return bar(world, role)
