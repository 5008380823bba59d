"""The witness that ships (R22), in virtual time: what it brings, and that nothing that befalls it takes anything away."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pares.core.wire.records import BadRecord, Obituary, decode
from pares.runtime.claims.witness import Witness
from pares.sim.engine import MS, SECOND
from pares.sim.members.exhaust import SESSION_MS, Witnessed
from pares.sim.members.mutants.witnesses import WITNESSED
from pares.sim.members.plan import draw
from pares.sim.members.play import Play
from pares.sim.world.death import DeathLock
from pares.sim.world.faults import Strike
from pares.sim.world.process import Process
from pares.sim.world.simulation import World

SOON = 15 * MS
LEASE = SESSION_MS * MS


def test_a_death_on_one_machine_is_known_on_another_at_once_and_without_a_witness_after_a_session() -> None:
    seen, unseen = Witnessed(None), Witnessed(None, witness=False)
    assert seen.broken == unseen.broken == ""
    assert 0 < seen.took < SOON
    assert unseen.took > LEASE // 2


def strikes(make: Callable[[int], Strike], *, near: int, far: int) -> list[tuple[int, Witnessed]]:
    """Runs in which the witness is struck at one of its calls: at each, up to `near` before and after the death of the leader,
    and at every `far`th of the others."""
    plain = Witnessed(None)
    assert plain.calls > plain.calls_before + near > 2 * near
    around = range(plain.calls_before - near, plain.calls_before + near)
    return [(call, Witnessed(make(call))) for call in sorted({*around, *range(1, plain.calls, far)})]


def test_killed_at_its_calls_it_takes_nothing_away() -> None:
    runs = strikes(lambda call: Strike("kill", call, ""), near=40, far=60)
    assert [(call, run.broken) for call, run in runs if run.broken] == []
    assert all(run.struck for _, run in runs)
    quick = [run.took < SOON for _, run in runs]
    assert any(quick), "killed when it had said what it saw"
    assert not all(quick), "killed before"


@pytest.mark.parametrize("error", ["MemoryError", "OSError"])
def test_raised_at_some_calls_it_takes_nothing_away(error: str) -> None:
    kind = "OSError" if error == "OSError" else "MemoryError"
    runs = strikes(lambda call: Strike("raise", call, error=kind), near=12, far=150)
    assert [(call, run.broken) for call, run in runs if run.broken] == []


def test_frozen_at_some_calls_it_takes_nothing_away() -> None:
    runs = strikes(lambda call: Strike("freeze", call, length=2 * SESSION_MS * MS), near=15, far=150)
    assert [(call, run.broken) for call, run in runs if run.broken] == []


def test_seeds_with_two_witnesses_a_machine_keep_every_promise() -> None:
    told = 0
    for seed in range(2000, 2003):
        faults = {"crash": 1.0, "tamper": 1.0, "freeze": 1.0}
        played = Play(draw(seed, {**WITNESSED, "witnesses": 2, "shared": seed % 2 == 0, "faults": faults}))
        outcome = played.play()
        assert not outcome.broken, outcome.what
        ground: Any = played.stage
        told += sum(isinstance(_decoded(payload), Obituary) for _, _, payload in ground.log.entries())
    assert told > 0, "deaths are told"


def _decoded(payload: bytes) -> object:
    try:
        return decode(payload)
    except BadRecord:
        return None


class OneLock:
    """A member's lock on one machine, and a watch of a witness on the same or another one."""

    def __init__(self, *, other: str = "one", shared: bool = False) -> None:
        self.proven: list[str] = []
        self.provable: list[int] = []
        self.lock: DeathLock | None = None
        self.world = World(1)
        self.world.locks.shared = shared
        with self.world.playing() as world:
            self.process = world.start("a", self._lives, machine="one")
            world.run(SECOND)
            self.before()
            world.start("w", self._watches, machine=other)
            world.run(2 * SECOND)
            self.after()
            world.run(4 * SECOND)

    def before(self) -> None:
        """Done to it before it is watched."""

    def after(self) -> None:
        """Done while it is watched."""
        self.world.kill(self.process)

    def _lives(self, process: Process) -> None:
        self.lock = process.host.death_lock(Path("/locks"), "a~1")
        process.host.sleep(100)

    def _watches(self, process: Process) -> None:
        assert self.lock is not None
        host = process.host
        deaths, bells = host.deaths(Path("/locks"), witness=True), host.bells(None)
        bells.also(deaths.filenos())
        deaths.watch({"a~1": self.lock.statement})
        while True:
            self.proven += deaths.check(host.now())
            self.provable.append(len(deaths.provable))
            bells.wait(0.1)

    @property
    def locks(self) -> Any:
        return self.world.locks


def test_the_file_that_was_stated_proves_a_death() -> None:
    assert OneLock().proven == ["a~1"]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("how", ["replace", "remove_file_of"])
def test_a_file_that_was_removed_or_replaced_proves_nothing(how: str, when: str) -> None:
    """Neither of a member that lives nor of one that is gone."""

    class Tampered(OneLock):
        def before(self) -> None:
            if when == "before":
                getattr(self.locks, how)(self.lock)

        def after(self) -> None:
            if when == "after":
                getattr(self.locks, how)(self.lock)
            self.world.after(SECOND, self.world.kill, self.process)

    found = Tampered()
    assert found.proven == []
    assert when != "before" or set(found.provable) == {0}


def test_a_folder_that_machines_share_shows_files_and_proves_nothing() -> None:
    class Lives(OneLock):
        def after(self) -> None:
            """Its lock is free for whoever sees the file from another machine."""

    assert OneLock(other="two", shared=True).proven == []
    assert Lives(other="two", shared=True).proven == []
    assert OneLock(shared=True).proven == ["a~1"], "on its own machine it is what it was"


def test_a_member_starts_one_witness_for_its_machine_and_leaves_it_there() -> None:
    import pares

    world = World(1)
    world.log("log")

    def main(process: Process) -> None:
        with pares.Member("sim://log", group="g", roles=["r"], session=0.3, witness=True, name=process.name) as me:
            assert me.wait("r", 5) or process.name == "b"
            process.host.sleep(100)

    with world.playing():
        first = world.start("a", main, machine="one")
        world.run(SECOND)
        world.start("b", main, machine="one")
        world.run(2 * SECOND)
        world.kill(first)
        world.run(3 * SECOND)
        started = [p for name, p in world.processes.items() if name.startswith("witness")]
        assert [p.alive for p in started] == [True]


def test_a_witness_tells_how_it_is() -> None:
    world = World(1)
    world.log("log")
    said: list[Any] = []
    deaths: list[tuple[str, str]] = []

    def member(process: Process) -> None:
        import pares

        with pares.Member("sim://log", group="g", roles=["r"], session=0.3, name=process.name):
            process.host.sleep(100)

    def watch(process: Process) -> None:
        with Witness("sim://log", group=["g", "h"], on_death=lambda *death: deaths.append(death)) as witness:
            for _ in range(3):
                process.host.sleep(1)
                said.append(witness.health())

    with world.playing():
        a = world.start("a", member, machine="one")
        world.start("b", member, machine="two")
        world.start("w", watch, machine="one")
        world.run(int(1.5 * SECOND))
        world.kill(a)
        world.run(5 * SECOND)
    assert [health.ready for health in said] == [True] * 3
    assert [len(health.watched) for health in said] == [1, 0, 0]
    assert [health.deaths for health in said] == [0, 1, 1]
    assert said[0].unseen == ()
    assert [(group, member.partition("~")[0]) for group, member in deaths] == [("g", "a")]
    assert list(said[0].groups) == ["g", "h"]
