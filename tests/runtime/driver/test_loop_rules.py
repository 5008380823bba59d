"""Rules that the loop itself keeps, each of which could be broken without any protocol noticing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from runtime_tools import CALM, PATIENCE, Crew, Faulty, Recorder, binding, until

import pares
from pares.core.events import Event, Jumped, Read
from pares.ledger import Entry
from pares.runtime.clock import stopwatch
from pares.runtime.death.lock import prove
from pares.sim.members.scale import shrunk


class Altered(Faulty):
    """Its entries are other ones than they were, where `alter` says so."""

    alter: Callable[[Entry], Entry] | None = None

    def read(self, offset: int, partition: int = 0, max_records: int = 1000, timeout: float = 0.0) -> list[Entry]:
        entries = super().read(offset, partition, max_records, timeout)
        return entries if self.alter is None else [self.alter(entry) for entry in entries]


def test_a_read_is_judged_by_a_stopwatch_read_after_the_fetch(faulty: Faulty, monkeypatch: pytest.MonkeyPatch) -> None:
    """R4: a member that was stopped in the fetch must not judge what it read by the time before it."""
    returned: list[int] = []
    judged: list[tuple[int, int]] = []
    read = faulty.read_stamped

    def reads(*args: Any, **kwargs: Any) -> tuple[list[Entry], list[int | None]]:
        entries = read(*args, **kwargs)
        returned.append(stopwatch())
        return entries

    def steps(event: Event, now: int) -> list[Any]:
        if isinstance(event, Read) and returned:
            judged.append((returned[-1], now))
        return step(event, now)

    monkeypatch.setattr(faulty, "read_stamped", reads)
    me = Crew(faulty).leader("a")
    step = binding(me).core.step  # pyright: ignore
    monkeypatch.setattr(binding(me).core, "step", steps)
    until(lambda: len(judged) > 20, "it reads")
    assert all(now >= fetched for fetched, now in judged)


def test_after_an_outage_the_last_entry_is_read_again(memory: str) -> None:
    """R12: same identity, same ends, and yet another log: a broker that was restored from elsewhere."""
    inner = pares.open(memory)
    ledger = Altered(inner)
    barrier = Recorder()
    crew = Crew(ledger)
    me = crew.leader("a", barrier=barrier, session=20.0)
    first, id = me.term("A"), me.id
    assert first is not None
    until(lambda: binding(me).core.outbox.quiet, "nothing is under way")  # pyright: ignore
    ledger.away()
    until(lambda: me.health().unreachable, "it notices")
    anchor = binding(me).core.reader.anchor  # pyright: ignore
    assert anchor is not None
    ledger.alter = lambda e: Entry(e.offset, e.timestamp_ms, e.payload + b" ") if e.offset == anchor[0] else e
    ledger.back()
    until(lambda: not first, "it stops believing")
    ledger.alter = None
    assert "not what it was" in first.why
    until(lambda: me.id != id, "it begins anew")
    assert me.health().restarts == 1
    crew.close()
    inner.close()


def test_after_an_outage_an_unchanged_log_is_gone_on_with(faulty: Faulty) -> None:
    me = Crew(faulty).leader("a", session=20.0)
    term = me.term("A")
    faulty.away()
    until(lambda: me.health().unreachable, "it notices")
    faulty.back()
    until(lambda: me.health().unreachable is None, "it is back")
    assert term
    assert me.health().restarts == 0


def test_the_lock_of_a_former_incarnation_is_let_go(sqlite: str) -> None:
    """R8: so that anybody, its successor first, can prove that it is gone."""
    me = Crew(sqlite).leader("a", session=CALM)
    old, lock = me.id, me.lock
    assert lock is not None
    assert not prove(lock.path.parent, old, lock.statement)
    me._loop.request(Jumped("by the test"))
    until(lambda: me.id != old, "it begins anew")
    assert me.wait("A", PATIENCE)
    # A process that has forgotten the old one may have removed its file; what must not be is a lock that somebody holds.
    assert lock.descriptor == -1
    assert prove(lock.path.parent, old, lock.statement) or not lock.path.exists()


def test_a_barriers_return_counts_for_its_own_term_only(crew: Crew) -> None:
    """R5: the barrier of an earlier term comes back late, while that of the next one has yet to run."""
    gates: dict[int, threading.Event] = {}
    told: list[int] = []
    over = threading.Event()

    def barrier(event: pares.Event) -> None:
        if isinstance(event, pares.Revoked):
            gate = gates.setdefault(event.token, threading.Event())
            told.append(event.token)
            if over.is_set():
                return
            gate.wait(PATIENCE)

    me = crew.leader("a", barrier=barrier, barrier_timeout=1.0)
    first = me.term("A")
    assert first is not None
    me.step_down("A")
    until(lambda: told == [first.token], "its barrier runs")
    until(lambda: me.holds("A"), "that took too long: it is fenced, released, and leads again")
    second = me.term("A")
    assert second is not None
    assert second.token > first.token
    me._life.barrier_limit = CALM
    binding(me).core.tenures._barrier_ns = int(PATIENCE * 1e9)  # pyright: ignore
    me.step_down("A")
    until(lambda: not second, "its end begins")
    gates[first.token].set()
    until(lambda: told == [first.token, second.token], "the second barrier runs")
    rounds = me.health().records
    until(lambda: me.health().records >= rounds + 2, "the loop goes on")
    leader = me.leader("A")
    assert leader is not None
    assert leader.token == second.token, "it was given up while its barrier runs"
    over.set()
    gates[second.token].set()
    until(lambda: (me.leader("A") or leader).token != second.token, "now it is given up")


def test_a_member_of_a_large_group_at_rest_reads_once_for_each_beat(
    faulty: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R21: the beat is written first, and read back with all that others have written."""
    done: list[str] = []
    read, append = faulty.read_stamped, faulty.append_many

    def reads(*args: Any, **kwargs: Any) -> Any:
        done.append("read")
        return read(*args, **kwargs)

    def appends(*args: Any, **kwargs: Any) -> Any:
        done.append("append")
        return append(*args, **kwargs)

    with shrunk({"eager": 0}):
        me = Crew(faulty).leader("a", session=1.0)
        term = me.term("A")
        until(lambda: me.health().leads, "it leads")
        monkeypatch.setattr(faulty, "read_stamped", reads)
        monkeypatch.setattr(faulty, "append_many", appends)
        until(lambda: done.count("append") > 12, "it beats")
        seen = [*done]
    assert term
    assert seen.count("read") <= 1.5 * seen.count("append")
