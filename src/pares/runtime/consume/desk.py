"""Where records wait for the user's tasks, one by one, and where the user says what became of them (C9, C10).

Whatever a task asks for, it gets the first record that nothing before it in its order keeps back, of each partition in turn.
The rest of one partition waits in its lanes: so a record that takes its time, or waits for a retry, holds up its own lane
alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from pares.core import events as ev
from pares.core.errors import ConfigError
from pares.core.wire.records import MAX_RUNS
from pares.ledger.sources import Fetched
from pares.runtime.consume.dead_letters import DeadLetters
from pares.runtime.consume.item import Item
from pares.runtime.consume.kit import Seated
from pares.runtime.consume.settings import Settings
from pares.runtime.consume.tenancy import Tenancy
from pares.runtime.host import Guard, Host

log: Final = logging.getLogger("pares.consumer")

LONGEST_BACKOFF: Final = 60.0
"""Seconds between two times that a record is given out, however often that was."""
SHORTEST_RETRY: Final = 0.01
"""Seconds until a record is given out again, whatever the user asks for."""
NOBODY: Final = -1
"""The thread of a record that no thread has."""


class Desk:
    """Of one consumer. `lock`: of all progress; `wake`: lets the feeder look for more."""

    def __init__(
        self, settings: Settings, letters: DeadLetters | None, lock: Guard, wake: Callable[[], None], host: Host
    ) -> None:
        self._settings = settings
        self._letters = letters
        self._lock = lock
        self._wake = wake
        self._host = host
        self._changed = host.condition(lock)
        self._turns: list[Tenancy] = []
        """Partitions that have something in their lanes, the one that was served last at the end."""
        self._out: set[Item] = set()
        self._asking = 0
        """Tasks that wait for a record."""
        self.closed = False
        self.member: Seated

    @property
    def once(self) -> bool:
        return self._settings.delivery == "at-most-once"

    @property
    def free(self) -> int:
        """How many more records may be out."""
        return self._settings.concurrency - len(self._out)

    @property
    def wanted(self) -> int:
        """How many more could be given out at once, if they were here; below 0: so many more are here than are asked for."""
        return min(self.free, self._asking) - sum(tenancy.lanes.unstarted for tenancy in self._turns)

    # In ----------------------------------------------------------------------------------------------------------------

    def add(self, tenancy: Tenancy, fetched: Fetched) -> None:
        """By the feeder: these follow what its progress has. What was done before the term began is left out (C9)."""
        progress, records = tenancy.progress, fetched.records
        if self.closed:
            self._report_lost(tenancy, len(records))
            return
        with self._lock:
            before = progress.position
            for number, record in enumerate(records):
                upto = fetched.next if number == len(records) - 1 else record.offset + 1
                if progress.was_done(record.offset):
                    progress.skip(upto)
                    tenancy.tries.pop(record.offset, None)
                    continue
                span = progress.open(upto)
                tenancy.bytes += len(record.payload)
                if self.once:
                    tenancy.bodies[record.offset] = self.member.works.begin(tenancy.term.key, NOBODY)
                tenancy.lanes.add(record.offset, record.key, (record, span), tenancy.tries.get(record.offset, 0))
            if progress.position > before:
                self.member.note(ev.Marked((tenancy.role, 0), tenancy.term.token, progress.position))
            if tenancy not in self._turns:
                self._turns.append(tenancy)
            self._changed.notify_all()

    def end(self) -> None:
        """Nothing is given out any more."""
        with self._lock:
            self.closed = True
            self._changed.notify_all()

    def close(self) -> None:
        """The same; what was taken at most once is lost by that."""
        self.end()
        with self._lock:
            turns, self._turns = self._turns, []
        for tenancy in turns:
            for body in tenancy.bodies.values():
                self.member.works.finish(body)
            self._report_lost(tenancy, len(tenancy.bodies))

    def _report_lost(self, tenancy: Tenancy, count: int) -> None:
        if count and self.once:
            self.member.problem("not-given-out", f"{count} records of {tenancy.role} were taken, and are not given out")

    # Out ---------------------------------------------------------------------------------------------------------------

    def take(
        self, most: int, timeout: float | None, ended: Callable[[], bool], thread: int | None = None
    ) -> list[Item]:
        """Up to `most` records, at least one; none at the end, or after `timeout` seconds. `thread`: whose they are, if not the
        calling one's."""
        now = self._host.now
        end = None if timeout is None else now() + int(timeout * 1e9)
        with self._lock:
            self._asking += 1
        try:
            self._wake()
            while True:
                found, wakes = self._find(most)
                given = [item for item in found if self._goes_out(item, thread)]
                if given or self.closed or ended():
                    return given
                at = min((each for each in (wakes, end) if each is not None), default=None)
                left = None if at is None else (at - now()) / 1e9
                if end is not None and now() >= end:
                    return []
                if not found and (left is None or left > 0):
                    with self._lock:
                        if not self._something():
                            self._changed.wait(left)
        finally:
            with self._lock:
                self._asking -= 1

    def _something(self) -> bool:
        """Whether one may be given out now; under the lock."""
        return self.closed or (
            self.free > 0 and any(tenancy.lanes.ready for tenancy in self._turns if self._gives(tenancy))
        )

    def _gives(self, tenancy: Tenancy) -> bool:
        """What was taken at most once is this consumer's, whatever has become of the term (C4); all else while the term
        lasts."""
        return self.once or bool(tenancy.term)

    def _find(self, most: int) -> tuple[list[Item], int | None]:
        """Those that are next, and when to look again if nothing happens."""
        found: list[Item] = []
        with self._lock:
            now = self._host.now()
            self._turns = [each for each in self._turns if each.lanes.left and (self.once or each.term)]
            for tenancy in list(self._turns):
                tenancy.lanes.wake(now)
            while self.free > 0 and len(found) < most and not self.closed:
                item = next((item for tenancy in list(self._turns) if (item := self._next(tenancy)) is not None), None)
                if item is None:
                    break
                found.append(item)
            return found, min((at for each in self._turns if (at := each.lanes.wakes_at()) is not None), default=None)

    def _next(self, tenancy: Tenancy) -> Item | None:
        """Of this partition. While it has as many runs above its position as a record holds, only what the position waits for:
        that never makes them more."""
        lanes, progress = tenancy.lanes, tenancy.progress
        room = progress.runs + lanes.out < MAX_RUNS
        entry = lanes.next(lambda offset: room or progress.waits_for(offset))
        if entry is None:
            return None
        if not self.once:
            tenancy.tries[entry.offset] = entry.tries
            tenancy.dirty = True
        self._turns.remove(tenancy)
        self._turns.append(tenancy)
        item = Item(tenancy, entry, self)
        self._out.add(item)
        return item

    def _goes_out(self, item: Item, thread: int | None) -> bool:
        """Looked at when a handover would already wait for it (R5)."""
        if self.once:
            item.body = item.tenancy.bodies.pop(item.offset)
            item.body.thread = self._host.ident() if thread is None else thread
        else:
            item.body = self.member.works.begin(item.tenancy.term.key, thread)
        if self._gives(item.tenancy):
            return True
        self.put_back(item)
        return False

    def put_back(self, item: Item, *, seen: bool = False) -> None:
        """It is given out again at once. `seen`: that counts as a delivery."""
        tenancy = item.tenancy
        if seen:
            self._settle(item, self._is_done if self.once else lambda item: self._again(item, 0.0))
            return
        with self._lock:
            if item.settled:
                return
            item.settled = True
            self._out.discard(item)
            tenancy.lanes.put_back(item.entry)
            if item.entry.tries and not self.once:
                tenancy.tries[item.offset] = item.entry.tries
            else:
                tenancy.tries.pop(item.offset, None)
            if self.once and item.body is not None:
                item.body.thread = NOBODY
                tenancy.bodies[item.offset], item.body = item.body, None
            self._changed.notify_all()
        self._over(item)

    # What became of them -------------------------------------------------------------------------------------------------

    def lost(self, item: Item) -> bool:
        """Whether the log no longer has the partition as this consumer's in that term: what is said of the record counts for
        nothing."""
        return not self.member.has(item.tenancy.role, item.token)

    def done(self, item: Item) -> bool:
        return self._settle(item, self._is_done)

    def retry(self, item: Item, after: float | None, why: str) -> bool:
        if self.once:
            raise ConfigError(
                f"{item!r} was given out at most once, and can't be given out again: reject it, or call done"
            )
        limit = item.deliveries > self._settings.retries
        if limit and self._letters is not None:
            return self.reject(item, why or f"given out {item.deliveries} times, and never done")
        if limit:
            text = f"{item!r} was not done again: it stays, and is tried every {LONGEST_BACKOFF:g} s (no dead_letter): {why}"
            self.member.problem("failing", text)
        pause = self._pause(item, limit=limit) if after is None else max(SHORTEST_RETRY, after)
        return self._settle(item, lambda item: self._again(item, pause))

    def reject(self, item: Item, why: str) -> bool:
        if self._letters is None:
            raise ConfigError(
                f"{item!r} can't be rejected: make the consumer with dead_letter=, where it is to be written"
            )
        if item.settled or self.lost(item):
            return self.done(item)  # which says so
        try:
            record = item.entry.value[0]
            self._letters.write(item.tenancy.term, record, self.member.group, why, item.deliveries)
        except Exception:
            if not self.once:
                self._settle(item, lambda item: self._again(item, self._pause(item)))
            raise
        return self._settle(item, self._is_done)

    def _pause(self, item: Item, *, limit: bool = False) -> float:
        if limit:
            return LONGEST_BACKOFF
        return min(self._settings.backoff * 2 ** min(item.deliveries - 1, 30), LONGEST_BACKOFF)

    def _settle(self, item: Item, how: Callable[[Item], None]) -> bool:
        tenancy = item.tenancy
        with self._lock:
            if item.settled:
                return not self.lost(item)
            item.settled = True
            self._out.discard(item)
            counts = not self.lost(item)
            how(item)
            tenancy.dirty = True
            if counts and not tenancy.term:
                tenancy.noted(self._host.now(), self.member)  # before the handover that waits for it goes on
            self._changed.notify_all()
        self._over(item)
        if not counts:
            self.member.problem(
                "outlived", f"the handler of {item!r} has outlived its claim: what it did counts for nothing"
            )
        if not tenancy.lanes.unstarted:
            self._wake()
        return counts

    def _is_done(self, item: Item) -> None:
        tenancy = item.tenancy
        tenancy.lanes.done(item.entry)
        tenancy.tries.pop(item.offset, None)
        tenancy.bytes -= len(item.payload)
        if tenancy.progress.done(item.entry.value[1]) and not self.lost(item):
            # Under the lock: of two threads, the one that has come further is the one that says so last.
            self.member.note(ev.Marked((tenancy.role, 0), item.token, tenancy.progress.position))

    def _again(self, item: Item, pause: float) -> None:
        item.tenancy.lanes.again(item.entry, self._host.now() + int(pause * 1e9))

    def _over(self, item: Item) -> None:
        if item.body is not None:
            self.member.works.finish(item.body)
