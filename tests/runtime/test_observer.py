"""Reading along: an observer says what the log has decided, writes nothing, and needs no thread."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from runtime_tools import CALM, PATIENCE, Crew, Faulty, descriptors, fresh_url

import pares
from pares.core.errors import ConfigError, LedgerUnavailable
from pares.core.wire.changes import DidChanged, MemberJoined, MemberLeft, RoleChanged, SeatChanged
from pares.ledger.memory import drop
from pares.runtime import observer as looking
from pares.runtime.detect import traits_in
from pares.runtime.views import holders as looking_holders


def test_it_sees_who_leads(any_crew: Crew) -> None:
    with pares.Observer(any_crew.ledger, group="g") as observer:
        assert observer.leader("A") is None
        assert observer.leaders("A") == []
        me = any_crew.leader("a", host="here")
        holder = observer.leader("A")
        assert holder is not None
        term = me.term("A")
        assert term is not None
        assert (holder.member, holder.name, holder.host) == (me.id, "a", "here")
        assert (holder.role, holder.seat, holder.token) == ("A", 0, term.token)
        other = any_crew.standby("b")
        me.hand_over("A", to="b")
        assert other.wait("A", PATIENCE)
        assert (holder := observer.leader("A")) is not None
        assert holder.name == "b"
        assert set(observer.world.members) == {me.id, other.id}
        assert set(observer.world.roles) == {"A"}
        assert not observer.adrift


def test_it_writes_nothing_and_has_no_thread(url: str) -> None:
    with pares.Member(url, group="g", roles=["A"], session=CALM) as me:
        assert me.wait("A", PATIENCE)
    ledger = pares.open(url)
    end, threads = ledger.end(), {*threading.enumerate()}
    with pares.Observer(url, group="g") as observer:
        assert observer.leader("A") is None
        assert "A" in observer.world.roles
        assert {*threading.enumerate()} <= threads
    assert ledger.end() == end
    ledger.close()


def test_events_are_the_groups_history(any_crew: Crew) -> None:
    with pares.Observer(any_crew.ledger, group="g") as observer:
        me = any_crew.leader("a")
        other = any_crew.standby("b")
        me.hand_over("A", to="b", why="by the test")
        assert other.wait("A", PATIENCE)
        other.close()
        assert me.wait("A", PATIENCE)
        me.close()
        changes = list(observer.events(timeout=0.3))
        seats = [(change.cause, change.holder, change.why) for change in changes if isinstance(change, SeatChanged)]
        assert seats[0][:2] == ("claim", me.id)
        assert ("transfer", other.id, "by the test") in seats
        assert [change.name for change in changes if isinstance(change, MemberJoined)] == ["a", "b"]
        assert [change.name for change in changes if isinstance(change, MemberLeft)] == ["b", "a"]
        assert [change.role for change in changes if isinstance(change, RoleChanged)] == ["A"]
        did = [(change.member, change.what) for change in changes if isinstance(change, DidChanged)]
        assert did[:2] == [(me.id, "lead"), (me.id, "stop")]
        tokens = [change.token for change in changes if isinstance(change, SeatChanged) and change.holder]
        assert tokens == sorted(tokens)


def test_events_wait_for_what_comes(crew: Crew) -> None:
    with pares.Observer(crew.ledger, group="g") as observer:
        heard: list[object] = []

        def listen() -> None:
            for change in observer.events(timeout=PATIENCE):
                heard.append(change)
                if isinstance(change, MemberLeft):
                    return

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        crew.leader("a").close()
        thread.join(2 * PATIENCE)
        assert any(isinstance(change, MemberLeft) for change in heard)


def test_several_threads_may_ask(crew: Crew) -> None:
    me = crew.leader("a")
    wrong: list[object] = []
    with pares.Observer(crew.ledger, group="g") as observer:

        def ask() -> None:
            for _ in range(200):
                holder = observer.leader("A")
                if holder is None or holder.member != me.id:
                    wrong.append(holder)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
    assert wrong == []


def test_other_groups_and_noise_are_skipped(crew: Crew, memory: str) -> None:
    ledger = pares.open(memory)
    ledger.append_many([b"", b"\xff\xfe", b"[" * 5000, b'{"k":"beat"}', b"null"])
    with pares.Member(memory, group="other", roles=["A"], session=CALM) as stranger:
        assert stranger.wait("A", PATIENCE)
        me = crew.leader("a")
        with pares.Observer(memory, group="g") as observer:
            assert set(observer.world.members) == {me.id}
    ledger.close()


def test_a_log_that_was_begun_anew(memory: str) -> None:
    with pares.Observer(memory, group="g") as observer:
        with pares.Member(memory, group="g", roles=["A"], session=CALM, name="before") as me:
            assert me.wait("A", PATIENCE)
            assert (holder := observer.leader("A")) is not None
            assert holder.name == "before"
            observer.world  # noqa: B018 - it has read up to here
        drop(memory.removeprefix("memory://"))
        with pares.Member(memory, group="g", roles=["B"], session=CALM, name="after") as me:
            assert me.wait("B", PATIENCE)
            assert observer.leader("A") is None
            assert (holder := observer.leader("B")) is not None
            assert holder.name == "after"


def test_a_log_whose_beginning_is_gone(memory: str) -> None:
    """Nobody can know who leads, until the group has begun a new one."""
    with pares.Member(memory, group="g", roles=["A"], session=CALM, name="before") as me:
        assert me.wait("A", PATIENCE)
    ledger = pares.open(memory)
    ledger.trim(ledger.end())
    with pares.Observer(memory, group="g") as observer:
        assert observer.adrift
        assert observer.leader("A") is None
        with pares.Member(memory, group="g", roles=["A"], session=0.3, name="after") as me:
            assert me.wait("A", PATIENCE)
            assert (holder := observer.leader("A")) is not None
            assert holder.name == "after"
            assert not observer.adrift
    ledger.close()


def test_a_ledger_out_of_reach(faulty: Faulty) -> None:
    observer = pares.Observer(faulty, group="g")
    faulty.away()
    with pytest.raises(LedgerUnavailable):
        observer.leader("A")
    faulty.back()
    assert observer.leader("A") is None
    observer.close()
    observer.close()


def test_what_it_refuses(tmp_path: Path) -> None:
    before = descriptors()
    with pytest.raises(ConfigError, match="group"):
        pares.Observer(fresh_url("memory", tmp_path), group="")
    with pytest.raises(ConfigError, match="readonly makes nothing"):
        pares.Observer(f"sqlite:///{tmp_path}/nosuch.db", group="g", options={"readonly": True})
    with pytest.raises(ConfigError, match="unknown option"):
        pares.Observer(fresh_url("memory", tmp_path), group="g", options={"colour": "red"})
    assert descriptors() == before


def test_it_leaves_nothing_open(url: str) -> None:
    pares.open(url).close()
    before, threads = descriptors(), {*threading.enumerate()}
    for _ in range(20):
        with pares.Observer(url, group="g") as observer:
            assert list(observer.events(timeout=0.001)) == []
    assert descriptors() == before
    assert {*threading.enumerate()} <= threads


def test_a_log_that_is_out_of_reach_just_as_it_was_begun_anew(memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read from its beginning all the same, and not from where the other one was read up to."""
    old = Crew(memory)
    old.leader("a")
    with pares.Observer(memory, group="g") as observer:
        assert observer.leader("A")
        old.close()
        drop(memory.removeprefix("memory://"))
        log = pares.open(memory)
        log.append_many([b"noise"] * 1000)
        log.close()
        Crew(memory).leader("b")

        def fails(*_: object) -> bool:
            monkeypatch.setattr(looking, "traits_in", traits_in)
            raise LedgerUnavailable("by the test")

        monkeypatch.setattr(looking, "traits_in", fails)
        with pytest.raises(LedgerUnavailable):
            observer.read()
        holder = observer.leader("A")
        assert holder is not None
        assert holder.name == "b"


def test_nobody_reads_on_while_another_thread_looks_who_leads(crew: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    crew.leader("a")
    got_ahead, readers = list[bool](), list[threading.Thread]()
    with pares.Observer(crew.ledger, group="g") as observer:

        def holders(*given: Any) -> Any:
            readers.append(threading.Thread(target=observer.read))
            readers[0].start()
            readers[0].join(0.3)
            got_ahead.append(not readers[0].is_alive())
            return looking_holders(*given)

        monkeypatch.setattr(looking, "holders", holders)
        assert observer.leader("A") is not None
        readers[0].join(PATIENCE)
    assert got_ahead == [False]
