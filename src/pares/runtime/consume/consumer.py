"""A consumer: what users of pares hold in their hands to work on topics."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Mapping
from types import TracebackType
from typing import Any, Final, Literal, NamedTuple, Self

from pares.core import events as ev
from pares.core.consume.freshness import Freshness
from pares.core.consume.names import Partition
from pares.core.wire.records import MAX_SESSION_MS, MIN_SESSION_MS
from pares.ledger import Ledger
from pares.ledger.sources import Source
from pares.runtime.config.numbers import number
from pares.runtime.config.settings import SESSION
from pares.runtime.consume.batch import Batch
from pares.runtime.consume.feeder import Feeder
from pares.runtime.consume.kit import Seated
from pares.runtime.consume.settings import Claims, Delivery, Start, checked, partitions_of, topics_of
from pares.runtime.consume.sources import Sources
from pares.runtime.consume.tenancy import Tenancy
from pares.runtime.here import here
from pares.runtime.host import Empty, Mailbox
from pares.runtime.views import Health, State

LOOKS: Final = 10.0
"""Sessions between two looks at how the work goes; and seconds, at least."""
NOT_OUT: Final = -1
"""The thread of a batch that no thread has yet."""


class Claim(NamedTuple):
    """A partition, as a consumer sees it.

    `position`: the next offset that is not done; `end`, `lag`: where its partition ended when this consumer last looked (of its
    own claims; None for others'). `holder`: the id of the consumer that holds it, None if it is free. `state`: "fresh",
    "unknown" or "stale", by how long ago something was read of the holder (stale: others may claim it); "free"; or "paused".
    """

    topic: str
    partition: int
    holder: str | None
    state: Freshness | Literal["free", "paused"]
    token: int
    position: int
    end: int | None
    lag: int | None


class Consumer:
    """One process' share of the work on topics.

        with pares.Consumer(url, group="billing", topics=["orders"]) as consumer:
            for batch in consumer.batches():
                handle(batch.records)
                batch.done()

    The consumers of a group share out the partitions of its topics. A partition is claimed by one at a time, and moves, with
    its position, when one dies, closes, falls behind or comes new.

    Promised, "at-least-once": no position passes a record that was not done, by `batch.done()`, in the consumer that gave it
    out (but for what a rewind or the topic's own retention skips); after a crash is given out again at most what was done
    since the last beat (a quarter of `session`) or `flush()`. "at-most-once": no record is given out twice, by whatever
    consumers, unless a rewind goes back to it; what a dead consumer had taken is not given out at all. Both rest on the
    group's ledger keeping what it acknowledged in order, and on nothing else: not on clocks, delays or pauses. Not promised:
    that at an instant one consumer only works on a record that is given out at least once, as a frozen one may wake up; for
    that, give `batch.token` to a fence, or use `batch.transaction`.

    `ledger`: of the group, a URL or an opened one. `topics`: names, or `pares.ledger.sources.Source`s; `source`: the ledger
    with the topics, if that is another one. `name`: stable over restarts, one live process each: a consumer that starts again
    under its name takes up what it had. `batch`: records in one at most. `claim`: "topics" for all partitions of a topic or
    none. `max_claims`: partitions (or topics) at most. `greedy`: claims all that is free and keeps it; else partitions are
    shared out within one. `release_if_behind`: hands a partition to another consumer when its own work on it falls behind
    three times, or stands still with work waiting. `start`: where a partition begins that no consumer of the group has ever
    held. `barrier_timeout`: seconds for which a planned handover waits for batches to be done. Others: as of `pares.Member`.

    Raises `ConfigError` for a value that can't work, `CapabilityError` for what a ledger can't carry, `LedgerUnavailable`
    when one can't be opened or a topic can't be looked at.
    """

    def __init__(
        self,
        ledger: str | Ledger,
        *,
        group: str,
        topics: str | Iterable[str | Source],
        delivery: Delivery = "at-least-once",
        claim: Claims = "partitions",
        name: str | None = None,
        batch: int = 500,
        batch_bytes: int = 8 * 1024 * 1024,
        source: str | Ledger | None = None,
        max_claims: int | None = None,
        greedy: bool = False,
        release_if_behind: bool = True,
        start: Start = "earliest",
        session: float = SESSION,
        weight: float = 1,
        host: str | None = None,
        drift: float = 0.1,
        settle: float | None = None,
        barrier_timeout: float = 30.0,
        lock_folder: str | os.PathLike[str] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._host = here()
        given: dict[str, Any] = {"delivery": delivery, "claim": claim, "batch": batch, "batch_bytes": batch_bytes}
        given |= {"most": max_claims, "greedy": bool(greedy), "release_if_behind": bool(release_if_behind)}
        looks = LOOKS * max(1.0, number("session", session, MIN_SESSION_MS / 1000, MAX_SESSION_MS / 1000))
        self._settings = checked(look_every=looks, start=start, **given)
        named = topics_of(topics)
        self._sources = Sources(named, ledger if source is None else source)
        self._ready: Mailbox[tuple[Tenancy, Batch] | None] = self._host.mailbox()
        self._waiters = 0
        self._stored = 0
        """Batches in `_ready`."""
        self._closing = False
        self._failure: BaseException | None = None
        """By which the task that fetches has ended: then this consumer gives all up, so that others go on."""
        self._feeder = Feeder(
            self._sources.by_name,
            self._settings,
            self._give,
            lambda: self._waiters - self._stored,
            self._done,
            self._host,
        )
        try:
            for topic, found in self._sources.by_name.items():
                self._feeder.knows(topic, partitions_of(found))
            self._feeder.member = self._member = Seated(
                ledger,
                self._hear,
                group=group,
                roles=self._feeder.roles(),
                eligible="*",
                labels=self._settings.terms(self._sources.by_name).labels(),
                name=name,
                host=host,
                weight=weight,
                session=session,
                drift=drift,
                settle=settle,
                barrier_timeout=barrier_timeout,
                lock_folder=lock_folder,
                options=options,
            )
        except BaseException:
            self._sources.close()
            raise
        self._task = self._host.spawn(self._run, f"consumer {self._member.name!r} of group {group!r}")

    # Batches ---------------------------------------------------------------------------------------------------------

    def batches(self, timeout: float | None = None) -> Generator[Batch, None, None]:
        """Batches as they come, of all partitions that this consumer holds, in turn; of one partition in order. Ends when the
        consumer is closed, or when none has come for `timeout` seconds (None: no limit).

        Several threads may iterate; each batch goes to one of them. A batch that is not `done` keeps the position where it is:
        16 of them in one partition, and no more of that partition are given out. At a planned handover the next consumer begins
        when the batches that are out are done, or `barrier_timeout` is over. Raises what ended the consumer, if an error did.
        """
        while (batch := self.next_batch(timeout)) is not None:
            yield batch

    @property
    def ended(self) -> bool:
        """Whether no batch will come any more."""
        return self._closing or self.state in ("closed", "failed")

    def put_back(self, batch: Batch) -> None:
        """Nobody has seen this batch, which `next_batch` has returned: it goes to whoever asks next."""
        tenancy = self._feeder.tenancies.get(batch.term.role)
        if tenancy is None or tenancy.term is not batch.term or self.ended:
            self._finish(batch)
            return
        if self._settings.delivery == "at-least-once":
            self._finish(batch)
        self._give(tenancy, batch)

    def next_batch(self, timeout: float | None = None) -> Batch | None:
        """The next batch, as `batches` gives it; None at the end, or after `timeout` seconds."""
        now = self._host.now
        end = None if timeout is None else now() + int(timeout * 1e9)
        with self._feeder.lock:
            self._waiters += 1
        try:
            self._feeder.wake()
            while True:
                left = None if end is None else max(0.0, (end - now()) / 1e9)
                try:
                    found = self._ready.get(timeout=left)
                except Empty:
                    return None
                if found is None:
                    self._ready.put(None)  # for all others that wait
                    self._raise_failure()
                    return None
                with self._feeder.lock:
                    self._stored -= 1
                    found[0].waiting -= 1
                if self._goes_out(*found):
                    return found[1]
                self._feeder.wake()
        finally:
            with self._feeder.lock:
                self._waiters -= 1

    def _goes_out(self, tenancy: Tenancy, batch: Batch) -> bool:
        """Whether the user is given this batch. What was taken at most once is this consumer's, whatever has become of the
        term (C4); all else only while the term lasts, looked at when a handover would already wait for it (R5)."""
        body = batch.belongs(None)
        if body is not None:
            body.thread = self._host.ident()
            batch.belongs(body)
            return True
        batch.belongs(self._member.works.begin(tenancy.term.key))
        if tenancy.term:
            return True
        self._finish(batch)
        return False

    def _give(self, tenancy: Tenancy, batch: Batch) -> None:
        """By the feeder."""
        with self._feeder.lock:
            tenancy.waiting += 1
            self._stored += 1
        self._ready.put((tenancy, batch))

    def _done(self, tenancy: Tenancy, batch: Batch) -> bool:
        with self._feeder.lock:
            moved = tenancy.progress.done(batch.span)
            position = tenancy.progress.position
            counts = self._member.has(tenancy.role, batch.token)
            if moved and counts:
                # Under the lock: of two threads, the one that has come further is the one that says so last.
                self._member.note(ev.Marked((tenancy.role, 0), batch.token, position))
        self._finish(batch)
        if tenancy.progress.unfinished >= 1:
            self._feeder.wake()
        return counts

    def _finish(self, batch: Batch) -> None:
        body = batch.belongs(None)
        if body is not None:
            self._member.works.finish(body)

    # How it goes -----------------------------------------------------------------------------------------------------

    def claims(self, *, all: bool = False) -> list[Claim]:
        """The partitions that this consumer holds, and may believe that it holds; with `all` those of the whole group, as far
        as it has read."""
        self._member.check_usable()
        mine = {role: tenancy for role, tenancy in self._feeder.tenancies.items() if tenancy.term}
        if not all:
            return sorted(self._mine(tenancy) for tenancy in mine.values())
        found = [self._mine(tenancy) for tenancy in mine.values()]
        world = self._member.world
        for seat in list(world.seats.values()):
            partition = Partition.of(seat.role)
            if partition is None or seat.role in mine:
                continue
            holder = None if seat.holder is None else world.members.get(seat.holder)
            free = "paused" if world.paused(seat.role) else "free"
            state = free if holder is None else self._member.freshness(holder)
            position = max(seat.mark, seat.taken)
            found.append(Claim(partition.topic, partition.number, seat.holder, state, seat.token, position, None, None))
        return sorted(found, key=lambda claim: claim[:2])

    def _mine(self, tenancy: Tenancy) -> Claim:
        partition, position = tenancy.partition, tenancy.progress.position
        place = (partition.topic, partition.number, self._member.id, "fresh", tenancy.term.token)
        return Claim(*place, position, tenancy.end, max(0, tenancy.end - position))

    def lag(self) -> int:
        """How many offsets of its partitions are not done, in all; their ends are asked for. Raises `LedgerUnavailable`."""
        self._member.check_usable()
        total = 0
        for tenancy in list(self._feeder.tenancies.values()):
            if tenancy.term:
                tenancy.end = tenancy.source.end(tenancy.partition.number)
                total += tenancy.lag
        return total

    def load(self) -> int:
        """How many partitions it holds, and may believe that it holds."""
        self._member.check_usable()
        return sum(bool(tenancy.term) for tenancy in list(self._feeder.tenancies.values()))

    def flush(self) -> None:
        """Writes the positions of all that is done into the log, and returns when they stand there. What was done before the
        call is not given out again, unless a term was over by then. Raises `LedgerUnavailable` if the ledger does not answer
        in time."""
        self._member.perform(ev.Flush())

    def health(self) -> Health:
        """As `pares.Member.health`."""
        return self._member.health()

    @property
    def id(self) -> str:
        """`name~incarnation`; another one after each restart."""
        return self._member.id

    @property
    def name(self) -> str:
        """The name it was made with, or that of host, process id and time."""
        return self._member.name

    @property
    def group(self) -> str:
        """The group whose consumers share the work."""
        return self._member.group

    @property
    def state(self) -> State:
        """joining, live, closing, closed or failed."""
        return self._member.state

    # The end ---------------------------------------------------------------------------------------------------------

    def close(self, timeout: float | None = None) -> None:
        """Gives nothing out any more, waits for batches that are out (but for those of the calling thread), hands everything
        over, with its position, and leaves. May be called twice, and from any thread. `timeout`: as of `pares.Member.close`."""
        self._closing = True
        self._ready.put(None)
        self._let_go()
        self._member.close(timeout)
        self._feeder.over = True
        self._feeder.wake()
        if self._host.task() is not self._task:
            self._task.join(5.0)
        self._sources.close()

    def _let_go(self) -> None:
        """What waits for the user is not given out any more. What was taken at most once is lost by that."""
        try:
            while True:
                found = self._ready.get_nowait()
                if found is None:
                    self._ready.put(None)
                    return
                with self._feeder.lock:
                    self._stored -= 1
                if found[1].belongs(None) is not None:
                    self._member.problem("not-given-out", f"{found[1]!r} was taken, and is not given out")
        except Empty:
            return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Consumer {self._member.id} of {self._member.group!r}: {self._member.state}>"

    # Tasks -----------------------------------------------------------------------------------------------------------

    def _hear(self, effect: ev.Begins | ev.Taken) -> None:
        """On the driver's task. The body of what was taken begins here: a planned end that comes next waits for it."""
        if isinstance(effect, ev.Begins):
            self._feeder.notes.put(effect)
        else:
            self._feeder.notes.put((effect, self._member.works.begin((*effect.seat, effect.token), NOT_OUT)))

    def _run(self) -> None:
        try:
            self._feeder.run()
        except BaseException as error:
            if not self._closing:
                self._failure = error
                self._member.problem("failed", f"the task that fetches has failed: {error!r}")
                self._host.spawn(self._member.close, f"consumer {self._member.name!r} gives up")
        finally:
            self._ready.put(None)

    def _raise_failure(self) -> None:
        if self._closing:
            return
        if self._failure is not None:
            raise self._failure
        if self._member.state == "failed":
            self._member.check_usable()
