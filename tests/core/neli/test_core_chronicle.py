"""What a log tells of NELI's groups, record by record: the past as far as it can be proven, and no further."""

from __future__ import annotations

from typing import Any

from pares.core.neli.history import Came, Chronicle, Happening, Known, Led, Over, Went
from pares.core.wire.neli_records import Announce, Beacon, PartitionCount, Pulse, RolesChanged, Yield, encode

T0 = 1_700_000_000_000
BASE = 1_000_000


class Log:
    """A partition's log that is written by hand; its stamps are 1 ms behind the writers' clocks."""

    def __init__(self, partition: int = 0, start: int = 0) -> None:
        self.chronicle = Chronicle("g", partition, start)
        self.offset = start
        self.numbers: dict[str, int] = {}
        self.told: list[Happening] = []

    def write(self, kind: Any, member: str, ms: int, **fields: Any) -> int:
        self.numbers[member] = self.numbers.get(member, 0) + 1
        if kind is Announce:
            given = {"name": member.split("~")[0], "host": "h", "of": 1, "within": 300, "drift": 0.1, "session": 1000}
            fields = {**given, "protocol": "fast-neli", **fields}
        elif kind in (Pulse, Beacon):
            fields = {"within": 300, **fields}
        record = kind(
            v=1, g="g", m=member, n=self.numbers[member], b=BASE, s=60, at=fields.pop("at", T0 + ms), **fields
        )
        self.told += self.chronicle.feed((self.offset, T0 + ms + 1, encode(record)))
        self.offset += 1
        return BASE + self.offset - 1

    def of(self, kind: Any) -> list[Any]:
        return [one for one in self.told if isinstance(one, kind)]


def test_a_planned_move_is_exact() -> None:
    log = Log()
    log.write(PartitionCount, "a~1", 0, of=1, roles=("r",))
    token = log.write(Announce, "a~1", 10)
    log.write(Pulse, "a~1", 20, term=token, lead=True, at=T0 + 15)
    log.write(Yield, "a~1", 100, term=token, led=True, began=T0 + 15, ended=T0 + 90, why="revoked")
    heir = log.write(Announce, "b~1", 110)
    log.write(Pulse, "b~1", 112, term=heir, lead=True)
    assert [one.seat for one in log.of(Came)] == [("r", 0)]
    assert [(one.tenancy.member, one.at_ms, one.tenancy.offset) for one in log.of(Led)] == [
        ("a~1", T0 + 15, 1),
        ("b~1", T0 + 112, 4),
    ]
    (over,) = log.of(Over)
    assert (over.cause, over.ended_ms, over.offset, over.by) == ("yield", T0 + 90, 3, "a~1")
    assert {one.sender.name for one in log.of(Known)} == {"a", "b"}


def test_a_term_ends_where_its_successor_announced_itself_though_its_owner_says_so_later() -> None:
    """The group had lost the owner, who heard of it when its successor had already written: one record behind another."""
    log = Log()
    log.write(PartitionCount, "a~1", 0, of=1, roles=("r",))
    token = log.write(Announce, "a~1", 10)
    log.write(Pulse, "a~1", 20, term=token, lead=True)
    heir = log.write(Announce, "b~1", 1000)
    log.write(Yield, "a~1", 1009, term=token, led=True, began=T0 + 20, ended=T0 + 1008, why="lost")
    log.write(Pulse, "b~1", 1016, term=heir, lead=True)
    (over,) = log.of(Over)
    assert (over.cause, over.ended_ms, over.offset) == ("yield", T0 + 1008, 3)
    led = [one for one in log.of(Led) if one.tenancy.member == "b~1"]
    assert led[0].tenancy.offset == 3, "so no two terms stand in the log at once"


def test_of_who_was_killed_it_is_known_when_it_was_over_at_the_latest() -> None:
    log = Log()
    log.write(PartitionCount, "a~1", 0, of=1, roles=("r",))
    token = log.write(Announce, "a~1", 10)
    log.write(Pulse, "a~1", 20, term=token, lead=True)
    log.write(Pulse, "a~1", 80, term=token, lead=True)
    heir = log.write(Announce, "b~1", 1200)
    late = log.write(Pulse, "a~1", 1210, term=token, lead=True)
    log.write(Pulse, "b~1", 1300, term=heir, lead=True)
    assert late
    assert not log.of(Over), "it may still tell of its end"
    (over,) = log.chronicle.finish()
    assert isinstance(over, Over)
    assert (over.cause, over.offset, over.by, over.ended_ms) == ("silent", 4, "b~1", None)
    assert over.tenancy.until_ms == T0 + 81 + 300, "nothing that stands behind the announcement prolongs it"
    assert over.tenancy.said_ms == T0 + 1210, "but it is what it says"


def test_non_exclusive_beliefs_rest_on_anybodys_beacon() -> None:
    log = Log()
    log.write(PartitionCount, "a~1", 0, of=1, roles=("r",))
    token = log.write(Announce, "a~1", 10, protocol="nele", within=1500)
    log.write(Beacon, "a~1", 20, term=token, lead=True, within=1500)
    heir = log.write(Announce, "b~1", 1100, protocol="nele", within=1500)
    log.write(Beacon, "b~1", 1110, term=heir, lead=True, within=1500)
    (open_,) = [t for t in log.of(Led) if t.tenancy.member == "a~1"]
    assert open_.tenancy.until_ms == T0 + 21 + 60 + 1500, "its next beacon was due after 60 ms; then T is left"
    assert log.chronicle.senders["a~1"].overlap_ms == 500, "T less the session"
    log.write(Yield, "a~1", 1120, term=token, led=True, began=T0 + 20, ended=T0 + 1115, why="superseded by b~1")
    (over,) = log.of(Over)
    assert (over.cause, over.offset, over.ended_ms) == ("handover", 3, T0 + 1115)


def test_the_budget_lets_the_overlap_grow() -> None:
    log = Log()
    log.write(PartitionCount, "a~1", 0, of=1, roles=("r",))
    token = log.write(Announce, "a~1", 10, protocol="nele", within=1500)
    record = Beacon(v=1, g="g", m="a~1", n=3, b=BASE, s=1000, at=T0, term=token, lead=True, within=1500)
    log.chronicle.feed((log.offset, T0, encode(record)))
    assert log.chronicle.senders["a~1"].overlap_ms == 4 * 1000 - 1000


def test_a_tenure_that_never_led_is_no_term() -> None:
    log = Log()
    log.write(PartitionCount, "a~1", 0, of=1, roles=("r",))
    token = log.write(Announce, "a~1", 10)
    log.write(Pulse, "a~1", 20, term=token)
    log.write(Yield, "a~1", 30, term=token, why="revoked")
    assert not log.of(Led)
    assert not log.of(Over)


def test_who_led_for_less_than_its_first_word_took_has_led() -> None:
    log = Log()
    log.write(PartitionCount, "a~1", 0, of=1, roles=("r",))
    token = log.write(Announce, "a~1", 10)
    log.write(Yield, "a~1", 30, term=token, led=True, began=T0 + 12, ended=T0 + 25, why="revoked")
    assert [one.at_ms for one in log.of(Led)] == [T0 + 12]
    assert [one.ended_ms for one in log.of(Over)] == [T0 + 25]


def test_who_announces_itself_anew_has_stopped_before() -> None:
    log = Log()
    log.write(PartitionCount, "a~1", 0, of=1, roles=("r",))
    token = log.write(Announce, "a~1", 10)
    log.write(Pulse, "a~1", 20, term=token, lead=True)
    log.write(Announce, "a~1", 5000)
    (over,) = log.of(Over)
    assert (over.cause, over.ended_ms, over.tenancy.until_ms) == ("anew", None, T0 + 21 + 300)


def test_roles_begin_when_their_leader_says_so_again() -> None:
    log = Log()
    log.write(PartitionCount, "a~1", 0, of=1, roles=("r",))
    token = log.write(Announce, "a~1", 10)
    log.write(Pulse, "a~1", 20, term=token, lead=True)
    log.write(RolesChanged, "b~1", 50, add=("late",))
    assert [one.seat for one in log.of(Led)] == [("r", 0)]
    log.write(Pulse, "a~1", 60, term=token, lead=True)
    assert [(one.seat, one.at_ms) for one in log.of(Led)][1:] == [(("late", 0), T0 + 60)]
    log.write(RolesChanged, "b~1", 70, drop=("r",))
    assert [one.seat for one in log.of(Went)] == [("r", 0)]
    assert [(one.seat, one.cause) for one in log.of(Over)] == [(("r", 0), "removed")]


def test_roles_and_seats_follow_the_partitions() -> None:
    """Role 1 belongs to partition 1 of 2, and with two seats of four partitions to 1 and 3."""
    log = Log(partition=3)
    log.write(PartitionCount, "a~1", 0, of=4, seats=2, roles=("0", "1", "3"))
    assert [one.seat for one in log.of(Came)] == [("1", 1), ("3", 1)]
    log.write(PartitionCount, "a~2", 10, of=8, seats=2)
    assert {one.seat[0] for one in log.of(Went)} == {"1", "3"}, "seat 0 of role 3 is there now, and of role 1 nothing"
    assert ("3", 0) in [one.seat for one in log.of(Came)]


def test_a_log_without_its_beginning_tells_of_a_term_without_one() -> None:
    log = Log(start=500)
    log.write(PartitionCount, "a~1", 0, of=1, roles=("r",))
    log.write(Pulse, "a~1", 20, term=BASE + 400, lead=True)
    (led,) = log.of(Led)
    assert (led.at_ms, led.tenancy.whole, led.tenancy.offset) == (None, False, 500)
    assert log.chronicle.floor == BASE + 500


def test_a_beat_of_who_was_succeeded_begins_nothing() -> None:
    log = Log()
    log.write(PartitionCount, "a~1", 0, of=1, roles=("r",))
    first = log.write(Announce, "a~1", 10)
    second = log.write(Announce, "b~1", 20)
    log.write(Pulse, "b~1", 30, term=second, lead=True)
    log.write(Pulse, "a~1", 40, term=first, lead=True)
    assert [one.tenancy.member for one in log.of(Led)] == ["b~1"]


def test_a_record_with_numbers_that_cannot_be_stops_no_reader() -> None:
    log = Log()
    log.write(RolesChanged, "a~1", 0, add=("r",))
    assert [one.seat for one in log.of(Came)] == [("r", 0)], "nobody has said how many partitions there are"
    log.write(PartitionCount, "x~1", 0, of=1, seats=7)
    log.write(PartitionCount, "a~1", 0, of=1)
    assert log.chronicle.seats() == [("r", 0)]
