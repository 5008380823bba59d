"""Members that run NELI and Fast NELI on real ledgers: the same surface, the same promises."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from induction_tools import ROLES, member, shared
from runtime_tools import PATIENCE, Crew, Recorder, fresh_url, in_child, life, until

import pares
from pares.core.errors import CapabilityError, ConfigError
from pares.ledger import Capabilities
from pares.ledger.memory import MemoryLedger
from pares.runtime.config.protocols import ProtocolName

PROTOCOLS = ("fast-neli", "neli")


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> ProtocolName:
    return request.param


@pytest.fixture(params=["memory", "sqlite", "kafka"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str | pares.ledger.Ledger]:
    """A ledger of two partitions of each kind in turn. On Kafka its consumer group shares them out, with a session of 3 s."""
    if request.param != "kafka":
        yield fresh_url(request.param, tmp_path) + "?partitions=2"
        return
    kafka = request.getfixturevalue("kafka")
    url = f"kafka://{kafka.bootstrap}/t-{uuid.uuid4().hex}?partitions=2"
    ledger = pares.open(url, options={**kafka.client(), "session.timeout.ms": 3000})
    yield ledger
    ledger.close()


@pytest.fixture
def memory(tmp_path: Path) -> str:
    return fresh_url("memory", tmp_path) + "?partitions=2"


def quick(ledger: str | pares.ledger.Ledger, session: float) -> dict[str, Any]:
    """A short session; on Kafka the client settings say which, and are not to be contradicted."""
    return {} if isinstance(ledger, pares.ledger.Group) else {"session": session}


def a_crew(ledger: str | pares.ledger.Ledger) -> Crew:
    """Of a group of its own: on Kafka there is one of a name in all the cluster."""
    return Crew(ledger, f"g-{uuid.uuid4().hex[:8]}")


def test_one_member_leads_and_a_second_gets_its_share(ledger: Any, protocol: ProtocolName) -> None:
    crew = a_crew(ledger)
    one = member(crew, "one", protocol)
    terms = [one.wait(role, PATIENCE) for role in ROLES]
    assert all(terms)
    two = member(crew, "two", protocol)
    until(lambda: shared(one, two), "each leads one role")
    moved = next(role for role in ROLES if two.holds(role))
    term, before = two.term(moved), terms[ROLES.index(moved)]
    assert term is not None
    assert before is not None
    assert term.token > before.token
    assert before.why == "revoked"
    until(lambda: (two.leader(moved) or before).member == two.id, "it knows that it leads")
    until(lambda: (one.leader(moved) or before).member == two.id, "the other knows, too")


def test_closing_hands_over_after_the_barrier(ledger: Any, protocol: ProtocolName) -> None:
    crew, barrier = a_crew(ledger), Recorder()
    one = member(crew, "one", protocol, barrier=barrier)
    assert all(one.wait(role, PATIENCE) for role in ROLES)
    barrier.hold()
    two = member(crew, "two", protocol)
    assert barrier.entered.wait(PATIENCE)
    time.sleep(0.3)
    assert not any(two.holds(role) for role in ROLES)
    barrier.let_go.set()
    until(lambda: shared(one, two), "each leads one role")
    one.close()
    assert one.state == "closed"
    assert all(two.wait(role, PATIENCE) for role in ROLES)
    assert "Fenced" not in barrier.kinds()
    assert two.health().terms == 2
    assert two.health().takeovers == 0, "these moves were planned"


def test_a_barrier_that_overruns_is_fenced(ledger: Any, protocol: ProtocolName) -> None:
    crew, barrier = a_crew(ledger), Recorder()
    one = member(crew, "one", protocol, barrier=barrier, barrier_timeout=0.3)
    assert all(one.wait(role, PATIENCE) for role in ROLES)
    barrier.hold()
    two = member(crew, "two", protocol)
    until(lambda: any(two.holds(role) for role in ROLES), "the other leads")
    until(lambda: "Fenced" in barrier.kinds(), "it was told")
    barrier.let_go.set()


def test_without_the_ledger_the_term_ends_and_a_new_one_begins(memory: str, protocol: ProtocolName) -> None:
    crew, barrier = Crew(memory), Recorder()
    one = member(crew, "one", protocol, session=1.0, barrier=barrier)
    term = one.wait("0", PATIENCE)
    assert term is not None
    inner = pares.open(memory)
    assert isinstance(inner, MemoryLedger)
    inner.cut()
    assert term.wait_lost(PATIENCE)
    assert not one.holds("0")
    until(lambda: barrier.kinds(pares.Fenced), "it was told")
    inner.heal()
    again = one.wait("0", PATIENCE)
    assert again is not None
    assert again.token > term.token
    inner.close()


def test_roles_of_one_partition_share_a_token_and_nothing_else(ledger: Any, protocol: ProtocolName) -> None:
    """A handover waits for the bodies of each, and the end of one says nothing of the other."""
    crew = a_crew(ledger)
    one = member(crew, "one", protocol, ("0", "2"))
    terms = [one.wait(role, PATIENCE) for role in ("0", "2")]
    assert terms[0] is not None
    assert terms[1] is not None
    assert terms[0].token == terms[1].token
    entered, go_on = threading.Event(), threading.Event()

    def body() -> None:
        for term in one.terms("2"):
            entered.set()
            term.wait_lost()
            go_on.wait(PATIENCE)
            return

    thread = threading.Thread(target=body)
    thread.start()
    assert entered.wait(PATIENCE)
    closing = threading.Thread(target=one.close)
    closing.start()
    two = member(crew, "two", protocol, ("0", "2"))
    time.sleep(0.5)
    assert not two.holds("0")
    go_on.set()
    thread.join(PATIENCE)
    closing.join(PATIENCE)
    assert two.wait("0", PATIENCE)
    assert two.wait("2", PATIENCE)


def test_roles_come_and_go(ledger: Any, protocol: ProtocolName) -> None:
    crew = a_crew(ledger)
    one = member(crew, "one", protocol, ("0",))
    assert one.wait("0", PATIENCE)
    one.add_role("pricing")
    assert one.wait("pricing", PATIENCE)
    assert one.roles() == {"0": 1, "pricing": 1}
    one.remove_role("0")
    until(lambda: not one.holds("0"), "it was removed")
    assert one.holds("pricing")


def test_stepping_down_and_draining(ledger: Any, protocol: ProtocolName) -> None:
    crew = a_crew(ledger)
    one, two = (member(crew, name, protocol, **quick(ledger, 0.6)) for name in ("one", "two"))
    until(lambda: shared(one, two), "each leads one role")
    one.step_down()
    until(lambda: all(two.holds(role) for role in ROLES), "the other leads both")
    until(lambda: shared(one, two), "it came back")
    two.drain()
    until(lambda: all(one.holds(role) for role in ROLES), "the first leads both")
    time.sleep(1.5)
    assert not any(two.holds(role) for role in ROLES)


def test_who_is_not_ready_leads_nothing(ledger: Any, protocol: ProtocolName) -> None:
    ready = threading.Event()
    crew = a_crew(ledger)
    one = member(crew, "one", protocol, ready=ready.is_set, **quick(ledger, 0.6))
    assert one.wait("0", 1.0) is None
    ready.set()
    assert one.wait("0", PATIENCE)
    ready.clear()
    until(lambda: not one.holds("0"), "it gave up")


def test_a_member_for_asyncio(ledger: Any, protocol: ProtocolName) -> None:
    async def play() -> int:
        async with pares.aio.Member(ledger, group=f"g-{uuid.uuid4().hex[:8]}", roles=["0"], protocol=protocol) as me:
            async for term in me.terms("0", timeout=PATIENCE):
                assert term
                return term.token
        return 0

    assert asyncio.run(play())


def test_non_exclusive_members_leave_no_gap(ledger: Any) -> None:
    crew = a_crew(ledger)
    # Beacons much more often than in half a session: who is silent for so long is taken for gone.
    often: dict[str, Any] = {"overlap": 1.0, **quick(ledger, 4.0)}
    own = pares.Nele(interval=0.2)
    one = member(crew, "one", own, **often)
    assert all(one.wait(role, PATIENCE) for role in ROLES)
    gaps: list[float] = []
    members, over = [one], threading.Event()

    def watch() -> None:
        while not over.is_set():
            if not all(any(m.holds(role) for m in members) for role in ROLES):
                gaps.append(time.monotonic())
            time.sleep(0.001)

    watcher = threading.Thread(target=watch)
    watcher.start()
    two = member(crew, "two", own, **often)
    members.append(two)
    until(lambda: shared(one, two), "each leads one role")
    one.close()
    assert all(two.holds(role) for role in ROLES)
    over.set()
    watcher.join()
    assert not gaps
    assert one.health().takeovers == two.health().takeovers == 0, "a leader that lingers is not silent"


def test_who_leads_is_known_to_a_standby(ledger: Any, protocol: ProtocolName) -> None:
    crew = a_crew(ledger)
    one = member(crew, "one", protocol, host="h1")
    assert all(one.wait(role, PATIENCE) for role in ROLES)
    two = member(crew, "two", protocol, host="h2")
    until(lambda: two.leader("0") is not None, "it has read who leads")
    holder = two.leader("0")
    assert holder is not None
    assert (holder.role, holder.seat, holder.name in ("one", "two")) == ("0", 0, True)
    assert one.health().ok
    assert one.name in {peer.name for peer in two.members()}


def test_in_a_forked_child_a_member_is_dead(ledger: Any, protocol: ProtocolName) -> None:
    crew = a_crew(ledger)
    me = member(crew, "one", protocol)
    term = me.wait("0", PATIENCE)
    assert term is not None
    assert in_child(lambda: (me.holds("0"), bool(term))) == "(False, False)"
    assert in_child(lambda: me.pulse(0)).startswith("ForkedError: ")
    assert me.holds("0")


def test_a_member_that_had_no_time_to_leave_keeps_nothing(ledger: Any, protocol: ProtocolName) -> None:
    crew, barrier = a_crew(ledger), Recorder()
    barrier.hold()
    one = member(crew, "one", protocol, barrier=barrier, **quick(ledger, 1.0))
    assert all(one.wait(role, PATIENCE) for role in ROLES)
    one.close(timeout=0.1)
    assert not any(one.holds(role) for role in ROLES)
    two = member(crew, "two", protocol, **quick(ledger, 1.0))
    assert all(two.wait(role, PATIENCE) for role in ROLES)
    barrier.let_go.set()


def test_a_ledger_that_is_closed_under_a_member_ends_it(memory: str, protocol: ProtocolName) -> None:
    before = threading.active_count()
    ledger = pares.open(memory)
    one = pares.Member(ledger, group="g", roles=ROLES, protocol=protocol)
    assert one.wait("0", PATIENCE)
    ledger.close()
    until(lambda: one.state == "closed", "it has ended")
    assert not one.holds("0")
    one.close()
    until(lambda: threading.active_count() <= before, "nothing of it is left running")


def test_a_ledger_that_grows_is_shared_out_anew(memory: str, protocol: ProtocolName) -> None:
    roles = ("0", "1", "2", "3")
    crew = Crew(memory)
    one = member(crew, "one", protocol, roles)
    terms = [one.wait(role, PATIENCE) for role in roles]
    wider = memory.replace("partitions=2", "partitions=4")
    two = member(crew, "two", protocol, roles, ledger=wider)
    everybody = (one, two)

    until(lambda: one.health().restarts == 1, "it began anew")
    until(lambda: all(any(m.holds(role) for m in everybody) for role in roles), "every role is led")
    assert all(term is not None and not term for term in terms)
    one.close()
    until(lambda: all(two.holds(role) for role in roles), "the other leads all")


@pytest.mark.processes
def test_a_process_that_is_killed_is_followed(tmp_path: Path, protocol: ProtocolName) -> None:
    url = f"sqlite:///{tmp_path}/work.db?partitions=2"
    code = (
        "import pares, sys, time\n"
        f"me = pares.Member({url!r}, group='g', roles=['0', '1'], name='child', protocol={protocol!r}, session=1.0)\n"
        "assert all(me.wait(r, 30) for r in ('0', '1'))\n"
        "print(me.term('0').token, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    ) as child:
        assert child.stdout is not None
        token = int(child.stdout.readline())
        with pares.Member(url, group="g", roles=ROLES, name="heir", protocol=protocol, session=1.0) as heir:
            child.send_signal(signal.SIGKILL)
            child.wait()
            for role in ROLES:
                assert heir.wait(role, PATIENCE)
            term = heir.term("0")
            assert term is not None
            assert term.token > token
            assert heir.health().takeovers >= 1
            assert heir.health().takeovers == life(heir).measures.gained["silent"]
            until(lambda: heir.health().beats >= 3, "it beats")
            age = until(lambda: heir.health().read_back_age, "its beats come back")
            backs = life(heir).measures.read_backs.read()
            assert age is not None
            assert 0 < age < PATIENCE
            assert sum(backs[0]) > 0
            assert 0 < backs[1] < sum(backs[0]) * PATIENCE


# What can't be ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "error", "says"),
    [
        (
            {"protocol": pares.Neli(T=0.9, clock_error=0.1)},
            ConfigError,
            r"T is 0.9 s and clock_error 0.1 s, 1 s together, and the session is 1 s.*Use T below 0.8091, session above 1.1",
        ),
        ({"protocol": pares.Nele(T=0.95)}, ConfigError, "T is 0.95 s and the session 1 s: NELE needs T above"),
        ({"protocol": pares.Nele(T=1.2), "overlap": 5.0}, ConfigError, "overlap=5 and T=1.2 contradict each other"),
        (
            {"protocol": "neli", "overlap": 1.0},
            ConfigError,
            "'neli' is exclusive: leave it out, or use protocol='nele'",
        ),
        ({"protocol": "fast-neli", "overlap": 1.0}, ConfigError, "protocol 'fast-neli' is exclusive"),
        ({"protocol": pares.FastNeli(poll_interval=0.6)}, ConfigError, "two beats take 1200 ms"),
        ({"protocol": "fast-neli", "labels": {"a": "b"}}, CapabilityError, "labels is {'a': 'b'}, and members of"),
        ({"protocol": "fast-neli", "seats": 3}, ConfigError, "has 2; open it with .partitions=6"),
        ({"protocol": "neli", "eligible": ["0"]}, CapabilityError, "eligible is given"),
        ({"protocol": "nonesuch"}, CapabilityError, "it has: claims, nele, neli, fast-neli, allcall"),
    ],
)
def test_settings_that_cannot_be(memory: str, settings: dict[str, Any], error: type[Exception], says: str) -> None:
    before = threading.active_count()
    with pytest.raises(error, match=says):
        pares.Member(memory, group="g", roles=ROLES, **settings)
    until(lambda: threading.active_count() <= before, "nothing of it is left running")


def test_records_of_these_protocols_carry_no_marks(memory: str, protocol: ProtocolName) -> None:
    crew = Crew(memory)
    one = member(crew, "one", protocol)
    term = one.wait("0", PATIENCE)
    assert term is not None
    with pytest.raises(CapabilityError, match=r"mark is not in protocol .* use protocol='claims'"):
        one.mark(term, 1)


def test_a_log_whose_times_are_by_its_writers_carries_no_exclusive_neli(memory: str) -> None:
    inner = pares.open(memory)

    class Elsewhere:
        capabilities = Capabilities()

        def __getattr__(self, name: str) -> Any:
            return getattr(inner, name)

    with pytest.raises(CapabilityError, match=r"message\.timestamp\.type=LogAppendTime"):
        pares.Member(Elsewhere(), group="g", roles=ROLES, protocol="neli")  # type: ignore[arg-type]
    inner.close()
