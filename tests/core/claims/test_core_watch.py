"""Stopwatches over the others (R3, R13, R14, R16): what counts is when *this* member read something."""

from __future__ import annotations

from core_authors import Paper, Pen, Plain, began, token

from pares.core.claims.silence import Stopwatches
from pares.core.lease import MS, challenge_ns, lease_ns, margin_ns, shared_ns

SESSION = challenge_ns(1000, 0.1, 0.1)


class Watcher:
    """`b~1` watches what stands on the paper."""

    def __init__(self, paper: Paper, *, settle: int = 500 * MS, drift: float = 0.1) -> None:
        self.paper = paper
        self.plain = Plain()
        self.watches = Stopwatches("b~1", drift, settle)
        self.done = 0

    def read(
        self,
        now: int,
        *,
        past: bool = False,
        stamps: dict[int, int | None] | None = None,
        arrivals: dict[int, int | None] | None = None,
    ) -> None:
        before = len(self.plain.changes)
        self.plain.read_all(self.paper.entries[self.done :])
        self.done = len(self.paper.entries)
        changes = self.plain.changes[before:]
        self.watches.read(self.plain.world, changes, now, past=past, stamps=stamps or {}, arrivals=arrivals or {})

    def silent_at(self, id: str) -> int:
        return self.watches.silent_at(self.plain.world.members[id])

    def claimable_at(self, id: str) -> int:
        return self.watches.claimable_at(("A", 0), self.plain.world.members[id])

    def alive(self, now: int) -> frozenset[str]:
        return self.watches.alive(self.plain.world, now)


def test_r3_silence_runs_from_when_the_last_record_was_read_not_from_when_it_was_written() -> None:
    paper, (a, _) = began("a~1", "b~1")
    a.claim("A")
    watcher = Watcher(paper)
    watcher.read(5000 * MS)
    assert watcher.silent_at("a~1") == 5000 * MS + SESSION
    watcher.read(5900 * MS)
    assert watcher.silent_at("a~1") == 5000 * MS + SESSION, "reading nothing new prolongs nothing"
    a.beat()
    watcher.read(6000 * MS)
    assert watcher.silent_at("a~1") == 6000 * MS + SESSION


def test_r3_what_does_not_count_is_no_sign_of_life() -> None:
    paper, (a, _) = began("a~1", "b~1")
    watcher = Watcher(paper)
    watcher.read(1000)
    paper.put(paper.entries[1][2])
    a.beat(b=5)
    watcher.read(9000)
    assert watcher.silent_at("a~1") == 1000 + SESSION


def test_r3_or_from_the_record_that_made_it_the_holder_if_that_was_read_later() -> None:
    """A standby that is handed a seat has not written anything, and could not have known of the seat before."""
    paper, (_, b) = began("a~1", "b~1")
    watcher = Watcher(paper)
    watcher.read(1000)
    b.transfer("A", token(b.claim("A")), "a~1")
    watcher.read(700 * MS)
    assert watcher.silent_at("a~1") == 1000 + SESSION
    assert watcher.claimable_at("a~1") == 700 * MS + SESSION


def test_r3_the_session_is_the_holders_own() -> None:
    paper, (_, _) = began("a~1", "b~1")
    Pen(paper, "slow~1", session=7000).join()
    watcher = Watcher(paper)
    watcher.read(0)
    assert watcher.silent_at("slow~1") == challenge_ns(7000, 0.1, 0.1) > watcher.silent_at("a~1")


def test_r3_a_watcher_that_grants_itself_more_drift_waits_longer() -> None:
    paper, _ = began("a~1", "b~1")
    wary = Watcher(paper, drift=0.4)
    wary.read(0)
    assert wary.silent_at("a~1") == challenge_ns(1000, 0.1, 0.4) > SESSION


def test_r16_overdue_by_what_it_said_itself_and_back_with_a_new_record() -> None:
    paper, (a, _) = began("a~1", "b~1")
    a.beat(s=400)
    watcher = Watcher(paper)
    watcher.read(0)
    late = (2 * 400 + 250) * MS
    assert "a~1" in watcher.alive(late - 1)
    assert watcher.watches.next_overdue == late
    assert "a~1" not in watcher.alive(late)
    assert "b~1" in watcher.alive(late), "oneself is never overdue"
    a.beat(s=60_000)
    watcher.read(late + 5)
    assert "a~1" in watcher.alive(late + 5)
    assert "a~1" in watcher.watches.unsettled({"a~1"}, late + 5)


def test_r16_who_was_overdue_stays_so_until_something_new_is_read() -> None:
    paper, (a, _) = began("a~1", "b~1")
    a.beat(s=100)
    watcher = Watcher(paper)
    watcher.read(0)
    assert "a~1" not in watcher.alive(10**12)
    watcher.read(10**12)
    assert "a~1" not in watcher.alive(1)


def test_r16_a_holder_that_was_silent_for_its_session_is_overdue_whatever_it_promised() -> None:
    paper, (a, _) = began("a~1", "b~1")
    a.claim("A")
    a.beat(s=600_000)
    watcher = Watcher(paper)
    watcher.read(0)
    assert watcher.watches.silence(watcher.plain.world, SESSION - 1) == frozenset()
    assert "a~1" in watcher.alive(SESSION)
    watcher.watches.looked_at = SESSION
    assert watcher.watches.silence(watcher.plain.world, SESSION) == {"a~1"}
    assert "a~1" not in watcher.alive(SESSION)


def test_r6_who_was_only_read_of_in_the_past_is_not_known_to_live() -> None:
    paper, (a, _) = began("a~1", "b~1")
    watcher = Watcher(paper)
    watcher.read(0, past=True)
    everybody = watcher.alive(0)
    assert everybody == {"a~1", "b~1"}
    assert watcher.watches.heard(everybody) == {"b~1"}
    a.beat()
    watcher.read(5, past=True)
    assert watcher.watches.heard(everybody) == {"b~1"}
    a.beat()
    c = Pen(paper, "c~1").join()
    watcher.read(9)
    assert watcher.watches.heard(watcher.alive(9)) == {"a~1", "b~1"}, "a join may be older than what its sender reads"
    c.beat()
    watcher.read(10)
    assert watcher.watches.heard(watcher.alive(10)) == {"a~1", "b~1", "c~1"}
    assert watcher.watches.heard({"a~1"}) == {"a~1"}, "of those asked about only"


def test_r6_an_incarnation_with_a_successor_is_not_known_to_live_until_it_writes_again() -> None:
    paper, (a, _) = began("a~1", "b~1")
    watcher = Watcher(paper)
    watcher.read(0)
    for _ in range(2):
        a.beat()
    watcher.read(5)
    assert "a~1" in watcher.watches.heard(watcher.alive(5))
    again = Pen(paper, "a~2").join()
    again.beat()
    watcher.read(6)
    assert {"a~1", "a~2"} <= watcher.alive(6)
    assert watcher.watches.heard(watcher.alive(6)) == {"a~2", "b~1"}, (
        "the process of a~1 has ended, for all that is known"
    )
    for at in (7, 8):
        a.beat()
        watcher.read(at)
    assert "a~1" in watcher.watches.heard(watcher.alive(8)), "a namesake that lives"


def test_r13_who_has_just_come_is_unsettled_for_a_while() -> None:
    paper, _ = began("a~1", "b~1")
    watcher = Watcher(paper, settle=500)
    watcher.read(1000)
    assert watcher.watches.unsettled({"a~1", "b~1"}, 1499) == {"a~1", "b~1"}
    assert watcher.watches.unsettled({"a~1", "b~1"}, 1500) == frozenset()


def test_r13_the_group_is_stable_since_its_crew_last_changed() -> None:
    paper, _ = began("a~1", "b~1")
    watches = Watcher(paper, settle=500).watches
    crew = frozenset({"a~1", "b~1"})
    assert watches.settled_at(crew, 1000) == 1500
    assert watches.settled_at(crew, 1400) == 1500
    assert watches.settled_at(crew | {"c~1"}, 1450) == 1950
    assert watches.settled_at(crew, 1460) == 1960


def test_r14_a_pause_is_measured_from_when_it_was_read() -> None:
    paper, (a, _) = began("a~1", "b~1")
    pause = a.pause(ms=300)
    watcher = Watcher(paper)
    watcher.read(5000)
    watcher.read(9000)
    assert watcher.watches.paused_until(pause, 300) == 5000 + 300 * MS


def test_what_is_gone_is_forgotten() -> None:
    paper, (a, b) = began("a~1", "b~1")
    watcher = Watcher(paper)
    for n in range(300):
        pen = Pen(paper, f"m{n}~1").join()
        pen.role(f"R{n}")
        pen.claim(f"R{n}")
        pen.resume(pen.pause())
        pen.leave()
        a.role(f"R{n}", removed=True)
        b.beat()
        watcher.read(n)
    kept = watcher.watches
    assert kept._members.keys() == {"a~1", "b~1"}  # pyright: ignore[reportPrivateUsage]
    assert len(kept._seats) < 60  # pyright: ignore[reportPrivateUsage]
    assert len(kept._pauses) <= 1  # pyright: ignore[reportPrivateUsage]


# Stamps, and the look before a claim (R21) ---------------------------------------------------------------------------


def test_r21_where_the_stopwatch_is_shared_silence_runs_from_the_stamp_to_the_end_of_the_lease() -> None:
    paper, (a, _) = began("a~1", "b~1")
    a.claim("A")
    watcher = Watcher(paper)
    stamp = 4600 * MS
    watcher.read(5000 * MS, stamps={paper.end - 1: stamp})
    assert watcher.silent_at("a~1") == watcher.claimable_at("a~1") == stamp + shared_ns(1000, 0.1)
    assert shared_ns(1000, 0.1) == lease_ns(1000, 0.1) + margin_ns(1000) + 1, (
        "the belief has ended, whatever its margin"
    )
    assert watcher.silent_at("a~1") < 5000 * MS + SESSION
    a.beat()
    watcher.read(5500 * MS, stamps={paper.end - 1: None})
    assert watcher.silent_at("a~1") == 5500 * MS + SESSION, "a record without a stamp counts from its reading"


def test_r21_a_stamp_of_the_future_is_no_reading_of_this_stopwatch() -> None:
    paper, (a, _) = began("a~1", "b~1")
    a.claim("A")
    watcher = Watcher(paper)
    watcher.read(5000 * MS, stamps={paper.end - 1: 5000 * MS + 1})
    assert watcher.silent_at("a~1") == watcher.claimable_at("a~1") == 5000 * MS + SESSION


def test_r21_a_member_is_silent_only_when_a_look_that_began_later_found_nothing() -> None:
    paper, (a, _) = began("a~1", "b~1")
    a.claim("A")
    watcher = Watcher(paper)
    watcher.read(1000 * MS)
    over = 1000 * MS + SESSION
    watches, world = watcher.watches, watcher.plain.world
    watches.looked_at = over - 1
    assert watches.silence(world, over + 500 * MS) == frozenset()
    assert watches.next_silent == over, "there it has to be looked again"
    watches.looked_at = over
    assert watches.silence(world, over + 500 * MS) == {"a~1"}
    a.beat()
    watcher.read(over + 600 * MS)
    assert watches.silence(world, over + 600 * MS) == frozenset()


def test_r21_holders_without_stamps_are_looked_at_every_quarter_of_their_session() -> None:
    paper, (a, _) = began("a~1", "b~1")
    a.claim("A")
    watcher = Watcher(paper)
    watcher.read(1000 * MS)
    watcher.watches.silence(watcher.plain.world, 1000 * MS)
    assert watcher.watches.look_every == 250 * MS
    a.beat()
    watcher.read(1100 * MS, stamps={paper.end - 1: 1050 * MS})
    watcher.watches.silence(watcher.plain.world, 1100 * MS)
    assert watcher.watches.look_every == 0, "its silence is known to the moment"


def test_r21_where_arrivals_are_noted_silence_runs_from_there_for_a_whole_session() -> None:
    """It is this member's stopwatch, and the holder's is another: so rates come in, as with a reading."""
    paper, (a, _) = began("a~1", "b~1")
    a.claim("A")
    watcher = Watcher(paper)
    came = 4600 * MS
    watcher.read(5000 * MS, arrivals={paper.end - 1: came})
    assert watcher.silent_at("a~1") == watcher.claimable_at("a~1") == came + SESSION
    watcher.watches.silence(watcher.plain.world, 5000 * MS)
    assert watcher.watches.look_every == 0, "its silence is known to the moment"
    assert watcher.watches.next_silent == came + SESSION
    a.beat()
    watcher.read(5500 * MS, arrivals={paper.end - 1: None})
    assert watcher.silent_at("a~1") == 5500 * MS + SESSION, "a record that nobody noted counts from its reading"
    assert watcher.claimable_at("a~1") == 5500 * MS + SESSION
    watcher.watches.silence(watcher.plain.world, 5500 * MS)
    assert watcher.watches.look_every == 250 * MS


def test_r21_an_arrival_of_the_future_is_no_reading_of_this_stopwatch() -> None:
    paper, (a, _) = began("a~1", "b~1")
    a.claim("A")
    watcher = Watcher(paper)
    watcher.read(5000 * MS, arrivals={paper.end - 1: 5000 * MS + 1})
    assert watcher.silent_at("a~1") == watcher.claimable_at("a~1") == 5000 * MS + SESSION
    watcher.watches.silence(watcher.plain.world, 5000 * MS)
    assert watcher.watches.look_every == 250 * MS


def test_r21_a_stamp_says_more_than_an_arrival() -> None:
    paper, (a, _) = began("a~1", "b~1")
    a.claim("A")
    watcher = Watcher(paper)
    last = paper.end - 1
    watcher.read(5000 * MS, stamps={last: 4600 * MS}, arrivals={last: 4700 * MS})
    assert watcher.silent_at("a~1") == watcher.claimable_at("a~1") == 4600 * MS + shared_ns(1000, 0.1)
