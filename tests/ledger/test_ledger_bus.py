"""A bus made of a log."""

import threading
import time

import pytest
from ledger_stages import Stage, descriptors

from pares.core.errors import ConfigError
from pares.ledger import MAX_PAYLOAD, Bus, TailBus, as_bus
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


def test_reaches_all_who_listen_to_the_subject(stage: Stage) -> None:
    one, two = as_bus(stage.open()), as_bus(stage.open())
    assert isinstance(one, Bus)
    assert isinstance(one, TailBus)
    assert isinstance(two, TailBus)
    here, there, other = Heard(), Heard(), Heard()
    one.publish("a", b"before anybody listened")
    one.listen("a", here)
    two.listen("a", there)
    two.listen("a b", other)
    for number in range(100):
        (one, two)[number % 2].publish("a", b"%d" % number)
    one.publish("a b", b"\n\0")
    expected = [b"%d" % number for number in range(100)]
    assert here.wait(100) == expected
    assert there.wait(100) == expected
    assert other.wait(1) == [b"\n\0"]
    one.close()
    two.close()


def test_stops_when_told_to(stage: Stage) -> None:
    bus = TailBus(stage.open().topic("bus", 1))
    threads, before = threading.active_count(), descriptors()
    first, second = Heard(), Heard()
    stop_first, stop_second = bus.listen("a", first), bus.listen("a", second)
    assert threading.active_count() == threads + 1
    bus.publish("a", b"1")
    first.wait(1)
    stop_first()
    stop_first()
    bus.publish("a", b"2")
    assert second.wait(2) == [b"1", b"2"]
    assert first.messages == [b"1"]
    stop_second()
    assert threading.active_count() == threads
    for _ in range(50):
        bus.listen("a", first)
        bus.listen("b", first)
        bus.close()
    assert threading.active_count() == threads
    assert descriptors() == before
    assert first.messages == [b"1"]


def test_a_listener_can_stop_itself(stage: Stage) -> None:
    bus = TailBus(stage.open().topic("bus", 1))
    stopped = threading.Event()

    def once(payload: bytes) -> None:
        stop()
        stopped.set()

    stop = bus.listen("a", once)
    bus.publish("a", b"x")
    assert stopped.wait(HANG)
    bus.close()


def test_an_exception_in_a_listener_is_reported_and_ends_nothing(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda arguments: reported.append(str(arguments.exc_value)))
    bus, heard = TailBus(stage.open().topic("bus", 1)), Heard()

    def fails(payload: bytes) -> None:
        raise ValueError(payload.decode())

    bus.listen("a", fails)
    bus.listen("a", heard)
    bus.publish("a", b"1")
    bus.publish("a", b"2")
    heard.wait(2)
    assert reported == ["1", "2"]
    bus.close()


def test_goes_on_after_an_outage_and_on_another_log(stage: Stage) -> None:
    ledger = stage.open()
    bus, heard = TailBus(ledger), Heard()
    bus.listen("a", heard)
    bus.publish("a", b"1")
    heard.wait(1)
    stage.replace()
    deadline = time.monotonic() + HANG
    while len(heard.messages) < 2 and time.monotonic() < deadline:
        bus.publish("a", b"2")
        time.sleep(0.02)
    assert heard.messages[:2] == [b"1", b"2"]
    bus.close()


def test_ends_with_its_ledger(stage: Stage) -> None:
    threads = threading.active_count()
    ledger = stage.open()
    bus = as_bus(ledger)
    assert isinstance(bus, TailBus)
    bus.listen("a", Heard())
    ledger.close()
    deadline = time.monotonic() + HANG
    while threading.active_count() > threads and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() == threads
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


def test_bad_messages(stage: Stage) -> None:
    bus = TailBus(stage.open())
    with pytest.raises(ConfigError, match="subject"):
        bus.publish("a\nb", b"x")
    with pytest.raises(ConfigError, match="subject"):
        bus.listen("", print)
    with pytest.raises(ConfigError, match="over the limit"):
        bus.publish("a", b"x" * MAX_PAYLOAD)
    assert stage.open().end() == 0
