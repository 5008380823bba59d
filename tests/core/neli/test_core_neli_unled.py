"""What a member could lead and doesn't, as health tells it: not while it rightly waits for somebody else."""

from __future__ import annotations

import pytest
from neli_bench import MS, Bench, config, fast, leading

from pares.core.events import Assigned, Close, Jumped, Lead, Revoked, WorkOver
from pares.core.wire.neli_records import Announce, Pulse, RolesChanged

SEAT = ("0", 0)


def test_from_the_word_of_the_group_on_an_owner_could_lead() -> None:
    bench = Bench(fast(config()))
    bench.go()
    assert bench.core.could_lead() == {}, "the group has not given it the partition"
    given = bench.now
    bench.step(Assigned((0,)))
    assert bench.core.could_lead() == {SEAT: given}
    bench.wait(70)
    assert bench.core.could_lead() == {SEAT: given}, "nothing but itself keeps it from announcing itself"
    bench.read()
    bench.go()
    assert bench.leading()
    assert bench.core.could_lead() == {}, "it leads"


def test_who_came_before_is_waited_for_and_that_does_not_count() -> None:
    bench = Bench(fast(config()))
    bench.go()
    before = bench.write(Announce, "other~1")
    bench.write(Pulse, "other~1", term=before, lead=True)
    bench.step(Assigned((0,)))
    bench.read()
    for put in bench.tick():
        bench.put(put)
    bench.read()
    (since,) = bench.core.could_lead().values()
    assert since > bench.now, "until then the other one may still believe"
    bench.now = since + 5 * MS
    assert bench.core.could_lead() == {SEAT: since}, "and from then on nobody is in the way"


def test_neither_a_barrier_nor_another_owner_nor_the_end_counts() -> None:
    bench = leading(fast(config()))
    token = bench.leading()["0"]
    bench.step(Revoked((0,)))
    assert bench.core.could_lead() == {}, "its barrier runs"
    bench.step(WorkOver(SEAT, token))
    bench.go()
    bench.step(Assigned((0,)))
    bench.read()
    bench.go()
    bench.write(Announce, "other~1", b=2 * 10**15)
    bench.read()
    assert not bench.leading()
    assert bench.core.could_lead() == {}, "another has announced itself"
    bench.step(Close())
    assert bench.core.could_lead() == {}, "it leaves"


def test_a_log_that_was_replaced_is_waited_for() -> None:
    bench = leading(fast(config()))
    bench.wait(100)
    bench.step(Jumped("another log"))
    assert bench.core.could_lead() == {}, "no role is known to be there"


@pytest.mark.parametrize("again", [("0",), ("0", "9")])
def test_a_role_that_comes_again_is_led_under_a_new_tenure(again: tuple[str, ...]) -> None:
    bench = leading(fast(config(roles=("0", "1"))))
    first = bench.leading()
    bench.write(RolesChanged, "other~1", drop=("0",))
    bench.read()
    bench.write(RolesChanged, "other~1", add=again)
    bench.read()
    assert bench.leading() == {}, "what is left of the tenure ends, too"
    bench.go()
    assert not bench.leading(), "not before the barrier of the other role has returned"
    bench.step(WorkOver(("1", 0), first["1"]))
    bench.read()
    bench.go()
    after = bench.leading()
    assert set(after) == {"1", *again}
    assert len(set(after.values())) == 1
    assert after["0"] > max(first.values())
    tokens = [effect.token for effect in bench.effects if isinstance(effect, Lead) and effect.seat == SEAT]
    assert tokens == sorted(set(tokens)), "no token comes twice"


def test_a_role_that_is_new_needs_no_new_tenure() -> None:
    bench = leading(fast(config(roles=("0",))))
    first = bench.leading()
    bench.write(RolesChanged, "other~1", add=("9",))
    bench.read()
    assert bench.leading() == {"0": first["0"], "9": first["0"]}
