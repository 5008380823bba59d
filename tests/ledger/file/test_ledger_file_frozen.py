"""Writers that are frozen one by one, each in the middle of an append: the appends of the others never wait.

`PARES_ROUNDS=100 pytest tests/ledger/file/test_ledger_file_frozen.py` freezes a hundred. An append waits for nobody if it makes
no more calls than it would alone, and does not sleep: this is the same on a machine of any speed.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from file_tools import CALLS, end, finish, forked, in_memory, opened, segments, stop_at, stopped
from log_tools import payloads, read_all

from pares.ledger.file import appending
from pares.ledger.file.log import FileLedger

FROZEN: Final = int(os.environ.get("PARES_ROUNDS", "12"))
EACH: Final = 8
"""Appends of those that go on, after each freeze."""


def writes(path: Path, number: int, at: int) -> None:
    """Freezes itself before its call of that number, somewhere in its appends; thawed, it writes to its end."""
    with closing(opened(path, segment=4096)) as ledger:
        ledger.append_many([b"%d begins" % number], urgent=False)
        stop_at(at)
        for each in itertools.count():
            ledger.append_many([b"%d %d " % (number, each) + b"x" * 200], urgent=each % 2 == 0)
            if each * 3 > at:
                return


@contextmanager
def counted() -> Generator[Counter[str]]:
    """How often this process calls what the ledger calls in the system, and whatever could wait for others."""
    found: Counter[str] = Counter()

    def counting(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            found[name] += 1
            return real(*args, **kwargs)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, counting(name, getattr(os, name)))
        patch.setattr(appending, "_sync_file", counting("sync", appending._sync_file))  # pyright: ignore[reportPrivateUsage]
        patch.setattr(time, "sleep", counting("sleep", time.sleep))
        yield found


def goes_on(ledger: FileLedger, tag: bytes) -> tuple[dict[int, bytes], int]:
    """What was appended, by offset; and the most calls that an append has made."""
    mine, most = dict[int, bytes](), 0
    for each in range(EACH):
        text = b"%s %d " % (tag, each) + b"y" * 200
        with counted() as calls:
            (offset,) = ledger.append_many([text], urgent=each % 2 == 0)
        assert not calls["sleep"]
        mine[offset] = text
        most = max(most, calls.total())
    return mine, most


@pytest.mark.processes
@pytest.mark.timeout(60 + 10 * FROZEN)
def test_appends_wait_for_none_of_those_that_are_frozen_in_theirs() -> None:
    chance = random.Random(11)
    with in_memory() as path, closing(opened(path, segment=4096)) as ledger:
        given, alone = goes_on(ledger, b"alone")
        for turn in range(3):  # as many as fill a segment, which takes more calls than others
            more, calls = goes_on(ledger, b"alone %d" % turn)
            given, alone = given | more, max(alone, calls)
        frozen: list[int] = []
        try:
            for number in range(FROZEN):
                at = chance.randint(1, 120)
                child = forked(lambda number=number, at=at: writes(path, number, at))
                assert stopped(child), "it had more calls to make"
                frozen.append(child)
                more, calls = goes_on(ledger, b"beside %d" % number)
                given |= more
                # What the frozen have left behind (a segment that is sealed and has no next) the next append puts right.
                assert calls <= 2 * alone
                with closing(opened(path)) as late:
                    assert {entry.offset: entry.payload for entry in read_all(late)}.items() >= given.items()
            for place, child in enumerate(frozen):
                finish(child, signal.SIGCONT if place % 2 else signal.SIGKILL)
        finally:
            for child in frozen:
                end(child)
        entries = read_all(ledger)
        assert {entry.offset: entry.payload for entry in entries}.items() >= given.items()
        for number in range(FROZEN):
            written = [
                int(p.split()[1]) for p in payloads(ledger) if p.startswith(b"%d " % number) and b"begins" not in p
            ]
            assert written == list(range(len(written))), "none twice, and in order"


@pytest.mark.processes
def test_tail_shows_each_record_as_a_line_when_it_is_appended(tmp_path: Path) -> None:
    with closing(opened(tmp_path / "x")) as ledger:
        ledger.append(b'{"k":"beat","n":0}')
        (segment,) = segments(tmp_path / "x")
        command = ["tail", "-n", "+1", "-f", str(segment)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as tail:
            try:
                assert tail.stdout is not None
                for number in range(5):
                    if number:
                        ledger.append_many([b'{"k":"beat","n":%d}' % number], urgent=number % 2 == 0)
                    # The test's own limit of time ends a wait for what never comes.
                    line = next(line for line in tail.stdout if b'"beat"' in line)
                    assert line.endswith(b' {"k":"beat","n":%d}\n' % number), "as text, to the end of its line"
                    assert line.decode("ascii").split()[1].startswith("r")
            finally:
                tail.kill()
