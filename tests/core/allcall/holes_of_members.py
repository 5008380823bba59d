"""H12 to H18: scenarios about silence, who hears whom, clocks and terms; and how each rule is broken."""

from __future__ import annotations

import pytest
from allcall_world import SECOND, World, call_of
from hole_tools import led_within, told, trio
from msgspec.structs import replace

from pares.core.allcall.config import Settings
from pares.core.allcall.election import Election, Known
from pares.core.allcall.freshness import Hearing
from pares.core.allcall.messages import Claim, token
from pares.core.allcall.protocol import AllCall
from pares.core.allcall.timing import Turns
from pares.core.events import Effect


def h12_who_may_not_act_yet_is_not_elected() -> None:
    """A better ranked one is in its silence while the others elect: they elect one that can lead."""
    world = World()
    world.start("b", 1)
    world.run(6)
    world.start("a", 0)
    led_within(world, "b", 6.2)
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
    led_within(world, "a", 12)


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
