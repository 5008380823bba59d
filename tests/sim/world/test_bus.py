"""The bus in virtual time: everybody hears what reaches it, in order, once; and only its own side of a split."""

from __future__ import annotations

import pytest

from pares.core.errors import ClosedError, LedgerUnavailable
from pares.ledger import Bus
from pares.sim.engine import MS, SECOND
from pares.sim.world.bus import Air, SimBus
from pares.sim.world.process import Process
from pares.sim.world.simulation import World


class Heard:
    """Three processes that listen; `a` publishes 50 messages, 10 ms apart."""

    def __init__(self, seed: int = 1, air: Air = Air()) -> None:
        self.by: dict[str, list[int]] = {"a": [], "b": [], "c": []}
        self.errors: list[Exception] = []
        self.world = World(seed)
        self.bus = self.world.bus()
        with self.world.playing() as world:
            for name in self.by:
                world.start(name, lambda process: self._main(process, air))
            self.arrange()
            world.run(5 * SECOND)

    def arrange(self) -> None:
        """What befalls them."""

    def handle(self, name: str) -> SimBus:
        return next(handle for handle in self.bus.handles if handle.process.name == name)

    def _main(self, process: Process, air: Air) -> None:
        bus = self.world.on_bus(process, self.bus, air)
        assert isinstance(bus, Bus)
        stop = bus.listen("s", lambda payload: self.by[process.name].append(int(payload)))
        bus.listen("other", lambda payload: self.errors.append(AssertionError("another subject")))
        process.host.sleep(0.1)
        if process.name == "a":
            for number in range(50):
                try:
                    bus.publish("s", b"%d" % number)
                except LedgerUnavailable as error:
                    self.errors.append(error)
                process.host.sleep(0.01)
        process.host.sleep(2)
        stop()
        bus.close()
        with pytest.raises(ClosedError):
            bus.publish("s", b"")


def test_everybody_hears_everything_in_order_the_sender_too() -> None:
    heard = Heard(air=Air(delay=(MS, 50 * MS)))
    assert heard.by == {name: list(range(50)) for name in "abc"}
    assert heard.errors == []


def test_some_messages_are_lost_and_none_comes_twice() -> None:
    heard = Heard(air=Air(dropped=0.3))
    for numbers in heard.by.values():
        assert 10 < len(numbers) < 50
        assert numbers == sorted(set(numbers))
    assert heard.by["b"] != heard.by["c"], "each is lost on its own way"


def test_messages_pass_within_a_side_of_a_split_only() -> None:
    class Split(Heard):
        def arrange(self) -> None:
            self.world.at(350 * MS, self.bus.split, {"a", "b"}, {"c"})
            self.world.at(450 * MS, self.bus.split)

    heard = Split()
    assert heard.by["a"] == heard.by["b"] == list(range(50))
    missing = sorted(set(range(50)) - set(heard.by["c"]))
    assert 8 <= len(missing) <= 12
    assert missing == list(range(missing[0], missing[-1] + 1))


def test_a_process_that_is_cut_off_hears_nothing_and_is_told_when_it_speaks() -> None:
    class Cut(Heard):
        def arrange(self) -> None:
            def cut(now: bool) -> None:
                for handle in self.bus.handles:
                    handle.cut = now and handle.process.name in "ac"

            self.world.at(350 * MS, cut, True)
            self.world.at(450 * MS, cut, False)

    heard = Cut()
    assert 8 <= len(heard.errors) <= 12
    assert all(isinstance(error, LedgerUnavailable) for error in heard.errors)
    assert heard.by["a"] == heard.by["b"] == heard.by["c"]
    assert len(heard.by["b"]) == 50 - len(heard.errors)


def test_a_bad_bus_carries_messages_late_and_twice() -> None:
    late = Heard(air=Air(late=0.2, late_by=(20 * MS, 60 * MS)))
    for numbers in late.by.values():
        assert sorted(numbers) == list(range(50))
    assert any(numbers != sorted(numbers) for numbers in late.by.values()), "some were overtaken"
    assert late.bus.hindered("a", "b") > 0
    twice = Heard(air=Air(doubled=0.2, late_by=(20 * MS, 60 * MS)))
    for numbers in twice.by.values():
        assert 50 < len(numbers) < 70
        assert set(numbers) == set(range(50))


def test_deaf_and_mute_processes_and_cuts_of_one_direction() -> None:
    class Hindered(Heard):
        def arrange(self) -> None:
            def hinder(now: bool) -> None:
                for handle in self.bus.handles:
                    handle.deaf = now and handle.process.name == "b"
                self.bus.cuts = [lambda source, target: (source, target) == ("a", "c")] if now else []

            self.world.at(350 * MS, hinder, True)
            self.world.at(450 * MS, hinder, False)

    class Mute(Heard):
        def arrange(self) -> None:
            self.world.at(350 * MS, lambda: setattr(self.handle("a"), "mute", True))

    heard = Hindered()
    assert heard.by["a"] == list(range(50))
    assert 38 <= len(heard.by["b"]) == len(heard.by["c"]) <= 42
    mute = Mute()
    assert 20 < len(mute.by["a"]) == len(mute.by["b"]) < 30, "it does not even hear itself"
    assert mute.errors == [], "and is not told"


def test_another_connection_has_another_number_and_what_was_on_its_way_is_gone() -> None:
    class Blinks(Heard):
        epochs: list[int]

        def arrange(self) -> None:
            def blink(cut: bool) -> None:
                self.handle("b").cut = cut
                self.epochs.append(self.handle("b").epoch)

            self.epochs = []
            self.world.at(350 * MS, blink, True)
            self.world.at(350 * MS + 1, blink, False)

    heard = Blinks(air=Air(delay=(15 * MS, 15 * MS)))
    assert heard.epochs == [0, 2]
    assert set(range(50)) - set(heard.by["b"]) == {24}
    assert heard.by["c"] == list(range(50))


def test_a_client_that_keeps_what_it_can_t_send_sends_it_later() -> None:
    class Keeps(Heard):
        def arrange(self) -> None:
            def cut(now: bool) -> None:
                self.handle("a").keeps = True
                self.handle("a").cut = now

            self.world.at(350 * MS, cut, True)
            self.world.at(450 * MS, cut, False)

    heard = Keeps()
    assert heard.errors == []
    assert heard.by["b"] == list(range(50))
