"""What `pares doctor` says of a group that runs NELI: the sum that it rests on, and the clock error, measured."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pares
from pares.core.wire.neli_records import Announce, Pulse, encode
from pares.ledger import Capabilities, Entry, Ledger
from pares.view.checkup import Checkup, examine, measured
from pares.view.clock_error import GROUP, measure, narrowed
from pares.view.induced import Plan

PATIENCE = 60.0


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def doctor(ledger: Any, group: str = "g", **plan: Any) -> Checkup:
    return measured(examine(ledger, group, 0, now_ms(), Plan(**plan)), ledger, now_ms())


def said(checkup: Checkup, check: str) -> list[tuple[str, str]]:
    return [(f.level, f.text) for f in checkup.findings if f.check == check]


@pytest.fixture(params=["memory", "sqlite"])
def ledger(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Ledger]:
    where = f"memory://{uuid.uuid4().hex}" if request.param == "memory" else f"sqlite:///{tmp_path}/log.db"
    made = pares.open(f"{where}?partitions=3")
    yield made
    made.close()


class Off:
    """A ledger whose clock is off by so many milliseconds, and that says so of itself: a broker on another host."""

    kind = "kafka"
    capabilities = Capabilities()
    by_broker = True

    def __init__(self, ledger: Ledger, off_ms: int) -> None:
        self._ledger, self.off_ms = ledger, off_ms

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def broker_time(self) -> bool:
        return self.by_broker

    def read(self, *args: Any, **keywords: Any) -> list[Entry]:
        return [e._replace(timestamp_ms=e.timestamp_ms + self.off_ms) for e in self._ledger.read(*args, **keywords)]


@given(
    offset=st.integers(-(10**9), 10**9),
    trips=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1),
)
def test_what_is_measured_holds_the_truth_whatever_the_ways_take(
    offset: int, trips: list[tuple[int, int, int]]
) -> None:
    """Each trip: when it began, how long the way there took, and the way back, in microseconds."""
    samples = [(at, at + there + back, (at + there + offset) // 1000 * 1000) for at, there, back in trips]
    found = narrowed(samples)
    assert found.low_us <= offset <= found.high_us
    assert found.high_us - found.low_us <= found.round_trip_us + 1000
    assert not found.moved
    assert found.bound_us >= abs(offset)


def test_a_clock_that_was_set_meanwhile_is_reported_and_the_widest_is_told() -> None:
    found = narrowed([(0, 100, 0), (1000, 1100, 900_000)])
    assert found.moved
    assert found.low_us <= -100
    assert found.high_us >= 900_000


def test_measuring_a_clock_that_is_off(ledger: Ledger) -> None:
    assert measure(ledger).within(200), "one host's clock, give or take what appending takes"
    found = measure(Off(ledger, -40_000))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert found.low_us <= -40_000_000 <= found.high_us
    assert found.above(39_000)
    assert not found.above(41_000)
    assert found.partitions == 3


def test_a_sound_choice_is_good_and_shows_the_sum(ledger: Ledger) -> None:
    found = doctor(ledger, protocol="neli", T=2.0, session=3.0)
    assert found.sound, found.findings
    ((level, text),) = said(found, "threshold")
    assert level == "good"
    assert "T + clock_error = 2000 ms + 0 ms = 2000 ms, below the group's session of 3000 ms" in text
    ((level, text),) = said(found, "clock-error")
    assert level == "good"
    assert "this host's own clock" in text
    assert said(found, "measured")[0][0] == "good"
    facts = found.induction.facts() if found.induction is not None else {}
    assert (facts["T_ms"], facts["clock_error_ms"], facts["sum_ms"], facts["session_ms"]) == (2000, 0, 2000, 3000)
    assert facts["measured"]["low_ms"] <= 0 <= facts["measured"]["high_ms"]


def test_a_sum_that_is_not_below_the_session_is_a_problem_and_shown(ledger: Ledger) -> None:
    found = doctor(ledger, protocol="neli", T=2.0, clock_error=1.5, session=3.0)
    assert not found.sound
    ((level, text),) = said(found, "threshold")
    assert level == "problem"
    assert "2000 ms + 1500 ms = 3500 ms, and the session is 3000 ms" in text


def test_clocks_further_apart_than_was_promised_are_a_problem(ledger: Ledger) -> None:
    broker = Off(ledger, 700)
    found = doctor(broker, protocol="neli", T=2.0, clock_error=0.5, session=3.0)
    assert not found.sound
    ((level, text),) = said(found, "clock-error")
    assert level == "problem"
    assert "above clock_error = 500 ms" in text
    assert said(found, "measured")[0][0] == "good", "2700 ms are below 3000 all the same"
    found = doctor(broker, protocol="neli", T=2.5, clock_error=0.4, session=3.0)
    ((level, text),) = said(found, "measured")
    assert level == "problem"
    assert "use a smaller T, better clocks or a longer session" in text
    assert said(doctor(broker, protocol="neli", T=1.0, clock_error=0.9, session=3.0), "clock-error")[0][0] == "warning"
    assert doctor(broker, protocol="neli", T=3.0, clock_error=1.8, session=6.0).sound


def test_a_log_with_its_writers_times_is_refused_with_the_reason(ledger: Ledger) -> None:
    broker = Off(ledger, 0)
    broker.by_broker = False
    found = doctor(broker, protocol="neli", T=1.0, session=3.0)
    assert not found.sound
    assert "message.timestamp.type=LogAppendTime" in said(found, "refused")[0][1]
    assert said(found, "clock-error") == []
    assert ledger.end(0) == 0, "nothing was appended for nothing"
    assert doctor(broker, protocol="neli", overlap=2.0, session=3.0).sound, "NELE compares no clocks"
    assert doctor(broker, protocol="fast-neli", session=3.0).sound


def test_a_group_that_runs_it_is_known_by_its_log(ledger: Ledger) -> None:
    assert examine(ledger, "g", 0, now_ms()).induction is None
    with pares.Member(ledger, group="g", roles=["0", "1", "2"], protocol=pares.Neli(T=2.0), session=8.0) as me:
        assert all(me.wait(role, PATIENCE) for role in ("0", "1", "2"))
        found = doctor(ledger)
        facts = found.induction.facts() if found.induction is not None else {}
        assert facts["protocol"] == "neli"
        assert facts["T_ms"] == 2000, "what its member says, not what another would take"
        assert facts["session_ms"] == round(8000 / 1.1), "of the claims group that assigns the partitions"
        assert {t["partition"] for t in facts["tenures"]} == {0, 1, 2}
        assert found.sound, found.findings
        assert said(found, "records") == [("good", "every record can be read")]
        assert not doctor(ledger, protocol="neli", T=8.0).sound
    assert examine(ledger, "other", 0, now_ms()).induction is None
    assert examine(ledger, GROUP, 0, now_ms()).induction is None


def test_nele_and_fast_neli_have_bounds_of_their_own(ledger: Ledger) -> None:
    found = doctor(ledger, protocol="neli", overlap=1.0, T=5.0, session=3.0)
    assert "two may lead for 2000 ms at most" in said(found, "threshold")[0][1]
    assert said(found, "clock-error") == []
    found = doctor(ledger, protocol="neli", overlap=1.0, T=2.0, session=3.0)
    assert not found.sound
    assert "T above the group's session" in said(found, "threshold")[0][1]
    assert said(doctor(ledger, protocol="fast-neli", T=4.0, session=3.0), "threshold")[0][0] == "warning"


def test_a_member_whose_sum_is_above_the_session_is_named(ledger: Ledger) -> None:
    """It was made for a longer one: its takeovers wait longer than for the group."""
    record: dict[str, Any] = {"v": 1, "g": "g", "m": "a~1", "b": 7, "s": 100, "at": 0}
    token = 7 + ledger.append(encode(Announce(**record, n=1, name="a", within=5000, drift=0.1, of=3, protocol="neli")))
    ledger.append(encode(Pulse(**record, n=2, term=token, within=5000, lead=True)))
    found = doctor(ledger, session=3.0)
    assert not found.sound
    ((level, text),) = said(found, "tenures")
    assert level == "problem"
    assert "a~1 believes for T + clock_error = 5000 ms, not below the group's session of 3000 ms" in text


def test_members_that_were_made_with_different_seats_are_named(ledger: Ledger) -> None:
    for partition, (name, seats) in enumerate((("a", 1), ("b", 2), ("c", 1))):
        record: dict[str, Any] = {"v": 1, "g": "g", "m": f"{name}~1", "b": 7, "s": 100, "at": 0, "seats": seats}
        ledger.append(
            encode(Announce(**record, n=1, name=name, within=500, drift=0.1, of=3, protocol="neli")), partition
        )
    ((level, text),) = said(examine(ledger, "g", 0, now_ms()), "seats")
    assert level == "problem"
    assert "different seats= (a~1 1, b~1 2, c~1 1)" in text


def test_a_leader_that_fell_silent_is_named(ledger: Ledger) -> None:
    record: dict[str, Any] = {"v": 1, "g": "g", "m": "a~1", "b": 7, "s": 100, "at": 0}
    for partition in range(3):
        first = encode(Announce(**record, n=1, name="a", within=500, drift=0.1, of=3, protocol="neli"))
        token = 7 + ledger.append(first, partition)
        ledger.append(encode(Pulse(**record, n=2, term=token, within=500, lead=True)), partition)
    found = examine(ledger, "g", 0, now_ms())
    assert found.sound, found.findings
    assert said_by(found) == ["good"]
    found = examine(ledger, "g", 0, now_ms() + 60_000)
    assert not found.sound
    assert said_by(found) == ["problem"] * 3
    assert "a~1 leads partition 0 in the log, and was last heard of 60" in said_texts(found)[0]


def said_by(checkup: Checkup) -> list[str]:
    return [level for level, _ in said(checkup, "leaders")]


def said_texts(checkup: Checkup) -> list[str]:
    return [text for _, text in said(checkup, "leaders")]
