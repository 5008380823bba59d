"""`pares sim`, as its users meet it: what it prints, and how it ends."""

import gc
import json

import pytest
import typer

from pares.cli.common.output import plain_errors
from pares.cli.sim import sim
from pares.sim.members.mutants import MUTANTS
from pares.sim.mutant import applied
from pares.sim.runs import perform
from pares.sim.world.process import Process


def run(*arguments: str) -> int:
    """The exit code."""
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(sim)
    with pytest.raises(SystemExit) as end, plain_errors():
        app(list(arguments))
    return int(end.value.code or 0)


def test_clean_seeds_end_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--seeds", "3", "--from", "2000", "--jobs", "1", "--json") == 0
    out, err = capsys.readouterr()
    answer = json.loads(out)
    assert (answer["seeds"], answer["from"], answer["broken"]) == (3, 2000, [])
    assert answer["virtual_hours"] > 0
    assert "seed 2000, the first of 3, with:" in err, "the knobs of the first seed are shown"


def test_what_was_played_does_not_fill_the_memory() -> None:
    """While a world is played the collector rests: of thousands of seeds none may stay."""
    was = gc.isenabled()
    gc.disable()  # as it comes about while seeds are played: what is left is there to be seen
    try:
        for seed in range(3):
            perform(seed)
        assert [type(thing) for thing in gc.get_objects() if isinstance(thing, Process)] == []
    finally:
        if was:
            gc.enable()


def test_a_traced_seed_shows_all_that_happened(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--trace", "2000") == 0
    out = capsys.readouterr().out
    assert "genesis" in out
    assert "all promises kept" in out


def test_a_mutant_that_is_noticed_ends_with_0_and_its_trace_with_3(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--mutant", "did-acts", "--seeds", "20", "--jobs", "1", "--shrink", "3") == 0
    out = capsys.readouterr().out
    assert "seed 1: who changes a seat" in out
    assert "seed 1, made smaller" in out
    assert out.splitlines()[-1].count("BROKEN: who changes a seat") == 1
    assert run("--mutant", "did-acts", "--trace", "1") == 3
    assert "BROKEN  who changes a seat" in capsys.readouterr().out


def test_a_clean_seed_that_breaks_a_promise_ends_with_3_and_is_told_small(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pares.sim import runs
    from pares.sim.members.plan import draw
    from pares.sim.members.play import play
    from pares.sim.runs import Simulated

    broken = MUTANTS["unready-is-ready"]
    played = Simulated(lambda seed, bias: draw(seed, broken.bias), play, {})
    monkeypatch.setitem(runs.PROTOCOLS, "claims", played)
    with applied(broken):
        assert run("--seeds", "1", "--jobs", "1", "--shrink", "2") == 3
        out = capsys.readouterr().out
        assert "BROKEN  seed 0: an unready member leads nothing" in out
        assert "made smaller" in out
        assert run("--seeds", "1", "--jobs", "1", "--shrink", "2", "--json") == 3
    smallest = json.loads(capsys.readouterr().out)["smallest"]
    assert smallest["what"] in smallest["trace"][-1]


def test_a_mutant_that_is_not_noticed_ends_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--mutant", "did-acts", "--from", "2", "--seeds", "1", "--jobs", "1") == 1
    assert "NOT CAUGHT" in capsys.readouterr().out


def test_mutants_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--mutant", "list", "--json") == 0
    assert len(json.loads(capsys.readouterr().out)) == len(MUTANTS)


@pytest.mark.parametrize(
    ("protocol", "shown", "told"),
    [
        ("fast-neli", "protocol fast-neli", "announces"),
        ("neli", "protocol neli", "announces"),
        ("nele", "protocol nele", "announces"),
        ("allcall", "beat ", "leads"),
    ],
)
def test_other_protocols_are_played_and_broken(
    protocol: str, shown: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--protocol", protocol, "--seeds", "1", "--jobs", "1", "--json") == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["broken"] == []
    assert shown in err
    assert run("--protocol", protocol, "--mutant", "list", "--json") == 0
    assert json.loads(capsys.readouterr().out)
    assert run("--protocol", protocol, "--trace", "0") == 0
    assert told in capsys.readouterr().out
    assert run("--protocol", protocol, "--mutant", "no-compare") == 2


def test_wrong_names_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--mutant", "nope") == 2
    assert "no-compare" in capsys.readouterr().err
    assert run("--protocol", "paxos") == 2
    assert "claims" in capsys.readouterr().err
