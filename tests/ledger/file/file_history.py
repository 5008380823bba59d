"""A history of a file ledger: writers, readers and a trimmer take turns at each call that the ledger makes in the system.

`play(seed)` says which promise was broken first, "" if none was. All of it follows from the seed: whose turn it is, which
writes are cut short, who stands still for ever at which call, when the power is cut, and what of the disk is left then.

As in the kernel, appends to one file follow one another, and a reader may see the beginning of one that goes on. Nobody is
stopped inside of one.
"""

from __future__ import annotations

import errno
import itertools
import os
import random
import shutil
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from file_disk import Disk
from file_tools import CALLS, in_memory, opened
from greenlet import GreenletExit, getcurrent, greenlet
from log_tools import read_all

from pares.core.errors import LedgerGap, LedgerRewound, LedgerUnavailable
from pares.ledger.base import Entry
from pares.ledger.file import appending, folder, names
from pares.ledger.file.log import FileLedger

WRITERS, READERS, BOOTS = 3, 2, 3
SEGMENT: Final = 1024
SHORT, STOP = 0.03, 0.002
"""How often an append is cut short, and somebody stands still at a call."""


class Broken(Exception):
    """A promise was."""


class Judge:
    """What was acknowledged and read, in all boots."""

    def __init__(self) -> None:
        self.given: dict[int, tuple[bytes, bool]] = {}
        """By offset: the payload, and whether it was urgent."""
        self.failed: set[bytes] = set()
        """Payloads of appends that have certainly not come to be."""
        self.seen: dict[int, bytes] = {}
        """What somebody has read in this boot."""
        self.trimmed = 0

    def acknowledged(self, offset: int, payload: bytes, urgent: bool) -> None:
        if offset in self.given:
            raise Broken("no offset is given out twice")
        self.given[offset] = payload, urgent

    def read(self, entries: list[Entry]) -> None:
        for offset, _, payload in entries:
            if self.seen.setdefault(offset, payload) != payload:
                raise Broken("all readers agree")

    def whole(self, ledger: FileLedger) -> None:
        """A reader that comes last reads what all the others have read, and what was acknowledged."""
        found = {entry.offset: entry.payload for entry in read_all(ledger, ledger.start())}
        self.read([Entry(at, 0, payload) for at, payload in found.items()])
        above = {at: payload for at, payload in self.seen.items() if at >= ledger.start()}
        if above.items() - found.items():
            raise Broken("what was read once stays")
        self._acknowledged(found)
        if self.failed & {*found.values()}:
            raise Broken("what has failed is not there")
        if len({*found.values()}) < len(found):
            raise Broken("no record stands there twice")
        for writer in {payload.split()[0] for payload in found.values()}:
            numbers = [int(p.split()[1]) for p in found.values() if p.split()[0] == writer]
            if numbers != sorted(numbers):
                raise Broken("the records of a writer are in its order")

    def _acknowledged(self, found: dict[int, bytes]) -> None:
        for at, (payload, _) in self.given.items():
            if at >= self.trimmed and found.get(at) != payload:
                raise Broken("what was acknowledged is there, at its place")

    def after_the_cut(self, ledger: FileLedger) -> None:
        """All that is urgent, and all before it, has survived; what is lost may not be read as something else."""
        found = {entry.offset: entry.payload for entry in read_all(ledger, ledger.start())}
        if any(self.seen.get(at, payload) != payload for at, payload in found.items()):
            raise Broken("all readers agree")
        surely = max((at for at, (_, urgent) in self.given.items() if urgent), default=-1)
        if any(self.trimmed <= at <= surely and at not in found for at in self.seen):
            raise Broken("what is urgent survives, and all before it")
        self.given = {at: given for at, given in self.given.items() if at in found or at < ledger.start()}
        self.seen = found

    def lost(self) -> set[int]:
        """Every offset that anybody was ever told of."""
        return {*self.given, *self.seen}


class History:
    """The turns of one boot after another."""

    def __init__(self, seed: int, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.chance = random.Random(seed)
        self.judge = Judge()
        self.known: set[int] = set()
        """Offsets that were known in earlier boots."""
        self.folder, self._patch = folder, patch
        self.disk = Disk(patch)
        self._hub = getcurrent()
        self._actors: list[greenlet] = []
        self._over = False
        self._segments: dict[int, str] = {}
        """Descriptors that records are appended to."""
        self._appending: set[str] = set()
        self._patches()

    def _patches(self) -> None:
        real_open, real_write, sync = os.open, os.write, appending._sync_file  # pyright: ignore[reportPrivateUsage]

        def watched(real: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                self._turn()
                return real(*args, **kwargs)

            return call

        def opens(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
            self._turn()
            descriptor = real_open(path, flags, *args, **kwargs)
            self._segments.pop(descriptor, None)
            if str(path).endswith(".log") and flags & os.O_APPEND:
                self._segments[descriptor] = str(path)
            return descriptor

        def writes(descriptor: int, data: bytes) -> int:
            self._turn()
            path = self._segments.get(descriptor)
            if path is None or not self._in_turn:
                return real_write(descriptor, data)
            while path in self._appending:
                self._turn(stops=False)
            cut = self.chance.randint(0, len(data) - 1)
            if self.chance.random() < SHORT:
                if not cut:
                    raise OSError(errno.ENOSPC, "full")
                return real_write(descriptor, data[:cut])
            self._appending.add(path)
            try:
                written = real_write(descriptor, data[:cut]) if cut else 0
                self._turn(stops=False)
                return written + real_write(descriptor, data[cut:])
            finally:
                self._appending.discard(path)

        for name in CALLS:
            self._patch.setattr(os, name, watched(getattr(os, name)))
        self._patch.setattr(os, "open", opens)
        self._patch.setattr(os, "write", writes)
        self._patch.setattr(appending, "_sync_file", watched(sync))

    @property
    def _in_turn(self) -> bool:
        return not self._over and getcurrent() is not self._hub

    def _turn(self, *, stops: bool = True) -> None:
        """A call: another one may go on first. `stops`: or this one may never do."""
        if not self._in_turn:
            return
        if stops and self.chance.random() < STOP:
            self._actors.remove(getcurrent())  # type: ignore[arg-type]
            self._hub.switch()
        if not stops or self.chance.random() < 0.5:
            self._hub.switch()

    def play(self) -> None:
        path = self.folder / "0"
        for boot in range(BOOTS):
            self._patch.setattr(appending, "boot", lambda boot=boot: f"{boot:08x}")
            with closing(opened(path, segment=SEGMENT)):
                pass
            self._boot(path, boot)
            with closing(opened(path, readonly=True)) as ledger:
                self.judge.whole(ledger)
            self.known |= self.judge.lost()
            path, before = self.folder / f"{boot + 1}", path
            self.disk.cut(before, path, self.chance)
            shutil.rmtree(before)
            with closing(opened(path, readonly=True)) as ledger:
                self.judge.after_the_cut(ledger)

    def _boot(self, path: Path, boot: int) -> None:
        works: list[Callable[[], None]] = [
            lambda number=number: self._writes(path, b"%d.%d" % (boot, number)) for number in range(WRITERS)
        ]
        works += [lambda: self._reads(path) for _ in range(READERS)]
        works.append(lambda: self._trims(path))
        self._actors = [greenlet(work, self._hub) for work in works]
        everybody, writers = [*self._actors], {*self._actors[:WRITERS]}
        self._over = False
        try:
            for _ in range(self.chance.randint(200, 4000)):
                if not writers & {*self._actors}:
                    break
                actor = self.chance.choice(self._actors)
                actor.switch()
                if actor.dead:
                    self._actors.remove(actor)
        finally:
            self._over = True
            for actor in everybody:
                if actor and not actor.dead:
                    actor.throw(GreenletExit)
            self._appending.clear()

    def _writes(self, path: Path, name: bytes) -> None:
        with closing(opened(path, segment=SEGMENT)) as ledger:
            for number in range(0, 60, 2):
                urgent = self.chance.random() < 0.3
                texts = [b"%b %d " % (name, number + part) + b"x" * self.chance.randint(0, 150) for part in range(2)]
                texts = texts[: self.chance.choice([1, 1, 2])]
                try:
                    offsets = ledger.append_many(texts, urgent=urgent)
                except LedgerUnavailable as error:
                    if not error.unknown:
                        self.judge.failed |= {*texts}
                    continue
                for at, text in zip(offsets, texts, strict=True):
                    if at in self.known:
                        raise Broken("no offset is given out twice")
                    self.judge.acknowledged(at, text, urgent)

    def _reads(self, path: Path) -> None:
        with closing(opened(path, readonly=True)) as ledger:
            position = self._again(ledger.start)
            while True:
                try:
                    entries = ledger.read(position, max_records=self.chance.choice([1, 3, 100]))
                except (LedgerGap, LedgerUnavailable):  # trimmed, before this look or during it
                    position = max(position, self._again(ledger.start))
                    continue
                self.judge.read(entries)
                position = entries[-1].offset + 1 if entries else position
                if "altered" in ledger.identity():
                    raise Broken("nobody takes the log for an altered one")

    def _again(self, ask: Callable[[], Any]) -> Any:
        """Its answer, once no segment is trimmed away while it looks."""
        for left in reversed(range(20)):
            try:
                return ask()
            except LedgerUnavailable:
                if not left:
                    raise
        raise AssertionError("the last try returns or raises")

    def _trims(self, path: Path) -> None:
        with closing(opened(path, segment=SEGMENT)) as ledger:
            while True:
                at = self.chance.choice([*self.judge.seen, 0])
                if at < max(self.judge.seen, default=0) // 2 or self.chance.random() < 0.1:
                    self.judge.trimmed = max(self.judge.trimmed, at)
                    self._again(lambda at=at: ledger.trim(at))
                self._again(ledger.end)


@contextmanager
def _patched() -> Generator[tuple[Path, pytest.MonkeyPatch]]:
    with in_memory() as path, pytest.MonkeyPatch.context() as patch:
        path.mkdir()
        patch.setattr(appending.log, "disabled", True)
        for module in (folder, names):  # each look at names reads them: how often it does depends on no clock
            patch.setattr(module, "RECENT", 1 << 62)
        now = itertools.count(1_700_000_000_000_000_000, 1000)
        patch.setattr(time, "time_ns", lambda: next(now))
        patch.setattr(appending, "stopwatch", lambda: next(now))
        yield path, patch


def play(seed: int) -> str:
    """The promise that breaks first, in the history of this seed."""
    with _patched() as (path, patch):
        try:
            History(seed, path, patch).play()
        except Broken as broken:
            return str(broken)
        except LedgerRewound:
            return "the log does not shrink"
        except LedgerGap:
            return "what stands from its start on can be read"
    return ""
