"""A world for ALLCALL in virtual time: members, a network that delays, loses and cuts, and clocks that differ."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pares.core import events as ev
from pares.core.allcall.config import Settings
from pares.core.allcall.messages import Call, decode
from pares.core.allcall.protocol import AllCall

MS = 1_000_000
SECOND = 1000 * MS
WALL = 1_795_000_000 * SECOND


@dataclass
class Node:
    """One member, and what became of it."""

    name: str
    settings: Settings
    began: int
    stopwatch: int
    """What its stopwatch is ahead of the world's time."""
    wall: int
    """What its wall clock is ahead of the right one."""
    core: AllCall
    alive: bool = True
    frozen: bool = False
    wakes: int = 0
    led: list[tuple[int, str | None]] = field(default_factory=list)
    """When, and who, as it knows."""
    terms: list[tuple[int, int]] = field(default_factory=list)
    """Tokens with which it led, and when it began."""
    ended: list[tuple[int, str]] = field(default_factory=list)
    barriers: list[int] = field(default_factory=list)
    """Tokens of terms that it was asked to let come to their end."""
    reports: list[str] = field(default_factory=list)
    peers: list[tuple[str, str]] = field(default_factory=list)
    kept: list[tuple[str, bytes]] = field(default_factory=list)


class World:
    """Time goes on in `run`; all else happens at once."""

    def __init__(self, seed: int = 1, delay: tuple[float, float] = (0.5, 5.0), loss: float = 0.0) -> None:
        self.now = 0
        self.nodes: dict[str, Node] = {}
        self.random = random.Random(seed)
        self.delay, self.loss = delay, loss
        self.cut: Callable[[str, str], bool] = lambda source, target: False
        self.late = 0.0
        """Up to so many milliseconds later than asked for a member wakes up, as on a real machine."""
        self.sent = self.delivered = self.pings = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def start(self, name: str, rank: int = 0, *, wall: float = 0.0, id: str | None = None, **options: Any) -> Node:
        settings = Settings("g", id or f"{name}~1", rank, **{"roles": ("x",), **options})
        stopwatch = self.random.randrange(10**15)
        wall_us = (WALL + self.now + round(wall * SECOND)) // 1000
        core = AllCall(settings, self.now + stopwatch, wall_us)
        node = Node(name, settings, self.now, stopwatch, round(wall * SECOND), core)
        self.nodes[name] = node
        self._give(node, ev.Tick(wall_us))
        return node

    def run(self, seconds: float) -> None:
        end = self.now + round(seconds * SECOND)
        while self._events and self._events[0][0] <= end:
            self.now, _, act = heapq.heappop(self._events)
            act()
        self.now = end

    def kill(self, name: str) -> None:
        self.nodes[name].alive = False

    def freeze(self, name: str) -> None:
        self.nodes[name].frozen = True

    def thaw(self, name: str) -> None:
        """It goes on: first a look at the clock, then what has come meanwhile."""
        node = self.nodes[name]
        node.frozen = False
        self.tick(name)
        kept, node.kept = node.kept, []
        for _, payload in kept:
            self._give(node, ev.Received(payload, self.wall_us(node)))

    def close(self, name: str) -> None:
        self._give(self.nodes[name], ev.Close())
        self.nodes[name].alive = False

    def step_down(self, name: str) -> None:
        self.tell(name, ev.StepDown("x"))

    def tell(self, name: str, event: ev.Event) -> None:
        """What only its user, or its loop, can tell it."""
        self._give(self.nodes[name], event)

    def tick(self, name: str) -> None:
        node = self.nodes[name]
        self._give(node, ev.Tick(self.wall_us(node)))

    def split(self, *sides: set[str]) -> None:
        """Messages pass only between members of one side."""
        self.cut = lambda source, target: not any({source, target} <= side for side in sides)

    def heal(self) -> None:
        self.cut = lambda source, target: False

    def leaders(self, role: str = "x") -> list[str]:
        """The nodes that believe to lead now, the frozen ones too: they would say so if they were asked."""
        return [
            node.name for node in self.nodes.values() if node.alive and node.core.holds(role, self.now + node.stopwatch)
        ]

    def views(self) -> set[str | None]:
        """Whom the living take for the leader."""
        return {node.core.leader("x", self.now + node.stopwatch) for node in self.nodes.values() if node.alive}

    def until(self, done: Callable[[], bool], limit: float, step: float = 0.01) -> float:
        """Seconds until it is so; fails after `limit`."""
        began = self.now
        while not done():
            assert self.now - began < limit * SECOND, f"not within {limit} s: {self.leaders()}, {self.views()}"
            self.run(step)
        return (self.now - began) / SECOND

    def wall_us(self, node: Node) -> int:
        return (WALL + self.now + node.wall) // 1000

    def send(self, source: str, target: str, payload: bytes, after: float = 0.0) -> None:
        """A message of anybody's making, or a copy of one."""
        self._at(self.now + round(after * SECOND), lambda: self._hear(self.nodes[target], source, payload))

    # ------------------------------------------------------------------------------------------------------------------

    def _give(self, node: Node, event: Any) -> None:
        if not node.alive or node.frozen:
            return
        for effect in node.core.step(event, self.now + node.stopwatch):
            self._do(node, effect)

    def _do(self, node: Node, effect: ev.Effect) -> None:
        match effect:
            case ev.Publish(payload):
                self._spread(node.name, payload)
            case ev.Wake(at):
                node.wakes += 1
                number = node.wakes
                late = round(self.random.uniform(0, self.late) * MS) if self.late else 0
                self._at(at - node.stopwatch + late, lambda: (node.wakes == number and self.tick(node.name)) or None)
            case ev.Lead(_, token, _, why) if why != "renewed":
                node.terms.append((self.now, token))
            case ev.Follow(_, _, why):
                node.ended.append((self.now, why))
            case ev.Barrier(_, token):
                node.barriers.append(token)
            case ev.LeaderChanged(_, holder):
                node.led.append((self.now, holder))
            case ev.PeerJoined(member):
                node.peers.append(("joined", member))
            case ev.PeerLost(member, why):
                node.peers.append((why, member))
            case ev.Report(kind, _):
                node.reports.append(kind)
            case _:
                pass

    def _spread(self, source: str, payload: bytes) -> None:
        self.sent += 1
        self.pings += b'"k":"ping"' in payload
        for node in [*self.nodes.values()]:
            if node.name != source and (self.cut(source, node.name) or self.random.random() < self.loss):
                continue
            if node.name == source and self.cut(source, source):
                continue
            pause = self.random.uniform(*self.delay) * MS
            self._at(self.now + round(pause), lambda node=node: self._hear(node, source, payload))

    def _hear(self, node: Node, source: str, payload: bytes) -> None:
        if node.frozen:
            node.kept.append((source, payload))
        elif node.alive:
            self.delivered += 1
            self._give(node, ev.Received(payload, self.wall_us(node)))

    def _at(self, when: int, act: Callable[[], None]) -> None:
        heapq.heappush(self._events, (max(when, self.now), next(self._order), act))


def call_of(payload: bytes) -> Call:
    call = decode(payload)
    assert isinstance(call, Call)
    return call
