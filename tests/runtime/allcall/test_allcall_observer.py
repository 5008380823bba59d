"""Listening to a group that runs ALLCALL: who leads, who is there, who does not agree; on any bus, and saying nothing."""

from __future__ import annotations

import threading

import pytest
from allcall_tools import Port, Wire, band, leading, member, settle
from runtime_tools import Crew, until

import pares
from pares.core.errors import CapabilityError, ConfigError
from pares.core.wire.changes import Change, MemberJoined, MemberLeft, SeatChanged
from pares.ledger import as_bus


def test_it_hears_who_leads_and_who_is_there(any_crew: Crew) -> None:
    before = threading.active_count()
    with pares.Observer(any_crew.ledger, group="g", protocol="allcall") as observer:
        assert observer.leader("x") is None
        a, b = band(any_crew, "ab", host="here")
        holder = until(lambda: observer.leaders("x"), "it hears a")[0]
        term = a.term("x")
        assert term is not None
        assert (holder.member, holder.name, holder.host, holder.token) == (a.id, "a", "here", term.token)
        until(lambda: [p.views for p in observer.members()] == [{"x": a.id}] * 2, "it hears what they say")
        assert [(p.name, p.rank, p.roles) for p in observer.members()] == [("a", 0, ("x",)), ("b", 1, ())]
        assert not observer.disagreement()
        a.close()
        until(lambda: (held := observer.leader("x")) is not None and held.name == "b", "it hears b")
        b.close()
        changes: list[Change] = []

        def heard_both_leave() -> bool:
            changes.extend(observer.read(timeout=0.1))
            return {("a", "left"), ("b", "left")} <= {(c.name, c.cause) for c in changes if isinstance(c, MemberLeft)}

        until(heard_both_leave, "it hears that both have left")
        # Both began at once, each on threads of its own: which of them is heard first is not promised.
        assert {c.name for c in changes if isinstance(c, MemberJoined)} == {"a", "b"}
        assert {c.holder for c in changes if isinstance(c, SeatChanged)} >= {a.id, b.id}
        with pytest.raises(CapabilityError, match="no log"):
            _ = observer.world
        assert not observer.adrift
    until(lambda: threading.active_count() <= before, "nothing of it is left running")


def test_a_split_shows_while_it_lasts(memory: str) -> None:
    ledger = pares.open(memory)
    wire, crew = Wire(as_bus(ledger)), Crew(memory)
    a, b = (member(crew, name, rank, ledger=Port(wire, name)) for rank, name in enumerate("ab"))
    with pares.Observer(Port(wire, "o"), group="g", protocol="allcall") as observer:
        settle([a, b])
        wire.split("ao", "bo")
        until(lambda: leading([a, b]) == ["a", "b"], "both lead")
        until(lambda: observer.disagreement() == {"x": {a.id: [a.id], b.id: [b.id]}}, "it is seen")
        assert {holder.name for holder in observer.leaders("x")} == {"a", "b"}
        wire.heal()
        until(lambda: not observer.disagreement(), "it is over")
        until(lambda: len(observer.leaders("x")) == 1, "one leads")
    a.close()
    b.close()
    ledger.close()


def test_events_come_as_they_are_heard(crew: Crew) -> None:
    with pares.Observer(crew.ledger, group="g", protocol="allcall") as observer:
        (a,) = band(crew, "a")
        first = next(change for change in observer.events(timeout=20) if isinstance(change, SeatChanged))
        assert first.holder == a.id


def test_it_says_nothing(crew: Crew) -> None:
    (a,) = band(crew, "a")
    with pares.Observer(crew.ledger, group="g", protocol="allcall") as observer:
        until(lambda: observer.leader("x"), "it hears a")
        assert [peer.name for peer in a.members()] == ["a"]


def test_protocols_that_no_observer_has(memory: str) -> None:
    with pytest.raises(ConfigError, match="protocol is 'neli'"):
        pares.Observer(memory, group="g", protocol="neli")
    with pytest.raises(ConfigError, match="group"):
        pares.Observer(memory, group="", protocol="allcall")
