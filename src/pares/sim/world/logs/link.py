"""One process' way to one partition: delays, losses, copies, cuts, each process with a weather of its own.

An append has a fate, drawn when it is sent: it lands soon, or late, or never; whole, or only its first part, or with records
of others in between; once, or once more much later; and its sender is told so, or is told nothing and gives up waiting, which
says nothing about the landing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

import msgspec
from msgspec import Struct

from pares.sim.engine import MS
from pares.sim.log import EntryTuple, Stamp
from pares.sim.world.logs.shared import Partition
from pares.sim.world.scheduler import Task
from pares.sim.world.seam import Ground

Span = tuple[int, int]


class Weather(Struct, frozen=True):
    """How the ledger treats one process. Times in nanoseconds, chances per append (`part`: per read)."""

    send: Span = (MS // 10, MS // 2)
    ack: Span = (MS // 10, MS // 2)
    read: Span = (MS // 20, MS // 5)
    """How long a read takes, there and back."""
    lag: int = 0
    """How old what is read may be."""
    timeout: int = 500 * MS
    slow: float = 0.0
    slow_by: Span = (0, 0)
    unknown: float = 0.0
    """Reported as failed; lands all the same, `late_by` later."""
    lost: float = 0.0
    """Reported as failed, and never lands."""
    silent: float = 0.0
    """It lands in time, and nobody tells its sender."""
    doubled: float = 0.0
    copied: float = 0.0
    """One of its records lands a second time, `late_by` later."""
    late_by: Span = (0, 0)
    hole: float = 0.0
    part: float = 0.0
    """A read brings only a few entries."""
    split: float = 0.0
    """The records of a batch land one after the other, so that those of others may come in between."""
    torn: float = 0.0
    """Of a batch only the first records land, and its sender is told that it does not know."""
    unreadable: float = 0.0
    """A read fails."""

    @property
    def trip(self) -> int:
        """The longest round trip, where nothing goes wrong: until an append has landed, was acknowledged, and is read back."""
        return self.send[1] + self.ack[1] + self.read[1] + self.lag


CALM: Final = Weather()
FATES: Final = ("unknown", "lost", "silent", "doubled", "split", "torn")


def fair(weather: Weather) -> Weather:
    """The same delays, and nothing goes wrong any more."""
    chances = dict.fromkeys((*FATES, "slow", "copied", "part", "unreadable"), 0.0)
    return msgspec.structs.replace(weather, **chances)


def slowed(weather: Weather, trip: int, share: float) -> Weather:
    """For somebody whose appends take `trip` nanoseconds until they are answered: a share of that until they land. It waits for
    its answers as long as it must."""
    away = int(trip * share)
    sent, answered = (away * 9 // 10, away), ((trip - away) * 9 // 10, trip - away)
    return msgspec.structs.replace(weather, send=sent, ack=answered, timeout=max(weather.timeout, trip * 3 // 2))


class Flight:
    """One append that was sent."""

    __slots__ = ("answered", "done", "offsets", "on_answer", "payloads", "silent", "stamp", "unknown", "urgent")

    def __init__(
        self, payloads: tuple[bytes, ...], on_answer: Callable[[], object], stamp: Stamp | None, urgent: bool
    ) -> None:
        self.payloads = payloads
        self.on_answer = on_answer
        self.stamp = stamp
        self.urgent = urgent
        self.offsets: list[int] = []
        self.answered = False
        self.done = False
        """Acknowledged, and not given up."""
        self.silent = False
        self.unknown = True
        """Whether its sender must think, when it is told of a failure, that it may land all the same."""


class Link:
    """A process' connection to one partition."""

    def __init__(self, world: Ground, log: Partition, rng: Random, weather: Weather) -> None:
        self._world = world
        self.log = log
        self._rng = rng
        self._bits = rng.getrandbits
        self.weather = weather
        self.reads_cut = self.writes_cut = self.acks_cut = False
        self.holding = False
        """Appends wait in `held`, for a scenario to decide when they land."""
        self.held: list[Flight] = []
        self.fate = ""
        """What befalls the next append, if a scenario says so: one of `FATES`."""
        self.fates: dict[bytes, str] = {}
        """The same of the next append that begins so."""
        self.generations: dict[Task, int] = {}
        """Of the log that each reader knows to read."""

    def send(
        self,
        payloads: tuple[bytes, ...],
        on_answer: Callable[[], object],
        *,
        stamp: Stamp | None = None,
        urgent: bool = True,
    ) -> Flight:
        world, weather, rng = self._world, self.weather, self._rng
        flight = Flight(payloads, on_answer, stamp, urgent)
        fate, self.fate = self.fate or self._asked(payloads[0]) or self._draw(), ""
        if self.holding:
            self.held.append(flight)
        elif fate == "lost":
            if self.writes_cut and rng.random() < 0.5:
                flight.unknown = False  # refused at the door: its sender knows that it never lands
                world.after(rng.randint(*weather.send), self._give_up, flight)
        else:
            self._fly(flight, fate)
        world.after(weather.timeout, self._give_up, flight)
        return flight

    def _fly(self, flight: Flight, fate: str) -> None:
        world, weather, rng = self._world, self.weather, self._rng
        delay = rng.randint(*weather.send)
        if fate == "unknown":
            delay = weather.timeout + rng.randint(*weather.late_by)
        elif weather.slow and rng.random() < weather.slow:
            delay += rng.randint(*weather.slow_by)
        flight.silent = fate in ("silent", "torn")
        payloads = flight.payloads
        if fate == "torn":
            payloads = payloads[: rng.randint(0, max(0, len(payloads) - 1))]
        if fate == "split" and len(payloads) > 1:
            for place, payload in enumerate(payloads):
                last = place == len(payloads) - 1
                world.after(delay, self._land, flight, (payload,), last)
                delay += rng.randint(*weather.send)
        else:
            world.after(delay, self._land, flight, payloads, True)
        if fate == "doubled":
            world.after(delay + rng.randint(*weather.send), self._copy, flight, payloads)
        if weather.copied and rng.random() < weather.copied:
            world.after(delay + rng.randint(*weather.late_by), self._copy, flight, (rng.choice(flight.payloads),))

    def _asked(self, payload: bytes) -> str:
        beginning = next((begins for begins in self.fates if payload.startswith(begins)), None)
        return "" if beginning is None else self.fates.pop(beginning)

    def _draw(self) -> str:
        weather = self.weather
        if self.writes_cut:
            return "unknown" if weather.unknown and self._rng.random() < 0.2 else "lost"
        drawn = self._rng.random()
        for fate in FATES:
            drawn -= getattr(weather, fate)
            if drawn < 0:
                return fate
        return ""

    def land(self, flight: Flight) -> None:
        """An append that was held lands, whole."""
        self._land(flight, flight.payloads, True)

    def _land(self, flight: Flight, payloads: tuple[bytes, ...], last: bool) -> None:
        weather = self.weather
        hole = self._rng.randint(1, 5) if weather.hole and self._rng.random() < weather.hole else 0
        if payloads:
            flight.offsets += self._put(flight, payloads, hole)
        if last and not self.acks_cut and not flight.silent:
            self._world.after(self._rng.randint(*weather.ack), self._acknowledge, flight)

    def _put(self, flight: Flight, payloads: tuple[bytes, ...], hole: int = 0) -> Sequence[int]:
        end = self.log.append(payloads, self._world.now, hole=hole, stamp=flight.stamp, urgent=flight.urgent)
        return range(end - len(payloads) + 1, end + 1)

    def _copy(self, flight: Flight, payloads: tuple[bytes, ...]) -> None:
        if payloads:
            self._put(flight, payloads)

    def _acknowledge(self, flight: Flight) -> None:
        if not flight.answered and not self.acks_cut:
            flight.answered = flight.done = True
            flight.on_answer()

    def _give_up(self, flight: Flight) -> None:
        if not flight.answered:
            flight.answered = True
            flight.on_answer()

    def trip(self) -> int:
        """How long half of a read takes."""
        low, high = self.weather.read
        if high < low:
            raise ValueError(f"a read that takes from {low} to {high}")
        # What `randint` draws, without its detours: every read asks twice.
        many, bits = high - low + 1, self._bits
        length = many.bit_length()
        drawn = bits(length)
        while drawn >= many:
            drawn = bits(length)
        return (low + drawn) // 2

    def unreadable(self) -> bool:
        return self.reads_cut or (self.weather.unreadable > 0 and self._rng.random() < self.weather.unreadable)

    def fetch(self, position: int, most: int) -> list[EntryTuple]:
        weather = self.weather
        if weather.part and not self.log.whole and self._rng.random() < weather.part:
            most = min(most, self._rng.randint(1, 4))
        return self.log.read(position, self._world.now - weather.lag, most)
