"""What a witness does in its group (R22): it watches all of its host, comes second to an heir only, and leads nothing."""

from __future__ import annotations

from typing import Any

from core_authors import Pen
from core_driver import Solo, joined
from hypothesis import given
from hypothesis import strategies as st

from pares.core import events as ev
from pares.core.claims.chores.duties import WATCHERS, to_watch, turn, watchers
from pares.core.wire import records as R
from pares.core.wire.world import World


def lock(boot: str, inode: int = 1) -> R.Lock:
    return R.Lock(boot=boot, device="0", inode=str(inode), file=f"{inode}.alive")


def witness(**config: Any) -> Solo:
    """A witness of the boot "here", in its group."""
    made = Solo(id="w~1", name="w", eligible=(), witness="here", **config)
    made.run(0.3)
    return made


def watched(solo: Solo) -> list[str]:
    return sorted(solo.of(ev.Watch)[-1].locks)


def test_it_watches_everybody_on_its_host_and_nobody_else() -> None:
    me = witness()
    joined(me, "a~1", lock=lock("here"))
    joined(me, "b~1", lock=lock("there"))
    joined(me, "c~1", lock=lock("here", 2), eligible=())
    joined(me, "d~1")
    me.run(0.1)
    assert watched(me) == ["a~1", "c~1"], "holders and others, and no lock of another boot"
    assert me.world.members["w~1"].lock is None, "and nobody watches it in turn"


def test_it_says_who_is_dead_at_once_and_claims_nothing() -> None:
    me = witness()
    a, b = joined(me, "a~1", lock=lock("here")), joined(me, "b~1")
    a.role("A")
    a.claim("A")
    me.run(0.05)
    me.step(ev.Died("a~1"))
    made = me.run(0.01)
    assert [(type(record).__name__, record.of) for record in made] == [("Obituary", "a~1")]
    assert me.world.seats["A", 0].holder is None
    b.claim("A")
    me.run(0.1)
    assert me.world.seats["A", 0].holder == "b~1"
    assert not any(isinstance(record, R.Claim) for record in me.sent)


def test_it_says_so_of_one_that_holds_nothing() -> None:
    me = witness()
    joined(me, "a~1", lock=lock("here"))
    me.run(0.05)
    me.step(ev.Died("a~1"))
    assert [type(record).__name__ for record in me.run(0.01)] == ["Obituary"]
    assert "a~1" not in me.world.members


def test_it_leaves_an_heir_of_the_host_a_moment_to_do_it_with_its_claim() -> None:
    me = witness()
    a = joined(me, "a~1", lock=lock("here"))
    a.role("A")
    a.claim("A")
    joined(me, "b~1", lock=lock("here", 2))
    me.run(0.05)
    me.step(ev.Died("a~1"))
    assert not any(isinstance(record, R.Obituary) for record in me.run(0.01))
    assert any(isinstance(record, R.Obituary) for record in me.run(0.03)), "the heir was silent"


def test_a_second_obituary_of_one_death_changes_nothing() -> None:
    me = witness()
    a, b = joined(me, "a~1", lock=lock("here")), joined(me, "b~1")
    a.role("A")
    a.claim("A")
    b.obituary("a~1")
    b.claim("A")
    me.run(0.05)
    b.obituary("a~1")
    me.step(ev.Died("a~1"))
    made = me.run(0.05)
    assert not any(isinstance(record, R.Obituary) for record in made), "it is known to be gone"
    assert me.world.seats["A", 0].holder == "b~1"


def test_an_obituary_is_of_one_incarnation() -> None:
    me = witness()
    a = joined(me, "a~1", lock=lock("here"))
    a.role("A")
    a.claim("A")
    again = joined(me, "a~2", lock=lock("here", 2))
    a.leave()
    again.claim("A")
    me.run(0.05)
    me.step(ev.Died("a~1"))
    me.run(0.1)
    assert me.world.seats["A", 0].holder == "a~2"
    assert "a~2" in me.world.members


HOSTS = st.lists(
    st.tuples(st.sampled_from(["here", "there", "none"]), st.booleans(), st.booleans()), min_size=1, max_size=8
)
"""Of each member: where its lock is, whether it holds a seat, whether it is taken for alive."""


@given(HOSTS)
def test_a_witness_takes_nobodys_turn_and_somebody_always_comes_first(hosts: list[tuple[str, bool, bool]]) -> None:
    """Members watch each other as if it were not there; and of a death that only it can see, it is the first to tell."""
    world, alive = _world(hosts), frozenset(f"m{i}~1" for i, (_, _, lives) in enumerate(hosts) if lives)
    mine = to_watch(world, "w~1", alive, "here")
    assert set(mine) == {f"m{i}~1" for i, (boot, _, _) in enumerate(hosts) if boot == "here"}
    assert to_watch(world, "w~1", alive) == {}, "with no lock of its own it is in nobody's ring"
    for id in mine:
        line = watchers(world, id, alive - {id})
        assert "w~1" not in line
        assert len(line) <= WATCHERS
        for heirs in (set[str](), set(line[:1]), set(line)):
            place = turn(world, id, "w~1", alive - {id}, heirs, witness=True)
            assert place == (1 if heirs & set(line) else 0)
            places = [turn(world, id, other, alive - {id}, heirs, witness=False) for other in line]
            assert sorted(places) == list(range(len(line)))
            assert min([place, *places]) == 0


def _world(hosts: list[tuple[str, bool, bool]]) -> World:
    me = witness()
    for number, (boot, holds, _) in enumerate(hosts):
        pen: Pen = joined(me, f"m{number}~1", lock=None if boot == "none" else lock(boot, number))
        if holds:
            pen.role(f"r{number}")
            pen.claim(f"r{number}")
    me.read()
    return me.world
