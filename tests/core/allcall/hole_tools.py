"""Worlds and calls for the scenarios of `test_allcall_holes`."""

from __future__ import annotations

from typing import Any

from allcall_world import World

from pares.core.allcall.messages import Call, Claim, encode


def trio(seed: int = 1, seconds: float = 20, **options: Any) -> World:
    world = World(seed)
    for rank, name in enumerate("abc"):
        world.start(name, rank, start_offset_ms=rank * 130, **options)
    world.run(seconds)
    return world


def wall_ms(world: World) -> int:
    return world.wall_us(next(iter(world.nodes.values()))) // 1000


def told(world: World, sender: str, n: int, claims: list[Claim], age: float = 0.0) -> bytes:
    """What `sender` might have said `age` seconds ago."""
    sent = wall_ms(world) - round(age * 1000)
    return encode(Call(1, "ping", "g", sender, n, sent, 9, "ping", [], claims))


def led_within(world: World, name: str, seconds: float) -> None:
    world.until(lambda: world.leaders() == [name], seconds)
