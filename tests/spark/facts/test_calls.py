"""The audit of groups that run ALLCALL: what the calls on a bus prove, and what they only bound."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.spark.rules.compare import Judged, judge
from tests.spark.rules.mutants import ON_A_BUS

from pares.core.allcall.messages import TERM_ORIGIN_S, Call, Claim, decode, encode, token
from pares.ledger import TailBus
from pares.ledger import open as open_ledger
from pares.sim.engine import MS, WallClock
from pares.sim.members.allcall.draw import draw
from pares.sim.members.allcall.ground import Ground
from pares.sim.members.play import Play
from pares.spark.audit import audit
from pares.spark.facts.allcall import history
from pares.spark.facts.base import Fact, arrow_schema, batches
from pares.spark.rules.base import Allowed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
BEAT, LEASE, SKEW = 100, 1000, 100
START = 1_700_000_000_000
TERM = START // 1000 - TERM_ORIGIN_S
Entries = list[tuple[int, int, bytes]]


class Bus:
    """A bus, written by hand: every call at a time that the test says."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.now = START
        self.entries: Entries = []
        self._n = Counter[str]()

    def call(
        self, member: str, *claims: Claim, roles: tuple[str, ...] = ("r",), phase: Any = "ping", s: int = 0
    ) -> None:
        self._n[member] += 1
        said = self.now if s == 0 else s
        times = [BEAT, LEASE, SKEW]
        call = Call(1, "ping", self.group, member, self._n[member], said, 0, phase, [*roles], [*claims], "h", times)
        self.entries.append((len(self.entries), self.now + 1, self.group.encode() + b"\n" + encode(call)))

    def claim(self, holder: str, seq: int, *, ttl: int = LEASE, term: int = TERM, at: int | None = None) -> Claim:
        return Claim("r", holder, 0, term, seq, ttl, (self.now if at is None else at) + ttl)

    def leads(self, holder: str, ms: int, *others: str, term: int = TERM) -> Claim:
        """It leads for so long, and all call once a beat; the last claim that it says."""
        last = self.claim(holder, 1, term=term)
        for beat in range(ms // BEAT):
            if beat and beat % 7 == 0:
                last = self.claim(holder, last.seq + 1, term=term)
            self.call(holder, last)
            for other in others:
                self.call(other, last)
            self.now += BEAT
        return last

    def calls(self, ms: int, *members: str) -> None:
        for _ in range(ms // BEAT):
            for member in members:
                self.call(member)
            self.now += BEAT


def lawful(bus: Bus) -> None:
    """A leads, steps down, B leads and is killed, C leads when B's claim is over."""
    last = bus.leads("a~1", 1500, "b~1", "c~1")
    bus.call("a~1", bus.claim("a~1", last.seq + 1, ttl=0))
    bus.leads("b~1", 1500, "c~1", term=TERM + 1)
    bus.calls(LEASE + 2 * SKEW, "c~1")
    bus.leads("c~1", 800, term=TERM + 2)


def prolonged(bus: Bus) -> None:
    last = bus.leads("a~1", 500, "b~1")
    bus.call("b~1", bus.claim("a~1", last.seq + 1))
    bus.call("a~1", bus.claim("a~1", last.seq + 1))


def prolonged_without_a_beginning(bus: Bus) -> None:
    """The first of a holder's words here may have been lost: only what comes after one can be judged."""
    last = bus.claim("a~1", 7)
    bus.call("b~1", last)
    bus.call("a~1", last)
    bus.call("c~1", bus.claim("a~1", 8))
    bus.entries = [(offset + 50, at_ms, payload) for offset, at_ms, payload in bus.entries]


def both_sides(bus: Bus) -> None:
    """Two that don't hear each other, though the log carries the calls of both."""
    for beat in range(20):
        for place, member in enumerate(("a~1", "b~1")):
            bus.call(member, bus.claim(member, 1 + beat, term=TERM + place))
        bus.now += BEAT


def both_for_a_beat(bus: Bus) -> None:
    bus.leads("a~1", 300)
    mine, other = bus.claim("a~1", 2), bus.claim("b~1", 1, term=TERM + 1)
    bus.call("b~1", other)
    bus.call("a~1", mine)
    bus.now += BEAT
    bus.call("a~1", bus.claim("a~1", 3, ttl=0))
    bus.leads("b~1", 600, term=TERM + 1)


def token_below(bus: Bus) -> None:
    last = bus.leads("a~1", 500)
    bus.call("a~1", bus.claim("a~1", last.seq + 1, ttl=0))
    bus.leads("b~1", 500, term=TERM - 9)


def never_taken_over(bus: Bus) -> None:
    bus.leads("a~1", 500, "b~1")
    bus.calls(5000, "b~1")


STORIES: dict[Any, set[tuple[str, str]]] = {
    lawful: set(),
    prolonged: {("prolonged", "certain")},
    prolonged_without_a_beginning: {("prolonged", "certain")},
    both_sides: {("overlap", "possible")},
    both_for_a_beat: set(),
    token_below: {("token_fell", "possible")},
    never_taken_over: {("late", "possible")},
}
SEEDS = range(4)


def simulated(seed: int, probes: tuple[str, ...] = ()) -> Entries:
    """The calls of members that crash and freeze, in virtual time, on clocks that agree. `probes`: what befalls them then;
    without a `split` among these all hear each other all the time."""
    bias: dict[str, Any] = {"faults": {"crash": 1.0, "freeze": 1.0}, "acts": {}, "wall_spread": 0.0, "drift": 0.0}
    heard = {"dropped": 0.0, "late": 0.0}
    play, entries = Play(draw(seed, {**bias, "air": heard, "probes": probes})), Entries()
    stage = play.stage
    assert isinstance(stage, Ground)

    def note(process: Any, subject: str, payload: bytes) -> None:
        at_ms = WallClock.EPOCH_US // 1000 + stage.world.now // MS
        call = decode(payload)
        assert isinstance(call, Call)
        ours = encode(msgspec.structs.replace(call, g=f"s{seed}"))
        entries.append((len(entries), at_ms, f"s{seed}\n".encode() + ours))

    stage.bus.sent.append(note)
    outcome = play.play()
    assert not outcome.broken, outcome.what
    return entries


def _facts() -> dict[str, list[Fact]]:
    found: dict[str, list[Fact]] = {}
    for tell in STORIES:
        bus = Bus(tell.__name__)
        tell(bus)
        found[bus.group] = history(bus.group, bus.entries, bus.entries[0][0])
    for seed in SEEDS:
        found[f"s{seed}"] = history(f"s{seed}", simulated(seed))
        found[f"split{seed}"] = history(f"s{seed}", simulated(seed, ("split",)))
    return found


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> Judged:
    import pyarrow as pa

    parts = [batch for name, facts in _facts().items() for batch in batches(name, facts)]
    return judge(spark, pa.Table.from_batches(parts, arrow_schema()), Allowed(), ON_A_BUS)


@pytest.mark.parametrize("tell", STORIES, ids=lambda tell: tell.__name__)
def test_what_is_planted_is_found(tell: Any, judged: Judged) -> None:
    rows = [row for row in judged.by_sql["violations"] if row["g"] == tell.__name__]
    assert {(row["rule"], row["verdict"]) for row in rows} == STORIES[tell], rows


@pytest.mark.parametrize("seed", SEEDS)
def test_what_members_do_is_lawful(seed: int, judged: Judged) -> None:
    rows = [row for row in judged.by_sql["violations"] if row["g"] == f"s{seed}"]
    assert [row for row in rows if row["rule"] != "late"] == []
    assert [row for row in judged.inputs["terms"] if row["g"] == f"s{seed}" and row["from_ms"] is not None]


@pytest.mark.parametrize("seed", SEEDS)
def test_two_sides_that_do_not_hear_each_other_are_told_of_and_held_against_nobody(seed: int, judged: Judged) -> None:
    found = {(row["rule"], row["verdict"]) for row in judged.by_sql["violations"] if row["g"] == f"split{seed}"}
    assert ("overlap", "possible") in found
    assert not [rule for rule, verdict in found if verdict == "certain"]


def test_both_engines_say_the_same_and_find_out_what_is_weakened(judged: Judged) -> None:
    assert judged.differences() == []
    assert judged.survivors() == []


def test_terms_and_takeovers_are_told_by_what_holders_said(judged: Judged) -> None:
    terms = sorted((row for row in judged.inputs["terms"] if row["g"] == "lawful"), key=lambda row: row["token"])
    assert [(row["member"], row["from_ms"] - START, row["cause"]) for row in terms] == [
        ("a~1", 0, "release"), ("b~1", 1500, "crash"), ("c~1", 4200, None),
    ]  # fmt: skip
    assert [row["to_ms"] and row["to_ms"] - START for row in terms] == [1500, 1500 + 1400 + LEASE, None]
    assert [row["token"] for row in terms] == [token(TERM + i, name) for i, name in enumerate(("a~1", "b~1", "c~1"))]
    takeovers = [row for row in judged.inputs["takeovers"] if row["g"] == "lawful"]
    assert [row["cause"] for row in sorted(takeovers, key=lambda row: row["at_ms"])] == ["release", "crash"]


def test_the_bus_of_a_ledger_with_a_log_is_audited(spark: SparkSession, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/work.db"
    bus = Bus("mailers")
    lawful(bus)
    ledger = open_ledger(url)
    carried = TailBus(ledger.topic("pares.bus", 1))
    for _, _, payload in bus.entries:
        carried.publish("mailers", payload.partition(b"\n")[2])
    carried.publish("others", b"no call")
    carried.close()
    ledger.close()
    result = audit(url, "mailers", spark=spark)
    assert [row["member"] for row in result.rows("terms")] == ["a~1", "b~1", "c~1"]
    assert result.exit_code == 0
    together = result.promises[0]
    assert together.verdict == "kept"
    assert "heard each other" in together.promise
