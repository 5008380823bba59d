"""The rules of NELI and Fast NELI, one by one: what comes out of a step, and what must not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pares.core import beacons
from pares.core.beacons import Announce, Beacon, Foreign, Pulse, Width, Yield
from pares.core.errors import ConfigError
from pares.core.fast import Fast
from pares.core.induced import Induced
from pares.core.lease import challenge_ns, lease_ns
from pares.core.neli import BEACONS, Neli
from pares.core.protocol import Barrier, Close, Closed, Follow, Lead, Live, Report, Restart, Stop, Tick
from pares.core.records import MAX_BASE, BadRecord, Join, Text, encode
from pares.core.shares import (
    Assigned,
    Broke,
    Config,
    Effect,
    Entered,
    Extend,
    Heard,
    Landed,
    Lost,
    Missed,
    Put,
    Revoked,
    Roles,
    WorkOver,
    Yielded,
)
from pares.core.spread import partition_of_role, role_number, stable_hash

MS = 1_000_000
WALL_US = 1_700_000_000_000_000
PRICING = 13303148857092463422


def config(**fields: Any) -> Config:
    settings: dict[str, Any] = {"group": "g", "id": "me~1", "name": "me", "roles": ("0",)}
    settings |= {"threshold_ms": 300, "interval_ms": 50, "session_ms": 1000}
    return Config(**settings | fields)


class Bench:
    """One member and the logs that it and the test write to. Time stands still unless the test moves it."""

    def __init__(self, core: Induced, start: int = 0) -> None:
        self.core = core
        self.now = 10**12
        self.logs: list[list[tuple[int, int, bytes]]] = [[] for _ in core.parts]
        self.ends = [start] * len(core.parts)
        self.effects: list[Effect] = []
        self.numbers: dict[tuple[str, int], int] = {}
        for number in range(len(core.parts)):
            self.step(Entered(number, start, start))
        self.read()
        self.go()

    @property
    def wall_us(self) -> int:
        return WALL_US + self.now // 1000

    def step(self, event: Any) -> list[Effect]:
        effects = self.core.step(event, self.now)
        self.effects += effects
        return effects

    def wait(self, ms: float) -> None:
        self.now += int(ms * MS)

    def write(
        self, kind: Any, member: str, partition: int = 0, *, n: int | None = None, b: int = 0, **fields: Any
    ) -> int:
        """A record of somebody else's comes to stand in the log. Its offset."""
        key = (member, partition)
        self.numbers[key] = self.numbers.get(key, 0) + 1 if n is None else n
        if kind is Announce:
            fields = {"name": member.split("~")[0], "within": 300, "drift": 0.1, "of": len(self.core.parts), **fields}
        elif kind not in (Yield, Width):
            fields = {"within": 300, **fields}
        made = kind(v=1, g="g", m=member, n=self.numbers[key], b=b, s=50, at=0, **fields)
        return self.land(beacons.encode(made), partition)

    def land(self, payload: bytes, partition: int = 0) -> int:
        offset = self.ends[partition]
        self.logs[partition].append((offset, self.wall_us // 1000, payload))
        self.ends[partition] += 1
        return offset

    def put(self, effect: Put) -> int:
        """The member's own append lands and is acknowledged."""
        offset = self.land(effect.payload, effect.partition)
        self.step(Landed(effect.ticket, offset))
        return offset

    def read(self) -> list[Effect]:
        """Everything that is new, and once more for nothing."""
        before = len(self.effects)
        for number, log in enumerate(self.logs):
            position = self.core.position(number)
            self.step(Heard(number, [e for e in log if e[0] >= position], self.wall_us))  # type: ignore[arg-type]
            self.step(Heard(number, [], self.wall_us))
        return self.effects[before:]

    def tick(self) -> list[Put]:
        return [e for e in self.step(Tick(self.wall_us)) if isinstance(e, Put)]

    def go(self) -> list[Effect]:
        """Ticks, appends and reads until nothing more is to be written."""
        before, idle = len(self.effects), 0
        while idle < 2:
            puts = self.tick()
            for put in puts:
                self.put(put)
            self.read()
            idle = 0 if puts else idle + 1
        return self.effects[before:]

    def leading(self) -> dict[str, int]:
        held: dict[str, int] = {}
        for effect in self.effects:
            if isinstance(effect, Lead):
                held[effect.seat[0]] = effect.token
            elif isinstance(effect, Follow):
                held.pop(effect.seat[0], None)
        return held

    def until(self) -> int:
        return [e.until for e in self.effects if isinstance(e, Lead | Extend)][-1]

    def kinds(self, partition: int = 0) -> list[str]:
        """What stands in that log, but for widths."""
        found = [type(beacons.decode(payload)).__name__ for _, _, payload in self.logs[partition]]
        return [kind for kind in found if kind != "Width"]


def of(effects: list[Effect], kind: Any) -> list[Any]:
    return [effect for effect in effects if isinstance(effect, kind)]


def leading(core: Induced, **more: Any) -> Bench:
    bench = Bench(core, **more)
    bench.step(Assigned((0,)))
    bench.read()
    bench.go()
    assert bench.leading()
    return bench


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


@pytest.mark.parametrize("kind", [Fast, Neli])
def test_nobody_leads_before_its_announcement_was_read_back(kind: Any) -> None:
    bench = Bench(kind(config()))
    bench.step(Assigned((0,)))
    bench.read()
    (put,) = [p for p in bench.tick() if isinstance(beacons.decode(p.payload), Announce)]
    offset = bench.put(put)
    assert not bench.leading()
    bench.read()
    announced = beacons.decode(put.payload)
    assert isinstance(announced, Announce)
    assert bench.leading() == {"0": announced.b + offset}


def test_without_the_groups_word_nothing_is_announced() -> None:
    bench = Bench(Fast(config()))
    bench.go()
    bench.wait(5000)
    bench.go()
    assert bench.kinds() == []


@given(gap=st.integers(0, 400))
def test_a_successor_waits_a_deadline_since_it_read_the_last_record_before_its_own(gap: int) -> None:
    bench = Bench(Fast(config()))
    b = bench.write(Announce, "old~1", b=5)
    bench.write(Pulse, "old~1", term=5 + b, lead=True)
    bench.read()
    read_at = bench.now
    bench.wait(gap)
    bench.step(Assigned((0,)))
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
    bench = Bench(Fast(config()))
    b = bench.write(Announce, "old~1", b=5)
    bench.read()
    read_at = bench.now
    bench.step(Assigned((0,)))
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
    bench = Bench(Fast(config()))
    b = bench.write(Announce, "old~1", b=5)
    bench.write(Yield, "old~1", term=5 + b, led=True)
    bench.read()
    bench.step(Assigned((0,)))
    bench.read()
    bench.go()
    assert bench.leading()


def test_a_yield_of_who_never_led_frees_nobody_else() -> None:
    """The first may still believe: the second never waited for it."""
    bench = Bench(Fast(config()))
    bench.write(Announce, "first~1", b=5)
    second = bench.write(Announce, "second~1", b=5)
    bench.write(Yield, "second~1", term=5 + second, led=False)
    bench.read()
    bench.step(Assigned((0,)))
    bench.read()
    bench.go()
    assert not bench.leading()


def test_a_yield_that_comes_while_waiting_ends_the_wait() -> None:
    bench = Bench(Fast(config()))
    b = bench.write(Announce, "old~1", b=5)
    bench.read()
    bench.step(Assigned((0,)))
    bench.read()
    bench.go()
    assert not bench.leading()
    bench.write(Yield, "old~1", term=5 + b, led=True)
    bench.read()
    assert bench.leading()


def test_where_the_log_has_lost_its_beginning_an_unknown_owner_is_waited_for() -> None:
    bench = Bench(Fast(config()), start=7)
    bench.step(Assigned((0,)))
    bench.read()
    bench.go()
    assert not bench.leading()
    for _ in range(20):
        bench.wait(20)
        bench.go()
    assert bench.leading()


@pytest.mark.parametrize("kind", [Fast, Neli])
def test_another_announcement_ends_the_belief_at_once_and_is_answered_by_a_yield(kind: Any) -> None:
    bench = leading(kind(config()))
    bench.write(Announce, "new~1", b=WALL_US * 2)
    (follow,) = of(bench.read(), Follow)
    assert (follow.fenced, follow.why) == (True, "superseded by new~1")
    bench.go()
    record = beacons.decode(bench.logs[0][-1][2] if bench.kinds()[-1] == "Yield" else bench.logs[0][-2][2])
    assert isinstance(record, Yield)
    assert (record.term, record.led) == (follow.token, True)


def test_an_older_copy_of_an_announcement_ends_nothing() -> None:
    bench = Bench(Fast(config()))
    offset = bench.write(Announce, "old~1", b=5)
    copy = bench.logs[0][-1][2]
    bench.write(Yield, "old~1", term=5 + offset, led=True)
    bench.step(Assigned((0,)))
    bench.read()
    bench.go()
    assert bench.leading()
    bench.land(copy)
    bench.read()
    assert bench.leading()


def test_the_superseded_leads_again_when_the_other_is_silent_and_the_group_never_took_it() -> None:
    bench = leading(Fast(config()))
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
    bench = leading(Fast(config(interval_ms=50)))
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
    bench = leading(Fast(config()))
    token = bench.leading()["0"]
    bench.wait(300)
    (follow,) = of(bench.step(Tick(bench.wall_us)), Follow)
    assert follow.fenced
    assert follow.at == bench.now - 300 * MS + lease_ns(300, 0.1)
    bench.read()
    bench.go()
    assert bench.leading()["0"] > token
    assert bench.kinds().count("Announce") == 2


def test_a_record_in_ones_own_name_that_one_never_wrote_stops_the_member() -> None:
    bench = leading(Fast(config()))
    bench.write(Pulse, "me~1", term=bench.leading()["0"], n=99)
    effects = bench.read()
    assert [e.kind for e in of(effects, Stop)] == ["cloned"]
    assert of(effects, Follow)


# The group's word ------------------------------------------------------------------------------------------------------


def test_revoked_runs_the_barrier_yields_and_only_then_lets_the_group_go_on() -> None:
    bench = leading(Fast(config()))
    token = bench.leading()["0"]
    effects = bench.step(Revoked((0,)))
    assert [type(e) for e in effects] == [Follow, Barrier]
    assert not effects[0].fenced  # type: ignore[union-attr]
    assert not of(bench.go(), Yielded)
    bench.step(WorkOver(("0", 0), token + 1))  # another term's
    assert not of(bench.go(), Yielded)
    bench.step(WorkOver(("0", 0), token))
    (put,) = bench.tick()
    assert isinstance(beacons.decode(put.payload), Yield)
    assert not of(bench.effects, Yielded)
    bench.put(put)
    assert of(bench.effects, Yielded) == [Yielded(0)]


def test_revoked_with_an_append_that_fails_lets_the_group_go_on_all_the_same() -> None:
    bench = leading(Fast(config()))
    bench.step(Revoked((0,)))
    bench.step(WorkOver(("0", 0), of(bench.effects, Lead)[-1].token))
    (put,) = bench.tick()
    assert of(bench.step(Missed(put.ticket)), Yielded) == [Yielded(0)]


def test_the_barrier_has_a_limit_of_its_own() -> None:
    bench = leading(Fast(config(barrier_ms=400)))
    bench.step(Revoked((0,)))
    for _ in range(9):
        bench.wait(40)
        bench.go()
    assert not of(bench.effects, Yielded)
    bench.wait(45)
    follow = of(bench.go(), Follow)[0]
    assert (follow.fenced, follow.why) == (True, "barrier timed out")
    assert of(bench.effects, Yielded)


def test_while_a_barrier_runs_beats_go_on_and_nothing_is_believed() -> None:
    bench = leading(Fast(config()))
    bench.step(Revoked((0,)))
    for _ in range(20):
        bench.wait(50)
        bench.go()
    assert not bench.leading()
    assert bench.kinds()[-1] == "Pulse"
    assert not of(bench.effects, Yielded)


def test_lost_waits_for_nobody() -> None:
    bench = leading(Fast(config()))
    effects = bench.step(Lost((0,)))
    assert [(type(e), e.fenced) for e in effects] == [(Follow, True)]  # type: ignore[union-attr]
    bench.go()
    assert bench.kinds()[-1] == "Yield"


def test_revoked_before_the_announcement_came_back_yields_it_when_it_does() -> None:
    bench = Bench(Fast(config()))
    bench.step(Assigned((0,)))
    bench.read()
    (put,) = bench.tick()
    assert of(bench.step(Revoked((0,))), Yielded)
    bench.put(put)
    bench.go()
    assert bench.kinds() == ["Announce", "Yield"]
    assert not bench.leading()


@pytest.mark.parametrize("kind", [Fast, Neli])
def test_closing_ends_with_a_yield(kind: Any) -> None:
    bench = leading(kind(config()))
    token = bench.leading()["0"]
    bench.step(Close())
    bench.step(WorkOver(("0", 0), token))
    assert of(bench.go(), Closed)
    assert bench.kinds()[-1] == "Yield"
    assert bench.core.step(Tick(0), bench.now) == []


def test_roles_come_and_go_without_the_partition_moving() -> None:
    bench = leading(Fast(config()))
    token = bench.leading()["0"]
    bench.step(Roles(("1", "pricing")))
    assert bench.leading() == {"1": token, "pricing": token}
    assert [e.seat for e in of(bench.effects, Barrier)] == [("0", 0)]


def test_a_log_that_is_another_one_ends_every_belief_in_it() -> None:
    bench = leading(Fast(config()))
    token = bench.leading()["0"]
    assert of(bench.step(Broke(0, "replaced")), Follow)[0].fenced
    bench.logs, bench.ends = [[]], [0]
    bench.step(Entered(0, 0, 0))
    bench.read()
    bench.go()
    assert bench.leading()["0"] > token


# Exclusive NELI ----------------------------------------------------------------------------------------------------------


@given(late=st.integers(0, 250), ahead=st.integers(-20, 20))
def test_v_takes_the_brokers_time_whenever_the_beacon_is_read(late: int, ahead: int) -> None:
    bench = leading(Neli(config(error_ms=20)))
    stamp = bench.now
    bench.wait(50)
    (put,) = bench.tick()
    stamp = bench.now
    bench.land(put.payload)
    bench.wait(late)
    before = bench.until()
    (entry,) = [e for e in bench.logs[0] if e[0] >= bench.core.position(0)]
    bench.step(Heard(0, [entry], bench.wall_us + ahead * 1000))  # type: ignore[list-item]
    # In true time: at most T + e after the broker's stamp, by a stopwatch that may be slow.
    ends = max(before, bench.until())
    assert ends - bench.now <= max(before - bench.now, (stamp + 320 * MS - bench.now) + MS)


def test_the_sum_is_checked_and_shown() -> None:
    with pytest.raises(ConfigError, match="900 ms \\+ 100 ms = 1000 ms, and the session is 1000 ms"):
        Neli(config(threshold_ms=900, error_ms=100))
    Neli(config(threshold_ms=899, error_ms=100))
    with pytest.raises(ConfigError, match="needs T above the group's session"):
        Neli(config(threshold_ms=1000, exclusive=False))
    with pytest.raises(ConfigError, match=f"needs {BEACONS} of them: use at most 70 ms"):
        Neli(config(threshold_ms=300, error_ms=20, interval_ms=71))
    with pytest.raises(ConfigError, match="two beats take 260 ms"):
        Fast(config(interval_ms=130))


def test_a_predecessor_that_was_silent_for_t_and_e_is_not_waited_for() -> None:
    bench = Bench(Neli(config(error_ms=20)))
    b = bench.write(Announce, "old~1", b=5, within=320)
    bench.write(Beacon, "old~1", term=5 + b, lead=True, within=320)
    bench.wait(321)
    bench.read()  # read late: the broker's times say how long it was
    bench.step(Assigned((0,)))
    bench.read()
    bench.go()
    assert bench.leading()


@given(silent=st.integers(0, 319))
def test_of_a_predecessors_t_and_e_what_is_left_is_waited_for(silent: int) -> None:
    bench = Bench(Neli(config(error_ms=20)))
    b = bench.write(Announce, "old~1", b=5, within=320)
    bench.write(Beacon, "old~1", term=5 + b, lead=True, within=320)
    last = bench.now
    bench.wait(silent)
    bench.read()
    bench.step(Assigned((0,)))
    bench.read()
    bench.go()
    while not bench.leading():
        bench.wait(10)
        bench.go()
    assert bench.now >= last + 320 * MS


def test_a_clock_that_is_wrong_is_reported_and_leads_nothing() -> None:
    bench = Bench(Neli(config(error_ms=10)))
    bench.step(Assigned((0,)))
    bench.read()
    for put in bench.tick():
        bench.put(put)
    position = bench.core.position(0)
    entries: Any = [e for e in bench.logs[0] if e[0] >= position]
    bench.step(Heard(0, entries, bench.wall_us - 50_000))
    assert not bench.leading()
    assert [e.kind for e in of(bench.effects, Report)] == ["clock-error"]


def test_everybody_beacons_on_every_partition() -> None:
    bench = Bench(Neli(config(partitions=3)))
    bench.wait(50)
    bench.go()
    assert [bench.kinds(number) for number in range(3)] == [["Beacon"]] * 3


# Non-exclusive -----------------------------------------------------------------------------------------------------------


def nele(**fields: Any) -> Neli:
    return Neli(config(exclusive=False, threshold_ms=1500, **fields))


def test_any_beacon_keeps_a_non_exclusive_leader() -> None:
    bench = leading(nele())
    bench.wait(400)
    bench.write(Beacon, "other~1")
    bench.read()
    assert bench.until() == bench.now + 1500 * MS


def test_a_non_exclusive_owner_goes_on_until_it_reads_that_another_leads() -> None:
    bench = leading(nele())
    token = bench.leading()["0"]
    assert of(bench.step(Revoked((0,))), Yielded) == [Yielded(0)]
    other = bench.write(Announce, "new~1", b=token + 10)
    bench.read()
    assert bench.leading()
    bench.write(Beacon, "new~1", term=token + 10 + other, lead=True)
    effects = bench.read()
    assert [type(e) for e in effects][:2] == [Follow, Barrier]
    assert not bench.leading()


def test_a_non_exclusive_owner_that_lost_its_partition_ends_with_t() -> None:
    bench = leading(nele())
    until = bench.until()
    bench.step(Lost((0,)))
    bench.wait(100)
    bench.write(Beacon, "other~1")
    bench.read()
    assert bench.until() == until  # nothing re-arms what the group has taken
    bench.wait(1500)
    assert of(bench.step(Tick(bench.wall_us)), Follow)[0].why == "lease ran out"


# Other numbers of partitions -----------------------------------------------------------------------------------------------


def test_who_reads_a_larger_number_of_partitions_stops_and_begins_anew() -> None:
    bench = leading(Fast(config(partitions=2)))
    bench.write(Width, "new~1", 1, of=4)
    effects = bench.read()
    assert [type(e) for e in effects] == [Follow, Restart]
    assert effects[0].fenced  # type: ignore[union-attr]


def test_who_comes_with_fewer_partitions_is_refused() -> None:
    core = Fast(config())
    width = beacons.encode(Width(v=1, g="g", m="x~1", n=1, b=0, s=0, of=4, at=0))
    core.step(Entered(0, 0, 1), 0)
    (stop,) = of(core.step(Heard(0, [(0, 0, width)]), 1), Stop)  # type: ignore[list-item]
    assert (stop.kind, "shares out 4 partitions, and this member 1" in stop.text) == ("refused", True)


@pytest.mark.parametrize("kind", [Fast, Neli])
def test_tenures_by_another_number_are_waited_for_in_every_partition(kind: Any) -> None:
    """Role 0 is theirs by another partition than ours."""
    core = kind(config(partitions=2))
    bench = Bench.__new__(Bench)
    bench.core, bench.now, bench.logs, bench.ends = core, 10**12, [[], []], [0, 0]
    bench.effects, bench.numbers = [], {}
    offset = bench.write(Announce, "old~1", 1, b=5, of=1)
    bench.write(Pulse if kind is Fast else Beacon, "old~1", 1, term=5 + offset, lead=True)
    for number in range(2):
        bench.step(Entered(number, 0, bench.ends[number]))
    bench.read()
    started = bench.now
    bench.go()
    bench.step(Assigned((0,)))
    bench.read()
    bench.go()
    while not bench.leading():
        bench.wait(10)
        bench.go()
    assert bench.now - started >= 300 * MS


def test_partitions_that_this_member_does_not_share_out_are_nobodys() -> None:
    bench = leading(Fast(config()))
    assert bench.step(Assigned((5,))) == []
    assert bench.step(Lost((5,))) == []
    assert of(bench.step(Revoked((5,))), Yielded) == [Yielded(5)]


# Bad records -------------------------------------------------------------------------------------------------------------


@given(st.binary(max_size=200))
def test_nothing_that_stands_in_a_log_stops_a_reader(payload: bytes) -> None:
    bench = Bench(Fast(config()))
    bench.land(payload)
    bench.step(Assigned((0,)))
    bench.read()
    bench.go()
    assert bench.leading()


def test_a_token_that_cannot_be_does_not_count() -> None:
    bench = Bench(Fast(config()))
    bench.write(Pulse, "liar~1", term=2**53 - 1)
    offset = bench.write(Announce, "liar~2", b=MAX_BASE - 1)
    bench.write(Yield, "liar~2", term=MAX_BASE - 1 + offset, led=True)
    bench.step(Assigned((0,)))
    bench.read()
    bench.go()
    assert bench.leading()["0"] == MAX_BASE - 1 + 4  # the fifth record, after this member's width and those three


def test_a_group_that_runs_the_claims_protocol_is_left_alone() -> None:
    core = Fast(config())
    join = Join(v=1, g="g", m="x~1", n=1, b=5, s=500, name="x", session=1000)
    core.step(Entered(0, 0, 1), 0)
    (stop,) = of(core.step(Heard(0, [(0, 0, encode(join))]), 1), Stop)  # type: ignore[list-item]
    assert stop.kind == "refused"
    other = Join(v=1, g="another", m="x~1", n=1, b=5, s=500, name="x", session=1000)
    core = Fast(config())
    core.step(Entered(0, 0, 1), 0)
    assert of(core.step(Heard(0, [(0, 0, encode(other))]), 1), Live)  # type: ignore[list-item]


def test_records_of_other_kinds_are_told_from_bad_ones() -> None:
    join = Join(v=1, g="g", m="x~1", n=1, b=5, s=500, name="x", session=1000)
    assert beacons.decode(encode(join)) == Foreign("g", "x~1", True)
    with pytest.raises(BadRecord, match="bad field"):
        beacons.decode(b'{"k":"pulse","v":1,"g":"g","m":"x~1","n":1,"b":5,"s":5}')
    with pytest.raises(ConfigError, match="this announce can't be written"):
        beacons.encode(Announce(v=1, g="g", m="x", n=1, b=0, s=0, name="", within=1, drift=0.1, of=1, at=0))


def test_a_member_whose_words_fit_no_record_is_refused() -> None:
    text: Text = "x" * 1001
    with pytest.raises(ConfigError, match="this announce can't be written"):
        Fast(config(host=text))
