"""The rules that NELI and Fast NELI share, and those of Fast NELI, one by one: what comes out of a step, and what must not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from neli_bench import MS, WALL_US, Bench, config, fast, leading, neli, of

from pares.core import events as ev
from pares.core.lease import challenge_ns, lease_ns
from pares.core.neli.role_mapping import partition_of_role, role_number
from pares.core.wire import neli_records
from pares.core.wire.hashes import stable_hash
from pares.core.wire.neli_records import NAMES, Announce, Foreign, Place, Pulse, RolesChanged, Yield, decode, encode

PRICING = 13303148857092463422


# Where roles belong ----------------------------------------------------------------------------------------------------


def test_the_hash_of_a_name_is_part_of_the_format() -> None:
    assert stable_hash("pricing") == PRICING
    assert [role_number(name) for name in ("0", "7", "12")] == [0, 7, 12]
    assert role_number("07") == stable_hash("07")
    assert role_number("-1") == stable_hash("-1")
    assert role_number("٣") == stable_hash("٣")


@given(st.text(min_size=1, max_size=50).filter(lambda t: t.isprintable()), st.integers(1, 10_000))
def test_every_role_belongs_to_a_partition(role: str, partitions: int) -> None:
    assert 0 <= partition_of_role(role, partitions) < partitions


@given(st.integers(0, 10**6), st.integers(1, 1000))
def test_an_integer_is_its_own_number(j: int, partitions: int) -> None:
    assert partition_of_role(str(j), partitions) == j % partitions


# Announcing ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [fast, neli])
def test_nobody_leads_before_its_announcement_was_read_back(kind: Any) -> None:
    bench = Bench(kind(config()))
    bench.step(ev.Assigned((0,)))
    bench.read()
    (put,) = [p for p in bench.tick() if isinstance(neli_records.decode(p.payloads[0]), Announce)]
    offset = bench.put(put)
    assert not bench.leading()
    bench.read()
    announced = neli_records.decode(put.payloads[0])
    assert isinstance(announced, Announce)
    assert bench.leading() == {"0": announced.b + offset}


def test_without_the_groups_word_nothing_is_announced() -> None:
    bench = Bench(fast(config()))
    bench.go()
    bench.wait(5000)
    bench.go()
    assert bench.kinds() == []


@given(gap=st.integers(0, 400))
def test_a_successor_waits_a_deadline_since_it_read_the_last_record_before_its_own(gap: int) -> None:
    bench = Bench(fast(config()))
    b = bench.write(Announce, "old~1", b=5)
    bench.write(Pulse, "old~1", term=5 + b, lead=True)
    bench.read()
    read_at = bench.now
    bench.wait(gap)
    bench.step(ev.Assigned((0,)))
    bench.read()
    bench.go()
    ready = read_at + challenge_ns(300, 0.1, 0.1)
    assert bool(bench.leading()) == (bench.now >= ready)
    while not bench.leading():
        assert bench.now < ready
        bench.wait(25)
        bench.go()
    assert bench.now >= ready


def test_beats_of_the_old_owner_after_the_announcement_prolong_nothing() -> None:
    bench = Bench(fast(config()))
    b = bench.write(Announce, "old~1", b=5)
    bench.read()
    read_at = bench.now
    bench.step(ev.Assigned((0,)))
    bench.read()
    bench.go()
    for _ in range(20):
        bench.wait(25)
        bench.write(Pulse, "old~1", term=5 + b, lead=True)
        bench.go()
        if bench.now >= read_at + challenge_ns(300, 0.1, 0.1):
            break
    assert bench.leading()


def test_after_a_yield_nobody_waits() -> None:
    bench = Bench(fast(config()))
    b = bench.write(Announce, "old~1", b=5)
    bench.write(Yield, "old~1", term=5 + b, led=True)
    bench.read()
    bench.step(ev.Assigned((0,)))
    bench.read()
    bench.go()
    assert bench.leading()


def test_a_yield_of_who_never_led_frees_nobody_else() -> None:
    """The first may still believe: the second never waited for it."""
    bench = Bench(fast(config()))
    bench.write(Announce, "first~1", b=5)
    second = bench.write(Announce, "second~1", b=5)
    bench.write(Yield, "second~1", term=5 + second, led=False)
    bench.read()
    bench.step(ev.Assigned((0,)))
    bench.read()
    bench.go()
    assert not bench.leading()


def test_a_yield_that_comes_while_waiting_ends_the_wait() -> None:
    bench = Bench(fast(config()))
    b = bench.write(Announce, "old~1", b=5)
    bench.read()
    bench.step(ev.Assigned((0,)))
    bench.read()
    bench.go()
    assert not bench.leading()
    bench.write(Yield, "old~1", term=5 + b, led=True)
    bench.read()
    assert bench.leading()


def test_where_the_log_has_lost_its_beginning_an_unknown_owner_is_waited_for() -> None:
    bench = Bench(fast(config()), start=7)
    bench.step(ev.Assigned((0,)))
    bench.read()
    bench.go()
    assert not bench.leading()
    for _ in range(20):
        bench.wait(20)
        bench.go()
    assert bench.leading()


@pytest.mark.parametrize("kind", [fast, neli])
def test_another_announcement_ends_the_belief_at_once_and_is_answered_by_a_yield(kind: Any) -> None:
    bench = leading(kind(config()))
    bench.write(Announce, "new~1", b=WALL_US * 2)
    (follow,) = of(bench.read(), ev.Follow)
    assert (follow.fenced, follow.why) == (True, "superseded by new~1")
    bench.go()
    record = neli_records.decode(bench.logs[0][-1][2] if bench.kinds()[-1] == "Yield" else bench.logs[0][-2][2])
    assert isinstance(record, Yield)
    assert (record.term, record.led) == (follow.token, True)


def test_an_older_copy_of_an_announcement_ends_nothing() -> None:
    bench = Bench(fast(config()))
    offset = bench.write(Announce, "old~1", b=5)
    copy = bench.logs[0][-1][2]
    bench.write(Yield, "old~1", term=5 + offset, led=True)
    bench.step(ev.Assigned((0,)))
    bench.read()
    bench.go()
    assert bench.leading()
    bench.land(copy)
    bench.read()
    assert bench.leading()


def test_the_superseded_leads_again_when_the_other_is_silent_and_the_group_never_took_it() -> None:
    bench = leading(fast(config()))
    first = bench.leading()["0"]
    bench.write(Announce, "new~1", b=first + 1000)
    bench.read()
    bench.go()
    bench.wait(200)
    bench.go()
    assert not bench.leading()
    bench.wait(200)
    bench.read()
    bench.go()
    assert bench.leading()["0"] > first + 1000


# What a belief rests on ------------------------------------------------------------------------------------------------


@given(sent=st.integers(1, 100), landed=st.integers(0, 60), other=st.booleans())
def test_only_ones_own_beat_counted_from_its_sending_re_arms(sent: int, landed: int, other: bool) -> None:
    bench = leading(fast(config(interval_ms=50)))
    before, token = bench.until(), bench.leading()["0"]
    bench.wait(sent)
    puts = bench.tick()
    handed_over = bench.now
    bench.wait(landed)
    if other:
        bench.write(Pulse, "old~1", term=token, lead=True)  # somebody else's, of whatever tenure
    for put in puts:
        bench.put(put)
    bench.read()
    expected = handed_over + lease_ns(300, 0.1) if puts else before
    assert bench.until() == expected


def test_a_belief_that_ran_out_is_over_for_good_and_begins_again_by_a_new_announcement() -> None:
    bench = leading(fast(config()))
    token = bench.leading()["0"]
    bench.wait(300)
    (follow,) = of(bench.step(ev.Tick(bench.wall_us)), ev.Follow)
    assert follow.fenced
    assert follow.at == bench.now - 300 * MS + lease_ns(300, 0.1)
    bench.read()
    bench.go()
    assert bench.leading()["0"] > token
    assert bench.kinds().count("Announce") == 2


def test_a_record_in_ones_own_name_that_one_never_wrote_stops_the_member() -> None:
    bench = leading(fast(config()))
    bench.write(Pulse, "me~1", term=bench.leading()["0"], n=99)
    effects = bench.read()
    assert [e.kind for e in of(effects, ev.Stop)] == ["cloned"]
    assert of(effects, ev.Follow)


# The group's word ------------------------------------------------------------------------------------------------------


def test_revoked_runs_the_barrier_yields_and_only_then_lets_the_group_go_on() -> None:
    bench = leading(fast(config()))
    token = bench.leading()["0"]
    effects = bench.step(ev.Revoked((0,)))
    assert [type(e) for e in effects] == [ev.Follow, ev.Barrier]
    assert not effects[0].fenced  # type: ignore[union-attr]
    assert not of(bench.go(), ev.Yielded)
    bench.step(ev.WorkOver(("0", 0), token + 1))  # another term's
    assert not of(bench.go(), ev.Yielded)
    bench.step(ev.WorkOver(("0", 0), token))
    (put,) = bench.tick()
    assert isinstance(neli_records.decode(put.payloads[0]), Yield)
    assert not of(bench.effects, ev.Yielded)
    bench.put(put)
    assert of(bench.effects, ev.Yielded) == [ev.Yielded(0)]


def test_revoked_with_an_append_that_fails_lets_the_group_go_on_all_the_same() -> None:
    bench = leading(fast(config()))
    bench.step(ev.Revoked((0,)))
    bench.step(ev.WorkOver(("0", 0), of(bench.effects, ev.Lead)[-1].token))
    (put,) = bench.tick()
    assert of(bench.step(ev.Failed(put.ticket)), ev.Yielded) == [ev.Yielded(0)]


def test_the_barrier_has_a_limit_of_its_own() -> None:
    bench = leading(fast(config(barrier_ms=400)))
    bench.step(ev.Revoked((0,)))
    for _ in range(9):
        bench.wait(40)
        bench.go()
    assert not of(bench.effects, ev.Yielded)
    bench.wait(45)
    follow = of(bench.go(), ev.Follow)[0]
    assert (follow.fenced, follow.why) == (True, "barrier timed out")
    assert of(bench.effects, ev.Yielded)


def test_while_a_barrier_runs_beats_go_on_and_nothing_is_believed() -> None:
    bench = leading(fast(config()))
    bench.step(ev.Revoked((0,)))
    for _ in range(20):
        bench.wait(50)
        bench.go()
    assert not bench.leading()
    assert bench.kinds()[-1] == "Pulse"
    assert not of(bench.effects, ev.Yielded)


@pytest.mark.parametrize("revoked", [True, False], ids=["revoked first", "told at once"])
@pytest.mark.parametrize("kind", [fast, neli])
def test_a_member_that_closes_keeps_its_tenure_while_its_barrier_runs(kind: Any, revoked: bool) -> None:
    bench = leading(kind(config()))
    token = bench.leading()["0"]
    if revoked:
        bench.step(ev.Revoked((0,)))
    bench.step(ev.Close())
    for _ in range(60):  # longer than the deadline, T and the session
        bench.wait(50)
        bench.go()
    assert not bench.leading()
    assert not of(bench.effects, ev.Closed)
    assert [follow.fenced for follow in of(bench.effects, ev.Follow)] == [False]
    assert bench.kinds()[-1] == ("Pulse" if kind is fast else "Beacon")
    bench.step(ev.WorkOver(("0", 0), token))
    assert of(bench.go(), ev.Closed)
    assert bench.kinds()[-1] == "Yield"


def test_lost_waits_for_nobody() -> None:
    bench = leading(fast(config()))
    effects = bench.step(ev.Lost((0,)))
    assert [(type(e), e.fenced) for e in effects] == [(ev.Follow, True)]  # type: ignore[union-attr]
    bench.go()
    assert bench.kinds()[-1] == "Yield"


def test_revoked_before_the_announcement_came_back_yields_it_when_it_does() -> None:
    bench = Bench(fast(config()))
    bench.step(ev.Assigned((0,)))
    bench.read()
    (put,) = bench.tick()
    assert of(bench.step(ev.Revoked((0,))), ev.Yielded)
    bench.put(put)
    bench.go()
    assert bench.kinds() == ["Announce", "Yield"]
    assert not bench.leading()


@pytest.mark.parametrize("kind", [fast, neli])
def test_closing_ends_with_a_yield(kind: Any) -> None:
    bench = leading(kind(config()))
    token = bench.leading()["0"]
    bench.step(ev.Close())
    bench.step(ev.WorkOver(("0", 0), token))
    assert of(bench.go(), ev.Closed)
    assert bench.kinds()[-1] == "Yield"
    assert bench.core.step(ev.Tick(0), bench.now) == []


def test_roles_come_and_go_without_the_partition_moving() -> None:
    bench = leading(fast(config()))
    token = bench.leading()["0"]
    bench.step(ev.ChangeRoles(add=("1", "pricing"), drop=("0",)))
    assert bench.leading() == {"0": token}, "nothing is so before it stands in the log"
    bench.go()
    assert bench.leading() == {"1": token, "pricing": token}
    assert [e.seat for e in of(bench.effects, ev.Barrier)] == [("0", 0)]


def test_who_leads_writes_the_roles_down_again_for_a_log_that_forgets() -> None:
    names = tuple(f"role-{number}" for number in range(NAMES + 1))
    bench = leading(fast(config(roles=names, restate_ms=1000)))
    bench.go()
    begins = bench.ends[0]
    for _ in range(30):
        bench.wait(50)
        bench.go()
    again = [decode(payload) for offset, _, payload in bench.logs[0] if offset >= begins]
    said = [role for record in again if isinstance(record, Place) for role in record.roles]
    assert set(said) == set(names)
    late = Bench(fast(config(id="late~1", name="late", roles=())))
    for record in again:
        assert not isinstance(record, Foreign)
        late.land(encode(record))
    late.read()
    assert set(late.core.roles.names) == set(names)


def test_a_role_goes_for_everybody_who_reads_that_it_goes() -> None:
    bench = leading(fast(config(roles=("0", "1"))))
    bench.write(RolesChanged, "other~1", drop=("0",))
    bench.read()
    assert set(bench.leading()) == {"1"}
    bench.write(RolesChanged, "other~1", add=("9",))
    bench.read()
    assert set(bench.leading()) == {"1", "9"}


def test_of_several_seats_one_member_leads_one() -> None:
    bench = Bench(fast(config(partitions=2, seats=2)))
    bench.step(ev.Assigned((0, 1)))
    bench.read()
    bench.go()
    leads = [effect.seat for effect in bench.effects if isinstance(effect, ev.Lead)]
    assert leads == [("0", 0)]
    bench.step(ev.Lost((0,)))
    bench.go()
    leads = [effect.seat for effect in bench.effects if isinstance(effect, ev.Lead)]
    assert leads == [("0", 0), ("0", 1)]


def test_a_yield_says_from_when_to_when_its_owner_led() -> None:
    bench = leading(fast(config()))
    token = bench.leading()["0"]
    began = bench.wall_us // 1000
    bench.wait(40)
    bench.step(ev.Revoked((0,)))
    ended = bench.wall_us // 1000
    bench.wait(30)  # the barrier
    bench.step(ev.WorkOver(("0", 0), token))
    bench.go()
    record = decode(bench.logs[0][-1][2])
    assert isinstance(record, Yield)
    assert (record.led, record.ended) == (True, ended)
    assert began - 1 <= record.began <= began


def test_while_a_barrier_runs_its_beats_say_that_nobody_leads() -> None:
    bench = leading(fast(config()))
    bench.wait(60)
    bench.go()
    bench.step(ev.Revoked((0,)))
    bench.wait(60)
    bench.go()
    beats = [record for _, _, payload in bench.logs[0] if isinstance(record := decode(payload), Pulse)]
    assert [beat.lead for beat in beats[-2:]] == [True, False]


def test_a_log_that_is_another_one_ends_every_belief_in_it() -> None:
    bench = leading(fast(config()))
    token = bench.leading()["0"]
    assert of(bench.step(ev.Jumped("replaced")), ev.Follow)[0].fenced
    bench.logs, bench.ends = [[]], [0]
    bench.step(ev.Attached(0, 0))
    bench.read()
    bench.go()
    assert not bench.leading()  # somebody else may not have noticed yet, and believe by the old one
    for _ in range(20):
        bench.wait(20)
        bench.go()
    assert bench.leading()["0"] > token


def test_a_role_is_not_settled_while_it_waits_for_its_number() -> None:
    """A user who adds one is told that it is done when the log says so, and not when the append has failed."""
    bench = leading(fast(config()))
    assert bench.core.settled
    bench.step(ev.ChangeRoles(add=("B",)))
    assert not bench.core.settled
    (put,) = bench.tick()
    bench.step(ev.Failed(put.ticket))
    assert not bench.core.settled
    bench.wait(100)
    bench.go()
    bench.go()
    assert bench.core.settled
    assert "B" in bench.core.roles.names
