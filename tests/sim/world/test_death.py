"""Locks on lives: free when their process is gone, and never while it stands still; seen on one machine only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pares.sim.engine import MS, SECOND
from pares.sim.world.death import DeathLock
from pares.sim.world.process import Process
from pares.sim.world.simulation import World

FOLDER = Path("/locks")


class Watched:
    """`a` takes a lock; another process watches it, by bells. `proven`: the true time at which it was proven dead."""

    def __init__(self, machine: str = "one", other: str = "one") -> None:
        self.lock: DeathLock | None = None
        self.proven: list[int] = []
        self.world = World(1)
        with self.world.playing() as world:
            self.process = world.start("a", self._lives, machine=machine)
            world.start("b", self._watches, machine=other)
            self.arrange()
            world.run(10 * SECOND)

    def arrange(self) -> None:
        """What befalls them."""

    def _lives(self, process: Process) -> None:
        self.lock = process.host.death_lock(FOLDER, "a~1")
        process.host.sleep(100)

    def _watches(self, process: Process) -> None:
        host = process.host
        host.sleep(0.1)
        deaths, bells = host.deaths(FOLDER), host.bells(None)
        assert self.lock is not None
        bells.also(deaths.filenos())
        deaths.watch({"a~1": self.lock.statement})
        while True:
            left = deaths.poll_interval(host.now())
            bells.wait(1.0 if left is None else left)
            for member in deaths.check(host.now()):
                assert member == "a~1"
                assert deaths.proven == {"a~1"}
                self.proven.append(self.world.now)


def later(at: int, what: str) -> type[Watched]:
    class Arranged(Watched):
        def arrange(self) -> None:
            def act() -> None:
                call: Any = getattr(self.world, what)
                call(self.process)

            self.world.at(at, act)

    return Arranged


def test_a_killed_process_is_proven_dead_within_milliseconds_and_once() -> None:
    found = later(2 * SECOND, "kill")()
    assert len(found.proven) == 1
    assert 2 * SECOND < found.proven[0] < 2 * SECOND + 10 * MS


def test_a_frozen_process_is_not_dead() -> None:
    assert later(2 * SECOND, "freeze")().proven == []


def test_nothing_is_proven_on_another_machine() -> None:
    kills = later(2 * SECOND, "kill")
    assert kills(other="two").proven == []
    assert kills(machine="two", other="two").proven


@pytest.mark.parametrize(("how", "provable"), [("release", False), ("abandon", True)])
def test_a_lock_that_is_released_proves_nothing_and_one_that_is_abandoned_does(how: str, provable: bool) -> None:
    class Gives(Watched):
        def _lives(self, process: Process) -> None:
            self.lock = lock = process.host.death_lock(FOLDER, "a~1")
            assert lock.lost() == ""
            process.host.sleep(2)
            getattr(lock, how)()
            assert lock.lost()
            process.host.sleep(100)

    assert bool(Gives().proven) is provable


def test_a_lock_that_was_lost_is_free_and_its_holder_can_find_out() -> None:
    said: list[str] = []

    class Loses(Watched):
        def _lives(self, process: Process) -> None:
            self.lock = lock = process.host.death_lock(FOLDER, "a~1")
            process.host.sleep(2)
            process.world.locks.lose(lock)
            said.append(lock.lost())
            process.host.sleep(100)

    assert Loses().proven
    assert "closed" in said[0]


def test_another_statement_is_nobodys_lock() -> None:
    class Forged(Watched):
        def _lives(self, process: Process) -> None:
            super()._lives(process)

        def arrange(self) -> None:
            def kill() -> None:
                assert self.lock is not None
                self.world.kill(self.process)

            self.world.at(50 * MS, self._forge)
            self.world.at(2 * SECOND, kill)

        def _forge(self) -> None:
            assert self.lock is not None
            stated = self.lock.statement
            self.lock.statement = type(stated)(stated.boot, stated.device, "77", stated.file, stated.pid)  # type: ignore[misc]

    assert Forged().proven == []


def test_a_lock_that_was_given_up_lends_its_inode_to_no_other() -> None:
    """Else the next one stands where another was, and a death goes unseen."""
    taken: list[DeathLock] = []
    world = World(1)

    def main(process: Process) -> None:
        first = process.host.death_lock(FOLDER, "a~1")
        taken.append(process.host.death_lock(FOLDER, "b~1"))
        first.release()
        taken.append(process.host.death_lock(FOLDER, "c~1"))

    with world.playing():
        world.start("a", main)
        world.run(SECOND)
    assert taken[0].statement.inode != taken[1].statement.inode
    assert [world.locks.of(member) for member in ("b~1", "c~1")] == taken
