"""A consumer: what users of pares hold in their hands to work on topics."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Mapping
from typing import Any, Final

from pares.core import events as ev
from pares.core.consume.lanes import Order
from pares.core.errors import ConfigError
from pares.core.wire.records import MAX_SESSION_MS, MIN_SESSION_MS
from pares.ledger import Ledger
from pares.ledger.sources import Record, Source
from pares.runtime.config.numbers import number
from pares.runtime.config.settings import SESSION
from pares.runtime.consume.batch import Batch
from pares.runtime.consume.claim import claims_of, lag_of
from pares.runtime.consume.dead_letters import DeadLetters, Stream, opened
from pares.runtime.consume.feeder import Feeder
from pares.runtime.consume.handling import handle_all
from pares.runtime.consume.item import Handler, Item
from pares.runtime.consume.kit import Seated
from pares.runtime.consume.looks import look_at_ends
from pares.runtime.consume.outside.group_offsets import Committing
from pares.runtime.consume.settings import SLOTS, Claims, Delivery, OnGap, Start, checked, partitions_of, topics_of
from pares.runtime.consume.sources import Sources
from pares.runtime.here import here
from pares.runtime.views import Claim, Consumption, Health, State
from pares.runtime.work.closing import Closing

LOOKS: Final = 10.0
"""Sessions between two looks at how the work goes; and seconds, at least."""


class Consumer(Closing):
    """One process' share of the work on topics.

        with pares.Consumer(url, group="billing", topics=["orders"]) as consumer:
            for batch in consumer.batches():
                handle(batch.records)
                batch.done()

    The consumers of a group share out the partitions of its topics. A partition is claimed by one at a time, and moves, with
    its position, when one dies, closes, falls behind or comes new.

    Promised, "at-least-once": no position passes a record that was not done, by `done()`, in the consumer that gave it
    out (but for what a rewind or the topic's own retention skips); after a crash is given out again at most what was done
    since the last beat (a quarter of `session`) or `flush()`. "at-most-once": no record is given out twice, by whatever
    consumers, unless a rewind goes back to it; what a dead consumer had taken is not given out at all. Both rest on the
    group's ledger keeping what it acknowledged in order, and on nothing else: not on clocks, delays or pauses. Not promised:
    that at an instant one consumer only works on a record that is given out at least once, as a frozen one may wake up; for
    that, give `batch.token` to a fence, or use `batch.transaction`.

    `ledger`: of the group, a URL or an opened one. `topics`: names, or `pares.ledger.sources.Source`s; `source`: the ledger
    with the topics, if that is another one. `name`: stable over restarts, one live process each: a consumer that starts again
    under its name takes up what it had. `batch`: records in one at most. `claim`: "topics" for all partitions of a topic or
    none; "ranges": several consumers work on one partition, each on ranges of offsets of its own, which it claims ahead of the
    end, in no order but that within a range (C11); "keys": several consumers work on one partition, each on slots of its keys,
    and a key is in order over all of them (C12). `slots`: so many ranges of a partition may be worked on at once, or over so
    many slots its keys are shared out, and so many consumers find work in it. Of a partition keys are shared out over one
    number of slots at a time: a consumer with another one, or another `claim`, gets nothing of it, says so (`health`), and goes
    on where the others have ended. `max_claims`: partitions (or topics, or slots) at most. `greedy`: claims all that is free
    and keeps it; else partitions are shared out within one. `release_if_behind`: hands a partition to another consumer when
    its own work on it falls behind three times, or stands still with work waiting. `start`: where a partition begins that no
    consumer of the group has ever held. `on_gap`: where it goes on when retention has overtaken its position: "earliest", the
    first record that is left; "latest", the end, which leaves out what is there by then; "stop": nowhere, the partition stands
    still, with this consumer and any other that says so, until `Admin.rewind` puts it somewhere. `health` names what is lost.
    `barrier_timeout`: seconds for which a planned handover waits for batches to be done. Others: as of `pares.Member`.

    `ahead`: with "at-most-once" and any claim but "keys", how many batches the consumer takes in the log before anybody asks
    for them, of all its partitions together (for `records` and `run` it counts as `ahead` times `batch` records). 0: each batch
    costs a round trip to the log; with more they share it. What is taken is lost when the process dies, and when `close` finds
    it not given out: `ahead` times `batch` records at most, besides what is out or was asked for. Not promised with it: order
    across a term that did not end by plan, as what was taken is given out all the same. With "keys" it is refused.

    For records one by one (`records`, `run`): `concurrency` of them are out at most; `order`: which of a partition wait for
    those before them: all, those of the same key (records without a key are in no order), or none. What is done above a record
    that is not done stands in the log, with beats, and is not given out again (C9). `retries`: how often a record that fails is
    given out again before it is rejected; `backoff`: seconds before the first time, then twice as long, a minute at most.
    `dead_letter`: where rejected records are written to: a topic of the source's ledger by its name, the URL of a log, or
    anything with ``append(payload)``; without it they stay, and are tried once a minute.

    `group_offsets`: the name of a consumer group of the brokers: about once a second positions are committed as its offsets,
    for dashboards that tell lag by those. Nothing is read from there: the position in the group's log counts. A commit that
    fails stops nothing, and `health()` shows it. Topics must be on Kafka, and no running consumer group have that name.

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
        ahead: int = 0,
        source: str | Ledger | None = None,
        max_claims: int | None = None,
        slots: int = SLOTS,
        greedy: bool = False,
        release_if_behind: bool = True,
        start: Start = "earliest",
        on_gap: OnGap = "earliest",
        concurrency: int = 1,
        order: Order = "partition",
        retries: int = 5,
        backoff: float = 0.5,
        dead_letter: str | Stream | None = None,
        group_offsets: str | None = None,
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
        given: dict[str, Any] = {
            "delivery": delivery,
            "claim": claim,
            "slots": slots,
            "batch": batch,
            "batch_bytes": batch_bytes,
            "ahead": ahead,
        }
        given |= {"most": max_claims, "greedy": bool(greedy), "release_if_behind": bool(release_if_behind)}
        given |= {"concurrency": concurrency, "order": order, "retries": retries, "backoff": backoff}
        given |= {"start": start, "on_gap": on_gap}
        number("session", session, MIN_SESSION_MS / 1000, MAX_SESSION_MS / 1000)
        self._settings = checked(session=session, looks=LOOKS * max(1.0, session), **given)
        where = ledger if source is None else source
        self._sources = Sources(topics_of(topics, self._settings), where)
        self._letters: DeadLetters | None = None
        self._offsets: Committing | None = None
        self._closing = False
        self._failure: BaseException | None = None
        """By which the task that fetches has ended: then this consumer gives all up, so that others go on."""
        try:
            if dead_letter is not None:
                self._letters = opened(dead_letter, where, self._sources.by_name, self._host)
            if group_offsets is not None:
                self._offsets = Committing(self._sources.by_name, group_offsets, self._host)
            self._feeder = Feeder(self._sources.by_name, self._settings, self._letters, self._host)
            for topic, found in self._sources.by_name.items():
                self._feeder.knows(topic, partitions_of(found))
            self._member = Seated(
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
            self._feeder.serves(self._member)
            self._member.consumption = self._consumption
        except BaseException:
            self._close_sources()
            raise
        self._task = self._host.spawn(self._run, f"consumer {self._member.name!r} of group {group!r}")
        if self._offsets is not None:
            self._offsets.begin(self._member)

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

    def reject(self, batch: Batch, record: Record, why: str, deliveries: int) -> None:
        """Writes one record of a batch to the dead-letter stream; the batch is done when the user says so. Raises as
        `Item.reject`."""
        if self._letters is None:
            raise ConfigError(f"{batch!r} has nowhere to go to: make the consumer with dead_letter=")
        self._letters.write(batch.term, record, self._member.group, why, deliveries)

    def put_back(self, batch: Batch) -> None:
        """Nobody has seen this batch, which `next_batch` has returned: the next caller gets it."""
        self._feeder.shelf.put_back(batch, self._feeder.tenancies.get(batch.term.role))

    def next_batch(self, timeout: float | None = None) -> Batch | None:
        """The next batch, as `batches` gives it; None at the end, or after `timeout` seconds."""
        self._gives(one_by_one=False)
        found = self._feeder.shelf.next(timeout)
        if found is None:
            self.raise_failure()
        return found

    # Records, one by one -------------------------------------------------------------------------------------------------

    def records(self, timeout: float | None = None) -> Generator[Item, None, None]:
        """Records one by one, of all partitions that this consumer holds, in turn, as `order` lets them go; each with `done`,
        `retry` and `reject`. Ends as `batches` does.

        Several threads may iterate. `concurrency` records may be out, and no more are given out before one of them is settled.
        Raises `ConfigError` in a consumer that gives out batches, and what ended the consumer, if an error did.
        """
        while found := self.next_records(1, timeout):
            yield from found

    def next_records(self, most: int = 1, timeout: float | None = None, *, thread: int | None = None) -> list[Item]:
        """Up to `most` records at once, as `records` gives them; none at the end, or after `timeout` seconds. `thread`: on
        whose end `close` does not wait when it is called there; the calling one, if not said."""
        self._gives(one_by_one=True)
        found = self._feeder.desk.take(most, timeout, lambda: self.ended, thread)
        if not found:
            self.raise_failure()
        return found

    def run(self, handler: Handler) -> None:
        """Calls `handler(record)` for each record, on `concurrency` threads, until this consumer is closed; by another thread,
        a signal's handler, or the handler itself.

        A handler that returns has done its record, unless it has called `retry` or `reject`. One that raises is tried again, as
        by `retry`, and after `retries` of them its record is rejected; with "at-most-once" it is not tried again: its record is
        rejected, or reported where there is no `dead_letter`. Raises what ended the consumer, if an error did; and what
        reaches the calling thread, as KeyboardInterrupt: the consumer is closed then.
        """
        self._gives(one_by_one=True)
        try:
            handle_all(self, handler, self._settings.concurrency, self._host)
        except BaseException:
            self.close()
            raise
        self.raise_failure()

    def put_back_record(self, item: Item, *, seen: bool = False) -> None:
        """This record, which `next_records` has returned, goes to the next caller. `seen`: a handler had it, and that
        counts as a delivery; it is not given out again with "at-most-once"."""
        self._feeder.desk.put_back(item, seen=seen)

    def is_lost(self, item: Item) -> bool:
        """Whether its partition is another consumer's by now, or may be claimed: what is said of this record counts for
        nothing. While a planned handover waits for it, this is False, though `bool(item)` is."""
        return self._feeder.desk.lost(item)

    def problem(self, kind: str, text: str) -> None:
        """Something that a person should know: `health()` shows it."""
        self._member.problem(kind, text)

    def _gives(self, *, one_by_one: bool) -> None:
        before = self._feeder.one_by_one
        if before is None:
            self._feeder.one_by_one = one_by_one
            self._feeder.wake()
        elif before is not one_by_one:
            ways = "batches, by batches(), or records, by records() and run()"
            raise ConfigError(f"a consumer gives out {ways}, and not both: make two consumers")

    # How it goes -----------------------------------------------------------------------------------------------------

    def claims(self, *, all: bool = False) -> list[Claim]:
        """The partitions that this consumer holds, and may believe that it holds; with `all` those of the whole group, as far
        as it has read."""
        self._member.check_usable()
        return claims_of(self._member, self._feeder.tenancies.values(), all=all)

    def lag(self) -> int:
        """How many offsets of its partitions are not done, in all; their ends are asked for. Of a partition that is divided by
        keys, it is those behind the hindmost of its slots; of one that is divided by ranges, those of its own ranges, and those
        that no consumer has claimed yet, which each of them counts. Raises `LedgerUnavailable`."""
        self._member.check_usable()
        return lag_of(self._member, look_at_ends(list(self._feeder.tenancies.values()), strict=True))

    def load(self) -> int:
        """How many partitions it holds, and may believe that it holds."""
        self._member.check_usable()
        return sum(bool(tenancy.term) for tenancy in list(self._feeder.tenancies.values()))

    def flush(self) -> None:
        """Writes the positions of all that is done into the log, and returns when they stand there. What was done before the
        call is not given out again, unless a term was over by then. Raises `LedgerUnavailable` if the ledger does not answer
        in time."""
        self._feeder.note_all()
        self._member.perform(ev.Flush())

    def health(self) -> Health:
        """As `pares.Member.health`; `consumption` says what it holds, and how far behind it is."""
        return self._member.health()

    def _consumption(self) -> Consumption:
        tenancies = [tenancy for tenancy in list(self._feeder.tenancies.values()) if tenancy.term]
        claims = tuple(claims_of(self._member, tenancies, all=False))
        found = Consumption(self.delivery, len(claims), lag_of(self._member, tenancies), claims)
        return found if self._offsets is None else self._offsets.told(found)

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
    def delivery(self) -> Delivery:
        """At least once, or at most once."""
        return self._settings.delivery

    @property
    def concurrency(self) -> int:
        """How many records may be out at once."""
        return self._settings.concurrency

    @property
    def state(self) -> State:
        """joining, live, closing, closed or failed."""
        return self._member.state

    # The end ---------------------------------------------------------------------------------------------------------

    def close(self, timeout: float | None = None) -> None:
        """Gives nothing out any more, waits for batches that are out (but for those of the calling thread), hands everything
        over, with its position, and leaves. May be called twice, and from any thread. `timeout`: as of `pares.Member.close`."""
        self._closing = True
        self._feeder.close()
        self._member.close(timeout)
        self._feeder.over = True
        self._feeder.wake()
        if self._host.task() is not self._task:
            self._task.join(5.0)
        if self._offsets is not None:
            self._offsets.end(self._feeder.positions())
        self._close_sources()

    def _close_sources(self) -> None:
        self._sources.close()
        if self._offsets is not None:
            self._offsets.close()
        if self._letters is not None:
            self._letters.close()

    def __repr__(self) -> str:
        return f"<Consumer {self._member.id} of {self._member.group!r}: {self._member.state}>"

    # Tasks -----------------------------------------------------------------------------------------------------------

    def _hear(self, effect: ev.ToConsumers | ev.Barrier) -> None:
        """On the driver's task."""
        if isinstance(effect, ev.Barrier):
            self._feeder.note_all(effect.seat)
        else:
            self._feeder.notes.put(effect)

    def _run(self) -> None:
        try:
            self._feeder.run()
        except BaseException as error:
            if not self._closing:
                self._failure = error
                self._member.problem("failed", f"the task that fetches has failed: {error!r}")
                self._host.spawn(self._member.close, f"consumer {self._member.name!r} gives up")
        finally:
            self._feeder.end()

    def raise_failure(self) -> None:
        """Raises what has ended this consumer, if an error did."""
        if self._closing:
            return
        if self._failure is not None:
            raise self._failure
        if self._member.state == "failed":
            self._member.check_usable()
