"""What goNELI's own tests show, for Fast NELI here, where no other test of ours does (docs/from-goneli.md has the list)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from induction_tools import ROLE, OneAtATime, leader, node
from runtime_tools import PATIENCE, Crew, Faulty, Recorder, binding, elsewhere, until

import pares
from pares.core.errors import ConfigError
from pares.core.lease import MS, challenge_ns, lease_ns
from pares.core.neli.phases import SEEKING
from pares.core.wire.neli_records import Foreign, Pulse, decode, encode
from pares.runtime.death.incarnation import default_name
from pares.runtime.here import here
from pares.runtime.neli.settings import usual_deadline_ms
from standstill import stop_between_writes

# Names, settings, events ---------------------------------------------------------------------------------------------


def test_a_name_that_is_not_given_is_made_of_host_process_and_time(crew: Crew) -> None:
    """So a container that starts again, always as process 1, has another name each time."""
    before = time.time_ns() // 1_000_000
    found = re.fullmatch(rf"{re.escape(os.uname().nodename)}-{os.getpid()}-(\d+)(-\d+)?", default_name(here()))
    assert found is not None
    assert before <= int(found[1]) <= time.time_ns() // 1_000_000
    one, two = (crew.member(None, (ROLE,), protocol="fast-neli") for _ in range(2))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert str(os.getpid()) in one.name
    assert one.name != two.name
    assert one.id.startswith(f"{one.name}~")


def test_events_print_as_what_they_are() -> None:
    for kind in (pares.Acquired, pares.Revoked, pares.Fenced):
        event = kind(role=ROLE, seat=0, token=7, why="because", at=1.0)
        assert str(event).startswith(f"{kind.__name__}(role='leader', seat=0, token=7, why='because'")


def test_a_member_prints_who_and_what_it_is(crew: Crew) -> None:
    me = leader(crew)
    assert repr(me) == f"<Member {me.id} of 'g': live, leads ['leader']>"


@pytest.mark.parametrize(
    "settings",
    [{"poll_interval": 0.0}, {"heartbeat_timeout": 0.0}, {"poll_interval": 2.0, "heartbeat_timeout": 1.0}],
)
def test_settings_that_do_not_go_together_are_refused_and_leave_nothing(crew: Crew, settings: dict[str, float]) -> None:
    """goNELI has no rule across fields. What was joined for the check is left again: the next one leads at once."""
    before = threading.active_count()
    with pytest.raises(
        ConfigError, match=next(iter(settings)).partition("_")[0] if len(settings) == 1 else "does not fit"
    ):
        node(crew, "refused", protocol=pares.FastNeli(**settings))
    until(lambda: threading.active_count() <= before, "nothing of it is left running")
    leader(crew, "next")


@pytest.mark.parametrize(
    ("session", "bound", "deadline", "interval"),
    [(20.0, 18181, 5000, 1000), (6.6, 5999, 1999, 399), (1.0, 909, 303, 60), (0.3, 272, 90, 18)],
)
def test_with_nothing_set_the_deadline_is_a_third_of_the_session_and_five_beats_fit_into_it(
    crew: Crew, session: float, bound: int, deadline: int, interval: int
) -> None:
    """Seed 002's third, which is goNELI's relation too, and its 5 s where the session is so long. `bound`: what is left of a
    session where claims share out, whose challengers may have fast clocks."""
    config: Any = binding(node(crew, session=session)).core.config
    assert (config.session_ms, config.threshold_ms, config.interval_ms) == (bound, deadline, interval)


@pytest.mark.parametrize("drift", [0.0, 0.1, 0.2, 0.5])
@pytest.mark.parametrize("session", [0.02, 0.3, 1.0, 6.0, 60.0])
def test_whatever_the_session_a_takeover_waits_for_the_group_only(session: float, drift: float) -> None:
    """An owner that is cut off has stopped, and a successor's wait by a clock that is off is over, before the session is."""
    session_ms = round(session * 1000)
    deadline = usual_deadline_ms(session_ms)
    assert 0 < deadline * (1 + drift) < session_ms
    assert lease_ns(deadline, drift) / (1 - drift) < challenge_ns(deadline, drift, drift) < session_ms * MS


def test_no_task_for_a_role_that_the_group_has_not(crew: Crew) -> None:
    """PulserWithError. A member leads whatever role the group has, so a name with a slip in it would wait for ever."""
    me = leader(crew)
    with pytest.raises(ConfigError, match="group 'g' has no role 'leadre'; it has: leader"):
        me.background(lambda: None, "leadre")
    runs = threading.Event()
    me.add_role("other")
    me.background(runs.set, "other")
    assert runs.wait(PATIENCE)


def test_a_role_that_turns_out_not_to_be_there_is_told(faulty: Faulty, caplog: pytest.LogCaptureFixture) -> None:
    """Before the log was read nobody can say what the group has; a role may come later, and is waited for."""
    faulty.away()
    crew, runs = Crew(faulty), threading.Event()  # type: ignore[arg-type]
    me = node(crew)
    work = me.background(runs.set, "later")
    own = me.background(lambda: None, ROLE)
    faulty.back()
    until(lambda: "waits for nothing: group 'g' has no role 'later'" in caplog.text, "it is said once it is known")
    me.add_role("later")
    assert runs.wait(PATIENCE)
    assert f"no role {ROLE!r}" not in caplog.text
    work.stop()
    own.stop()
    me.close()


# A member's life -----------------------------------------------------------------------------------------------------


def test_a_standby_is_in_the_group_before_it_leads_anything(crew: Crew) -> None:
    """TestGroupJoinDetection: an instance that is still joining must not report ready."""
    leader(crew)
    standby = node(crew, "b")
    until(lambda: standby.state == "live", "it is in the group")
    assert not standby.holds(ROLE)
    assert not standby.pulse(0.01)
    assert standby.health().ok


def test_closing_without_the_log_closes_all_the_same(faulty: Faulty) -> None:
    """CloseConsumerError: Closed, whatever the clients say."""
    crew = Crew(faulty)  # type: ignore[arg-type]
    barrier = Recorder()
    me = leader(crew, barrier=barrier, session=1.0)
    faulty.away()
    me.close(timeout=1.0)
    assert me.state == "closed"
    assert not me.holds(ROLE)
    faulty.back()
    assert leader(crew, "b", session=1.0)


def test_a_log_that_comes_back_is_no_error_and_no_end(faulty: Faulty) -> None:
    """NonFatalErrorInReadMessage, NonFatalErrorInProduce, DeliveryReports: a warning, and it goes on."""
    crew = Crew(faulty)  # type: ignore[arg-type]
    barrier = Recorder()
    me = leader(crew, barrier=barrier, session=1.0)
    before = me.term(ROLE)
    assert before is not None
    faulty.away()
    until(lambda: "Fenced" in barrier.kinds(), "it was fenced")
    assert not before
    assert me.state == "live"
    faulty.back()
    after = me.wait(ROLE, PATIENCE)
    assert after is not None
    assert after.token > before.token
    until(lambda: barrier.kinds() == ["Acquired", "Fenced", "Acquired"], "the barrier was told of each")


def test_nodes_that_come_and_go_lead_one_at_a_time(any_crew: Crew) -> None:
    """TestOneNode, TestFourNodes: counted at each event; closed in the order in which they came."""
    names = ("one", "two", "three", "four")
    seen = OneAtATime()
    nodes: list[pares.Member] = []
    for name in names:
        nodes.append(node(any_crew, name, barrier=seen.barrier(name), session=2.0))
        until(lambda: sum(n.holds(ROLE) for n in nodes) == 1, f"one leads after {name} came")
        until(lambda: nodes[-1].state == "live", f"{name} is in the group")
    tokens: list[int] = []
    while nodes:
        led = until(lambda: [t for n in nodes if (t := n.term(ROLE)) is not None], "one leads")
        tokens.append(led[0].token)
        closed = nodes.pop(0)
        closed.close()
        assert not closed.holds(ROLE)
    assert seen.wrong == []
    assert seen.leading == set()
    assert tokens == sorted(tokens)


# Weaknesses ----------------------------------------------------------------------------------------------------------


class Mute(Faulty):
    """Once `mute`, no beat nor announcement gets through; what the members say to share the partitions out does."""

    mute = False

    def append_many(self, payloads: Sequence[bytes], partition: int = 0, *, urgent: bool = True) -> list[int]:
        if self.mute and not all(isinstance(decode(payload), Foreign) for payload in payloads):
            raise pares.LedgerUnavailable("cannot append, by the test", unknown=False)
        return super().append_many(payloads, partition, urgent=urgent)


def test_messages_of_others_keep_nobody_leading(memory: str) -> None:
    """W4: with all own produces failing, foreign messages stamped 1970 kept leadership. The group goes on giving the partition
    to this member: nothing but the rule about beats can end its leadership."""
    inner = pares.open(memory)
    ledger = Mute(inner)
    crew = Crew(ledger)  # type: ignore[arg-type]
    me = leader(crew, session=1.0)
    term = me.term(ROLE)
    assert term is not None
    over = threading.Event()

    def others() -> None:
        n = 0
        while not over.wait(0.01):
            n += 1
            foreign = Pulse(v=1, g="g", m="stranger~1", n=n, b=0, s=50, term=term.token, within=300, at=0, lead=True)
            inner.append_many([encode(foreign), b"noise"])

    thread = threading.Thread(target=others)
    thread.start()
    try:
        ledger.mute = True
        assert term.wait_lost(PATIENCE), "its own beats have ceased"
        assert not me.holds(ROLE)
        assert term.why != "lost", "it is not the group that took it away"
        time.sleep(0.5)
        assert not me.holds(ROLE)
        assert binding(me).core.parts[0].phase in SEEKING, "the group still gives it the partition"
        ledger.mute = False
        again = me.wait(ROLE, PATIENCE)
        assert again is not None
        assert again.token > term.token
    finally:
        over.set()
        thread.join()
        crew.close()
        inner.close()


def test_a_wall_clock_that_is_set_changes_nothing(faulty: Faulty) -> None:
    """W9: a step back delayed polling and fencing by the step, a step forward fenced without cause."""
    crew, barrier = Crew(faulty), Recorder()  # type: ignore[arg-type]
    with elsewhere() as host:
        me = leader(crew, barrier=barrier, session=3.0)
    term = me.term(ROLE)
    assert term is not None
    real = host.real_wall_us
    for hours in (-30, 30, 0):
        host.wall = lambda hours=hours: real() + hours * 3_600_000_000
        beats = me.health().beats
        until(lambda beats=beats: me.health().beats >= beats + 3, f"it beats on, {hours} hours off")
        assert term, f"{hours} hours"
    until(lambda: barrier.kinds() == ["Acquired"], "nothing else was told")
    host.wall = lambda: real() - 30 * 3_600_000_000
    faulty.away()
    until(lambda: barrier.kinds() == ["Acquired", "Fenced"], "a step back does not put off the end")
    assert not term


def test_only_the_owner_beats_at_the_pace_that_was_asked_for(crew: Crew, memory: str) -> None:
    """W14: ten heartbeats a second for each group for ever. Here one each fifth of the deadline, and none by standbys."""
    me = leader(crew, protocol=pares.FastNeli(heartbeat_timeout=2.0))
    standby = node(crew, "b", protocol=pares.FastNeli(heartbeat_timeout=2.0))
    until(lambda: standby.state == "live", "it is in the group")
    ledger = pares.open(memory)
    begin, began = ledger.end(), time.monotonic()
    time.sleep(2.0)
    took = time.monotonic() - began
    records = [decode(entry.payload) for entry in ledger.read(begin, max_records=1000)]
    ledger.close()
    beats = [record for record in records if isinstance(record, Pulse)]
    assert {record.m for record in beats} == {me.id}
    assert 1 <= len(beats) <= took / 0.4 + 2, "a fifth of the deadline lies between two"


def test_the_log_forgets_what_is_older_than_its_retention(memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """W14: old heartbeats were left to the topic, and read again by whoever came."""
    monkeypatch.setattr("pares.ledger.retention.EVERY", 50_000_000)
    crew = Crew(f"{memory}?retention=2")
    me = leader(crew, session=1.0)
    ledger = pares.open(f"{memory}?retention=2")
    until(lambda: ledger.start() > 10, "its beginning is gone")
    assert me.holds(ROLE)
    standby = node(crew, "b", session=1.0)
    until(lambda: standby.leader(ROLE) is not None, "who comes later knows all the same who leads")
    me.close()
    assert standby.wait(ROLE, PATIENCE)
    ledger.close()


@pytest.mark.processes
def test_a_process_that_stood_still_leads_nothing_when_it_goes_on(tmp_path: Path) -> None:
    """W10: after SIGCONT the old leader was still true, until its next Pulse."""
    import signal

    url = f"sqlite:///{tmp_path}/work.db"
    code = (
        "import pares, sys\n"
        f"me = pares.Member({url!r}, group='g', roles=['leader'], name='child', protocol='fast-neli', session=1.0)\n"
        "term = me.wait('leader', 30)\n"
        "print(term.token, flush=True)\n"
        "from pares.runtime.clock import stopwatch\n"
        "import time\n"
        "last, thawed = stopwatch(), False\n"
        "while True:\n"
        "    asked = stopwatch()\n"
        "    held = me.holds('leader')\n"
        "    returned = stopwatch()\n"
        "    if thawed or asked - last > 2_000_000_000:\n"
        "        print(held, flush=True)\n"
        "        break\n"
        "    thawed, last = returned - last > 2_000_000_000, returned\n"
        "    time.sleep(0.0002)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    ) as child:
        try:
            assert child.stdout is not None
            token = int(child.stdout.readline())
            with pares.Member(url, group="g", roles=[ROLE], name="heir", protocol="fast-neli", session=1.0) as heir:
                until(lambda: heir.leader(ROLE) is not None, "the heir is there")
                stop_between_writes(child, tmp_path / "work.db")
                term = heir.wait(ROLE, PATIENCE)
                assert term is not None
                assert term.token > token
                time.sleep(2.5)
                child.send_signal(signal.SIGCONT)
                assert child.stdout.readline() == "False\n", "the first question after SIGCONT"
                assert heir.holds(ROLE)
        finally:
            child.kill()  # it may stand still, and would be waited for
