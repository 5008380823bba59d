"""Members that run ALLCALL while messages don't pass: a leader on each side, and one when they pass again."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from allcall_tools import CALM, PATIENCE, Port, Wire, leading, led_by, member, settle
from runtime_tools import Crew, Recorder, until

import pares
from pares.core.errors import ConfigError
from pares.fence import SqlFence
from pares.ledger import as_bus


def test_a_split_has_a_leader_on_each_side_and_one_after_it_heals(memory: str) -> None:
    ledger = pares.open(memory)
    bus = as_bus(ledger)
    wire = Wire(bus)
    crew = Crew(memory)
    barriers = {name: Recorder() for name in "abcd"}
    members = [
        member(crew, name, rank, ledger=Port(wire, name), barrier=barriers[name], order="rank", **CALM)
        for rank, name in enumerate("abcd")
    ]
    settle(members)
    wire.split("ab", "cd")
    until(lambda: leading(members) == ["a", "c"], "both sides lead")
    until(lambda: led_by(members[3]) == members[2].id, "each side knows its own")
    assert members[0].term("x") is not None
    assert members[2].term("x") is not None
    until(lambda: [p.name for p in members[3].members()] == ["c", "d"], "each side sees its own")
    wire.heal()
    until(lambda: leading(members) == ["a"], "one remains")
    settle(members)
    until(
        lambda: barriers["c"].kinds() == ["Acquired", "Fenced"], "the other was told at once, and nothing waits for it"
    )
    # The leader that remains leads on, in a new term: its token was below the other's.
    until(lambda: barriers["a"].kinds() == ["Acquired", "Fenced", "Acquired"], "it was told of each of its terms")
    for one in members:
        one.close()
    ledger.close()


def test_a_fence_lets_one_side_write_and_after_the_heal_the_leader(memory: str, tmp_path: Path) -> None:
    ledger = pares.open(memory)
    wire, crew, fence = Wire(as_bus(ledger)), Crew(memory), SqlFence()
    a, b = (member(crew, name, rank, ledger=Port(wire, name), order="rank", **CALM) for rank, name in enumerate("ab"))
    sink = sqlite3.connect(tmp_path / "sink.db")

    def write(by: pares.Member) -> None:
        term = by.wait("x", PATIENCE)
        assert term is not None
        with sink:
            fence.check(sink, term)

    settle([a, b])
    write(a)
    wire.split("a", "b")
    until(lambda: leading([a, b]) == ["a", "b"], "both lead")
    write(b)
    with pytest.raises(pares.Stale):
        write(a)
    wire.heal()
    until(lambda: not b.holds("x"), "one remains")

    def passes() -> bool:
        try:
            write(a)
        except pares.Stale:
            return False
        return True

    until(passes, "it goes on under a token that the fence takes")
    for one in (a, b):
        one.close()
    sink.close()
    ledger.close()


def test_three_sides_that_heal_have_one_leader(memory: str) -> None:
    ledger = pares.open(memory)
    wire, crew = Wire(as_bus(ledger)), Crew(memory)
    members = [member(crew, name, rank, ledger=Port(wire, name)) for rank, name in enumerate("abcdef")]
    settle(members)
    wire.split("ab", "cd", "ef")
    until(lambda: leading(members) == ["a", "c", "e"], "each side leads")
    wire.heal()
    until(lambda: len(leading(members)) == 1, "one remains")
    settle(members)  # in the end the lowest rank
    for one in members:
        one.close()
    ledger.close()


@pytest.mark.parametrize("when", ["lead", "step_down"])
def test_who_does_not_even_hear_itself_does_as_it_was_told(memory: str, when: Any) -> None:
    ledger = pares.open(memory)
    wire, crew = Wire(as_bus(ledger)), Crew(memory)
    ports = [Port(wire, name) for name in "ab"]
    a, b = (
        member(crew, port.name, rank, ledger=port, when_isolated=when, barrier=Recorder())
        for rank, port in enumerate(ports)
    )
    settle([a, b])
    term = a.term("x")
    assert term is not None
    ports[0].away = True
    assert b.wait("x", PATIENCE)
    health = a.health()
    assert health.unreachable is not None
    assert health.ok, "it knows why it hears nothing"
    assert a.holds("x") is (when == "lead")
    assert bool(term) is (when == "lead")
    assert when == "lead" or term.why == "isolated"
    ports[0].away = False
    until(lambda: a.health().unreachable is None, "it can send again")
    settle([a, b])
    for one in (a, b):
        one.close()
    ledger.close()


def test_a_call_that_the_server_does_not_take_ends_nobody(memory: str) -> None:
    ledger = pares.open(memory)
    port = Port(Wire(as_bus(ledger)), "a")
    a = member(Crew(memory), "a", ledger=port)
    assert a.wait("x", PATIENCE)
    port.error, port.away = ConfigError("max_payload=10, by the test"), True
    until(lambda: "max_payload" in (a.health().unreachable or ""), "it says so")
    port.away = False
    until(lambda: a.health().unreachable is None and a.holds("x"), "it goes on")
    a.close()
    ledger.close()
