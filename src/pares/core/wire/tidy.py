"""One form for worlds that are equal: what each still carries of the way by which it came about is left behind.

A reader that folded a log from its origin, and one that began with a snapshot, hold equal worlds. They differ in what is no
part of a world: in which order its tables were filled, how often it changed, what is derived and kept for speed. Where states
of readers are kept, and are to be the same bytes, they are tidied first.
"""

from __future__ import annotations

from pares.core.wire.world import World


def tidy(world: World) -> None:
    """Brings a world to the form that it has after `World.load(world.dump())`."""
    world.members = dict(sorted(world.members.items(), key=lambda member: member[1].joined))
    for name in ("seats", "roles", "pauses", "gone", "unready", "followed", "ahead", "ranges"):
        setattr(world, name, dict(sorted(getattr(world, name).items())))
    world.version = world.shape = 0
    world.refresh()
