"""What a member counts and times about itself, and the one line of its log for each move."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from allcall_tools import CALM as ALLCALL
from allcall_tools import Port, Wire, leading, member, settle
from runtime_tools import CALM, PATIENCE, QUICK, Crew, Faulty, Recorder, fresh_url, until

import pares
from pares.ledger import as_bus
from pares.runtime.driver.counters import Histogram, Measures
from pares.runtime.here import here


def measures(me: pares.Member) -> Measures:
    return me._life.measures


def test_histograms() -> None:
    heard: list[float] = []
    histogram = Histogram(here(), (0.1, 1.0))
    histogram.listeners = (lambda seconds: 1 / 0, heard.append)
    for seconds in (0.05, 0.1, 0.5, 3.0):
        histogram.note(seconds)
    assert histogram.read() == ([2, 1, 1], pytest.approx(3.65))
    assert heard == [0.05, 0.1, 0.5, 3.0], "a listener that raises harms nobody"


def test_how_terms_are_gained_and_lost(crew: Crew) -> None:
    me, other = crew.leader("a"), crew.standby("b")
    assert measures(me).gained == {"unled": 1, "transfer": 0, "silent": 0, "died": 0, "assigned": 0, "outbid": 0}
    me.hand_over("A", to="b")
    assert other.wait("A", PATIENCE)
    assert measures(other).gained["transfer"] == 1
    assert measures(me).lost == {"handed over": 1}
    other.hand_over("A", to="a", why="for a reason of its own")
    assert me.wait("A", PATIENCE)
    assert measures(other).lost == {"other": 1}, "a user's words are no label"
    assert me.health().takeovers == other.health().takeovers == 0
    assert me.health().terms == 2


def test_taking_over_from_a_silent_holder(memory: str) -> None:
    inner = pares.open(memory)
    faulty = Faulty(inner)
    lost, crew = Crew(faulty), Crew(memory)
    me = lost.leader("a", session=QUICK)
    other = crew.member("b", session=QUICK)
    faulty.away()
    assert other.wait("A", PATIENCE)
    assert measures(other).gained["silent"] >= 1
    assert other.health().takeovers >= 1
    until(lambda: measures(me).lost["lease ran out"], "the other one knows")
    until(lambda: me.health().lapses == measures(me).lost["lease ran out"], "and counts it as a lapse, too")
    assert measures(me).failed_appends > 0
    lost.close()
    inner.close()


def test_what_is_counted_where_there_is_no_log(memory: str) -> None:
    """ALLCALL: a split, its end, and a better ranked member that comes."""
    ledger = pares.open(memory)
    wire, crew = Wire(as_bus(ledger)), Crew(memory)
    a, b = (
        member(crew, name, rank, ledger=Port(wire, name), order="rank", **ALLCALL)
        for name, rank in (("a", 1), ("b", 2))
    )
    settle([a, b])
    assert measures(a).gained["unled"] == a.health().terms == 1
    assert a.health().takeovers == 0
    wire.split("a", "b")
    until(lambda: leading([a, b]) == ["a", "b"], "both lead")
    assert measures(b).gained["silent"] == b.health().takeovers == 1
    wire.heal()
    settle([a, b])
    until(lambda: measures(b).lost == {"superseded": 1}, "the other one goes on")
    until(lambda: measures(a).lost == {"outbid": measures(a).gained["outbid"]}, "under a higher token")
    until(lambda: sum(measures(a).slack.read()[0]) > 0, "its claim was prolonged")
    c = member(crew, "c", 0, ledger=Port(wire, "c"), order="rank", **ALLCALL)
    assert c.wait("x", PATIENCE)
    assert measures(a).lost["outranked"] == 1
    assert measures(c).gained["unled"] == 1, "its holder had given it up"
    assert [m.health().fences for m in (a, b, c)] == [measures(a).lost["outbid"], 1, 0]
    assert all(m.health().records == sum(measures(m).appends.read()[0]) > 0 for m in (a, b, c))
    assert all(0 < m.health().beats <= m.health().records for m in (a, b, c))
    assert all(m.health().read_back_age is None for m in (a, b, c)), "there is no log"
    for one in (a, b, c):
        one.close()
    ledger.close()


@pytest.mark.processes
def test_taking_over_from_a_dead_one(tmp_path: Path) -> None:
    url = fresh_url("sqlite", tmp_path)
    script = (
        "import pares, sys, time\n"
        f"me = pares.Member({url!r}, group='g', roles=['A'], name='child', session={CALM})\n"
        "assert me.wait('A', 60); print('leads', flush=True); time.sleep(600)"
    )
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "leads\n"
    me = Crew(url).standby("b")
    until(lambda: me.leader("A"), "it knows the leader")
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    assert me.wait("A", PATIENCE)
    assert measures(me).gained["died"] == 1
    assert me.health().takeovers == 1


def test_times(crew: Crew) -> None:
    barrier = Recorder()
    session = 1.0
    me = crew.leader("a", session=session, barrier=barrier)
    other = crew.standby("b")
    until(lambda: sum(measures(me).slack.read()[0]) >= 3, "the lease is renewed")
    renewed, left = measures(me).slack.read()
    assert left <= sum(renewed) * session, "never more than a session"
    backs, age = measures(me).read_backs.read()
    assert sum(backs) >= 3
    assert 0 < age <= sum(backs) * session, "who has its lease renewed has not lost it"
    until(lambda: (me.health().read_back_age or PATIENCE) < session, "it is the newest record's")
    assert 0 < me.health().beats < me.health().records, "there is its join, and its claim"
    appends, _ = measures(me).appends.read()
    assert sum(appends) <= measures(me).records <= me.health().records
    barrier.hold()
    me.step_down("A")
    assert barrier.entered.wait(PATIENCE)
    timer = threading.Timer(0.15, barrier.let_go.set)
    timer.start()
    assert other.wait("A", PATIENCE)
    numbers, seconds = measures(me).barriers.read()
    assert sum(numbers) == 1
    assert seconds >= 0.1


def test_one_line_of_info_for_each_move(crew: Crew, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        me, other = crew.leader("a"), crew.standby("b")
        first = me.term("A")
        me.hand_over("A", to="b")
        second = other.wait("A", PATIENCE)
        assert first is not None
        assert second is not None
        until(lambda: len(_moves(caplog)) == 3, "three lines")
    moves = _moves(caplog)
    assert moves[0].startswith(f"{me.id} leads 'A' (seat 0, token {first.token})")
    assert moves[1:] == [
        f"{me.id} no longer leads 'A' (seat 0, token {first.token}): handed over",
        f"{other.id} leads 'A' (seat 0, token {second.token}): handed over, from {me.id}",
    ]
    ours = {(record.name, record.levelname) for record in caplog.records if record.name.startswith("pares")}
    assert ours == {("pares.member", "INFO")}, "and nothing else, neither louder nor quieter"


def _moves(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "lead" in record.getMessage()]


def test_health_has_everything(crew: Crew) -> None:
    me = crew.leader("a", roles=["A", "B"])
    health: dict[str, Any] = {name: getattr(me.health(), name) for name in pares.Health.__slots__}
    assert health.pop("read_age") >= 0
    assert 0 < health.pop("lease_left") <= CALM
    assert health.pop("records") > 0
    assert 0 <= health.pop("beats") <= me.health().records
    assert health.pop("read_back_age") >= 0
    assert health == {
        "ok": True,
        "ready": True,
        "state": "live",
        "name": "a",
        "group": "g",
        "leads": ("A", "B"),
        "thread_alive": True,
        "stuck": (),
        "unled": (),
        "why": "",
        "unreachable": None,
        "failure": None,
        "no_proof": None,
        "terms": 2,
        "takeovers": 0,
        "fences": 0,
        "lapses": 0,
        "restarts": 0,
        "failed_appends": 0,
        "bad_records": 0,
        "uncounted_records": 0,
        "problems": (),
        "consumption": None,
    }
