"""Where batches wait for the user's tasks, and where the user says that they are done."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from pares.core import events as ev
from pares.runtime.consume.batch import Batch
from pares.runtime.consume.kit import Seated
from pares.runtime.consume.settings import Settings
from pares.runtime.consume.tenancy import Tenancy
from pares.runtime.host import Empty, Guard, Host, Mailbox


class Shelf:
    """Of one consumer. `lock`: of all progress; `wake`: lets the feeder look for more."""

    def __init__(self, settings: Settings, lock: Guard, wake: Callable[[], None], host: Host) -> None:
        self._settings = settings
        self._lock = lock
        self._wake = wake
        self._host = host
        self._ready: Mailbox[tuple[Tenancy, Batch] | None] = host.mailbox()
        self._waiters = 0
        self._stored = 0
        """Batches in `_ready`."""
        self._closed = False
        self.member: Seated

    @property
    def wanted(self) -> int:
        """How many tasks of the user's wait for a batch that nothing has been promised to yet."""
        return self._waiters - self._stored

    def give(self, tenancy: Tenancy, batch: Batch) -> None:
        """By the feeder: the user's next step finds it. After the end there is none: no handover waits for it then."""
        with self._lock:
            tenancy.waiting += 1
            tenancy.stored += len(batch)
            self._stored += 1
        self._ready.put((tenancy, batch))
        if self._closed:
            self._put_away()

    def next(self, timeout: float | None) -> Batch | None:
        """None at the end, or after `timeout` seconds."""
        now = self._host.now
        end = None if timeout is None else now() + int(timeout * 1e9)
        with self._lock:
            self._waiters += 1
        try:
            self._wake()
            while True:
                left = None if end is None else max(0.0, (end - now()) / 1e9)
                try:
                    found = self._ready.get(timeout=left)
                except Empty:
                    return None
                if found is None:
                    self._ready.put(None)  # for all others that wait
                    return None
                with self._lock:
                    self._stored -= 1
                    found[0].waiting -= 1
                    found[0].stored -= len(found[1])
                if self._goes_out(*found):
                    return found[1]
                self._wake()
        finally:
            with self._lock:
                self._waiters -= 1

    def _goes_out(self, tenancy: Tenancy, batch: Batch) -> bool:
        """Whether the user is given this batch. What was taken at most once is this consumer's, whatever has become of the
        term (C4); all else only while the term lasts, looked at when a handover would already wait for it (R5)."""
        body = batch.belongs(None)
        if body is not None:
            body.thread = self._host.ident()
            batch.belongs(body)
            return True
        batch.belongs(self.member.works.begin(tenancy.term.key))
        if tenancy.term:
            return True
        self._finish(batch)
        return False

    def put_back(self, batch: Batch, tenancy: Tenancy | None) -> None:
        """Nobody has seen it. `tenancy`: of its partition now."""
        over = self._closed or self.member.state in ("closed", "failed")
        if tenancy is None or tenancy.term is not batch.term or over:
            self._finish(batch)
            return
        if self._settings.delivery == "at-least-once":
            self._finish(batch)
        self.give(tenancy, batch)

    @contextmanager
    def trying(self, tenancy: Tenancy, batch: Batch) -> Generator[None, None, None]:
        """A task of the user's works on it, and a planned handover waits for that (R5). When it has failed, the batch is in
        nobody's hands until somebody tries again. [the end of a term waits for a batch that failed, `barrier_timeout` long]"""
        body = self.member.works.begin(tenancy.term.key)
        try:
            yield
        except BaseException:
            self._finish(batch)
            raise
        finally:
            self.member.works.finish(body)

    def done(self, tenancy: Tenancy, batch: Batch) -> bool:
        """See `Batch.done`."""
        with self._lock:
            progress = tenancy.progress
            before = progress.runs
            moved = progress.done(batch.span)
            tenancy.dirty = tenancy.dirty or before > 0 or progress.runs > 0
            counts = self.member.has(tenancy.role, batch.token)
            if moved and counts:
                # Under the lock: of two threads, the one that has come further is the one that says so last.
                self.member.note(ev.Marked((tenancy.role, 0), batch.token, progress.position))
            if counts and tenancy.dirty and not tenancy.term:
                tenancy.noted(self._host.now(), self.member)  # before the handover that waits for it goes on
        self._finish(batch)
        if progress.unfinished >= 1:
            self._wake()
        return counts

    def _finish(self, batch: Batch) -> None:
        body = batch.belongs(None)
        if body is not None:
            self.member.works.finish(body)

    def end(self) -> None:
        """No batch comes any more."""
        self._ready.put(None)

    def close(self) -> None:
        """What waits for the user is not given out any more. What was taken at most once is lost by that."""
        self._closed = True
        self.end()
        self._put_away()

    def _put_away(self) -> None:
        ended = False
        try:
            while True:
                found = self._ready.get_nowait()
                if found is None:
                    ended = True
                    continue
                with self._lock:
                    self._stored -= 1
                body = found[1].belongs(None)
                if body is not None:
                    self.member.works.finish(body)  # no user has it, so a handover waits for nobody
                    self.member.problem("not-given-out", f"{found[1]!r} was taken, and is not given out")
        except Empty:
            if ended:
                self._ready.put(None)
