"""The bus in virtual time: everybody hears what reaches it, in order, once; and only its own side of a split."""

from __future__ import annotations

import pytest

from pares.core.errors import ClosedError, LedgerUnavailable
from pares.ledger import Bus
from pares.sim.engine import MS, SECOND
from pares.sim.world.bus import Air
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
