"""The bus in the simulation: what is published reaches everybody who is connected then, itself included, after a while.

Nothing is kept for anybody: what is on its way to a member whose connection breaks is gone with that connection (each one is
an epoch of its own). A message may be lost for one receiver, late for another, and come twice to a third; between any two
members messages pass in one direction, in both or in none.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final, Protocol

from msgspec import Struct

from pares.core.allcall.messages import Call
from pares.sim.allcall.knobs import Weather
from pares.sim.engine import Engine

Cut = Callable[[str, str], bool]
"""Whether nothing passes from one member to another."""
LONG_AGO: Final = -(2**62)


class Message(Struct, frozen=True):
    """What was published, and by which incarnation."""

    sender: str
    """A process' name."""
    call: Call
    payload: bytes
    at: int
    """When it was made, in true time: whoever stands still then sends it later."""


class Station:
    """One process' connection."""

    __slots__ = ("connected", "deaf", "epoch", "kept", "mute")

    def __init__(self) -> None:
        self.connected, self.mute, self.deaf = True, False, False
        self.epoch = 0
        self.kept: list[Message] = []

    @property
    def well(self) -> bool:
        return self.connected and not self.mute and not self.deaf


class Listener(Protocol):
    """Those that are on the bus."""

    name: str
    station: Station

    def hear(self, message: Message) -> None: ...


class Net:
    """Everybody's messages."""

    def __init__(self, engine: Engine, rng: Random, weather: Weather) -> None:
        self.engine = engine
        self.weather = weather
        self.cuts: list[Cut] = []
        self.history: list[Message] = []
        """What was published, for late copies; the newest thousand."""
        self.published = self.delivered = self.refused = 0
        self.unsettled_until = 0
        """When the last late message or copy comes."""
        self._rng = rng
        self._processes: dict[str, Listener] = {}
        self._hindered: dict[tuple[str, str], int] = {}

    def add(self, process: Listener) -> None:
        self._processes[process.name] = process

    def passes(self, source: str, target: str) -> bool:
        """Whether what one sends now reaches the other, if it is not lost."""
        one, other = self._processes[source].station, self._processes[target].station
        open_ends = one.connected and not one.mute and other.connected and not other.deaf
        return open_ends and not any(cut(source, target) for cut in self.cuts)

    def hindered(self, source: str, target: str) -> int:
        """Up to when something that one sent did not reach the other in the usual time."""
        return self._hindered.get((source, target), LONG_AGO)

    def publish(self, sender: str, message: Message) -> None:
        station = self._processes[sender].station
        self.history.append(message)
        if len(self.history) > 1000:
            del self.history[:500]
        if not station.connected:
            if self.weather.kept:
                station.kept.append(message)
            else:
                self.refused += 1
            return
        self.published += 1
        for target in self._processes:
            self._send(sender, target, message)

    def _send(self, source: str, target: str, message: Message) -> None:
        weather, rng = self.weather, self._rng
        if not self.passes(source, target) or (weather.loss and rng.random() < weather.loss):
            self._hinder(source, target, self.engine.now)
            return
        delay = rng.randint(*weather.delay)
        if weather.late and rng.random() < weather.late:
            delay += rng.randint(*weather.late_by)
            self._hinder(source, target, self.engine.now + delay)
        self.deliver_after(delay, source, target, message)
        if weather.doubled and rng.random() < weather.doubled:
            self.deliver_after(delay + rng.randint(*weather.late_by), source, target, message)

    def deliver_after(self, delay: int, source: str, target: str, message: Message) -> None:
        """It may be a copy of something old."""
        self.unsettled_until = max(self.unsettled_until, self.engine.now + delay)
        self.engine.after(delay, self._deliver, source, target, self._processes[target].station.epoch, message)

    def _deliver(self, source: str, target: str, epoch: int, message: Message) -> None:
        process = self._processes[target]
        station = process.station
        if not station.connected or station.epoch != epoch or station.deaf:
            self._hinder(source, target, self.engine.now)
            return
        self.delivered += 1
        process.hear(message)

    def _hinder(self, source: str, target: str, until: int) -> None:
        self._hindered[source, target] = max(until, self.hindered(source, target))

    def disconnect(self, process: Listener) -> None:
        process.station.connected = False
        process.station.epoch += 1

    def connect(self, process: Listener) -> None:
        station = process.station
        if not station.connected:
            station.connected = True
            station.epoch += 1
            kept, station.kept = station.kept, []
            for message in kept:
                for target in self._processes:
                    self._send(process.name, target, message)
