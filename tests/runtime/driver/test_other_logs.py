"""A log that is no longer the one that was read so far (R12): replaced, deleted, emptied, cut, or put back as it once was.

Whatever happened to it, the member drops its beliefs first, says so, and starts over; and tokens go on rising.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from runtime_tools import CALM, PATIENCE, QUICK, Crew, Faulty, Recorder, binding, elsewhere, until

import pares
from pares.ledger.memory import drop


def path_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


def beside(path: Path) -> Path:
    """A ledger of its own, beside `path`, with the same name but for an ending."""
    other = path.with_name(path.name + ".other")
    pares.open(f"sqlite:///{other}").close()
    return other


def remove(path: Path) -> None:
    for suffix in ("-wal", "-shm", ""):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def replaced_by_a_new_one(url: str) -> None:
    if url.startswith("memory://"):
        drop(url.removeprefix("memory://"))
    else:
        other, path = beside(path_of(url)), path_of(url)
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        os.replace(other, path)


def deleted_and_begun_anew(url: str) -> None:
    remove(path_of(url))
    pares.open(url).close()


def emptied(url: str) -> None:
    """Somebody with the database's own tools: same file, same identity, no entries."""
    with sqlite3.connect(path_of(url), timeout=30) as connection:
        connection.execute("DELETE FROM entries")
        connection.execute("UPDATE logs SET first = 0, next = 0")
    connection.close()


def copied(path: Path, to: Path) -> None:
    """A backup by SQLite's own means."""
    with closing(sqlite3.connect(path, timeout=30)) as source, closing(sqlite3.connect(to)) as target:
        source.backup(target)


CHANGES: list[Callable[[str], None]] = [replaced_by_a_new_one, deleted_and_begun_anew, emptied]


@pytest.mark.parametrize(
    ("kind", "change"),
    [("memory", replaced_by_a_new_one), *(("sqlite", change) for change in CHANGES)],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_lone_leader_starts_over(kind: str, change: Callable[[str], None], memory: str, sqlite: str) -> None:
    url = memory if kind == "memory" else sqlite
    barrier = Recorder()
    with pares.Member(url, group="g", roles=["A"], session=QUICK, name="a", barrier=barrier) as me:
        first, before = me.wait("A", PATIENCE), me.id
        assert first is not None
        change(url)
        assert first.wait_lost(PATIENCE)
        second = me.wait("A", PATIENCE)
        assert second is not None
        assert second.token > first.token
        assert me.id != before
        health = me.health()
        assert health.restarts >= 1
        assert any(problem.startswith("restarted: ") for problem in health.problems)
        assert health.ok
        until(lambda: barrier.kinds()[:3] == ["Acquired", "Fenced", "Acquired"], "the user was told")
        fenced = next(event for event in barrier.events if isinstance(event, pares.Fenced))
        assert fenced.token == first.token
        assert fenced.why != ""


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_group_starts_over(sqlite: str, change: Callable[[str], None]) -> None:
    crew = Crew(sqlite)
    roles = ["A", "B", "C"]
    members = [crew.member(name, roles, session=QUICK) for name in "abc"]
    until(lambda: [sum(m.holds(r) for r in roles) for m in members] == [1, 1, 1], "each leads one")
    highest = max(term.token for m in members for r in roles if (term := m.term(r)))
    change(sqlite)
    until(lambda: all(m.health().restarts >= 1 for m in members), "all have seen it")
    until(
        lambda: all(any((term := m.term(r)) and term.token > highest for m in members) for r in roles),
        "all roles are led under new tokens",
    )
    until(lambda: [sum(m.holds(r) for r in roles) for m in members] == [1, 1, 1], "each leads one again")


def test_a_deleted_file_is_an_outage_until_somebody_begins_anew(sqlite: str) -> None:
    with pares.Member(sqlite, group="g", roles=["A"], session=QUICK, name="a") as me:
        first = me.wait("A", PATIENCE)
        assert first is not None
        remove(path_of(sqlite))
        assert first.wait_lost(PATIENCE)
        until(lambda: me.health().unreachable, "it is said")
        assert "is gone" in str(me.health().unreachable)
        assert me.wait("A", 0.3) is None
        assert me.state == "live"
        with pares.Member(sqlite, group="g", roles=["A"], session=QUICK, name="b") as other:
            until(lambda: me.holds("A") or other.holds("A"), "somebody leads on the new log")
            until(lambda: me.health().restarts == 1, "it has begun anew")
            until(lambda: {peer.name for peer in other.members()} >= {"b"}, "it is in the group that it has begun")


def test_a_file_that_comes_back_is_the_same_log(sqlite: str, tmp_path: Path) -> None:
    """Moved away and back within a session: an outage, and nothing more."""
    with pares.Member(sqlite, group="g", roles=["A"], session=CALM, name="a") as me:
        term = me.wait("A", PATIENCE)
        path = path_of(sqlite)
        away = tmp_path / "away"
        away.mkdir()
        for suffix in ("", "-wal", "-shm"):
            if path.with_name(path.name + suffix).exists():
                os.rename(path.with_name(path.name + suffix), away / (path.name + suffix))
        until(lambda: me.health().unreachable, "it is noticed")
        for found in list(away.iterdir()):
            os.rename(found, path.with_name(found.name))
        until(lambda: me.health().unreachable is None, "it is over")
        assert term
        assert me.health().restarts == 0


def test_a_copy_from_before_is_another_log(sqlite: str) -> None:
    """A backup is put back: what was acknowledged since then is lost, so nobody may go on believing in it."""
    crew = Crew(sqlite)
    me = crew.leader("a", session=QUICK)
    path = path_of(sqlite)
    backup = path.with_name("backup.db")
    copied(path, backup)
    other = crew.standby("b", session=QUICK)
    me.hand_over("A", to="b")
    lost = other.wait("A", PATIENCE)
    assert lost is not None
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    os.replace(backup, path)
    assert lost.wait_lost(PATIENCE)
    until(lambda: me.health().restarts >= 1 and other.health().restarts >= 1, "both have seen it")
    until(lambda: me.holds("A") or other.holds("A"), "somebody leads")


def test_a_file_that_becomes_something_else(sqlite: str) -> None:
    """No ledger at all any more: an outage with a reason, until a ledger is back."""
    path = path_of(sqlite)
    with pares.Member(sqlite, group="g", roles=["A"], session=QUICK, name="a") as me:
        first = me.wait("A", PATIENCE)
        assert first is not None
        remove(path)
        path.write_bytes(b"these are notes, and no ledger\n" * 100)
        assert first.wait_lost(PATIENCE)
        until(lambda: me.health().unreachable, "it is said")
        assert me.wait("A", 0.3) is None
        assert me.state == "live"
        remove(path)
        pares.open(sqlite).close()
        assert me.wait("A", PATIENCE)


def test_a_gap_by_a_trim(url: str) -> None:
    """The log now starts above what the member has read: it begins anew, and tokens rise."""
    faulty = Faulty(pares.open(url))
    crew, barrier = Crew(faulty), Recorder()
    me = crew.leader("a", session=QUICK, barrier=barrier)
    first = me.term("A")
    assert first is not None
    faulty.away()
    until(lambda: me.health().unreachable, "nothing that it has written is still under way")
    with closing(pares.open(url)) as ledger:
        ledger.append_many([b"x"] * 50)
        ledger.trim(ledger.end())
    faulty.back()
    assert first.wait_lost(PATIENCE)
    until(lambda: me.health().restarts == 1, "it begins anew")
    second = me.wait("A", PATIENCE)
    assert second is not None
    assert second.token > first.token
    assert "start over" in me.health().problems[0]
    until(lambda: barrier.kinds()[:3] == ["Acquired", "Fenced", "Acquired"], "the user was told")


def test_what_is_trimmed_behind_the_readers_is_no_gap(url: str) -> None:
    crew = Crew(url)
    me, other = crew.leader("a"), crew.standby("b")
    term = me.term("A")
    ledger = pares.open(url)
    me.add_role("B")  # by the time that this returns, this member has read all before it
    until(lambda: "B" in other.roles(), "the other one too")
    ledger.trim(ledger.end() - 1)
    me.add_role("C")
    until(lambda: "C" in other.roles(), "both read on")
    assert term
    assert me.health().restarts == other.health().restarts == 0
    ledger.close()


def test_a_newcomer_enters_a_trimmed_log_through_a_snapshot(url: str) -> None:
    """The beginning is gone, members live: a newcomer is let in by them, and nothing changes hands by that."""
    crew = Crew(url)
    me = crew.leader("a", ["A", "B"], session=1.0)
    term = me.term("A")
    ledger = pares.open(url)
    me.add_role("C")
    ledger.trim(ledger.end() - 1)
    newcomer = crew.member("n", ["A", "B"], session=1.0, settle=3600)
    until(lambda: newcomer.state == "live", "it is let in")
    assert term
    assert (holder := newcomer.leader("A")) is not None
    assert (holder.member, holder.token) == (me.id, term.token)
    assert set(newcomer.roles()) == {"A", "B", "C"}
    assert newcomer.health().restarts == me.health().restarts == 0
    ledger.close()


def test_retention_cuts_what_nobody_needs(tmp_path: Path) -> None:
    """A log with retention stays short, by and by, and members neither lapse nor start over for it."""
    url = f"sqlite:///{tmp_path}/short.db?retention=1"
    crew = Crew(url)
    me = crew.leader("a", session=0.5)
    ledger = pares.open(url)
    binding(me).trimming.last_at = 0  # as if a minute had passed
    until(lambda: ledger.start() > 0, "its beginning is gone")
    newcomer = crew.member("n", session=0.5)
    until(lambda: newcomer.state == "live", "a newcomer finds its way in")
    assert (holder := newcomer.leader("A")) is not None
    assert holder.member == me.id
    assert me.health().restarts == 0
    ledger.close()


def test_tokens_rise_though_the_clock_was_set_back(memory: str) -> None:
    """A member that begins a new log has seen the tokens of the old one, and goes on above them."""
    with elsewhere() as host, pares.Member(memory, group="g", roles=["A"], session=QUICK, name="a") as me:
        first = me.wait("A", PATIENCE)
        assert first is not None
        host.wall = lambda: 1_000_000
        drop(memory.removeprefix("memory://"))
        assert first.wait_lost(PATIENCE)
        second = me.wait("A", PATIENCE)
        assert second is not None
        assert second.token > first.token


def test_a_folder_that_is_copied_is_another_place(sqlite: str, tmp_path: Path) -> None:
    """A copy of ledger and locks proves nothing about the members of the original."""
    with pares.Member(sqlite, group="g", roles=["A"], session=CALM, name="a") as me:
        assert me.wait("A", PATIENCE)
        copy = tmp_path / "copy"
        copy.mkdir()
        path = path_of(sqlite)
        copied(path, copy / path.name)
        shutil.copytree(f"{path}-locks", copy / f"{path.name}-locks")
        with pares.Member(f"sqlite:///{copy}/{path.name}", group="g", roles=["A"], session=CALM, name="b") as other:
            until(lambda: other.state == "live", "it joins the copy")
            assert other.wait("A", 1.0) is None, "the copied lock is not the lock that was stated"
            assert me.holds("A")
