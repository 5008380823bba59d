"""The rules of NELI in both modes, of groups whose members share out different numbers, and of bad records."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from neli_bench import MS, WALL_US, Bench, config, fast, leading, neli, of

from pares.core import events as ev
from pares.core.errors import ConfigError
from pares.core.neli.classic import BEACONS
from pares.core.neli.induced import Induced
from pares.core.wire import neli_records
from pares.core.wire.neli_records import Announce, Beacon, Foreign, PartitionCount, Pulse, Yield
from pares.core.wire.records import MAX_BASE, BadRecord, Join, Text, encode

# Exclusive NELI ----------------------------------------------------------------------------------------------------------


@given(late=st.integers(0, 250), ahead=st.integers(-20, 20))
def test_v_takes_the_brokers_time_whenever_the_beacon_is_read(late: int, ahead: int) -> None:
    bench = leading(neli(config(error_ms=20)))
    stamp = bench.now
    bench.wait(50)
    (put,) = bench.tick()
    stamp = bench.now
    bench.land(put.payloads[0])
    bench.wait(late)
    before = bench.until()
    (entry,) = [e for e in bench.logs[0] if e[0] >= bench.core.position(0)]
    bench.step(ev.Read([entry], wall_us=bench.wall_us + ahead * 1000))  # type: ignore[list-item]
    # In true time: at most T + e after the broker's stamp, by a stopwatch that may be slow.
    ends = max(before, bench.until())
    assert ends - bench.now <= max(before - bench.now, (stamp + 320 * MS - bench.now) + MS)


def test_the_sum_is_checked_and_shown() -> None:
    with pytest.raises(ConfigError, match="900 ms \\+ 100 ms = 1000 ms, and the session is 1000 ms"):
        neli(config(threshold_ms=900, error_ms=100))
    neli(config(threshold_ms=899, error_ms=100))
    with pytest.raises(ConfigError, match="needs T above the group's session"):
        neli(config(threshold_ms=1000, exclusive=False))
    with pytest.raises(ConfigError, match=f"needs {BEACONS} of them: use at most 70 ms"):
        neli(config(threshold_ms=300, error_ms=20, interval_ms=71))
    with pytest.raises(ConfigError, match="two beats take 260 ms"):
        fast(config(interval_ms=130))


def test_a_predecessor_that_was_silent_for_t_and_e_is_not_waited_for() -> None:
    bench = Bench(neli(config(error_ms=20)))
    b = bench.write(Announce, "old~1", b=5, within=320)
    bench.write(Beacon, "old~1", term=5 + b, lead=True, within=320)
    bench.wait(321)
    bench.read()  # read late: the broker's times say how long it was
    bench.step(ev.Assigned((0,)))
    bench.read()
    bench.go()
    assert bench.leading()


@given(silent=st.integers(0, 319))
def test_of_a_predecessors_t_and_e_what_is_left_is_waited_for(silent: int) -> None:
    bench = Bench(neli(config(error_ms=20)))
    b = bench.write(Announce, "old~1", b=5, within=320)
    bench.write(Beacon, "old~1", term=5 + b, lead=True, within=320)
    last = bench.now
    bench.wait(silent)
    bench.read()
    bench.step(ev.Assigned((0,)))
    bench.read()
    bench.go()
    while not bench.leading():
        bench.wait(10)
        bench.go()
    assert bench.now >= last + 320 * MS


def test_a_clock_that_is_wrong_is_reported_and_leads_nothing() -> None:
    bench = Bench(neli(config(error_ms=10)))
    bench.step(ev.Assigned((0,)))
    bench.read()
    for put in bench.tick():
        bench.put(put)
    position = bench.core.position(0)
    entries: Any = [e for e in bench.logs[0] if e[0] >= position]
    bench.step(ev.Read(entries, wall_us=bench.wall_us - 50_000))
    assert not bench.leading()
    assert [e.kind for e in of(bench.effects, ev.Report)] == ["clock-error"]


@pytest.mark.parametrize("ahead_ms", [11, 12, 299, 300, 5000])
def test_a_clock_that_is_ahead_is_reported_and_leads_for_so_much_less(ahead_ms: int) -> None:
    """By what it wrote itself: a record's time can't be after its stamp, however long it was on its way."""
    bench = AheadBench(neli(config(error_ms=10)), ahead_ms)
    bench.step(ev.Assigned((0,)))
    bench.read()
    bench.go()
    reports = of(bench.effects, ev.Report)
    if ahead_ms <= 11:
        assert reports == [], "milliseconds are cut off"
    else:
        (report,) = reports
        assert report.kind == "clock-error"
        assert f"{ahead_ms} ms or more ahead of the broker's, and clock_error is 10 ms" in report.text
        assert "T = 300 ms" in report.text
    assert bool(bench.leading()) == (ahead_ms < 299), "nobody leads from a second on at which its belief would be over"
    if bench.leading():
        assert bench.until() <= bench.now + (300 - ahead_ms) * MS


def test_a_record_that_was_late_is_no_clock_ahead() -> None:
    bench = leading(neli(config(error_ms=0)))
    for late in (1, 50, 250):
        bench.wait(50)
        (put,) = bench.tick()
        bench.wait(late)
        bench.put(put)
        bench.read()
    assert of(bench.effects, ev.Report) == []


class AheadBench(Bench):
    """Its logs are stamped by a clock that is behind the member's."""

    def __init__(self, core: Induced, ahead_ms: int) -> None:
        self.ahead_ms = ahead_ms
        super().__init__(core)

    def land(self, payload: bytes, partition: int = 0) -> int:
        offset = super().land(payload, partition)
        at, stamp, what = self.logs[partition][-1]
        self.logs[partition][-1] = (at, stamp - self.ahead_ms, what)
        return offset


def test_everybody_beacons_on_every_partition() -> None:
    """In exclusive mode seldom, twice a session, where it owns nothing: no belief rests on these."""
    bench = Bench(neli(config(partitions=3, session_ms=1000)))
    bench.wait(499)
    bench.go()
    assert [bench.kinds(number) for number in range(3)] == [[]] * 3
    bench.wait(1)
    bench.go()
    assert [bench.kinds(number) for number in range(3)] == [["Beacon"]] * 3


def test_everybody_beacons_alike_in_non_exclusive_mode() -> None:
    """Any beacon keeps a leader there."""
    bench = Bench(nele(partitions=3))
    bench.wait(50)
    bench.go()
    assert [bench.kinds(number) for number in range(3)] == [["Beacon"]] * 3


# Non-exclusive -----------------------------------------------------------------------------------------------------------


def nele(**fields: Any) -> Induced:
    return neli(config(exclusive=False, threshold_ms=1500, **fields))


def test_any_beacon_keeps_a_non_exclusive_leader() -> None:
    bench = leading(nele())
    bench.wait(400)
    bench.write(Beacon, "other~1")
    bench.read()
    assert bench.until() == bench.now + 1500 * MS


def test_a_non_exclusive_owner_goes_on_until_it_reads_that_another_leads() -> None:
    bench = leading(nele())
    token = bench.leading()["0"]
    assert of(bench.step(ev.Revoked((0,))), ev.Yielded) == [ev.Yielded(0)]
    other = bench.write(Announce, "new~1", b=token + 10)
    bench.read()
    assert bench.leading()
    bench.write(Beacon, "new~1", term=token + 10 + other, lead=True)
    effects = bench.read()
    assert [type(e) for e in effects][:2] == [ev.Follow, ev.Barrier]
    assert not bench.leading()


def test_no_beacon_keeps_a_non_exclusive_leader_once_another_has_announced_itself() -> None:
    """The group may have told it nothing of that one, whose own word that it leads may be late: T is the most that is left."""
    bench = leading(nele())
    token, until = bench.leading()["0"], bench.until()
    bench.wait(400)
    other = bench.write(Announce, "new~1", b=token + 10)
    bench.write(Beacon, "other~1")
    bench.read()
    assert bench.until() == until
    bench.write(Yield, "new~1", term=token + 10 + other, why="closed", led=False)
    bench.read()
    assert bench.until() == bench.now + 1500 * MS, "which has given way"
    bench.write(Announce, "newer~1", b=token + 20)
    bench.wait(1500)
    bench.write(Beacon, "other~1")
    assert [type(e) for e in bench.read()] == [ev.Follow]
    assert not bench.leading()


def test_a_non_exclusive_owner_that_lost_its_partition_ends_with_t() -> None:
    bench = leading(nele())
    until = bench.until()
    bench.step(ev.Lost((0,)))
    bench.wait(100)
    bench.write(Beacon, "other~1")
    bench.read()
    assert bench.until() == until  # nothing re-arms what the group has taken
    bench.wait(1500)
    assert of(bench.step(ev.Tick(bench.wall_us)), ev.Follow)[0].why == "lease ran out"


def test_who_closes_beacons_for_what_it_still_leads_and_prolongs_nothing() -> None:
    bench = leading(nele())
    until, before = bench.until(), len(bench.kinds())
    bench.step(ev.Close())
    for _ in range(4):
        bench.wait(50)
        bench.go()
    assert bench.leading()
    assert bench.kinds()[before:] == ["Beacon"] * 4, "whoever comes next is not to take it for gone"
    assert bench.until() == until
    bench.wait(1500)
    bench.go()
    assert not bench.leading()
    assert bench.kinds()[-1] == "Yield"
    assert of(bench.effects, ev.Closed)


# Other numbers of partitions -----------------------------------------------------------------------------------------------


def test_who_reads_a_larger_number_of_partitions_stops_and_begins_anew() -> None:
    bench = leading(fast(config(partitions=2)))
    bench.write(PartitionCount, "new~1", 1, of=4)
    effects = bench.read()
    assert [type(e) for e in effects] == [ev.Follow, ev.Restart]
    assert effects[0].fenced  # type: ignore[union-attr]


def test_who_comes_with_fewer_partitions_is_refused() -> None:
    core = fast(config())
    width = neli_records.encode(PartitionCount(v=1, g="g", m="x~1", n=1, b=0, s=0, of=4, at=0))
    core.step(ev.Attached(0, 1), 0)
    (stop,) = of(core.step(ev.Read([(0, 0, width)]), 1), ev.Stop)  # type: ignore[list-item]
    assert (stop.kind, "shares out 4 partitions, and this member 1" in stop.text) == ("refused", True)


@pytest.mark.parametrize("kind", [fast, neli])
def test_tenures_by_another_number_are_waited_for_in_every_partition(kind: Any) -> None:
    """Role 0 is theirs by another partition than ours."""
    core = kind(config(partitions=2))
    bench = Bench(core, idle=True)
    offset = bench.write(Announce, "old~1", 1, b=5, of=1)
    bench.write(Pulse if kind is fast else Beacon, "old~1", 1, term=5 + offset, lead=True)
    started = bench.now
    bench.go()
    bench.step(ev.Assigned((0,)))
    bench.read()
    bench.go()
    while not bench.leading():
        bench.wait(10)
        bench.go()
    assert bench.now - started >= 300 * MS


def test_partitions_that_this_member_does_not_share_out_are_nobodys() -> None:
    bench = leading(fast(config()))
    assert bench.step(ev.Assigned((5,))) == []
    assert bench.step(ev.Lost((5,))) == []
    assert of(bench.step(ev.Revoked((5,))), ev.Yielded) == [ev.Yielded(5)]


@pytest.mark.parametrize("protocol", ["neli", "nele"])
def test_a_group_that_runs_another_protocol_is_left_alone(protocol: str) -> None:
    core = fast(config())
    fields: dict[str, Any] = {"name": "x", "within": 300, "drift": 0.1, "of": 1, "protocol": protocol}
    payload = neli_records.encode(Announce(v=1, g="g", m="x~1", n=1, b=5, s=50, at=0, **fields))
    core.step(ev.Attached(0, 1), 0)
    (stop,) = of(core.step(ev.Read([(0, 0, payload)]), 1), ev.Stop)  # type: ignore[list-item]
    assert (stop.kind, f"runs {protocol!r} (x~1)" in stop.text) == ("refused", True)
    bench = leading(fast(config()))
    bench.write(Announce, "x~1", b=WALL_US * 2, protocol=protocol)
    assert [e.kind for e in of(bench.read(), ev.Report)] == ["other-protocol"]


# Bad records -------------------------------------------------------------------------------------------------------------


@given(st.binary(max_size=200))
def test_nothing_that_stands_in_a_log_stops_a_reader(payload: bytes) -> None:
    bench = Bench(fast(config()))
    bench.land(payload)
    bench.step(ev.Assigned((0,)))
    bench.read()
    bench.go()
    assert bench.leading()


def test_a_token_that_cannot_be_does_not_count() -> None:
    bench = Bench(fast(config()))
    bench.write(Pulse, "liar~1", term=2**53 - 1)
    offset = bench.write(Announce, "liar~2", b=MAX_BASE - 1)
    bench.write(Yield, "liar~2", term=MAX_BASE - 1 + offset, led=True)
    bench.step(ev.Assigned((0,)))
    bench.read()
    bench.go()
    assert bench.leading()["0"] == MAX_BASE - 1 + 5  # the sixth record: its share of partitions, its role, those three


def test_records_of_other_kinds_are_told_from_bad_ones() -> None:
    join = Join(v=1, g="g", m="x~1", n=1, b=5, s=500, name="x", session=1000)
    assert neli_records.decode(encode(join)) == Foreign("g", join)
    with pytest.raises(BadRecord, match="bad field"):
        neli_records.decode(b'{"k":"pulse","v":1,"g":"g","m":"x~1","n":1,"b":5,"s":5}')
    with pytest.raises(ConfigError, match="this announce can't be written"):
        neli_records.encode(Announce(v=1, g="g", m="x", n=1, b=0, s=0, name="", within=1, drift=0.1, of=1, at=0))


def test_a_member_whose_words_fit_no_record_is_refused() -> None:
    text: Text = "x" * 1001
    with pytest.raises(ConfigError, match="this announce can't be written"):
        fast(config(host=text))
