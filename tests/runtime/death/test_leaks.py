"""Members by the hundred: what one took, it gives back."""

from __future__ import annotations

import contextlib
import gc
import threading
import tracemalloc
from pathlib import Path

import pytest
from runtime_tools import CALM, PATIENCE, descriptors, fresh_url, ids, until

import pares


def held_now() -> tuple[set[threading.Thread], int]:
    """Threads and descriptors, once the last callback's thread has ended, and without what others left to be collected."""
    gc.collect()
    until(lambda: not [t for t in threading.enumerate() if t.name.startswith("member ")], "no member's thread is left")
    return {*threading.enumerate()}, len(descriptors())


def nothing_more_than(before: tuple[set[threading.Thread], int]) -> None:
    """Each thread is asked for, not their number: an earlier test's may end meanwhile."""
    threads, numbers = held_now()
    assert threads <= before[0]
    assert numbers == before[1]


def live_once(ledger: str, number: int) -> None:
    """Joins, leads, is told of it, hands over, leaves."""
    with pares.Member(
        ledger,
        group="g",
        roles=["A"],
        session=CALM,
        name=f"m{number}",
        barrier=lambda event: None,
        on_lost=lambda term: None,
    ) as me:
        assert me.wait("A", PATIENCE)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_hundreds_of_members_one_after_the_other(kind: str, tmp_path: Path) -> None:
    live_once(fresh_url(kind, tmp_path), 0)  # what is made once for the whole process
    before = held_now()
    for _ in range(10):  # a new log now and then, as each member reads the whole of a log as short as this
        url = fresh_url(kind, tmp_path) + ("?synchronous=normal" if kind == "sqlite" else "")
        # Held open, because whoever closes a SQLite file last tidies it up, and that takes its time.
        with contextlib.closing(pares.open(url)):
            for number in range(20):
                live_once(url, number)
        nothing_more_than(before)
    for folder in tmp_path.glob("*-locks"):
        assert list(folder.iterdir()) == []


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_many_members_at_once(kind: str, memory: str, sqlite: str) -> None:
    url = memory if kind == "memory" else f"{sqlite}?synchronous=normal"
    live_once(url, -1)
    before = held_now()
    for _ in range(2):
        members = [pares.Member(url, group=f"g{number}", roles=["A"], session=CALM, name="m") for number in range(20)]
        for member in members:
            assert member.wait("A", PATIENCE)
        closers = [threading.Thread(target=member.close) for member in members]
        for closer in closers:
            closer.start()
        for closer in closers:
            closer.join(PATIENCE)
    nothing_more_than(before)


def test_members_that_never_get_in(tmp_path: Path) -> None:
    """Refused by their settings or by the ledger, closed before they have joined."""
    (tmp_path / "file").write_text("no ledger")
    url = f"sqlite:///{tmp_path}/group.db"
    live_once(url, -1)
    before = held_now()
    for _ in range(30):
        for settings in ({"session": 0}, {"group": "\n"}, {"ledger": f"sqlite:///{tmp_path}/file"}):
            with pytest.raises(pares.ConfigError):
                pares.Member(**({"ledger": url, "group": "g"} | settings))  # type: ignore[arg-type]
        pares.Member(url, group="g", roles=["A"], session=CALM).close()
    nothing_more_than(before)


def test_administrators_and_observers(sqlite: str) -> None:
    url = f"{sqlite}?synchronous=normal"
    live_once(url, -1)
    before = held_now()
    for _ in range(30):
        with pares.Admin(url, group="g") as admin, pares.Observer(url, group="g") as observer:
            assert admin.roles() == {"A": 1}
            assert observer.leader("A") is None
            list(observer.events(timeout=0.001))
    nothing_more_than(before)


def test_terms_leave_no_memory_behind(memory: str) -> None:
    """A thousand terms of one member, with a barrier, a body and listeners each."""
    with (
        pares.Member(memory, group="g", roles=["A"], session=CALM, name="a", barrier=lambda event: None) as one,
        pares.Member(memory, group="g", roles=["A"], session=CALM, name="b", barrier=lambda event: None) as two,
    ):
        until(lambda: one.holds("A") or two.holds("A"), "one leads")
        # A member that steps down while nobody else is there gets the seat back (R13).
        until(lambda: ids(one) == ids(two) == {one.id, two.id}, "both are there")
        pair = (one, two) if one.holds("A") else (two, one)

        def change(times: int) -> None:
            nonlocal pair
            for _ in range(times):
                pair[0].step_down("A")
                for term in pair[1].terms("A", timeout=PATIENCE):
                    assert term
                    break
                else:
                    raise AssertionError("no term came")
                pair = (pair[1], pair[0])

        change(200)
        gc.collect()
        tracemalloc.start()
        try:
            gc.collect()
            before = tracemalloc.get_traced_memory()[0]
            change(200)
            gc.collect()
            grown = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
        # The memory ledger itself keeps about ten records of 200 bytes for each change.
        assert grown < 200 * 10 * 1000, f"{grown} bytes for 200 terms"
        assert len(one._barriers._bodies) == len(one._barriers._ending) == 0  # pyright: ignore[reportPrivateUsage]
