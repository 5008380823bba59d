"""Clean seeds keep every promise; and a seed is one history, whoever plays it and how often."""

import msgspec
import pytest

from pares.sim.knobs import ACTS, FAULTS, RARE, draw
from pares.sim.play import Play
from pares.sim.runs import Tally, perform, results

CLEAN = range(2000, 2075)


@pytest.mark.parametrize("first", range(CLEAN.start, CLEAN.stop, 15))
def test_clean_seeds_keep_every_promise(first: int) -> None:
    tally = Tally()
    for result in results(range(first, first + 15)):
        tally.add(result)
    assert [(r.seed, r.what) for r in tally.broken] == []
    assert tally.records > 15 * 50, "nothing happened in these seeds"


def test_the_clean_seeds_meet_every_fault_and_every_act() -> None:
    drawn = [draw(seed) for seed in CLEAN]
    assert {kind for knobs in drawn for kind in knobs.faults} == {*FAULTS, *RARE}
    assert {kind for knobs in drawn for kind in knobs.acts} == set(ACTS)
    assert {name for knobs in drawn for name in knobs.scale} == {"forget", "window", "text", "batch", "place", "keep"}


def test_one_seed_is_one_history() -> None:
    one, two = perform(2003, told=True), perform(2003, told=True)
    assert one.trace == two.trace
    assert one.records == two.records
    assert len(one.trace) > 20


def test_telling_the_story_does_not_change_it() -> None:
    for seed in range(2010, 2014):
        told, silent = perform(seed, told=True), perform(seed)
        assert msgspec.structs.replace(told, trace=[]) == silent


def test_knobs_say_all_there_is_to_know_of_a_seed() -> None:
    knobs = draw(2020)
    again = msgspec.json.decode(str(knobs), type=type(knobs))
    assert again == knobs
    assert Play(again).play() == Play(knobs).play()


def test_results_are_the_same_on_several_processors() -> None:
    def short(jobs: int) -> list[tuple[int, str, float, int]]:
        return [(r.seed, r.broken, r.virtual, r.records) for r in results(range(2030, 2042), jobs=jobs)]

    assert short(2) == short(1)
