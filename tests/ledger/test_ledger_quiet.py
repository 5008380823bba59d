"""When readers are lazy and writers take them to be, by a stopwatch of the test's; and what is noted for those that are not."""

import gc

import pytest

from pares.ledger import Entry, window
from pares.ledger.local.stamp import own_stopwatch
from pares.ledger.window import LATELY, MANY, NONE, PERIOD, STAYS, Quiet, TailBell, Window


class Stopwatch:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def stopwatch(monkeypatch: pytest.MonkeyPatch) -> Stopwatch:
    stopwatch = Stopwatch()
    monkeypatch.setattr(window, "time", stopwatch)
    return stopwatch


def test_many_in_one_period_are_many(stopwatch: Stopwatch) -> None:
    seen = Quiet()
    for _ in range(MANY - 1):
        seen.seen(1)
    assert not seen.many
    assert seen.lately
    seen.seen(1)
    assert seen.many


def test_a_few_now_and_then_are_not_many(stopwatch: Stopwatch) -> None:
    seen = Quiet()
    for _ in range(10 * MANY):
        seen.seen(1)
        stopwatch.now += PERIOD / (MANY - 2)
    assert not seen.many


def test_it_ends_some_time_after_the_last(stopwatch: Stopwatch) -> None:
    seen = Quiet()
    seen.seen(MANY)
    stopwatch.now += NONE - 1
    seen.seen(0)
    assert seen.many
    stopwatch.now += 2
    seen.seen(0)
    assert not seen.many
    assert seen.lately, "writers wake lazy readers for longer than there can be any"
    stopwatch.now += LATELY
    assert not seen.lately


def test_one_that_was_read_later_makes_nobody_lazy(stopwatch: Stopwatch) -> None:
    seen = Quiet()
    assert not seen.lately
    for _ in range(MANY):
        seen.noted()
    assert seen.lately
    assert not seen.many


def test_a_window_notes_when_the_thread_has_brought_an_entry() -> None:
    window = Window("t", 0)
    window.begin(0)
    began = own_stopwatch()
    entries = [Entry(offset, 0, b"x") for offset in range(3)]
    window.put(entries[:2], 0)
    between = own_stopwatch()
    window.put(entries[2:], 0)
    one, two, three = window.arrivals(entries)
    assert one == two
    assert one is not None
    assert three is not None
    assert began <= one <= between <= three <= own_stopwatch()
    assert window.arrivals(window.take(1, 1) or []) == [two]
    assert window.arrivals([]) == []


def test_what_a_reader_has_asked_for_was_not_noted() -> None:
    window = Window("t", 0)
    window.begin(0)
    asked = [Entry(0, 0, b"asked"), Entry(1, 0, b"asked")]
    window.put(asked, 0, life=window.life)
    came = [Entry(2, 0, b"came")]
    window.put(came, 0)
    assert [at is None for at in window.arrivals([*asked, *came])] == [True, True, False]
    assert window.arrivals([Entry(7, 0, b"asked of the service")]) == [None]


def test_a_lazy_window_notes_nothing() -> None:
    """Its thread brings entries now and then: those that a reader brings in between have no times either."""
    window = Window("t", 0)
    window.begin(0)
    window.lazy = True
    entries = [Entry(0, 0, b"x")]
    window.put(entries, 0)
    assert window.arrivals(entries) == [None]


def test_the_time_of_another_logs_entry_is_nobodys() -> None:
    """[the log was made anew between a reading and the question when it came: the old time would end a silence too soon]"""
    window = Window("t", 0)
    window.begin(0)
    window.put([Entry(0, 0, b"old")], 0)
    new = Entry(0, 0, b"new")
    assert window.arrivals([new]) == [None]
    window.shut()
    assert window.arrivals([new]) == [None]
    window.begin(0)
    window.put([new], 0)
    assert window.arrivals([new]) != [None]


def test_times_are_dropped_with_their_entries() -> None:
    window = Window("t", 0)
    window.begin(0)
    entries = [Entry(offset, 0, b"x") for offset in range(3000)]
    times: list[int | None] = []
    for entry in entries:
        window.put([entry], 0)
        times += window.arrivals([entry])
    kept = [entry for entry in entries if entry.offset >= window.low]
    assert 0 < len(kept) <= 1024
    assert window.arrivals(entries) == [None] * (3000 - len(kept)) + times[-len(kept) :]
    assert None not in times


class Somebody:
    """A reader that is attended."""


def busy_window() -> Window:
    """On a partition in which many entries are not urgent."""
    window, quiet = Window("t", 0), range(2 * MANY)
    window.begin(0)
    assert not window.put([Entry(offset, 0, b"x") for offset in quiet], 0, quiet), "nobody wants it to be lazy"
    return window


def test_a_window_is_lazy_if_there_are_readers_to_whom_that_is_right_and_no_others(stopwatch: Stopwatch) -> None:
    window = busy_window()
    near, far = Somebody(), Somebody()
    assert not window.should_be_lazy, "a reader that says nothing hears of what is urgent at once, whoever writes it"
    window.attend(far, closely=False)
    assert window.should_be_lazy
    assert window.put([], 0), "from now on it should be"
    window.attend(near, closely=True)
    assert not window.should_be_lazy
    window.attend(near, closely=None)
    assert not window.should_be_lazy, "its group has grown, and a writer may not have read that yet"
    stopwatch.now += STAYS
    assert window.should_be_lazy
    del far
    gc.collect()
    assert not window.should_be_lazy, "it has gone without a word"


def test_writers_wake_lazy_readers_for_longer_than_there_can_be_any(stopwatch: Stopwatch) -> None:
    window = busy_window()
    one, other = Somebody(), Somebody()
    assert window.readers_may_be_lazy, "a writer that reads nothing knows of no group"
    window.attend(one, closely=True)
    assert not window.readers_may_be_lazy, "its group is small, and nobody in it is lazy"
    window.attend(other, closely=False)
    assert window.readers_may_be_lazy, "another one's group is large"
    window.attend(other, closely=True)
    assert window.readers_may_be_lazy, "the group has shrunk, and some may be lazy still"
    stopwatch.now += LATELY - 1
    window.put([Entry(2 * MANY, 0, b"x")], 0, {2 * MANY})
    assert window.readers_may_be_lazy
    stopwatch.now += 1
    assert not window.readers_may_be_lazy
    window.attend(one, closely=None)
    window.attend(other, closely=None)
    assert window.readers_may_be_lazy


def test_who_is_not_woken_for_what_is_noted_is_called_before_that_is_dropped() -> None:
    """[others write so much to the topic that a member comes when the beats of its own group are gone]"""
    window, somebody = Window("t", 0), Somebody()
    bell = TailBell(window)
    window.begin(0)
    read = 0

    def comes() -> None:
        nonlocal read
        bell.clear()
        found = window.take(read, 10_000) or []
        times.extend(window.arrivals(found))
        read = window.high

    for closely in (False, True):
        times: list[int | None] = []
        window.attend(somebody, closely=closely)
        begin = read = window.high
        for offset in range(begin, begin + 5000):
            window.put([Entry(offset, 0, b"x")], 0, {offset})
            if bell.rung:
                comes()
        if closely:
            assert None not in times
            assert len(times) == read - begin > 4000
        else:
            assert times == []
    bell.close()
