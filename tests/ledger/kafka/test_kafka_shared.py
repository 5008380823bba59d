"""What the threads of one process share of what brokers have answered."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest
from kafka_stages import Cluster, opened
from log_tools import PATIENT, append_again, open_again, until

from pares.core.errors import LedgerRewound, LedgerUnavailable
from pares.ledger.base import MAX_READ_BYTES, Entry
from pares.ledger.kafka import shared
from pares.ledger.kafka.log import KafkaLedger
from pares.ledger.kafka.shared import Passage, Passages, Together

HANG = 60.0
HERE = "t", 0


class Service:
    """Answers one question after the other, each when it is told to."""

    def __init__(self) -> None:
        self.asked = 0
        self.heard = threading.Semaphore(0)
        self.may_answer = threading.Semaphore(0)
        self.fails = False

    def answer(self) -> int:
        self.asked += 1
        mine = self.asked
        self.heard.release()
        assert self.may_answer.acquire(timeout=HANG)
        if self.fails:
            raise LedgerUnavailable("no answer in time")
        return mine


class Callers:
    """Threads that ask the same."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.together = Together[int](HANG)
        self.told: list[int | str] = []
        self._threads: list[threading.Thread] = []

    def ask(self) -> None:
        def asks() -> None:
            try:
                self.told.append(self.together.ask(self.service.answer))
            except LedgerUnavailable as error:
                self.told.append(str(error))

        thread = threading.Thread(target=asks, daemon=True)
        self._threads.append(thread)
        thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(HANG)
            assert not thread.is_alive()


@pytest.fixture
def callers() -> Iterator[Callers]:
    made = Callers(Service())
    yield made
    made.service.may_answer.release(1000)
    made.join()


class Counting:
    """A lock that counts how often it was let go."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = threading.Condition()
        self._left = 0

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        with self._count:
            self._left += 1
            self._count.notify_all()

    def wait(self, times: int) -> None:
        with self._count:
            assert self._count.wait_for(lambda: self._left >= times, HANG)


def test_those_that_come_meanwhile_share_the_next_answer_and_none_that_was_asked_before(callers: Callers) -> None:
    service, lock = callers.service, Counting()
    callers.together._lock = lock  # type: ignore[assignment]  # pyright: ignore
    callers.ask()
    assert service.heard.acquire(timeout=HANG)
    for _ in range(20):
        callers.ask()
    lock.wait(2 + 20)  # the first has come, and begun to ask; all others have come
    service.may_answer.release()
    assert service.heard.acquire(timeout=HANG)
    service.may_answer.release()
    callers.join()
    assert sorted(map(str, callers.told)) == sorted(["1", *["2"] * 20])


def test_an_error_is_told_to_all_and_the_next_one_asks_anew(callers: Callers) -> None:
    service = callers.service
    service.fails = True
    service.may_answer.release(2)
    callers.ask()
    callers.join()
    assert callers.told == ["no answer in time"]
    service.fails = False
    callers.ask()
    callers.join()
    assert callers.told[1:] == [2]


def test_one_that_is_interrupted_leaves_nobody_waiting() -> None:
    together, asks, told = Together[int](HANG), threading.Event(), list[str]()
    may = threading.Event()

    def interrupted() -> int:
        asks.set()
        assert may.wait(HANG)
        raise KeyboardInterrupt

    def first() -> None:
        with pytest.raises(KeyboardInterrupt):
            together.ask(interrupted)

    def second() -> None:
        told.append(str(together.ask(lambda: 7)))

    threads = [threading.Thread(target=each, daemon=True) for each in (first, second)]
    threads[0].start()
    assert asks.wait(HANG)
    threads[1].start()
    may.set()
    for thread in threads:
        thread.join(HANG)
    assert told == ["7"]


def entries(first: int, count: int, size: int = 10) -> list[Entry]:
    return [Entry(first + number, 0, b"x" * size) for number in range(count)]


def offsets(found: list[Entry]) -> list[int]:
    return [entry.offset for entry in found]


def test_a_waiter_that_is_interrupted_leaves_nobody_waiting() -> None:
    together, asks, may, told = Together[int](HANG), threading.Event(), threading.Event(), list[int]()

    def slow() -> int:
        asks.set()
        assert may.wait(HANG)
        return 1

    class Broken:
        """An interrupt while the next one waits for its turn."""

        def acquire(self, **_: object) -> None:
            raise KeyboardInterrupt

    first = threading.Thread(target=lambda: told.append(together.ask(slow)), daemon=True)
    first.start()
    assert asks.wait(HANG)
    turn, together._asks = together._asks, Broken()  # type: ignore[assignment]  # pyright: ignore
    with pytest.raises(KeyboardInterrupt):
        together.ask(lambda: 2)
    together._asks = turn  # pyright: ignore[reportPrivateUsage]
    may.set()
    first.join(HANG)
    assert together.ask(lambda: 3) == 3
    assert told == [1]


def test_who_asks_while_it_asks_does_not_wait_for_itself() -> None:
    """As the handler of a signal does, on the thread that asks."""
    together = Together[int](HANG)
    assert together.ask(lambda: 1 + together.ask(lambda: 1)) == 2
    assert together.ask(lambda: 3) == 3


def test_each_that_waits_has_an_error_of_its_own(callers: Callers) -> None:
    together, errors = Together[int](HANG), list[BaseException]()

    def fails() -> int:
        raise LedgerUnavailable("no answer", unknown=True)

    for _ in range(2):
        with pytest.raises(LedgerUnavailable) as caught:
            together.ask(fails)
        errors.append(caught.value)
    assert errors[0] is not errors[1]
    assert all(isinstance(error, LedgerUnavailable) and error.unknown for error in errors)


def test_a_passage_serves_readers_that_do_not_keep_step() -> None:
    passages = Passages()
    passages.put(HERE, entries(0, 100), shared.time.monotonic())
    for at in (0, 30, 60):
        found = passages.reaching(HERE, at)
        assert found is not None
        assert not found.lacks(at, 150, 40)
        assert offsets(found.take(at, 40)) == list(range(at, at + 40))
    found = passages.reaching(HERE, 61)
    assert found is not None
    assert found.lacks(61, 150, 40), "a read that is short has come to the end"
    assert not found.lacks(61, 100, 40)
    assert passages.reaching(HERE, 100) is found, "one that stands right behind goes on with it"
    assert passages.reaching(HERE, 101) is None
    assert passages.reaching(("t", 1), 0) is None
    passages.forget()
    assert passages.reaching(HERE, 0) is None


def test_a_passage_goes_on_from_its_last_entry_if_that_is_unchanged() -> None:
    passage = Passage(HERE, entries(0, 10), 5.0)
    assert passage.goes_on(entries(9, 11), 6.0)
    assert (passage.asked, offsets(passage.take(0, 100))) == (6.0, list(range(20)))
    assert passage.goes_on(entries(19, 1), 7.0)
    assert (passage.asked, passage.last.offset) == (7.0, 19)


@pytest.mark.parametrize(
    "came",
    [
        pytest.param([], id="lost"),
        pytest.param([Entry(9, 0, b"y" * 10), Entry(10, 0, b"x")], id="another"),
        pytest.param([Entry(10, 0, b"x" * 10)], id="gone"),
    ],
)
def test_a_passage_of_another_log_does_not_go_on(came: list[Entry]) -> None:
    passage = Passage(HERE, entries(0, 10), 5.0)
    assert not passage.goes_on(came, 6.0)
    assert (passage.asked, offsets(passage.take(0, 100))) == (5.0, list(range(10)))


def test_a_passage_that_is_too_large_lets_go_of_its_first_half() -> None:
    size = MAX_READ_BYTES // 4
    passage = Passage(HERE, entries(0, 3, size), 5.0)
    passage.shorten()
    assert passage.reaches(0)
    assert passage.goes_on(entries(2, 4, size), 6.0)
    assert offsets(passage.take(0, 3)) == [0, 1, 2], "not before its reader has what it asked for"
    passage.shorten()
    assert offsets(passage.take(3, 10)) == [3, 4, 5]
    assert not passage.reaches(2)


def test_holes_of_a_passage_are_passed_over() -> None:
    passage = Passage(HERE, [entry for entry in entries(0, 100) if entry.offset % 10], 5.0)
    assert not passage.reaches(0)
    assert all(offsets(passage.take(at, 1)) == [at if at % 10 else at + 1] for at in range(1, 100))


def test_what_goes_beyond_an_end_that_was_asked_for_later_is_of_another_log(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(shared.time, "monotonic", lambda: now)
    passages = Passages()
    passages.put(HERE, entries(0, 100), shared.time.monotonic())
    passages.put(("t", 1), entries(0, 100), shared.time.monotonic())
    passages.ends(HERE, 60, 99.0)
    assert passages.reaching(HERE, 0), "it ended there before these were fetched"
    passages.ends(HERE, 100, 101.0)
    assert passages.reaching(HERE, 0)
    passages.ends(HERE, 99, 101.0)
    assert not passages.reaching(HERE, 0)
    assert passages.reaching(("t", 1), 0), "of this partition nobody has said so"


def test_what_a_handler_raises_on_the_thread_that_asks_is_no_affair_of_others(callers: Callers) -> None:
    callers.service.may_answer.release(1000)
    asks, may, raised = threading.Event(), threading.Event(), list[BaseException]()

    def timed_out() -> int:
        asks.set()
        assert may.wait(HANG)
        raise TimeoutError

    def first() -> None:
        try:
            callers.together.ask(timed_out)
        except TimeoutError as error:
            raised.append(error)

    thread = threading.Thread(target=first, daemon=True)
    thread.start()
    assert asks.wait(HANG)
    callers.ask()
    may.set()
    thread.join(HANG)
    callers.join()
    assert (len(raised), callers.told) == (1, [1])


def test_one_that_is_to_ask_for_all_waits_no_longer_than_they_do() -> None:
    together = Together[int](0.05)
    with together._asks, pytest.raises(LedgerUnavailable, match="has not: ask again"):  # pyright: ignore[reportPrivateUsage]
        together.ask(lambda: 1)
    assert together.ask(lambda: 2) == 2


def test_nobody_waits_for_ever_for_one_that_has_gone() -> None:
    together = Together[int](0.05)
    together._next = gone = shared._Answer[int]()  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(LedgerUnavailable, match="has not: ask again"):
        together.ask(lambda: 1)
    gone.since -= 1.0
    assert together.ask(lambda: 2) == 2
    assert together.ask(lambda: 3) == 3


def test_a_handler_on_a_thread_that_waits_asks_for_itself(callers: Callers) -> None:
    service, together, told = callers.service, callers.together, list[int]()
    callers.ask()
    assert service.heard.acquire(timeout=HANG)
    signal.signal(signal.SIGUSR2, lambda *_: told.append(together.ask(lambda: 7)))
    try:
        threading.Timer(0.2, signal.raise_signal, [signal.SIGUSR2]).start()
        threading.Timer(0.4, service.may_answer.release, [2]).start()
        assert together.ask(service.answer) == 2
        assert told == [7]
    finally:
        signal.signal(signal.SIGUSR2, signal.SIG_DFL)


def test_only_so_much_is_kept_and_the_last_fetch_in_any_case() -> None:
    passages, many = Passages(), range(0, 600, 20)
    for at in many:
        passages.put(HERE, entries(at, 10), shared.time.monotonic())
        passages.reaching(HERE, 0)  # somebody goes on reading there
    kept = [at for at in many if passages.reaching(HERE, at)]
    assert kept == [0, *many[1 - len(kept) :]]
    assert 4 < len(kept) < len(many)
    passages.put(HERE, entries(1000, 2, MAX_READ_BYTES), shared.time.monotonic())
    assert passages.reaching(HERE, 1001)
    assert not passages.reaching(HERE, 580)


def test_of_several_the_one_that_reaches_furthest_is_taken() -> None:
    passages = Passages()
    for first, count in ((0, 10), (5, 20), (8, 3)):
        passages.put(HERE, entries(first, count), shared.time.monotonic())
    assert [found.last.offset for at in (0, 5, 8, 11) if (found := passages.reaching(HERE, at))] == [9, 24, 24, 24]


def test_what_nobody_goes_on_from_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(shared.time, "monotonic", lambda: now)
    passages = Passages()
    passages.put(HERE, entries(0, 10), now)
    now += 20.0
    passages.put(HERE, entries(20, 10), now)
    now += 20.0
    passages.tidy()
    assert [bool(passages.reaching(HERE, at)) for at in (0, 20)] == [False, True]


def test_many_that_read_one_log_have_it_sent_a_few_times(cluster: Cluster, topic: str) -> None:
    """Each reads all of it, in its own time, and looks at what it read last, as members do that had no news for a while."""
    ledger, readers, fetched = opened(cluster, topic, timeout=PATIENT), 20, list[int]()
    expected = [b"%d" % number for number in range(5000)]
    ledger.append_many(expected)
    seeker = cast(KafkaLedger, ledger)._shared.seeker  # pyright: ignore[reportPrivateUsage]
    collect = seeker._collect  # pyright: ignore[reportPrivateUsage]

    def counted(*args: Any) -> Any:
        error, entries = collect(*args), args[4]
        fetched.append(len(entries))
        return error

    seeker._collect = counted  # type: ignore[method-assign]  # pyright: ignore
    found = list[list[bytes]]()

    def reads() -> None:
        got = list[bytes]()
        while entries := ledger.read(len(got), max_records=200):
            got += [entry.payload for entry in entries]
            assert ledger.read(len(got) - 1, max_records=1)[0].payload == got[-1]
        found.append(got)

    threads = [threading.Thread(target=reads, daemon=True) for _ in range(readers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG)
    assert found == [expected] * readers
    assert sum(fetched) < 3 * len(expected)
    ledger.close()


def test_what_was_fetched_before_is_not_handed_on_when_the_log_is_another_one(cluster: Cluster, topic: str) -> None:
    """Also where it is as long by then, and nobody has looked in between."""
    ledger = opened(cluster, topic, timeout=PATIENT)
    ledger.append_many([b"old"] * 500)
    assert len(ledger.read(0, max_records=200)) == 200
    cluster.delete(topic)
    other = open_again(lambda: opened(cluster, topic, timeout=PATIENT))
    while append_again(other, b"new") < 600:
        pass
    seen = list[set[bytes]]()

    def new() -> bool:
        try:
            seen.append({entry.payload for entry in ledger.read(200, max_records=200)})
        except (LedgerUnavailable, LedgerRewound):
            return False
        return seen[-1] == {b"new"}

    until(new)
    assert all(len(each) == 1 for each in seen), "one read is of one log"
    ledger.close()
    other.close()
