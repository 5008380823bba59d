"""The pytest plugin, as somebody else's test suite meets it."""

import subprocess
import sys

import pytest

pytest_plugins = ["pytester"]


def test_the_fixtures_are_there_without_being_asked_for(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_stage(pares_stage):
            pares_stage.member("alice", roles=["mail"])
            pares_stage.run(1)
            assert pares_stage.leader("mail") == "alice"

        def test_member(pares_member):
            pares_member.lead("mail")
            assert pares_member.holds("mail")
        """
    )
    pytester.runpytest("-p", "no:cacheprovider").assert_outcomes(passed=2)


@pytest.mark.parametrize(
    "how", ["stage = pares_stage\n    if stage:", "with Stage() as stage:", "stage = Stage()\n    if stage:"]
)
def test_a_failure_shows_the_trace_and_nothing_is_left(pytester: pytest.Pytester, how: str) -> None:
    program = """
import gc, time
from pares.testing import Stage
real = time.sleep

def test_stage(pares_stage):
    HOW
        stage.member("alice", roles=["mail"])
        stage.run(1)
        assert stage.leader("mail") == "bob"

def test_nothing_is_left():
    assert time.sleep is real
    assert gc.isenabled()
"""
    pytester.makepyfile(program.replace("HOW", how))
    result = pytester.runpytest("-p", "no:cacheprovider")
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["*pares stage, seed 0*", "*alice*leads 'mail'*"])


def test_what_is_missing_is_named_and_everything_else_works_without_it() -> None:
    """An installation of pares has the plugin, with the extra or without."""
    program = """
import sys
sys.modules["greenlet"] = None
import pares.testing.plugin
from pares.testing import FakeMember
FakeMember(roles=["mail"]).close()
try:
    from pares.testing import Stage
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "pares.testing.Stage needs greenlet: pip install 'pares[testing]'", done.stderr
