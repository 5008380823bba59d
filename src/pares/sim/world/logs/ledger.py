"""A process' handle on the log of its world: `pares.ledger.Log` in virtual time.

Each call takes the time that the weather of this process gives it; a reader sees what stood in the log while its request was
there, not when it goes on. So whatever holds it up between the two makes what it read old.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from pares.core.errors import ClosedError, LedgerUnavailable
from pares.ledger.base import (
    Bell,
    Capabilities,
    Entry,
    check_payload,
    check_payloads,
    check_records,
    ends_here,
    gap,
    limited,
    no_such_partition,
    rewound,
)
from pares.sim.log import EntryTuple, Stamp
from pares.sim.world.bells import Bells
from pares.sim.world.logs.link import Flight, Link, Weather
from pares.sim.world.logs.shared import SharedLog
from pares.sim.world.process import Process


class SimLedger:
    """One handle, of one process."""

    kind = "sim"
    place: Path | None = None

    def __init__(self, process: Process, log: SharedLog, weather: Weather, *, has_bell: bool = True) -> None:
        self._process = process
        self.log = log
        self.has_bell = has_bell
        self.url = log.url
        self.capabilities = Capabilities(stamps=log.clocked, arrivals=log.noted, anchors=True, whole_reads=log.clocked)
        self.retention = log.retention
        self._weather = weather
        self._closed = False
        self._severed = False
        self._links: dict[int, Link] = {}
        self._bells: dict[int, list[Bells]] = {}
        self._listening: dict[int, Callable[[list[EntryTuple]], None]] = {}
        self._near: dict[int, int] = {}
        """Partitions that are attended closely, and since when."""
        self.misled_at = -1
        """The true time at which a reader last went on, unknowingly, in a log that is another one than before."""
        process.world.handles.append(self)
        process.at_kill.append(self._drop)

    def __repr__(self) -> str:
        return f"<SimLedger {self.url} of {self._process.name}>"

    def broker_time(self) -> bool:
        """Whether entries are stamped by the log, whose clock is right."""
        return self.log.stamped

    # For scenarios ---------------------------------------------------------------------------------------------------

    @property
    def links(self) -> list[Link]:
        return [self._link(partition) for partition in range(len(self.log.partitions))]

    @property
    def weather(self) -> Weather:
        return self._weather

    @weather.setter
    def weather(self, weather: Weather) -> None:
        self._weather = weather
        for link in self._links.values():
            link.weather = weather

    def cut(self, *, reads: bool = True, writes: bool = True, acks: bool = True, only: int | None = None) -> None:
        """From now on these don't pass, until `heal`; to and from the partition `only`, if one is named."""
        for link in self.links if only is None else [self._link(only)]:
            link.reads_cut |= reads
            link.writes_cut |= writes
            link.acks_cut |= acks

    def heal(self) -> None:
        for partition, link in enumerate(self.links):
            link.reads_cut = link.writes_cut = link.acks_cut = False
            self._ring(partition)

    def sever(self) -> None:
        """Its connection breaks: the next read fails, and the one after it has another connection."""
        self._severed = True

    @property
    def is_cut(self) -> bool:
        return any(link.reads_cut or link.writes_cut or link.acks_cut for link in self._links.values())

    def wake_on_append(self, partition: int, ring: Bells) -> None:
        if partition not in self._bells:
            self._bells[partition] = []
            self._listening[partition] = listener = self._landed(partition)
            self.log.partitions[partition].listeners.append(listener)
        self._bells[partition].append(ring)

    def wake_no_more(self, ring: Bells) -> None:
        for bells in self._bells.values():
            if ring in bells:
                bells.remove(ring)

    def _landed(self, partition: int) -> Callable[[list[EntryTuple]], None]:
        def landed(entries: list[EntryTuple]) -> None:
            if not self._closed and not self._link(partition).reads_cut:
                world, link = self._process.world, self._link(partition)
                # A bell that has rung is heard before the next read: of a log without lag that read brings these entries, too.
                lags = link.weather.lag > 0
                if link.log.urgent and (lags or any(not bells.heard for bells in self._bells[partition])):
                    world.after(link.weather.lag + link.trip(), self._ring, partition)

        return landed

    def _ring(self, partition: int) -> None:
        for bells in self._bells.get(partition, ()):
            bells.sound()

    def _drop(self) -> None:
        self._closed = True
        self._bells = {partition: [] for partition in self._bells}
        for partition, listener in self._listening.items():
            self.log.partitions[partition].listeners.remove(listener)
        self._listening.clear()
        if self in self._process.world.handles:
            self._process.world.handles.remove(self)

    # Log -------------------------------------------------------------------------------------------------------------

    @property
    def partitions(self) -> int:
        return len(self.log.partitions)

    def append(self, payload: bytes, partition: int = 0) -> int:
        check_payload(payload)
        return self.append_many([payload], partition)[0]

    def append_many(self, payloads: Sequence[bytes], partition: int = 0, *, urgent: bool = True) -> list[int]:
        process = self._process
        process.cross("append")
        check_payloads(payloads)
        link = self._open(partition)
        if not payloads:
            return []
        process.world.sent(process, self, partition, payloads)
        return self._deliver(link, tuple(payloads), urgent=urgent)

    def _deliver(self, link: Link, payloads: tuple[bytes, ...], *, urgent: bool) -> list[int]:
        """Sends them by that way, and waits for the answer."""
        process = self._process
        task, ticket = process.world.task(), 0

        def answered() -> None:
            process.wake(task, ticket)

        stamp = (process.stopwatch, self._stamp()) if self.log.clocked else None
        flight: Flight = link.send(payloads, answered, stamp=stamp, urgent=urgent)
        process.cross("append:sent")
        while not flight.answered:
            ticket = task.ticket
            process.block("append")
        process.cross("append:answered")
        if self._closed:
            raise ClosedError(f"{self.url} was closed while it appended")
        if not flight.done:
            why = "nothing answers" if flight.unknown else "refused"
            raise LedgerUnavailable(f"{self.url}: the append was not acknowledged ({why})", unknown=flight.unknown)
        return flight.offsets

    def _stamp(self) -> int:
        """What an append that begins now is stamped with."""
        return self._process.reading()

    def _shared(self, stamp: Stamp | None) -> int | None:
        """What a stamp says to this process: nothing, if it is of another boot or time namespace."""
        return stamp[1] if stamp is not None and stamp[0] is self._process.stopwatch else None

    def read_stamped(
        self, offset: int, partition: int = 0, max_records: int = 1000
    ) -> tuple[list[Entry], list[int | None]]:
        entries = self.read(offset, partition, max_records)
        stamps = self.log.partitions[partition].stamps
        return entries, [self._shared(stamps.get(entry.offset)) for entry in entries]

    def attend(self, partition: int, reader: object, *, closely: bool | None) -> None:
        """See `Noting`. A handle here has one reader."""
        if closely:
            self._near.setdefault(partition, self._process.world.now)
        else:
            self._near.pop(partition, None)

    def arrivals(self, entries: Sequence[Entry], partition: int = 0) -> list[int | None]:
        """See `Noting`: as soon as it can be, also where the process stands still."""
        return [self._came(partition, entry) for entry in entries]

    def _came(self, partition: int, entry: Entry) -> int | None:
        log, lag, since = self.log.partitions[partition], self._link(partition).weather.lag, self._near.get(partition)
        landed = log.arrived(entry.offset) if log.at(entry.offset) == tuple(entry) else None
        if since is None or landed is None or landed + lag < since:
            return None
        stopwatch = self._process.stopwatch
        return stopwatch.read(max(landed + lag, stopwatch.since))

    def has(self, offset: int, payload: bytes, partition: int = 0) -> bool:
        """Within the read that came before: it takes no time, and nobody is stopped in between."""
        link = self._open(partition)
        found = link.log.at(offset)
        there = offset < link.log.start or (found is not None and found[2] == payload)
        if not there:
            link.generations[self._process.world.task()] = link.log.generation
        return there

    def read(self, offset: int, partition: int = 0, max_records: int = 1000, timeout: float = 0.0) -> list[Entry]:
        process = self._process
        process.cross("read")
        check_records(max_records)
        link, world = self._open(partition), process.world
        deadline = process.deadline(timeout) or 0
        while True:
            self._reach(link)
            log, task, looked_at = link.log, world.task(), world.now
            if not log.start <= offset <= log.end:
                link.generations[task] = log.generation
                self._back(link)
                if offset < log.start:
                    raise gap(self.url, partition, offset, log.start)
                raise rewound(self.url, partition, offset, log.end)
            found = link.fetch(offset, max_records)
            if found and link.generations.setdefault(task, log.generation) != log.generation:
                self.misled_at = world.now
            self._back(link)
            entries = limited([Entry(*entry) for entry in found], max_records)
            if not entries or (log.whole and ends_here(entries, max_records)):
                task.looked_at = looked_at
            task.ended_at = looked_at if entries and entries[-1].offset + 1 == log.end else None
            if not found:
                if process.reading() >= deadline:
                    process.cross("read:fetched")
                    return []
            else:
                if world.burden:
                    process.toil(world.burden * len(found))
                process.cross("read:fetched")
                for call in self.log.read:
                    call(process, partition, entries)
                return entries
            process.pause(2_000_000)

    def read_whole(self, offset: int, partition: int, max_records: int) -> tuple[list[Entry], bool]:
        """See `Whole`. About half of the reads that came to the end say so."""
        entries, task = self.read(offset, partition, max_records), self._process.world.task()
        if not entries or task.ended_at is None or entries[-1].offset % 2:
            return entries, not entries
        task.looked_at = task.ended_at
        return entries, True

    def start(self, partition: int = 0) -> int:
        self._process.cross("start")
        link = self._open(partition)
        self._reach(link)
        found = link.log.start
        link.generations[self._process.world.task()] = link.log.generation
        self._back(link)
        return found

    def end(self, partition: int = 0) -> int:
        self._process.cross("end")
        link = self._open(partition)
        self._reach(link)
        found = link.log.end
        self._back(link)
        return found

    def trim(self, before: int, partition: int = 0) -> None:
        self._process.cross("trim")
        link = self._open(partition)
        self._reach(link)
        if before > link.log.end:
            raise rewound(self.url, partition, before, link.log.end)
        link.log.trim(before)
        self._back(link)

    def identity(self) -> str:
        self._process.cross("identity")
        link = self._open(0)
        self._reach(link)
        found = self.log.identity
        self._back(link)
        return found

    def bell(self, partition: int = 0) -> Bell | None:
        return None  # its bells are the host's: `wake_on_append`

    def wait(self, offset: int, partition: int = 0, timeout: float = 0.0) -> None:
        """Until there is something at `offset`, `timeout` seconds at most."""
        self.read(offset, partition, 1, timeout)

    def topic(self, name: str, partitions: int = 4) -> SimLedger:
        """Another log, by the same weather."""
        log = self._process.world.log(f"{self.log.name}#{name}", partitions)
        return SimLedger(self._process, log, self._weather, has_bell=self.has_bell)

    def close(self) -> None:
        self._process.cross("close")
        self._drop()

    def _open(self, partition: int) -> Link:
        if self._closed:
            raise ClosedError(f"{self.url} was closed: open it again")
        if not 0 <= partition < len(self.log.partitions):
            raise no_such_partition(partition, len(self.log.partitions), self.url)
        return self._links.get(partition) or self._link(partition)

    def _link(self, partition: int) -> Link:
        link = self._links.get(partition)
        if link is None:
            world = self._process.world
            rng = world.random(f"{self.log.name}/{partition}/{self._process.name}/{self._process.pid}")
            link = self._links[partition] = Link(world, self.log.partitions[partition], rng, self._weather)
        return link

    def _reach(self, link: Link) -> None:
        """The request goes to the ledger; an error when it does not get there."""
        process, world = self._process, self._process.world
        (world.current or world.task()).read_at = world.now
        trip = link.trip()
        if trip:
            process.pause(trip)
        if self._severed:
            self._severed = False
            raise LedgerUnavailable(f"{self.url}: the connection is broken")
        if (link.reads_cut or link.weather.unreadable) and link.unreadable():
            self._process.pause(link.weather.timeout // 4)
            raise LedgerUnavailable(f"{self.url}: nothing answers")

    def _back(self, link: Link) -> None:
        trip = link.trip()
        if trip:
            self._process.pause(trip)
