"""ALLCALL's rules at their edges: the deaf, late copies, wrong clocks, standstills, and roles that nobody wants."""

from __future__ import annotations

from typing import Any

import pytest
from allcall_world import World, call_of

from pares.core.allcall.config import Settings
from pares.core.allcall.election import Election
from pares.core.allcall.freshness import Hearing
from pares.core.allcall.messages import Call, Claim, encode
from pares.core.allcall.protocol import AllCall
from pares.core.events import Lead, PeerLost, Publish, Received, Tick
from pares.core.lease import MS


def trio(**options: Any) -> World:
    world = World()
    for rank, name in enumerate("abc"):
        world.start(name, rank, start_offset_ms=100 + rank * 130, **options)
    world.run(20)
    assert world.leaders() == ["a"]
    return world


def said(world: World, sender: str, n: int, **more: Any) -> bytes:
    now = world.wall_us(world.nodes["b"]) // 1000
    usual: dict[str, Any] = {"s": now, "r": 9, "p": "ping", "e": [], "c": []}
    return encode(Call(**{"v": 1, "k": "ping", "g": "g", "m": sender, "n": n, **usual, **more}))


def test_whoever_calls_but_hears_nothing_keeps_nobody_waiting() -> None:
    """The best ranked one is deaf, its own calls included, and would step down: the others don't wait for it to lead."""
    world = trio(when_isolated="step_down")
    world.cut = lambda source, target: target == "a"
    world.until(lambda: world.leaders() == ["b"], 10 + 1 + 1 + 0.1)
    world.heal()
    world.until(lambda: world.leaders() == ["a"], 12)


def test_a_late_copy_brings_nobody_back() -> None:
    world = trio()
    before = said(world, "z~1", 5, p="ping")
    world.send("z", "b", said(world, "z~1", 6, p="gone"))
    world.send("z", "b", before, 0.1)
    world.send("y", "b", said(world, "y~1", 1))
    world.send("y", "b", said(world, "y~1", 1), 5.0)
    world.run(5.5)
    seen = [event for event in world.nodes["b"].peers if event[1] in ("z~1", "y~1")]
    assert seen == [("joined", "y~1"), ("not heard", "y~1")]


@pytest.mark.parametrize("behind", [-60.0, -11.0, 11.0, 3600.0])
def test_wall_clocks_that_are_wrong_by_more_than_a_lease_divide_nobody(behind: float) -> None:
    world = World()
    for rank, name in enumerate("abc"):
        world.start(name, rank, wall=behind if name == "a" else 0.0)
    world.run(40)
    assert world.leaders() == ["a"]
    assert world.views() == {"a~1"}
    assert "clock" in world.nodes["b"].reports
    assert "clock" not in trio().nodes["b"].reports
    world.kill("a")
    world.until(lambda: world.leaders() == ["b"], 12.1)


def test_what_was_kept_is_told_from_a_clock_that_is_slow() -> None:
    """A minute's calls come at once, then new ones, from a sender whose clock is a minute behind."""
    hearing = Hearing(lease=10_000 * MS, window=2500 * MS)
    wall = 2_000_000

    def news(n: int, sent: int, at_ms: int) -> bool:
        heard = Call(1, "ping", "g", "z~1", n, sent, 0, "ping", [], [])
        return hearing.news(heard, at_ms * MS, wall + at_ms)

    assert not any(news(n, wall - 60_000 + n * 1000, 0) for n in range(40)), "kept"
    slow = [news(100 + second, wall - 60_000 + second * 1000, second * 1000) for second in range(1, 8)]
    assert slow == [False, False, False, True, True, True, True], "new, as soon as it has come like that for a window"
    assert not news(200, wall - 60_000 - 20_000, 8_000), "what is a lease later than its others"


def test_whoever_stood_still_takes_nobody_for_lost_before_a_beat() -> None:
    world = trio()
    world.freeze("c")
    world.run(6)
    world.thaw("c")
    world.run(3)
    assert [event for event in world.nodes["c"].peers if event[0] != "joined"] == []
    world.freeze("c")
    world.run(2)
    world.kill("b")
    world.run(4)
    world.thaw("c")
    world.run(3)
    assert ("not heard", "b~1") in world.nodes["c"].peers


def test_whoever_stands_still_again_in_that_beat_reads_first_what_waits_for_it() -> None:
    """Silence is judged as of when nothing was left to read, however late it is by the stopwatch."""
    me = AllCall(Settings("g", "me~1", 5, roles=("x",), heartbeat_ms=1000, lease_ms=3000), 0, 0)
    lost: list[str] = []

    def step(second: float, event: Received | Tick) -> None:
        lost.extend(effect.member for effect in me.step(event, int(second * 1000) * MS) if isinstance(effect, PeerLost))

    def call(n: int, second: float) -> Received:
        sent = int(second * 1000)
        return Received(encode(Call(1, "ping", "g", "peer~1", n, sent, 9, "ping", [], [])), sent * 1000)

    step(1.0, call(1, 1.0))
    step(9.0, Tick(9_000_000))  # it stood still for eight beats: the peer has one more
    unread = call(2, 9.9)
    step(10.3, Tick(10_300_000, heard=9_800 * MS))
    assert lost == [], "and 1.3 beats more, with a call that waits for it"
    step(10.3, unread)
    step(10.3, Tick(10_300_000, heard=10_300 * MS))
    assert lost == []
    step(11.5, Tick(11_500_000))
    step(12.9, Tick(12_900_000, heard=12_700 * MS))
    assert lost == []
    step(12.9, Tick(12_900_000, heard=12_850 * MS))
    assert lost == [], "it was late itself: what came meanwhile may be on its way to it"
    step(13.2, Tick(13_200_000, heard=13_150 * MS))
    assert lost == ["peer~1"], "two and a half beats after its last call"


def test_a_role_that_was_stepped_down_from_is_taken_back_if_nobody_else_can() -> None:
    world = World()
    world.start("a", 0)
    world.start("b", 1)
    world.run(20)
    world.cut = lambda source, target: source != target
    world.step_down("a")  # its release is lost, and b dies before it could lead
    world.kill("b")
    world.until(lambda: world.leaders() == ["a"], 5)


def test_two_that_step_down_at_once_do_not_wait_for_each_other() -> None:
    world = World()
    world.start("a", 0)
    world.start("b", 1)
    world.run(20)
    world.step_down("b")
    world.step_down("a")
    world.until(lambda: len(world.leaders()) == 1, 3)


def test_a_live_claim_to_one_role_says_nothing_about_another() -> None:
    """c leads y, and is not heard for a while; the newcomer that hears of x only must not lead y (H12)."""
    world = World()
    world.start("a", 0, roles=("x",))
    world.start("c", 2, roles=("y",))
    world.run(20)
    world.cut = lambda source, target: source == "c" and target != "c"
    world.start("b", 1, roles=("x", "y"))
    world.run(8)
    assert world.nodes["b"].core.leader("x", world.now + world.nodes["b"].stopwatch) == "a~1"
    b, c = world.nodes["b"], world.nodes["c"]
    assert not b.core.holds("y", world.now + b.stopwatch)
    world.heal()
    world.run(2)
    assert c.core.holds("y", world.now + c.stopwatch)
    assert not c.ended


def test_own_calls_out_of_order_are_no_clone_s() -> None:
    world = World(delay=(1.0, 1500.0))
    world.start("a", 0)
    world.start("b", 1)
    world.run(60)
    assert world.nodes["a"].reports == []
    own = Call(1, "ping", "g", "a~1", 10_000, 1, 0, "ping", [], [])
    world.send("x", "a", encode(own))
    world.run(0.1)
    assert world.nodes["a"].reports == ["cloned"]


def test_a_phase_delays_no_first_call() -> None:
    """A cold start takes lease + skew + a beat, wherever in a beat one's later calls fall."""
    world = World()
    world.start("a", 0, start_offset_ms=950)
    world.until(lambda: world.leaders() == ["a"], 12.1)


def test_a_claim_that_is_passed_on_and_on_does_not_shrink() -> None:
    """Relays say whole milliseconds. Rounded down, a hundred of them would end a claim long before its holder's belief."""
    one, other = (Election("x", me, 1, "lease", 0) for me in ("b~1", "c~1"))
    one.hear(Claim("x", "a~1", 0, 1, 1, 200, 10**9), 0)
    at = 0
    for _ in range(50):
        for source, target in ((one, other), (other, one)):
            at += 370_000
            claim = source.best(at)
            assert claim is not None
            target.hear(claim.passed_on("x", at), at + 50_000)
    for election in (one, other):
        claim = election.best(at)
        assert claim is not None
        assert 200 * MS <= claim.deadline <= 202 * MS


def test_a_release_that_is_overtaken_is_heard_all_the_same() -> None:
    """Messages come in any order; what comes after a later one does not count, so a release is said again."""
    world = World(delay=(1.0, 450.0))
    world.start("b", 1)
    world.start("c", 2)
    world.run(20)
    for _ in range(6):
        leader = world.leaders()[0]
        world.step_down(leader)
        world.until(lambda was=leader: bool(world.leaders()) and world.leaders() != [was], 1 + 3 * 0.45 + 0.5)
        world.run(2)


def test_what_is_believed_was_said_before() -> None:
    core = AllCall(Settings("g", "a~1", roles=("x",)), 0, 0)
    sent: list[bytes] = []
    leads = 0
    for at in range(0, 40_000, 100):
        for event in [Tick(at * 1000), *[Received(payload, at * 1000) for payload in sent]]:
            for effect in core.step(event, at * MS):
                if isinstance(effect, Publish):
                    sent = [effect.payload]
                elif isinstance(effect, Lead):
                    leads += 1
                    claim = call_of(sent[-1]).c[0]
                    assert effect.until == at * MS + claim.ttl * MS
    assert leads >= 3
