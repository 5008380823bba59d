"""What every bus promises; and buses made of a log."""

import threading
import time
from contextlib import suppress

import pytest
from bus_stages import Buses
from ledger_stages import Stage, descriptors
from log_tools import until

from pares.core.errors import ConfigError, LedgerUnavailable
from pares.ledger import MAX_PAYLOAD, Bell, Bus, TailBus
from pares.ledger import bus as bus_module

HANG = 60.0


class Heard:
    """Collects messages, and waits for them."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self._changed = threading.Condition()

    def __call__(self, payload: bytes) -> None:
        with self._changed:
            self.messages.append(payload)
            self._changed.notify_all()

    def wait(self, count: int) -> list[bytes]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.messages) >= count, HANG), self.messages
            return self.messages


def new_threads(others: set[threading.Thread]) -> set[threading.Thread]:
    """Those that have begun since, and are still there. (Of the others one may end meanwhile.)"""
    return {*threading.enumerate()} - others


def test_reaches_all_who_listen_to_the_subject(buses: Buses) -> None:
    one, two = buses.new(), buses.new()
    assert isinstance(one, Bus)
    here, there, other = Heard(), Heard(), Heard()
    one.publish("a", b"before anybody listened")
    one.listen("a", here)
    two.listen("a", there)
    two.listen("a b", other)
    for number in range(100):
        (one, two)[number % 2].publish("a", b"%d" % number)
    one.publish("a b", b"\n\0")
    expected = [b"%d" % number for number in range(100)]
    for heard in (here, there):
        heard.wait(100)
        # Of each publisher in the order sent; how two of them mix is nobody's promise.
        for turn in (0, 1):
            assert [message for message in heard.messages if int(message) % 2 == turn] == expected[turn::2]
    assert other.wait(1) == [b"\n\0"]


def test_stops_when_told_to(buses: Buses) -> None:
    bus, warm = buses.new(), Heard()
    stop_warm = bus.listen("a", warm)
    bus.publish("a", b"what the ledger itself needs for this stays")
    warm.wait(1)
    stop_warm()
    others, before = {*threading.enumerate()}, descriptors()
    first, second = Heard(), Heard()
    stop_first, stop_second = bus.listen("a", first), bus.listen("a", second)
    assert len(new_threads(others)) == 1
    bus.publish("a", b"1")
    first.wait(1)
    stop_first()
    stop_first()
    bus.publish("a", b"2")
    assert second.wait(2) == [b"1", b"2"]
    assert first.messages == [b"1"]
    stop_second()
    assert not new_threads(others)
    for _ in range(50):
        stops = [bus.listen("a", first), bus.listen("b", first)]
        for stop in stops:
            stop()
    assert not new_threads(others)
    # A client may connect to its brokers when it likes; what leaks in each round would be 50.
    assert descriptors() < before + 25
    assert first.messages == [b"1"]


def test_a_listener_can_stop_itself(buses: Buses) -> None:
    bus = buses.new()
    stopped = threading.Event()

    def once(payload: bytes) -> None:
        stop()
        stopped.set()

    stop = bus.listen("a", once)
    bus.publish("a", b"x")
    assert stopped.wait(HANG)


def test_a_listener_can_publish(buses: Buses) -> None:
    bus, heard = buses.new(), Heard()
    bus.listen("question", lambda payload: bus.publish("answer", payload + b"!"))
    bus.listen("answer", heard)
    for number in range(10):
        bus.publish("question", b"%d" % number)
    assert heard.wait(10) == [b"%d!" % number for number in range(10)]


def test_an_exception_in_a_listener_is_reported_and_ends_nothing(buses: Buses, monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda arguments: reported.append(str(arguments.exc_value)))
    bus, heard = buses.new(), Heard()

    def fails(payload: bytes) -> None:
        raise ValueError(payload.decode())

    bus.listen("a", fails)
    bus.listen("a", heard)
    bus.publish("a", b"1")
    bus.publish("a", b"2")
    heard.wait(2)
    assert reported == ["1", "2"]


def test_subjects_of_any_kind(buses: Buses) -> None:
    """What a service gives a meaning to has none here."""
    bus = buses.new()
    subjects = ["a", "A", "a.b", "a.*", ">", "*", "a b", "$SYS", "%2E", "a~b", "\u20ac" * 200, "x" * 200]
    heard = {subject: Heard() for subject in subjects}
    for subject, listener in heard.items():
        bus.listen(subject, listener)
    for subject in subjects:
        bus.publish(subject, subject.encode())
    for subject, listener in heard.items():
        assert listener.wait(1) == [subject.encode()]


def test_bad_messages(buses: Buses) -> None:
    bus = buses.new()
    with pytest.raises(ConfigError, match="subject"):
        bus.publish("a\nb", b"x")
    with pytest.raises(ConfigError, match="subject"):
        bus.listen("", print)
    with pytest.raises(ConfigError, match="over the limit"):
        bus.publish("a", b"x" * (MAX_PAYLOAD + 1))


# Buses made of a log -------------------------------------------------------------------------------------------------


def test_goes_on_after_an_outage_and_on_another_log(stage: Stage) -> None:
    ledger = stage.open()
    bus, heard = TailBus(ledger), Heard()
    bus.listen("a", heard)
    bus.publish("a", b"1")
    heard.wait(1)
    stage.replace()
    deadline = time.monotonic() + HANG
    while len(heard.messages) < 2 and time.monotonic() < deadline:
        with suppress(LedgerUnavailable):  # what became of a message that was sent meanwhile may be unknown
            bus.publish("a", b"2")
        time.sleep(0.02)
    assert heard.messages[:2] == [b"1", b"2"]
    bus.close()


def test_a_ledger_that_has_no_bell_to_give_at_first(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A listener that begins while the service is out of reach hears all the same."""
    ledger = stage.open()
    real, asked = ledger.bell, list[int]()

    def bell(partition: int = 0) -> Bell | None:
        asked.append(partition)
        if len(asked) < 3:
            raise LedgerUnavailable("out of reach, by the test")
        return real(partition)

    monkeypatch.setattr(ledger, "bell", bell)
    bus, heard = TailBus(ledger), Heard()
    bus.listen("a", heard)
    bus.publish("a", b"1")
    heard.wait(1)
    until(lambda: len(asked) >= 3)
    bus.publish("a", b"2")
    assert heard.wait(2) == [b"1", b"2"]
    bus.close()


def test_who_listens_while_the_last_other_stops_hears_everything_once(stage: Stage) -> None:
    """The thread of those who listened before is still there, and reads on."""
    ledger = stage.open()
    log = ledger.topic("bus", 1)
    bus, heard = TailBus(log), Heard()
    stop = bus.listen("a", Heard())
    first = bus._thread
    assert first is not None
    end = first.end

    def slow_end() -> None:
        bus.listen("a", heard)
        bus.publish("a", b"once")
        heard.wait(1)
        first._deliver(log.read(0)[-1])  # as it does when it has read on
        end()

    first.end = slow_end  # type: ignore[method-assign]
    stop()
    bus.publish("a", b"last")
    assert heard.wait(2) == [b"once", b"last"]
    bus.close()
    ledger.close()


def test_ends_with_its_ledger(stage: Stage) -> None:
    others = {*threading.enumerate()}
    ledger = stage.open()
    bus = TailBus(ledger.topic("bus", 1))
    bus.listen("a", Heard())
    ledger.close()
    until(lambda: not new_threads(others))
    bus.close()


def test_old_messages_are_deleted(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bus_module, "_KEEP", 0.02)
    log = stage.open().topic("bus", 1)
    bus = TailBus(log)
    for _ in range(511):
        bus.publish("a", b"x")
    time.sleep(0.05)  # what was published so far is now older than what is kept
    bus.publish("a", b"x")
    assert log.start() >= 511
    assert log.end() == 512
