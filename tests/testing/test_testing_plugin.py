"""The pytest plugin, as somebody else's test suite meets it."""

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


def test_a_failure_shows_the_trace(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_stage(pares_stage):
            pares_stage.member("alice", roles=["mail"])
            pares_stage.run(1)
            assert pares_stage.leader("mail") == "bob"
        """
    )
    result = pytester.runpytest("-p", "no:cacheprovider")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*pares stage*", "*alice~1*leads*mail/0*"])


def test_the_plugin_alone_loads_no_simulator(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_nothing():
            heavy = ("pares.sim", "pares.testing.stage", "pares.testing.fake")
            assert not [name for name in sys.modules if name.startswith(heavy)]
        """
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)
