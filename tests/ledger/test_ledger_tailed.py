"""A log behind a service, with a service of the tests' own: what a window that is out of date may do, and what not."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import pytest
from log_tools import HANG

from pares.core.errors import LedgerRewound, LedgerUnavailable
from pares.ledger import Entry
from pares.ledger import window as window_module
from pares.ledger.client_options import Usual
from pares.ledger.handle_state import Lifetime
from pares.ledger.service_log import Known, TailedLog
from pares.ledger.window import TailBell, Window


class Shelf:
    """A service whose tail is as late as a test wants it."""

    def __init__(self, fresh: float = window_module.FRESH) -> None:
        self.settings = Usual(None, None, None, 1.0, 1.0, "", False)
        self.lifetime = Lifetime("shelf://")
        self.known = Known()
        self.entries: list[Entry] = []
        self.doubts = self.caught_up = 0
        self.says_end = False
        """Whether it says, with what it brings, that nothing follows."""
        self.and_then: Callable[[], object] = lambda: None
        """What happens when it has said so, before the reader looks."""
        self.fails = False
        self.error: LedgerUnavailable | None = None
        self._window = Window("t", 0, fresh)

    def look(self, topic: str) -> tuple[str, int]:
        self.known.put(topic, "shelf", 1, 0.0)
        return "shelf", 1

    def remake(self, topic: str, partitions: int) -> bool:
        raise AssertionError("it is there")

    def replaced(self, topic: str) -> None:
        self.doubts += 1
        self.known.doubt(topic)

    def refresh(self, topic: str) -> None: ...

    def ends(self, topic: str, partition: int, least: int = 0) -> tuple[int, int]:
        return 0, len(self.entries)

    def fetch(self, topic: str, partition: int, offset: int, end: int, max_records: int) -> list[Entry]:
        return self.entries[offset : offset + max_records]

    def append(self, topic: str, payloads: Sequence[bytes], partition: int, urgent: bool = True) -> list[int]:
        first = len(self.entries)
        self.entries += [Entry(first + at, 0, payload) for at, payload in enumerate(payloads)]
        return list(range(first, len(self.entries)))

    def catch_up(self, window: Window) -> bool:
        self.caught_up += 1
        if self.error is not None:
            raise self.error
        if self.fails:
            return False
        new = [entry for entry in self.entries if entry.offset >= window.high]
        quiet = {entry.offset for entry in new}
        window.put(new, 0, quiet, life=window.life, at_end=self.says_end or not new, since=time.monotonic())
        self.and_then()
        return True

    def stuck(self, window: Window) -> None: ...

    def trim(self, topic: str, partition: int, before: int) -> None: ...

    def window(self, topic: str, partition: int) -> Window:
        return self._window

    def follow(self, window: Window, offset: int) -> None: ...

    def follows(self, topic: str) -> bool:
        return self._window.open

    def push(self) -> None:
        """The tail catches up."""
        if not self._window.open:
            self._window.begin(0)
        self._window.put(self.entries, len(self.entries))


class ShelfLog(TailedLog):
    kind = "shelf"
    notes = True
    teller = logging.getLogger("pares.ledger")


def end_overtaken_by(happens: Callable[[], object], shelf: Shelf, log: ShelfLog) -> int:
    """The log's end, as an answer has it that is older than what happens meanwhile."""
    asked = shelf.ends

    def late(topic: str, partition: int, least: int = 0) -> tuple[int, int]:
        answer = asked(topic, partition, least)
        happens()
        return answer

    shelf.ends = late  # type: ignore[method-assign]
    try:
        return log.end()
    finally:
        shelf.ends = asked  # type: ignore[method-assign]


def test_nothing_of_the_old_log_is_read_after_a_rewind() -> None:
    """The log is another one, and shorter, and the tail has not heard of it yet."""
    shelf = Shelf()
    log = ShelfLog(shelf, "t", "shelf://")
    log.append_many([b"old", b"older"])
    shelf.push()
    assert len(log.read(0)) == 2
    shelf.entries.clear()
    shelf.window("t", 0).doubt()
    with pytest.raises(LedgerRewound):
        log.read(2)
    assert shelf.doubts == 1
    assert log.end() == 0
    assert log.read(0) == []
    assert log.append(b"new") == 0
    assert [entry.payload for entry in log.read(0)] == [b"new"]


def test_a_tail_that_is_ahead_of_an_answer_is_not_doubted() -> None:
    """What was appended while the service answered has come already: no sign of another log."""
    shelf = Shelf()
    log = ShelfLog(shelf, "t", "shelf://")
    log.append(b"a")
    shelf.push()

    def more() -> None:
        shelf.append("t", [b"b"], 0)
        shelf.push()

    assert end_overtaken_by(more, shelf, log) == 1
    assert shelf.window("t", 0).open
    assert [entry.payload for entry in log.read(0)] == [b"a", b"b"]


def test_a_tail_that_is_ahead_of_an_append_is_not_doubted() -> None:
    """The tail brings what was appended before the append has returned."""
    shelf = Shelf()
    log = ShelfLog(shelf, "t", "shelf://")
    shelf.push()
    append = shelf.append

    def pushed(topic: str, payloads: Sequence[bytes], partition: int, urgent: bool = True) -> list[int]:
        offsets = append(topic, payloads, partition, urgent)
        shelf.push()
        shelf.window(topic, partition).expect(offsets[-1] + 1, at_least=True)
        return offsets

    shelf.append = pushed  # type: ignore[method-assign]
    assert [log.append(b"%d" % number) for number in range(3)] == [0, 1, 2]
    assert shelf.doubts == 0
    shelf.entries.clear()  # and one that was begun anew is
    assert log.append(b"new") == 0
    assert shelf.doubts == 1


def test_an_end_that_was_told_of_is_waited_for() -> None:
    shelf = Shelf()
    log = ShelfLog(shelf, "t", "shelf://")
    shelf.push()
    shelf.append("t", [b"x"], 0)
    assert log.end() == 1
    # The tail has not brought it: it is fetched.
    shelf.settings = replace(shelf.settings, timeout=0.05)
    assert [entry.payload for entry in log.read(0)] == [b"x"]


def test_an_answer_that_is_older_than_an_append_hides_nothing() -> None:
    """Another thread appends while the service answers, and the tail is late: what was acknowledged is read all the same."""
    shelf = Shelf()
    log = ShelfLog(shelf, "t", "shelf://")
    log.append(b"a")
    shelf.push()
    assert end_overtaken_by(lambda: log.append(b"b"), shelf, log) == 1
    assert [entry.payload for entry in log.read(1)] == [b"b"]


def test_an_old_answer_about_a_log_does_not_undo_a_newer_one() -> None:
    known = Known()
    assert not known.put("t", "one", 1, 1.0)
    assert known.put("t", "two", 2, 3.0)
    assert not known.put("t", "one", 1, 2.0), "asked before, and slow to come"
    assert known.get("t") == ("two", 2, 3.0)
    known.doubt("t")
    assert known.put("t", "three", 1, 4.0)


def lazy_shelf(fresh: float = window_module.FRESH) -> tuple[Shelf, ShelfLog]:
    shelf = Shelf(fresh)
    log = ShelfLog(shelf, "t", "shelf://")
    shelf.push()
    shelf.window("t", 0).lazy = True
    return shelf, log


def test_a_lazy_window_is_filled_by_its_readers() -> None:
    shelf, log = lazy_shelf()
    log.append_many([b"a", b"b"], urgent=False)
    assert [entry.payload for entry in log.read(0)] == [b"a", b"b"]
    assert shelf.caught_up == 1
    assert [entry.payload for entry in log.read(1)] == [b"b"]
    assert shelf.caught_up == 1, "what is here costs no request"
    assert log.read(2) == []


def test_a_read_says_that_the_log_ended_with_it_only_if_the_service_has_said_so_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(window_module, "LAZY_FRESH", HANG)
    shelf, log = lazy_shelf(HANG)
    log.append_many([b"a", b"b"], urgent=False)
    entries, ended = log.read_whole(0, 0, 10)
    assert ([entry.payload for entry in entries], ended) == ([b"a", b"b"], False)
    assert log.read_whole(2, 0, 10) == ([], True)
    shelf.says_end = True
    log.append(b"c")
    entries, ended = log.read_whole(2, 0, 10)
    assert ([entry.payload for entry in entries], ended) == ([b"c"], True)
    assert log.read_whole(2, 0, 10)[1] is False, "it was said before this read began"
    log.append_many([b"d", b"e"], urgent=False)
    entries, ended = log.read_whole(3, 0, 1)
    assert ([entry.payload for entry in entries], ended) == ([b"d"], False), "there is more than it was to bring"
    shelf.window("t", 0).shut()
    assert log.read_whole(3, 0, 10)[1] is False


def test_a_read_of_all_brings_what_others_have_brought_and_what_came_since_at_once() -> None:
    shelf, log = lazy_shelf()
    shelf.says_end = True
    log.append_many([b"a", b"b"], urgent=False)
    assert len(log.read(0)) == 2, "another reader"
    log.append(b"c")
    entries, ended = log.read_whole(0, 0, 10)
    assert ([entry.payload for entry in entries], ended, shelf.caught_up) == ([b"a", b"b", b"c"], True, 2)


def test_a_read_of_all_ends_where_the_log_did_though_more_comes_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the service has said of its end stays true of all that stood there when it was asked."""
    monkeypatch.setattr(window_module, "LAZY_FRESH", -HANG)  # each read asks
    shelf, log = lazy_shelf()
    shelf.says_end = True

    def brings(payload: bytes) -> None:
        shelf.append("t", [payload], 0)
        shelf.push()

    log.append(b"a")
    shelf.and_then = partial(brings, b"b")
    entries, ended = log.read_whole(0, 0, 10)
    assert ([entry.payload for entry in entries], ended, shelf.caught_up) == ([b"a", b"b"], True, 1)
    brings(b"c")
    shelf.and_then = partial(brings, b"d")
    entries, ended = log.read_whole(2, 0, 10)
    assert ([entry.payload for entry in entries], ended, shelf.caught_up) == ([b"c", b"d"], True, 2)
    entries, ended = log.read_whole(2, 0, 1)
    assert ([entry.payload for entry in entries], ended) == ([b"c"], False), "it is before the end"


def test_what_a_service_has_said_in_another_life_of_the_window_is_not_its_end() -> None:
    """The log is another one, and another reader has asked for the end of that."""
    shelf, log = lazy_shelf()
    log.append_many([b"a", b"b", b"c"], urgent=False)
    window = shelf.window("t", 0)
    since, life = time.monotonic(), window.life
    shelf.says_end = True
    shelf.catch_up(window)
    assert window.ended(3, since, life)
    assert not window.ended(2, since, life), "that is before the end"
    window.shut()
    window.begin(1)
    assert not window.ended(3, since, life)
    shelf.catch_up(window)
    assert not window.ended(3, since, life)
    assert window.ended(3, since, window.life)


def behind() -> tuple[Shelf, ShelfLog]:
    """A reader at 1 has not read what another one has brought."""
    shelf, log = lazy_shelf()
    log.append_many([b"a", b"b", b"c"], urgent=False)
    assert len(log.read(0)) == 3
    return shelf, log


@pytest.mark.parametrize("error", [None, LedgerUnavailable("no answer")])
def test_what_others_have_brought_is_read_though_nobody_answers(
    error: LedgerUnavailable | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member's own beat may be among it, and its lease count from that (R4)."""
    monkeypatch.setattr(window_module, "LAZY_FRESH", 0.0)
    shelf, log = behind()
    before, shelf.fails, shelf.error = shelf.caught_up, True, error
    entries, ended = log.read_whole(1, 0, 10)
    assert ([entry.payload for entry in entries], ended, shelf.caught_up - before) == ([b"b", b"c"], False, 1)
    shelf.window("t", 0).doubt()
    assert len(log.read_whole(1, 0, 10)[0]) == 2
    assert shelf.caught_up - before == 1, "it is known that nobody answers: nobody waits for that"


def test_a_reader_that_is_behind_hears_of_another_log_before_it_reads_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_module, "LAZY_FRESH", 0.0)
    shelf, log = behind()
    shelf.entries[:] = [Entry(number, 0, b"new") for number in range(2)]
    shelf.fails = True
    entries, _ = log.read_whole(1, 0, 10)
    assert [entry.payload for entry in entries] == [b"b", b"c"]
    with pytest.raises(LedgerRewound):
        log.read_whole(3, 0, 10)


def test_a_thread_waits_for_readers_only_while_all_of_them_are_called() -> None:
    window = Window("t", 0)
    window.begin(0)
    assert window.heeded(0), "nobody has a bell"
    one, other = TailBell(window), TailBell(window)
    assert window.heeded(0)
    window.put([Entry(0, 0, b"x")], 0)
    assert not window.heeded(0), "both are called, and have not come"
    one.clear()
    assert window.heeded(0)
    window.put([Entry(1, 0, b"y")], 0)
    assert not window.heeded(0)
    threading.Timer(0.05, other.clear).start()
    assert window.heeded(HANG), "it hears of it when one comes"
    window.put([Entry(2, 0, b"z")], 0)
    assert not window.heeded(0)
    waiting = threading.Thread(target=window.wait, args=(3, HANG))
    waiting.start()
    assert window.heeded(HANG), "somebody waits without a bell"
    window.put([Entry(3, 0, b"!")], 0)
    waiting.join(HANG)
    assert not waiting.is_alive()
    assert not window.heeded(0)
    one.close()
    other.close()
    assert window.heeded(0)


def test_nothing_of_the_old_log_comes_by_a_late_answer() -> None:
    """A reader has asked, and the log is another one when the answer comes."""
    shelf, log = lazy_shelf()
    window = shelf.window("t", 0)
    life = window.life
    window.shut()
    window.begin(0)
    window.put([Entry(0, 0, b"old")], 0, life=life)
    assert window.take(0, 10) != [Entry(0, 0, b"old")]
    log.append(b"new")
    assert [entry.payload for entry in log.read(0)] == [b"new"]


def test_a_window_holds_what_readers_need_and_no_more() -> None:
    window = Window("t", 0)
    window.begin(0)
    for offset in range(10_000):
        window.put([Entry(offset, 0, b"x" * 100)], 0)
        window.take(offset, 10)
    assert window.high - window.low <= 1024
    large = 1 << 18
    for offset in range(10_000, 10_100):
        window.put([Entry(offset, 0, b"x" * large)], 0)
    assert (window.high - window.low) * large <= 4 << 20


def test_a_log_notes_what_comes_and_not_what_is_asked_for() -> None:
    shelf = Shelf()
    log = ShelfLog(shelf, "t", "shelf://")
    assert log.capabilities.arrivals
    log.append_many([b"a", b"b"])
    asked = log.read(0)
    assert log.arrivals(asked) == [None, None]
    shelf.push()
    came = log.read(0)
    assert None not in log.arrivals(came)
    log.close()
    log.attend(0, shelf, closely=True)
