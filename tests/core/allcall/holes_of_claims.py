"""H1 to H11: scenarios about claims, which of them counts, and for how long; and how each rule is broken."""

from __future__ import annotations

import pytest
from allcall_world import MS, SECOND, World, call_of
from hole_tools import led_within, told, trio, wall_ms

from pares.core.allcall import election as allcall_election
from pares.core.allcall.election import Election, Known
from pares.core.allcall.messages import Claim
from pares.core.allcall.peers import Company
from pares.core.allcall.protocol import AllCall
from pares.core.events import Effect, Lead


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
        led_within(world, "b", 12.1)


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
    led_within(world, "n1", 10 + 1 + 1 + 2)


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
    led_within(world, "a", 12)
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
    led_within(world, "b", 1.2)


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
