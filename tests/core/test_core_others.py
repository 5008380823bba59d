"""Claims and the NELI family under one group's name: the one that stands in the log first stays (`core/coexistence.py`)."""

from __future__ import annotations

import random
from typing import Any

import pytest
from core_authors import BASE, Paper, Pen
from core_driver import Solo, leader
from mixed_bench import Stage as Play
from neli_bench import MS, Bench, config, fast, leading, of

from pares.core.claims.protocol import Stage
from pares.core.events import Assigned, Attached, Lead, Live, Read, Report, Restart, Stop
from pares.core.wire import neli_records
from pares.core.wire import records as R
from pares.core.wire.neli_records import Announce, Beacon, PartitionCount, Pulse, Yield

INDUCED = ("fast-neli", "neli")


def induced(paper: Paper, kind: Any, member: str, n: int, group: str = "g", **fields: Any) -> int:
    """A record of NELI or Fast NELI comes to stand in a log of the claims tests. Its offset."""
    if kind is Announce:
        fields = {"name": member, "within": 300, "drift": 0.1, "of": 1, "protocol": "fast-neli", **fields}
    elif kind in (Pulse, Beacon):
        fields = {"within": 300, **fields}
    return paper.put(neli_records.encode(kind(v=1, g=group, m=member, n=n, b=0, s=50, at=0, **fields)))


def began() -> Paper:
    paper = Paper()
    paper.genesis(BASE)
    return paper


def claimant(bench: Bench, id: str = "x~1", **join: Any) -> Pen:
    """A member of claims that writes into a log of the NELI tests."""

    class Log(Paper):
        def put(self, payload: bytes) -> int:
            return bench.land(payload)

    return Pen(Log(), id, **join).join()


# Claims comes to NELI ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("begun", [False, True])
def test_claims_is_refused_where_an_owner_lives(begun: bool) -> None:
    paper = began() if begun else Paper()
    token = induced(paper, Announce, "n~1", 1)
    solo = Solo("A", paper=paper)
    solo.run(0.1)
    assert solo.ending is None
    assert solo.sent == []
    induced(paper, Pulse, "n~1", 2, term=token)
    solo.run(0.1)
    assert solo.ending == Stop(
        "refused",
        "group 'g' runs 'fast-neli' (n~1), and this member 'claims': give it a group of its own, or begin when the members of "
        "the other have closed",
    )
    assert solo.sent == []


def test_claims_is_refused_where_a_standby_beacons() -> None:
    solo = Solo("A", paper=began())
    solo.read()
    induced(solo.paper, Beacon, "n~1", 1)
    solo.run(0.1)
    assert isinstance(solo.ending, Stop)
    assert "runs 'neli' (n~1)" in solo.ending.text


def test_claims_begins_where_owners_are_only_history() -> None:
    """Nobody knows how old it is; so the newcomer waits for as long as it could believe, and no longer."""
    paper = began()
    induced(paper, Announce, "n~1", 1, within=700)
    solo = Solo("A", paper=paper)
    solo.run(0.69)
    assert solo.sent == []
    solo.run(0.1)
    assert solo.of(Lead)


@pytest.mark.parametrize("why", ["closed", "revoked"])
def test_claims_begins_at_once_where_all_have_closed(why: str) -> None:
    paper = began()
    token = induced(paper, Announce, "n~1", 1)
    induced(paper, Yield, "n~1", 2, term=token, why=why)
    solo = Solo("A", paper=paper)
    solo.run(0.1)
    assert bool(solo.of(Lead)) == (why == "closed"), "a partition that was revoked goes to another"
    solo.run(0.4)
    assert solo.of(Lead)


@pytest.mark.parametrize("kind", [PartitionCount, Announce, Beacon])
def test_another_group_is_in_nobodys_way_and_spoils_nothing(kind: Any) -> None:
    paper = began()
    solo = Solo("A", paper=paper)
    fields: dict[str, Any] = {"of": 1} if kind is PartitionCount else {}
    for n in range(5):
        induced(paper, kind, "n~1", n + 1, group="another", **fields)
        solo.run(0.05)
    assert solo.of(Lead)
    assert not solo.of(Report)
    assert not solo.claims.reader.bad


def test_a_late_copy_of_an_owner_is_no_sign_of_life() -> None:
    paper = began()
    token = induced(paper, Announce, "n~1", 1)
    induced(paper, Yield, "n~1", 3, term=token, why="closed")
    solo = Solo("A", paper=paper)
    solo.read()
    induced(paper, Pulse, "n~1", 2, term=token)
    solo.run(0.1)
    assert solo.of(Lead)


def test_a_join_that_comes_back_behind_an_announcement_is_taken_back() -> None:
    solo = Solo("A", paper=began())
    fates: list[str] = []

    def fate(records: list[Any]) -> str:
        if not fates:
            induced(solo.paper, Announce, "n~1", 1)
        fates.append(type(records[0]).__name__)
        return "lands"

    solo.fate = fate
    solo.run(0.5)
    assert fates == ["Join", "Leave"]
    assert isinstance(solo.ending, Stop)
    assert "runs 'fast-neli' (n~1)" in solo.ending.text
    assert not solo.of(Live)


def test_an_announcement_behind_the_join_is_told_and_led_on() -> None:
    solo = leader()
    for n in range(20):
        if n == 0:
            induced(solo.paper, Announce, "n~1", 1)
        else:
            induced(solo.paper, Pulse, "n~1", n + 1, term=9)
        solo.run(0.1)
    assert [report.kind for report in solo.of(Report)] == ["other-protocol"]
    assert solo.claims.tenures.leading()
    assert not solo.claims.reader.bad


def test_who_was_silent_for_a_session_gives_way_to_an_announcement_and_begins_anew() -> None:
    solo = leader()
    solo.now += 2_000 * MS
    induced(solo.paper, Announce, "n~1", 1)
    solo.run(0.5)
    assert isinstance(solo.ending, Restart)
    assert solo.kinds(solo.sent)[-1] == "Leave"
    assert not solo.claims.tenures.leading()


def test_an_administrator_holds_nothing_and_is_let_in() -> None:
    paper = began()
    induced(paper, Announce, "n~1", 1)
    solo = Solo(paper=paper, eligible=())
    solo.run(0.1)
    assert solo.claims.stage is Stage.LIVE


def test_a_log_without_its_beginning_is_left_alone_too() -> None:
    paper = Paper(50)
    token = induced(paper, Announce, "n~1", 7)
    solo = Solo("A", paper=paper, start=50)
    solo.run(0.05)
    induced(paper, Pulse, "n~1", 8, term=token)
    solo.run(0.05)
    assert isinstance(solo.ending, Stop)
    assert solo.sent == []


# NELI comes to claims ----------------------------------------------------------------------------------------------------


def newcomer() -> Bench:
    """A member of Fast NELI that has not looked at its log yet."""
    return Bench(fast(config()), idle=True)


def enter(bench: Bench) -> None:
    bench.enter()
    bench.step(Assigned((0,)))
    bench.read()
    bench.go()


def test_neli_is_refused_where_a_member_of_claims_lives() -> None:
    bench = newcomer()
    pen = claimant(bench)
    enter(bench)
    assert bench.kinds() == ["Foreign"]
    assert not of(bench.effects, Live | Stop)
    pen.beat()
    bench.read()
    (stop,) = of(bench.effects, Stop)
    assert (stop.kind, "runs 'claims' (x~1)" in stop.text) == ("refused", True)


def test_neli_begins_where_claims_is_only_history() -> None:
    bench = newcomer()
    claimant(bench, session=1000).beat()
    enter(bench)
    bench.wait(990)
    bench.go()
    assert not bench.leading()
    bench.wait(20)
    bench.go()
    assert bench.leading()


@pytest.mark.parametrize("how", ["leave", "obituary", "admin"])
def test_neli_begins_at_once_where_all_have_left(how: str) -> None:
    bench = newcomer()
    pen = claimant(bench, eligible=() if how == "admin" else None)
    if how == "leave":
        pen.leave()
    elif how == "obituary":
        claimant(bench, "y~1", eligible=()).obituary("x~1")
    enter(bench)
    assert bench.leading()


def test_a_join_behind_its_announcement_is_told_and_led_on() -> None:
    bench = leading(fast(config()))
    pen = claimant(bench)
    assert [e.kind for e in of(bench.read(), Report)] == ["other-protocol"]
    bench.go()
    assert bench.leading()
    pen.leave()
    bench.go()
    assert bench.leading()
    assert not bench.core.over


def test_who_leads_beside_it_all_the_same_is_given_way_to() -> None:
    bench = leading(fast(config()))
    pen = claimant(bench)
    bench.go()
    pen.claim("0")
    bench.read()
    assert of(bench.effects, Restart)
    assert not bench.leading()


@pytest.mark.parametrize("then", ["leave", "beat", "silence"])
def test_an_announcement_that_comes_back_behind_a_join_is_taken_back(then: str) -> None:
    bench = Bench(fast(config()))
    bench.step(Assigned((0,)))
    bench.read()
    bench.read()
    (put,) = bench.tick()
    pen = claimant(bench)
    bench.put(put)
    bench.read()
    bench.go()
    assert bench.kinds() == ["Foreign", "Announce", "Yield"]
    assert not bench.leading()
    if then == "silence":
        bench.wait(1001)
    else:
        (pen.leave if then == "leave" else pen.beat)()
    bench.go()
    assert bool(bench.leading()) == (then != "beat")
    assert bool(of(bench.effects, Restart)) == (then == "beat")


def test_what_stood_there_without_its_join_counts_with_the_longest_session() -> None:
    core = fast(config())
    beat = R.encode(R.Beat(v=1, g="g", m="x~1", n=7, b=5, s=250))
    core.step(Attached(40, 41), 0)
    core.step(Read([(40, 0, beat)]), 1)
    assert core.step(Read([]), 59_000 * MS) == []
    assert of(core.step(Read([]), 70_000 * MS), Live)


# Both at once ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", INDUCED)
@pytest.mark.parametrize("seed", range(60))
def test_of_two_that_start_together_one_stays(protocol: str, seed: int) -> None:
    chance = random.Random(seed)
    play = Play(chance, slow_ms=chance.choice((0, 5, 40)))
    for name in chance.sample(["c", "n"], 2):
        play.enter(name, "claims" if name == "c" else protocol)
        if chance.random() < 0.5:
            play.run(chance.random() * 0.1)
    play.run(6)
    ends = [actor.ended for actor in play.actors]
    assert len([end for end in ends if isinstance(end, Stop)]) == 1, ends
    assert len(play.leading()) == 1
    assert play.leading()[0] == next(actor.name for actor in play.actors if actor.ended is None)


@pytest.mark.parametrize("protocol", INDUCED)
@pytest.mark.parametrize("first", ["c", "n"])
@pytest.mark.parametrize("seed", range(15))
def test_who_leads_is_not_disturbed_by_who_comes(protocol: str, first: str, seed: int) -> None:
    play = Play(random.Random(seed), slow_ms=10)
    kinds = {"c": "claims", "n": protocol}
    here = play.enter(first, kinds[first])
    play.run(4)
    assert here.leads()
    came = play.enter("n" if first == "c" else "c", kinds["n" if first == "c" else "c"])
    play.run(4)
    assert isinstance(came.ended, Stop)
    assert here.leads()
    assert (here.incarnations, len(here.tokens)) == (1, 1)
    here.close()
    play.run(2)
    again = play.enter("again", came.protocol)
    play.run(4)
    assert again.leads(), "the other has closed"


@pytest.mark.parametrize("protocol", INDUCED)
@pytest.mark.parametrize("seed", range(60))
def test_never_do_two_lead(protocol: str, seed: int) -> None:
    """Whatever chance does to their appends, their reads and their time: `look` holds at every step. Then calm: one leads."""
    chance = random.Random(seed)
    play = Play(chance, slow_ms=chance.choice((5, 50, 400)))
    for number in range(chance.randrange(2, 5)):
        play.enter(f"m{number}", chance.choice(("claims", protocol)))
        play.run(chance.random() * 3, freezes=chance.choice((0, 0.02)))
    play.run(10, freezes=0.02)
    play.slow_ms = 0
    for actor in play.actors:
        actor.slow_ms, actor.asleep_until = 0, 0
    play.run(8)
    left = [actor for actor in play.actors if actor.ended is None]
    assert len({actor.protocol for actor in left}) <= 1
    assert len(play.leading()) == (1 if left else 0)
