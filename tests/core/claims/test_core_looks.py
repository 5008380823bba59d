"""R21: a member of a large group looks at all that it might do when there is reason to, not for each record."""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import pairwise
from typing import Any

import core_machine
import pytest
from core_machine import Machine
from hypothesis import given
from hypothesis import strategies as st

from pares.core import events as ev
from pares.core.claims.chores import deaths
from pares.core.claims.chores.duties import EAGER, gather_ns
from pares.core.claims.decisions import Moves
from pares.core.claims.looks import Looks
from pares.core.claims.tick import Living
from pares.core.lease import MS
from pares.core.wire import records as R

SESSION = 1000 * MS


def looks_at(looks: Looks, ticks: list[tuple[int, int]], *, late: bool = False) -> list[int]:
    """At which of these ticks, (time, shape of the world), it looks."""
    found: list[int] = []
    for now, shape in ticks:
        if looks.due(now, shape):
            found.append(now)
            looks.looked(now, shape, [], late=late)
    return found


def test_r21_the_first_change_is_answered_at_once_and_the_others_of_a_burst_in_one() -> None:
    looks = Looks(1000)
    looks.looked(0, 0, [], late=False)
    burst = [(SESSION + number * MS, number) for number in range(1, 500)]
    found = looks_at(looks, burst)
    assert found[0] == SESSION + MS
    assert len(found) == 4
    last_shape = burst[-1][1]
    assert looks_at(looks, [(2 * SESSION, last_shape)]) == [2 * SESSION], "and what came last is seen, too"


def test_r21_a_late_member_looks_once_a_session() -> None:
    looks = Looks(1000)
    looks.looked(0, 0, [], late=True)
    found = looks_at(looks, [(number * MS, number) for number in range(1, 5000)], late=True)
    assert found == [SESSION, 2 * SESSION, 3 * SESSION, 4 * SESSION]


def test_r21_without_a_reason_it_looks_with_each_beat_and_wakes_for_none() -> None:
    looks = Looks(1000)
    looks.looked(3 * MS, 7, [], late=False)
    assert looks.wakes(7) == []
    assert looks_at(looks, [(number * 10 * MS, 7) for number in range(102)]) == [
        (250 * n + 10) * MS for n in range(1, 5)
    ]
    for beat in (1259 * MS, 1508 * MS, 1762 * MS):
        assert not looks.due(beat - 70 * MS, 7, beat - 250 * MS)
        assert looks.due(beat + 2 * MS, 7, beat)
        looks.looked(beat + 2 * MS, 7, [], late=False)


def test_r21_a_time_that_a_look_has_named_is_a_reason() -> None:
    looks = Looks(1000)
    looks.looked(0, 7, [300 * MS, 100 * MS], late=False)
    assert looks.wakes(7) == [100 * MS]
    assert not looks.due(99 * MS, 7)
    assert looks.due(100 * MS, 7)


@given(st.lists(st.tuples(st.integers(0, SESSION), st.booleans(), st.booleans()), max_size=200))
def test_r21_any_reason_leads_to_a_look_within_a_session_and_looks_are_bounded(
    steps: list[tuple[int, bool, bool]],
) -> None:
    looks, now, shape, found = Looks(1000), 0, 0, list[int]()
    for wait, changed, late in steps:
        now, shape = now + wait, shape + changed
        if looks.due(now, shape):
            found.append(now)
            looks.looked(now, shape, [], late=late)
        else:
            assert all(now < at <= now + SESSION for at in looks.wakes(shape))
    assert all(third - first >= SESSION // 4 for first, third in zip(found, found[2:], strict=False))


# In a group ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each member has looked."""
    found: Counter[str] = Counter()
    plain = Moves.look

    def look(self: Moves, world: object, now: int) -> None:
        found[self.me] += 1
        plain(self, world, now)  # type: ignore[arg-type]

    monkeypatch.setattr(Moves, "look", look)
    return found


def test_r21_members_of_a_large_group_at_rest_look_a_few_times_a_session(looked: Counter[str]) -> None:
    machine = Machine(EAGER + 4, 60)
    machine.run(5)
    assert machine.led == 60
    looked.clear()
    machine.run(4)
    assert max(looked.values()) <= 4 * 5
    assert machine.led == 60, "and their beats come in time"


@pytest.mark.parametrize("stamped", [True, False])
def test_r21_members_of_a_large_group_at_rest_read_once_a_beat(stamped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A beat is read back with all that the look after it has to know, so nothing is read before it, or in between."""
    reads: Counter[str] = Counter()
    plain = core_machine.Runner._read  # pyright: ignore[reportPrivateUsage]

    def read(self: Any) -> Any:
        reads[self.name] += 1
        return plain(self)

    monkeypatch.setattr(core_machine.Runner, "_read", read)
    machine = Machine(EAGER + 4, 60, stamped=stamped)
    machine.run(6)
    assert machine.led == 60
    reads.clear()
    machine.counted.clear()
    machine.run(10)
    assert machine.counted.keys() == {"Beat"}
    assert min(reads.values()) >= 10 * 4 - 1
    assert max(reads.values()) <= 10 * 4 * 1.25


def test_r21_a_beat_goes_before_a_look_only_if_nothing_is_the_matter() -> None:
    machine = Machine(EAGER + 4, 60)
    machine.run(6)
    core = machine.members[0].core
    while core.living.looks.has_reason(core.outbox.beat_at(250), core.reader.world.shape):
        machine.run(0.25)
    living, outbox = core.living, core.outbox
    at = outbox.beat_at(250)
    assert not living.beats_only(at - 1)
    assert living.beats_only(at)
    assert not living.beats_only(outbox.last_at + SESSION), "it has stood still: what was written meanwhile comes first"
    for matter in (ev.Died("m0001~1"), ev.StepDown("r0000"), ev.Close()):
        living.request(matter)
        assert not living.beats_only(at)
        living._requests.clear()  # pyright: ignore[reportPrivateUsage]
        living.deaths.proven.clear()
        living.closing = False
        assert living.beats_only(at)
    until, living.tenures.until = living.tenures.until, at
    assert not living.beats_only(at), (
        "its lease ends with this tick, and what follows from that is decided on what was read"
    )
    living.tenures.until = until
    outbox.said_at -= 1
    assert not living.beats_only(at), "its last record may not stand"


def test_r21_a_late_beat_goes_before_any_look_and_a_look_between_two_beats() -> None:
    looks, quarter = Looks(1000), SESSION // 4
    now = 100 * SESSION
    assert not looks.lets_beat(now, 1, now - quarter, late=True), "it has not looked yet"
    looks.looked(now, 1, [], late=False)
    now += quarter + SESSION // 16
    assert looks.lets_beat(now, 1, now - quarter, late=False), "nothing is the matter"
    assert not looks.lets_beat(now, 2, now - 2 * quarter, late=False), "the world has changed, and the beat is in time"
    assert looks.lets_beat(now, 2, now - 2 * quarter, late=True)
    said = now
    now += quarter + SESSION // 16
    assert not looks.lets_beat(now, 2, said, late=True), "that would be the second one in a row"
    looks.looked(now, 2, [], late=False)
    assert looks.lets_beat(now + 2 * quarter - 1, 2, said, late=True)
    assert not looks.lets_beat(now + 2 * quarter, 2, said, late=True), "half a session without a look"
    looks.looked(now, 2, [], late=True)
    assert looks.lets_beat(now + SESSION - 1, 2, said, late=True), "one that is late looks once a session"
    assert not looks.lets_beat(now + SESSION, 2, said, late=True)


@pytest.mark.parametrize("trip_ms", [100, 300, 600])
@pytest.mark.parametrize("busy", [False, True])
def test_r21_a_member_looks_though_each_beat_is_due_before_the_last_has_come_back(
    monkeypatch: pytest.MonkeyPatch, trip_ms: int, busy: bool
) -> None:
    """`busy`: there is a reason to look all the time."""
    machine = Machine(EAGER + 4, 60, shared=True)
    machine.run(6)
    for member in machine.members:
        member.trip = lambda: trip_ms * MS
    plain, when = Looks.looked, dict[int, list[int]]()

    def looked(self: Looks, now: int, shape: int, named: Any, *, late: bool) -> None:
        when.setdefault(id(self), []).append(now)
        plain(self, now, shape, [now] if busy else named, late=late)

    monkeypatch.setattr(Looks, "looked", looked)
    machine.run(10)
    assert len(when) == EAGER + 4
    longest = max(later - sooner for times in when.values() for sooner, later in pairwise(times))
    assert longest <= SESSION + 3 * trip_ms * MS
    assert all(machine.now - times[-1] <= SESSION + 3 * trip_ms * MS for times in when.values())


def test_r21_what_a_user_asks_for_waits_for_no_look() -> None:
    machine = Machine(EAGER + 4, 60)
    machine.run(5)
    leader = next(member for member in machine.members if member.leads)
    for wait in (0.011, 0.013, 0.017):  # whenever it was that it looked last
        machine.run(wait)
        seat, (token, _) = next(iter(leader.beliefs.items()))
        leader.inbox.append(ev.HandOver(seat[0], None))
        leader.ring()
        machine.run(0.03)
        assert leader.beliefs.get(seat, [0])[0] != token, "it has let that term go, whoever has the seat now"


@pytest.mark.parametrize(("members", "each"), [(EAGER, True), (EAGER + 4, False)])
def test_r21_while_a_group_comes_together_only_a_small_one_looks_at_each_tick(
    members: int, each: bool, looked: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks, plain = 0, Living.act

    def act(self: Living, *args: Any) -> None:
        nonlocal ticks
        ticks += 1
        plain(self, *args)

    monkeypatch.setattr(Living, "act", act)
    machine = Machine(members, 10 * members)
    machine.run(2)
    assert machine.led > 0
    assert (looked.total() == ticks) == each


# Rest ----------------------------------------------------------------------------------------------------------------


def test_r21_the_longer_a_round_took_the_longer_a_member_of_a_large_group_rests() -> None:
    assert gather_ns(EAGER, 1000, 50 * MS) == 0
    calm = gather_ns(100, 1000)
    rests = [gather_ns(100, 1000, worked * MS // 5) for worked in range(20)]
    assert rests[0] == calm
    assert all(first <= second for first, second in pairwise(rests))
    assert rests[2] == 100 * 2 * MS // 5, "as long as a hundred such rounds"
    assert rests[-1] == SESSION // 4, "a quarter of a session at the most"
    assert gather_ns(100, 1000, 8 * MS, late=True) == 800 * MS, "more, where it is late"
    assert gather_ns(100, 1000, 50 * MS, late=True) == SESSION


def test_r7_after_a_death_it_looks_at_once_whom_to_watch_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else once a session at most: of a whole block that dies each would be found a session after the one before it."""
    lock = R.Lock(boot="b", device="d", inode="i", file="f")
    monkeypatch.setattr(core_machine, "Config", partial(core_machine.Config, lock=lock))
    machine = Machine(EAGER + 4, 40)
    machine.run(5)
    member, calls = machine.members[0], list[int]()

    def to_watch(world: Any, me: str, *_: Any) -> dict[str, Any]:
        calls.extend([machine.now] * (me == member.core.me))
        return {}

    monkeypatch.setattr(deaths, "to_watch", to_watch)
    for dies in machine.members[2:4]:
        dies.dead = True
        member.inbox.append(ev.Died(dies.core.me))
        before = len(calls)
        member.ring()
        machine.run(0.3)
        assert len(calls) > before
        assert dies.core.me not in member.core.living.reader.world.members
