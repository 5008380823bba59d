"""`pares run` by protocols other than claims: the same safety, on their own leases; and where two may run, as it is said."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_log import pares
from run_tools import Runs, alive

from standstill import stop_between_writes

pytestmark = pytest.mark.processes

EXCLUSIVE = ("fast-neli", "neli")
SESSION = "3"


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    runs = Runs(tmp_path)
    yield runs
    runs.close()


def by(protocol: str, *more: str) -> tuple[str, ...]:
    return ("--protocol", protocol, "--session", SESSION, *more)


@pytest.mark.parametrize("protocol", [*EXCLUSIVE, "allcall"])
def test_after_kill_9_the_next_runs_and_never_both(runs: Runs, protocol: str) -> None:
    first = runs.beat("ignore", options=by(protocol))
    runs.until_commands(1)
    runs.beat(options=by(protocol))
    first.kill()
    runs.until_commands(2)
    runs.check()


@pytest.mark.parametrize("protocol", [*EXCLUSIVE, "allcall"])
def test_a_frozen_leaders_command_is_gone_before_the_next_one_runs(runs: Runs, protocol: str) -> None:
    first = runs.beat("ignore", options=by(protocol))
    runs.until_commands(1)
    (_, _, pid), *_ = runs.beats()
    runs.beat(options=by(protocol))
    stop_between_writes(first, runs.folder / "work.db")
    runs.until_commands(2)
    assert not alive(pid)
    os.kill(first.pid, signal.SIGCONT)
    assert first.stderr is not None
    while "the command was" not in first.stderr.readline():
        assert first.poll() is None
    runs.check()


@pytest.mark.parametrize("protocol", [*EXCLUSIVE, "allcall"])
def test_term_ends_command_and_wrapper_and_hands_over(runs: Runs, protocol: str) -> None:
    first = runs.beat("ignore", options=by(protocol, "--grace", "0.2"))
    runs.until_commands(1)
    second = runs.beat(options=by(protocol))
    first.terminate()
    assert first.wait(60) == 143
    runs.until_commands(2)
    runs.check()
    second.terminate()
    assert second.wait(60) == 143
    assert not any(alive(pid) for _, _, pid in runs.beats())


def test_nele_has_the_next_one_run_before_the_last_one_ends(runs: Runs) -> None:
    """Rather two for a moment than none: who is asked to leave runs on until another leads."""
    first = runs.beat("ignore", options=by("nele", "--grace", "0.2"))
    runs.until_commands(1)
    runs.beat(options=by("nele"))
    first.kill()
    runs.until_commands(2)


def test_help_says_which_of_them_may_run_it_twice() -> None:
    said = " ".join(pares("run", "--help").out.split())
    assert "at no instant in two" in said
    assert "on each side of a split" in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--protocol", "raft"), "'raft' is not in this version"),
        (("--protocol", "fast-neli", "--session", "1", "--grace", "0.3"), "under protocol 'fast-neli'"),
        (("--protocol", "allcall", "--seats", "2"), "ALLCALL gives each role one leader"),
        (("--protocol", "allcall", "--zone", "z"), "nothing is placed by zones"),
        (("--protocol", "neli", "--seats", "2"), "each seat of a role needs a partition of its own"),
    ],
)
def test_what_does_not_go_together_is_refused(runs: Runs, options: tuple[str, ...], said: str) -> None:
    runs.ledger += "?partitions=1"  # a new log of NELI has as many as its first member needs, unless it is told
    wrapper = runs.start("true", options=options)
    out, error = wrapper.communicate(timeout=60)
    assert wrapper.returncode in (1, 2), error
    assert said in " ".join(error.split())
    assert "Traceback" not in error
    assert out == ""
