"""What lies between a process and the log: delays, losses, copies, cuts.

An append has a fate, drawn when it is sent. It lands soon, or late, or never; once, or twice, or once more much later; and
its sender is told so, or told nothing and gives up waiting (`Failed`), which says nothing about the landing. All of that is
allowed: of delays, and of records that come late, twice, out of order or after a failure was reported, nothing is assumed
(promise 1).
"""

from __future__ import annotations

from random import Random
from typing import Final

from msgspec import Struct

from pares.sim.engine import MS, Engine
from pares.sim.log import EntryTuple, SimLog

Span = tuple[int, int]
"""From, to, in nanoseconds."""


class Weather(Struct, frozen=True):
    """How the ledger treats everybody. Times in nanoseconds, chances per append (`stall` and `part`: per round)."""

    send: Span = (MS, MS)
    ack: Span = (MS, MS)
    lag: Span = (MS, MS)
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
    stall: float = 0.0
    """Time passes between a fetch and the tick that follows."""
    stall_by: Span = (0, 0)
    part: float = 0.0
    """A fetch brings only a few entries."""
    blocking: bool = False
    """The loop waits for each append, as the real one does; otherwise rounds go on while one is under way."""


CALM: Final = Weather()
FATES: Final = ("unknown", "lost", "silent", "doubled")
"""What may befall an append, as chances of the weather."""


class Flight:
    """One append that has been sent and not been answered yet."""

    __slots__ = ("answered", "landed", "payloads", "sender", "silent", "ticket", "unknown")

    def __init__(self, sender: object, ticket: int, payloads: tuple[bytes, ...]) -> None:
        self.sender = sender
        """The incarnation that waits for the answer."""
        self.ticket = ticket
        self.payloads = payloads
        self.answered = False
        self.landed = -1
        self.silent = False
        self.unknown = True
        """Whether its sender must think, when it is told of a failure, that it may land all the same."""


class Wire:
    """One process' connection to the log. Its owner is told what became of each append."""

    __slots__ = (
        "_engine",
        "_log",
        "_owner",
        "_rng",
        "acks_cut",
        "fate",
        "generation",
        "held",
        "holding",
        "identity",
        "lag",
        "reads_cut",
        "suspect",
        "weather",
        "writes_cut",
    )

    def __init__(self, engine: Engine, log: SimLog, rng: Random, weather: Weather, owner: Owner) -> None:
        self._engine = engine
        self._log = log
        self._rng = rng
        self._owner = owner
        self.weather = weather
        self.lag = rng.randint(*weather.lag)
        self.reads_cut = self.writes_cut = self.acks_cut = False
        self.suspect = False
        """It was out of reach: before reading on, the last entry is read again (R12)."""
        self.generation, self.identity = log.generation, log.identity
        self.holding = False
        """Appends leave the process and wait in `held`, for a scenario to decide when they land."""
        self.held: list[Flight] = []
        self.fate = ""
        """What befalls the next append, if a scenario says so: one of `FATES`."""

    # Appends ---------------------------------------------------------------------------------------------------------

    def send(self, sender: object, ticket: int, payloads: tuple[bytes, ...]) -> Flight:
        engine, weather, rng = self._engine, self.weather, self._rng
        flight = Flight(sender, ticket, payloads)
        fate, self.fate = self.fate or self._draw(), ""
        if self.holding:
            self.held.append(flight)
        elif fate == "lost":
            if self.writes_cut and rng.random() < 0.5:
                # Refused at the door: the sender knows that it will never land.
                flight.unknown = False
                engine.after(rng.randint(*weather.send), self._give_up, flight)
        else:
            delay = rng.randint(*weather.send)
            if fate == "unknown":
                delay = weather.timeout + self._late()
            elif weather.slow and rng.random() < weather.slow:
                delay += rng.randint(*weather.slow_by)
            flight.silent = fate == "silent"
            engine.after(delay, self.land, flight)
            if fate == "doubled":
                engine.after(delay + rng.randint(*weather.send), self._copy, payloads)
            if weather.copied and rng.random() < weather.copied:
                engine.after(delay + self._late(), self._copy, (rng.choice(payloads),))
        engine.after(weather.timeout, self._give_up, flight)
        return flight

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

    def _late(self) -> int:
        return self._rng.randint(*self.weather.late_by)

    def land(self, flight: Flight) -> None:
        weather = self.weather
        hole = self._rng.randint(1, 5) if weather.hole and self._rng.random() < weather.hole else 0
        flight.landed = self._log.append(flight.payloads, self._engine.now, hole=hole)
        if not self.acks_cut and not flight.silent:
            self._engine.after(self._rng.randint(*weather.ack), self._acknowledge, flight)

    def _copy(self, payloads: tuple[bytes, ...]) -> None:
        self._log.append(payloads, self._engine.now)

    def _acknowledge(self, flight: Flight) -> None:
        if not flight.answered and not self.acks_cut:
            flight.answered = True
            self._owner.acked(flight)

    def _give_up(self, flight: Flight) -> None:
        if not flight.answered:
            flight.answered = True
            self._owner.failed(flight)

    # Reads -----------------------------------------------------------------------------------------------------------

    def fetch(self, position: int, most: int) -> list[EntryTuple]:
        weather = self.weather
        if weather.part and self._rng.random() < weather.part:
            most = self._rng.randint(1, 4)
        return self._log.read(position, self._engine.now - self.lag, most)

    def jumped(self, position: int, anchor: tuple[int, bytes] | None) -> str:
        """Why this is not the log that was read so far, as the real loop finds out (R12); empty if it is."""
        log = self._log
        if log.identity != self.identity:
            return "the log was replaced by another one"
        if position < log.start:
            return "the log starts after the place that was to be read next"
        if position > log.end:
            return "the log ends before the place that was to be read next"
        if self.suspect:
            self.suspect = False
            if anchor is not None and anchor[0] >= log.start:
                found = log.at(anchor[0])
                if found is None or found[2] != anchor[1]:
                    return "the last entry read is not what it was"
        return ""

    def attach(self) -> tuple[int, int]:
        log = self._log
        self.generation, self.identity, self.suspect = log.generation, log.identity, False
        return self._log.start, self._log.end


class Owner:
    """What a wire calls."""

    def acked(self, flight: Flight) -> None:
        raise NotImplementedError

    def failed(self, flight: Flight) -> None:
        raise NotImplementedError
