"""Every hole of ALLCALL's text, H1 to H18: a scenario that the rule closes, and that fails as soon as the rule is taken away.

Each scenario is run twice: as it is, and with its rule broken on purpose, when it must fail.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from allcall_world import MS, SECOND, World, call_of
from msgspec.structs import replace

from pares.core.allcall import election as allcall_election
from pares.core.allcall import peers
from pares.core.allcall.config import Settings
from pares.core.allcall.election import Election, Known
from pares.core.allcall.freshness import Hearing
from pares.core.allcall.messages import Call, Claim, encode, token
from pares.core.allcall.peers import Company
from pares.core.allcall.protocol import AllCall
from pares.core.allcall.timing import Turns
from pares.core.events import Effect, Lead

Patch = Callable[[pytest.MonkeyPatch], None]


def trio(seed: int = 1, seconds: float = 20, **options: Any) -> World:
    world = World(seed)
    for rank, name in enumerate("abc"):
        world.start(name, rank, start_offset_ms=rank * 130, **options)
    world.run(seconds)
    return world


def wall_ms(world: World) -> int:
    return world.wall_us(next(iter(world.nodes.values()))) // 1000


def told(world: World, sender: str, n: int, claims: list[Claim], age: float = 0.0) -> bytes:
    """What `sender` might have said `age` seconds ago."""
    sent = wall_ms(world) - round(age * 1000)
    return encode(Call(1, "ping", "g", sender, n, sent, 9, "ping", [], claims))


# Scenarios -----------------------------------------------------------------------------------------------------------


def h1_nobody_claims_for_another() -> None:
    """The best ranked one is heard, and can't hear that it should lead: then nobody may lead in its name."""
    world = trio()
    world.kill("a")
    world.run(30)
    for node in world.nodes.values():
        assert {holder for at, holder in node.led if at > 33 * SECOND} <= {"b~1", None}
    assert all(claim.holder in (name, "b~1") for name, claim in _claims_made(world))


def _claims_made(world: World) -> list[tuple[str, Known]]:
    return [
        (node.settings.id, node.core._elections["x"].mine)  # pyright: ignore[reportPrivateUsage]
        for node in world.nodes.values()
        if node.alive and node.core._elections["x"].mine is not None  # pyright: ignore[reportPrivateUsage]
    ]


def break_h1(patch: pytest.MonkeyPatch) -> None:
    """Followers stamp a lease for whom they take for the winner."""
    usual = AllCall._claim  # pyright: ignore[reportPrivateUsage]

    def stamp(self: AllCall, role: str, election: Election, now: int, effects: list[Effect]) -> None:
        better = self._company.better(role)  # pyright: ignore[reportPrivateUsage]
        if better is not None and election.best(now) is None:
            election.hear(Claim(role, better, 0, election.highest + 1, 1, 10_000, 10**12), now)
        usual(self, role, election, now, effects)

    patch.setattr(AllCall, "_claim", stamp)
    patch.setattr(Company, "forget_the_silent", lambda *_: [])


def h2_no_claim_while_one_lives() -> None:
    """A better ranked newcomer does not lead while another's claim lives."""
    world = World()
    world.start("b", 1)
    world.run(20)
    world.start("a", 0, init_ms=0)
    for _ in range(1200):
        world.run(0.01)
        assert len(world.leaders()) <= 1


def break_h2(patch: pytest.MonkeyPatch) -> None:
    usual = AllCall._claim  # pyright: ignore[reportPrivateUsage]

    def hasty(self: AllCall, role: str, election: Election, now: int, effects: list[Effect]) -> None:
        kept, election.others = election.others, lambda now: []  # type: ignore[method-assign]
        usual(self, role, election, now, effects)
        election.others = kept  # type: ignore[method-assign]

    patch.setattr(AllCall, "_claim", hasty)


def h3_clocks_decide_nothing() -> None:
    """The leader's wall clock is a minute fast, or slow: takeover takes as long as always, and nobody leads beside it."""
    for ahead in (60.0, -8.0):
        world = World()
        world.start("a", 0, wall=ahead)
        world.start("b", 1)
        world.run(20)
        for _ in range(20):
            world.run(1)
            assert world.leaders() == ["a"]
        world.kill("a")
        _led_within(world, "b", 12.1)


def _led_within(world: World, name: str, seconds: float) -> None:
    world.until(lambda: world.leaders() == [name], seconds)


def break_h3(patch: pytest.MonkeyPatch) -> None:
    """`expires` is compared with one's own wall clock."""
    usual = AllCall._hear  # pyright: ignore[reportPrivateUsage]

    def absolute(self: AllCall, payload: bytes, now: int, effects: list[Effect]) -> None:
        usual(self, payload, now, effects)
        for claim in call_of(payload).c:
            known = self._elections["x"]._claims.get(claim.holder)  # pyright: ignore[reportPrivateUsage]
            if known is not None and not known.released:
                known.deadline = now + (claim.expires - self._wall_ms(now)) * MS  # pyright: ignore[reportPrivateUsage]

    patch.setattr(AllCall, "_hear", absolute)


def h4_relays_don_t_prolong() -> None:
    """A dead leader's claim goes round between the others, a second late each time."""
    world = World(delay=(500.0, 950.0))
    for rank in range(6):
        world.start(f"n{rank}", rank, start_offset_ms=rank * 170)
    world.run(30)
    assert world.leaders() == ["n0"]
    world.kill("n0")
    _led_within(world, "n1", 10 + 1 + 1 + 2)


def break_h4(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(allcall_election, "sooner", max)


def h5_only_who_is_heard_renews() -> None:
    """The leader hears the others, and nobody hears it, itself included; and by rank its claim is the better one."""
    world = trio(order="rank")
    world.cut = lambda source, target: source == "a"
    world.run(13)
    assert "a" not in world.leaders()
    assert "b" in world.leaders()


def break_h5(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Company, "loops", lambda self, now: True)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]


def h6_a_term_ends_with_a_release() -> None:
    world = World()
    world.start("b", 1)
    world.run(20)
    world.start("a", 0)
    _led_within(world, "a", 12)
    gap = world.nodes["a"].terms[0][0] - world.nodes["b"].ended[0][0]
    assert gap < 0.1 * SECOND


def break_h6(patch: pytest.MonkeyPatch) -> None:
    """A leader that must not renew lets the term end, and says nothing."""
    usual, give_up = AllCall._renew, AllCall._give_up  # pyright: ignore[reportPrivateUsage]

    def renew(self: AllCall, role: str, election: Election, now: int, effects: list[Effect]) -> Lead | None:
        if self._company.better(role) is None:  # pyright: ignore[reportPrivateUsage]
            return usual(self, role, election, now, effects)
        return None

    def silently(self: AllCall, role: str, why: str, now: int, effects: list[Effect], *, fenced: bool) -> None:
        give_up(self, role, why, now, effects, fenced=fenced)
        self._farewells, self._unsaid = {}, False  # pyright: ignore[reportPrivateUsage]

    patch.setattr(AllCall, "_renew", renew)
    patch.setattr(AllCall, "_give_up", silently)


def h7_a_release_ends_a_longer_claim() -> None:
    world = trio()
    world.close("a")
    _led_within(world, "b", 1.2)


def break_h7(patch: pytest.MonkeyPatch) -> None:
    """A claim is taken only if it ends later: monotone, as the text has it."""
    usual = Election.hear

    def monotone(self: Election, claim: Claim, now: int) -> bool:
        known = self._claims.get(claim.holder)  # pyright: ignore[reportPrivateUsage]
        if known is not None and now + claim.ttl * MS < known.deadline:
            return False
        return usual(self, claim, now)

    patch.setattr(Election, "hear", monotone)


def h8_the_loser_stops_at_once() -> None:
    world = trio()
    world.split({"a"}, {"b", "c"})
    world.run(30)
    assert sorted(world.leaders()) == ["a", "b"]
    world.heal()
    world.until(lambda: len(world.leaders()) == 1, 1.2)


def break_h8(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AllCall, "_yield_to_better", lambda *_: None)


def h9_all_order_two_claims_alike() -> None:
    """Two live claims, of which each member hears another one later: all agree on the winner, and keep to it."""
    world = trio(seconds=0, init_ms=60_000)
    world.run(1)
    now = wall_ms(world)
    one = Claim("x", "p~1", 5, 7, 1, 9000, now + 9000)
    other = Claim("x", "q~1", 6, 7, 1, 8000, now + 9500)
    for number, name in enumerate("abc"):
        world.send("p", name, told(world, "p~1", 1, [one]), 0.3 * number)
        world.send("q", name, told(world, "q~1", 1, [other]), 0.9 - 0.4 * number)
    world.run(2)
    assert world.views() == {"q~1"}, "the later end, as both holders wrote it"


def break_h9(patch: pytest.MonkeyPatch) -> None:
    """By what is left of a claim, as each receiver measures it."""
    patch.setitem(allcall_election.ORDERS, "lease", lambda claim: (-claim.deadline, claim.rank, claim.holder))


def h10_ties_are_broken() -> None:
    """Same rank, same end: the id decides, for all alike; and two with one name are told."""
    world = trio(seconds=0, init_ms=60_000)
    world.run(1)
    end = wall_ms(world) + 9000
    first, second = (Claim("x", holder, 5, 7, 1, 9000, end) for holder in ("p~1", "q~1"))
    world.send("p", "a", told(world, "p~1", 1, [first]))
    world.send("q", "a", told(world, "q~1", 1, [second]), 0.1)
    world.send("q", "b", told(world, "q~1", 1, [second]))
    world.send("p", "b", told(world, "p~1", 1, [first]), 0.1)
    for sender, claim in (("p", first), ("q", second)):
        world.send(sender, "c", told(world, f"{sender}~1", 1, [claim]))
    world.send("twin", "a", told(world, "a~2", 1, []))
    world.run(0.5)
    assert world.views() == {"p~1"}
    assert world.nodes["a"].reports == ["duplicate-name"]


def break_h10(patch: pytest.MonkeyPatch) -> None:
    """Equal for the order: whoever was heard first wins."""
    patch.setitem(allcall_election.ORDERS, "lease", lambda claim: (-claim.expires, claim.rank, ""))


def h11_a_new_life_is_not_the_old_one() -> None:
    """The leader dies, and comes back within its own lease under the same name: it does not lead by its old claim."""
    world = trio()
    old = world.nodes["a"]
    world.kill("a")
    world.nodes["dead"] = world.nodes.pop("a")
    world.start("a", 0, id="a~2")
    world.run(1.5)
    assert world.leaders() == []
    assert world.nodes["b"].core.leader("x", world.now + world.nodes["b"].stopwatch) == old.settings.id
    assert world.nodes["a"].core.leader("x", world.now + world.nodes["a"].stopwatch) == old.settings.id


def break_h11(patch: pytest.MonkeyPatch) -> None:
    """A claim by one's own name is taken for one's own."""
    usual = Election.hear

    def trusting(self: Election, claim: Claim, now: int) -> bool:
        mine = self._me.partition("~")[0]  # pyright: ignore[reportPrivateUsage]
        if claim.holder.partition("~")[0] == mine and claim.holder != self._me and claim.ttl:  # pyright: ignore[reportPrivateUsage]
            self.mine = Known(self._me, 0, claim.term, claim.seq, claim.expires, now + claim.ttl * MS)  # pyright: ignore[reportPrivateUsage]
            return False
        return usual(self, claim, now)

    patch.setattr(Election, "hear", trusting)


def h12_who_may_not_act_yet_is_not_elected() -> None:
    """A better ranked one is in its silence while the others elect: they elect one that can lead."""
    world = World()
    world.start("b", 1)
    world.run(6)
    world.start("a", 0)
    _led_within(world, "b", 6.2)
    early = World()
    early.start("a", 0)
    early.run(5)
    assert early.pings == 0, "nobody is called during the silence"
    assert 4 <= early.sent <= 6, "once a beat it says that it is there, for those who look on"


def break_h12(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Turns, "phase", lambda self, now: "ping")  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    patch.setattr(AllCall, "_offers", lambda self, role, now: True)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]


def h13_everybody_waits_once_at_a_cold_start() -> None:
    """Accepted, not closed: who begins first leads, though a better ranked one begins a moment later, and that takes the
    whole silence; the best one leads a term later."""
    world = World()
    world.start("b", 1)
    world.run(3)
    world.start("a", 0)
    took = world.until(lambda: world.leaders() == ["b"], 9.1)
    assert took > 8, "it was silent for a lease and the skew"
    _led_within(world, "a", 12)


def break_h13(patch: pytest.MonkeyPatch) -> None:
    """Nobody waits."""
    usual = AllCall.__init__

    def hasty(self: AllCall, settings: Settings, now: int, wall_us: int) -> None:
        usual(self, replace(settings, init_ms=0), now, wall_us)

    patch.setattr(AllCall, "__init__", hasty)


def h14_answers_don_t_multiply() -> None:
    world = World(delay=(0.5, 2.0))
    for rank in range(20):
        world.start(f"n{rank}", rank, start_offset_ms=rank * 50, init_ms=0)
    world.run(2)
    before = world.delivered
    world.run(2)
    assert world.delivered - before <= 2 * 3 * 20 * 20 + 20


def break_h14(patch: pytest.MonkeyPatch) -> None:
    """Everybody answers every call at once."""
    usual = AllCall._hear  # pyright: ignore[reportPrivateUsage]

    def eager(self: AllCall, payload: bytes, now: int, effects: list[Effect]) -> None:
        usual(self, payload, now, effects)
        call = call_of(payload)
        if call.k == "ping" and call.m != self._settings.id:  # pyright: ignore[reportPrivateUsage]
            self._publish("reply", "ping", now, effects)  # pyright: ignore[reportPrivateUsage]

    patch.setattr(AllCall, "_hear", eager)


def h15_alone_as_it_was_told() -> None:
    for when, leads in (("lead", ["a"]), ("step_down", [])):
        world = trio(when_isolated=when)
        world.cut = lambda source, target: "a" in (source, target)
        world.run(2.6)
        assert [name for name in world.leaders() if name == "a"] == leads
        world.run(20)
        assert [name for name in world.leaders() if name == "a"] == leads


def break_h15(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AllCall, "_leave_if_alone", lambda *_: None)


def h16_what_was_kept_is_not_believed() -> None:
    """Calls of a minute ago, delivered now, as a client does that buffers while it has no connection."""
    world = trio()
    world.kill("a")
    world.run(30)
    assert world.leaders() == ["b"]
    stale = Claim("x", "z~1", -1, 2**20, 1, 9000, 2**51)
    for number in range(5):
        world.send("z", "b", told(world, "z~1", number + 1, [stale], age=60 - number))
        world.send("z", "c", told(world, "z~1", number + 1, [stale], age=60 - number))
    world.run(2)
    assert world.leaders() == ["b"]
    assert world.nodes["b"].core.stale >= 5
    # A copy of what was heard already is no sign of life.
    fresh = told(world, "y~1", 7, [])
    world.send("y", "b", fresh)
    world.send("y", "b", fresh, 2.0)
    world.run(3.0)
    assert "y~1" not in world.nodes["b"].core.peers()


def break_h16(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Hearing, "_too_old", lambda *_: False)


def h17_a_lease_ends_by_the_clock() -> None:
    """A leader stands still for longer than its lease, and goes on: it has stopped leading before it does anything else."""
    world = trio()
    world.freeze("a")
    world.run(30)
    assert world.leaders() == ["b"], "asked while it stands still, it would say no"
    world.thaw("a")
    assert "a" not in world.leaders()
    assert world.nodes["a"].ended[-1][1] == "lease ran out"
    world.run(1.5)
    assert len(world.leaders()) == 1


def break_h17(patch: pytest.MonkeyPatch) -> None:
    """A flag that was set once, and a lease that nobody looks at."""
    patch.setattr(AllCall, "_end_leases", lambda *_: None)
    patch.setattr(AllCall, "holds", lambda self, role, now: self._elections[role].mine is not None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType, reportUnknownMemberType]


def h18_terms_grow() -> None:
    """Each term is above all that its holder has heard of, also when a clock is set back."""
    world = trio()
    world.kill("a")
    world.nodes["b"].wall = -3_000 * SECOND
    world.nodes["c"].wall = -3_000 * SECOND
    world.run(20)
    first, second = world.nodes["a"].terms[0][1], world.nodes["b"].terms[0][1]
    assert second > first
    assert token(1, "z") < token(2, "a")


def break_h18(patch: pytest.MonkeyPatch) -> None:
    usual = Election.claim

    def forgetful(self: Election, now: int, wall_ms: int, lease: int, floor: int) -> Known:
        self.highest = 0
        return usual(self, now, wall_ms, lease, floor)

    patch.setattr(Election, "claim", forgetful)


HOLES: dict[str, tuple[Callable[[], None], Patch]] = {
    "H1": (h1_nobody_claims_for_another, break_h1),
    "H2": (h2_no_claim_while_one_lives, break_h2),
    "H3": (h3_clocks_decide_nothing, break_h3),
    "H4": (h4_relays_don_t_prolong, break_h4),
    "H5": (h5_only_who_is_heard_renews, break_h5),
    "H6": (h6_a_term_ends_with_a_release, break_h6),
    "H7": (h7_a_release_ends_a_longer_claim, break_h7),
    "H8": (h8_the_loser_stops_at_once, break_h8),
    "H9": (h9_all_order_two_claims_alike, break_h9),
    "H10": (h10_ties_are_broken, break_h10),
    "H11": (h11_a_new_life_is_not_the_old_one, break_h11),
    "H12": (h12_who_may_not_act_yet_is_not_elected, break_h12),
    "H13": (h13_everybody_waits_once_at_a_cold_start, break_h13),
    "H14": (h14_answers_don_t_multiply, break_h14),
    "H15": (h15_alone_as_it_was_told, break_h15),
    "H16": (h16_what_was_kept_is_not_believed, break_h16),
    "H17": (h17_a_lease_ends_by_the_clock, break_h17),
    "H18": (h18_terms_grow, break_h18),
}


@pytest.mark.parametrize("hole", HOLES)
def test_the_rule_closes_the_hole(hole: str) -> None:
    HOLES[hole][0]()


@pytest.mark.parametrize("hole", HOLES)
def test_without_the_rule_it_is_open(hole: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario, break_rule = HOLES[hole]
    break_rule(monkeypatch)
    with pytest.raises(AssertionError):
        scenario()


def test_the_window_is_as_the_rules_were_measured_with() -> None:
    assert peers.WINDOW == 2.5
