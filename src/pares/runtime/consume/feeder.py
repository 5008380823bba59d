"""The task of a consumer that fetches ahead, asks for takes, and looks now and then at how the work goes.

One task for all partitions, in turn: no partition waits for another one's user code, and an empty one costs a look. What it
hears of the protocol (`Begins`, `Taken`) comes through a mailbox, in order.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from typing import Final

from pares.core import events as ev
from pares.core.consume.names import WHOLE, Partition, tag_of
from pares.core.errors import ClosedError, ConfigError, LedgerGap, LedgerRewound, LedgerUnavailable
from pares.core.wire.records import MAX_ROLES
from pares.ledger.sources import Fetched, Source
from pares.runtime.consume.batch import Batch
from pares.runtime.consume.dead_letters import DeadLetters
from pares.runtime.consume.desk import NOBODY, Desk
from pares.runtime.consume.divided.bars import Bars
from pares.runtime.consume.divided.keying import Keying
from pares.runtime.consume.divided.ranging import Ranging, clipped
from pares.runtime.consume.kit import Seated
from pares.runtime.consume.looks import find_still, look_at_ends
from pares.runtime.consume.settings import Settings, partitions_of
from pares.runtime.consume.shelf import Shelf
from pares.runtime.consume.tenancy import Asked, Tenancy
from pares.runtime.host import Empty, Host, Mailbox

log: Final = logging.getLogger("pares.consumer")

SHORTEST: Final = 0.002
"""Seconds until an idle consumer looks for records again, at first."""
LONGEST: Final = 0.05
"""And when nothing has come for a while."""
UNASKED: Final = 0.5
"""The same before the user has asked for anything: then nothing is fetched, and what else happens is told by a note."""
LATE: Final = 10.0
"""Seconds for which the word of a take may follow what the world shows: the world changes record by record while a whole
outage is read, and what came of that is told behind the last one."""


Note = ev.ToConsumers | None


class Feeder:
    """Of one consumer. `shelf`, `desk`: where batches, and where single records, wait for the user."""

    def __init__(
        self,
        sources: dict[str, Source],
        settings: Settings,
        letters: DeadLetters | None,
        host: Host,
    ) -> None:
        self._sources = sources
        self._settings = settings
        self._host = host
        self.lock = host.lock()
        """Of all progress."""
        self.shelf: Final = Shelf(settings, self.lock, self.wake, host)
        self.desk: Final = Desk(settings, letters, self.lock, self.wake, host)
        self.one_by_one: bool | None = None
        """Whether records are given out one by one, and not as batches; None before the user has asked for either."""
        self.notes: Mailbox[Note] = host.mailbox()
        self.tenancies: dict[str, Tenancy] = {}
        self.member: Seated
        self._ranging = Ranging(settings, self._skip, host)
        self._keying = Keying(settings)
        self._bars = Bars(settings)
        self.over = False
        self._known: dict[str, list[Partition]] = {}
        self._look_at = 0
        self._unlooked = True

    def serves(self, member: Seated) -> None:
        """The member whose partitions these are; before `run`."""
        self.member = self.desk.member = self.shelf.member = self._ranging.member = member

    def end(self) -> None:
        """From any task: nothing comes any more."""
        self.shelf.end()
        self.desk.end()

    def close(self) -> None:
        """From any task: nothing is given out any more, whatever waits to be."""
        self.shelf.close()
        self.desk.close()

    def knows(self, topic: str, partitions: list[Partition]) -> None:
        """What a topic had when the consumer was made."""
        self._known[topic] = partitions

    def wake(self) -> None:
        """From any task: there is room, or somebody waits."""
        self.notes.put(None)

    def run(self) -> None:
        """Until the consumer is over."""
        pause = SHORTEST
        while not self.over and self.member.state in ("joining", "live", "closing"):
            self._hear(pause)
            tenancies = list(self.tenancies.values())
            self._begin_at_the_ends(tenancies)
            self._keying.begin_round(tenancies)
            if self.one_by_one is not None:
                find_still(tenancies, self._host.now())
            found = [self._feed(tenancy) for tenancy in tenancies]
            pause = 0.0 if any(found) else min(max(2 * pause, SHORTEST), self._longest_pause)
            now = self._host.now()
            self._bars.look(now, self.member, self._partitions())
            if now >= self._look_at:
                self._look_at = now + self._settings.look_every
                self._look()

    @property
    def _longest_pause(self) -> float:
        return LONGEST if self.one_by_one is not None else min(UNASKED, self._settings.note_every / 1e9)

    # What the protocol says ----------------------------------------------------------------------------------------------

    def _hear(self, pause: float) -> None:
        """Waits for `pause` seconds at most, then takes all that has come."""
        try:
            note = self.notes.get(timeout=pause) if pause else self.notes.get_nowait()
            while True:
                if isinstance(note, ev.Begins):
                    self._begins(note)
                elif isinstance(note, ev.Owns):
                    self._ranging.owns(self.tenancies.get(note.seat[0]), note)
                elif note is not None:
                    self._taken(note)
                note = self.notes.get_nowait()
        except Empty:
            return

    def _begins(self, begins: ev.Begins) -> None:
        """A term has begun (C2)."""
        role = begins.seat[0]
        term, partition = self.member.believes.valid(role), Partition.of(role)
        if term is None or term.token != begins.token or partition is None:
            return
        source = self._sources.get(partition.topic)
        if source is not None:
            tenancy = Tenancy(source, begins, partition, term, self._settings.order)
            beginning = begins.first and self._settings.start == "latest"
            tenancy.looked = tenancy.ranges is None and not beginning
            self._asks_no_more(self.tenancies.get(role))
            self.tenancies[role] = tenancy

    def _taken(self, taken: ev.Taken | ev.Untaken) -> None:
        """C4: what was asked for is this consumer's, for ever; or never. A planned handover has waited for the word, and waits
        for what was taken. [the next holder works on what comes behind it, at the same time]"""
        tenancy = self.tenancies.get(taken.seat[0])
        if tenancy is None or tenancy.term.token != taken.token:
            return
        asked = next((each for each in tenancy.taking if each.upto == taken.upto), None)
        if asked is None:
            return
        tenancy.taking.remove(asked)
        if isinstance(taken, ev.Taken) and isinstance(asked.lot, Batch):
            asked.lot.belongs(asked.body)
            self.shelf.give(tenancy, asked.lot)
            return
        if isinstance(taken, ev.Taken) and isinstance(asked.lot, Fetched):
            self.desk.add(tenancy, asked.lot)
        self.member.works.finish(asked.body)

    def _asks(self, tenancy: Tenancy, fetched: Fetched) -> bool:
        """For a take of these. A planned handover waits from now on; or does not any more, and nothing is asked for (R5)."""
        body = self.member.works.begin(tenancy.term.key, NOBODY)
        first = tenancy.progress.next
        lot = (fetched if self.one_by_one else self._batch(tenancy, fetched)) if tenancy.term else None
        if lot is None:
            self.member.works.finish(body)
            return bool(tenancy.term)
        tenancy.taking.append(Asked(lot, fetched.next, body))
        self.member.request(ev.Took((tenancy.role, 0), tenancy.term.token, first, fetched.next - 1))
        return True

    def _asks_no_more(self, tenancy: Tenancy | None) -> None:
        while tenancy is not None and tenancy.taking:
            self.member.works.finish(tenancy.taking.popleft().body)

    # Feeding ---------------------------------------------------------------------------------------------------------

    def _feed(self, tenancy: Tenancy) -> bool:
        """Whether there may be more to do at once."""
        if not tenancy.term:
            self._is_over(tenancy)
            return False
        self._note(tenancy)
        if tenancy.still or tenancy.broken or self._host.now() < tenancy.not_before:
            return False
        try:
            at = tenancy.progress.next
            if tenancy.fetched is None and not self._fetch(tenancy):
                return tenancy.progress.next > at  # past what is not its own, or not there
        except LedgerUnavailable as error:
            tenancy.failed(self._host.now())
            log.warning("%s can't be read now: %s", tenancy.role, error)
            return False
        except LedgerGap as error:
            self._gap(tenancy, error)
            return True
        except LedgerRewound as error:
            self._rewound(tenancy, error)
            return False
        except ClosedError as error:
            self._closed(tenancy, error)
            return False
        return self._offer(tenancy)

    def _closed(self, tenancy: Tenancy, error: ClosedError) -> None:
        tenancy.broken = True
        self.member.problem("closed", f"{tenancy.role} can't be read any more: {error}")

    def _is_over(self, tenancy: Tenancy) -> None:
        """The term is over. It is forgotten when the log says so, too: until then a take that is on its way may have its
        effect, and what is done above the position is yet to be noted (C9). And some time later, if the word of such a take may
        be on its way to this task."""
        now = self._host.now()
        over = tenancy.released and (not tenancy.taking or now >= tenancy.released_at + int(LATE * 1e9))
        if not tenancy.released and not self.member.has(tenancy.role, tenancy.term.token):
            tenancy.released, tenancy.released_at = True, now
        if over:
            self._asks_no_more(tenancy)
            self.tenancies = {role: other for role, other in self.tenancies.items() if other is not tenancy}

    def _fetch(self, tenancy: Tenancy) -> bool:
        """Whether something came of it."""
        progress, settings, number = tenancy.progress, self._settings, tenancy.partition.number
        if self._full(tenancy) or (not tenancy.looked and tenancy.ranges is None):
            return False
        upto = None
        if tenancy.ranges is not None and (upto := self._ranging.upto(tenancy, self.tenancies.values())) is None:
            return False
        at, most = progress.next, settings.batch
        if self.one_by_one and self.desk.once and not settings.ahead:
            most = min(most, settings.concurrency)
        if upto is not None:
            most = min(most, upto - at)  # what is fetched and clipped would be fetched again for the next range
        if tenancy.partition.keys or tenancy.elsewhere:
            fetched = self._keying.fetch(tenancy, most)
        else:
            fetched = tenancy.source.fetch(number, at, max_records=most, max_bytes=settings.batch_bytes, timeout=0.0)
        fetched = fetched if upto is None else clipped(fetched, upto)
        tenancy.came(fetched)
        if not fetched.records and fetched.next > at:
            self._skip(tenancy, fetched.next)
        return tenancy.fetched is not None

    def _full(self, tenancy: Tenancy) -> bool:
        """Whether the user has enough of it for now; before it is known how it is wanted, nothing is fetched."""
        if self.one_by_one is None:
            return True
        if not self.one_by_one:
            return tenancy.full(self._settings.ahead if self.desk.once else 0)
        return tenancy.enough(self._settings.concurrency, self._settings.batch_bytes)

    def _note(self, tenancy: Tenancy) -> None:
        """C9: now and then, so that beats have it."""
        if tenancy.dirty and self._host.now() >= tenancy.noted_at + self._settings.note_every:
            with self.lock:
                tenancy.noted(self._host.now(), self.member)

    def note_all(self, seat: tuple[str, int] | None = None) -> None:
        """From any task: what is done above positions is to be written now; or that of one seat."""
        found = list(self.tenancies.values()) if seat is None else [self.tenancies.get(seat[0])]
        for tenancy in found:
            if tenancy is not None:
                with self.lock:
                    tenancy.noted(self._host.now(), self.member)

    def _begin_at_the_ends(self, tenancies: list[Tenancy]) -> None:
        """C2: nobody has held these before. Where they begin stands in the log before anything is given out."""
        now = self._host.now()
        due = [each for each in tenancies if not each.looked and each.ranges is None and each.may_be_read(now)]
        if not due:
            return
        try:
            found = look_at_ends(due)
            for tenancy in found:
                self._skip(tenancy, tenancy.end)
            self.member.perform(ev.Flush())
            for tenancy in found:
                tenancy.looked = True
        except LedgerUnavailable as error:
            log.warning("where %d partitions begin can't be written down now: %s", len(due), error)
        except ClosedError as error:
            for tenancy in due:
                self._closed(tenancy, error)
        for tenancy in due:
            if not tenancy.looked:
                tenancy.failed(self._host.now())

    def _skip(self, tenancy: Tenancy, upto: int) -> None:
        """What lies before is not there, or not for this tenancy."""
        with self.lock:
            moved = tenancy.progress.skip(upto)
            position = tenancy.progress.position
        if moved:
            self.member.note(ev.Marked((tenancy.role, 0), tenancy.term.token, position))

    def _gap(self, tenancy: Tenancy, error: LedgerGap) -> None:
        """C8: retention was faster. Where nobody has read before, nothing is lost: there the partition begins."""
        lost, tenancy.fetched = tenancy.progress.next, None
        start, on_gap = tenancy.source.start(tenancy.partition.number), self._settings.on_gap
        if start <= lost:
            tenancy.failed(self._host.now())
            return
        where = "earliest" if tenancy.first and lost == 0 else on_gap
        to = tenancy.source.end(tenancy.partition.number) if where == "latest" else start
        if tenancy.ranges is not None:
            tenancy.looked = False
            to = self._ranging.gap(tenancy, to)
        says = f"{tenancy.role} has lost {lost} to {min(start, to) - 1} before they were read"
        if where == "stop":
            tenancy.broken = True
            self.member.problem("gap", f"{says}, and stands still until it is rewound (on_gap='stop'): {error}")
            return
        self._skip(tenancy, to)
        left_out = f", and leaves out {start} to {to - 1} (on_gap='latest')" if to > start else ""
        self.member.problem("gap", f"{says}{left_out}: {error}")

    def _rewound(self, tenancy: Tenancy, error: LedgerRewound) -> None:
        """C8: another topic, whose roles are others; or the same one, which has lost its end, so that its offsets are given to
        other records. Then nobody can say what this position means, and an administrator rewinds it."""
        tenancy.failed(self._host.now())
        if self._ranging.are_ahead(tenancy):
            return
        self._grown(tenancy.partition.topic)
        if tenancy.partition.whole in self._known[tenancy.partition.topic]:
            tenancy.broken = True
            self.member.problem("rewound", f"{tenancy.role} ends below its position {tenancy.progress.next}: {error}")

    def _offer(self, tenancy: Tenancy) -> bool:
        fetched = tenancy.fetched
        if fetched is None or self._full(tenancy):
            return False
        if self.desk.once and not self._wants(fetched):
            return False
        # The others come first next time. [one that is always first is served alone, where little is wanted]
        self.tenancies[tenancy.role] = self.tenancies.pop(tenancy.role)
        if self.desk.once:
            tenancy.fetched = None
            return self._asks(tenancy, fetched)
        tenancy.fetched = None
        lot = fetched if self.one_by_one else self._batch(tenancy, fetched)
        if isinstance(lot, Batch):
            self.shelf.give(tenancy, lot)
        elif lot is not None:
            self.desk.add(tenancy, lot)
        return True

    def _wants(self, fetched: Fetched) -> bool:
        """Whether these are to be taken now (C4): what is taken and not given out is lost with this process, so it is no more
        than what is asked for now, and `ahead`."""
        lots = [each.lot for tenancy in self.tenancies.values() if not tenancy.released for each in tenancy.taking]
        if not self.one_by_one:
            return self.shelf.wanted + self._settings.ahead > len(lots)
        wanted = self.desk.wanted - sum(len(lot.records) for lot in lots)
        return wanted > 0 or wanted + self._settings.ahead * self._settings.batch >= len(fetched.records)

    def _batch(self, tenancy: Tenancy, fetched: Fetched) -> Batch | None:
        """None if all of it was done before the term began (C9)."""
        progress, partition = tenancy.progress, tenancy.partition
        records = fetched.records
        if progress.goes_on:
            records = tuple(record for record in records if not progress.was_done(record.offset))
        if not records:
            self._skip(tenancy, fetched.next)
            return None
        with self.lock:
            span = progress.open(fetched.next)

        def done(batch: Batch) -> bool:
            return self.shelf.done(tenancy, batch)

        def lost() -> bool:
            return not self.member.has(tenancy.role, tenancy.term.token)

        def position() -> int:
            return progress.position

        def trying(batch: Batch) -> AbstractContextManager[None]:
            return self.shelf.trying(tenancy, batch)

        return Batch(partition.topic, partition.number, tenancy.term, span, records, done, lost, position, trying)

    # Looking ---------------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        for tenancy in look_at_ends(list(self.tenancies.values())):
            self._look_at_one(tenancy)
        for topic in self._sources:
            try:
                self._grown(topic)
            except LedgerUnavailable as error:
                log.warning("topic %r can't be looked at now: %s", topic, error)

    def _look_at_one(self, tenancy: Tenancy) -> None:
        """C7."""
        why = tenancy.velocity.look(tenancy.worked, tenancy.worked + tenancy.lag)
        if why and self._settings.release_if_behind:
            self.member.request(ev.Unhealthy((tenancy.role, 0), tenancy.term.token, why))

    def _grown(self, topic: str) -> None:
        """C8: partitions that are new; or all of them, of a topic that is another one."""
        source, before = self._sources[topic], self._known.get(topic, [])
        there = partitions_of(source)
        if there == before or (before and there and there[0].tag == before[0].tag and len(there) < len(before)):
            return
        for partition in set(before) - set(there):
            for role in self._settings.roles_of(partition):
                self.member.request(ev.Declare(role, removed=True))
        for partition in sorted(set(there) - set(before)):
            for role in self._settings.roles_of(partition):
                self.member.request(ev.Declare(role))
        if before and there and before[0].tag != there[0].tag:
            self.member.problem("another-topic", f"topic {topic!r} is another one now ({tag_of(source.identity)})")
        self._known[topic] = there
        self.member.request(ev.Willing(self.roles()))

    def positions(self) -> dict[tuple[str, int], int]:
        """Of the partitions that it works on as a whole, by topic and number: everything before is done."""
        whole = (each for each in list(self.tenancies.values()) if each.partition.slot == WHOLE)
        return {(each.partition.topic, each.partition.number): each.progress.position for each in whole}

    def _partitions(self) -> list[Partition]:
        return [partition for known in self._known.values() for partition in known]

    def roles(self) -> tuple[str, ...]:
        """Of all partitions that the topics have, as far as is known. Raises `ConfigError` if a group can't have so many."""
        partitions = self._partitions()
        found = tuple(role for partition in partitions for role in self._settings.roles_of(partition))
        if len(found) > MAX_ROLES:
            raise ConfigError(
                f"{len(partitions)} partitions, with what stands for them, are {len(found)} roles, and a group has {MAX_ROLES} "
                "at most: name fewer topics, or with claim='ranges' or 'keys' fewer slots"
            )
        return found
