"""A release that asks for other seats than the group's log says is told so."""

from __future__ import annotations

from runtime_tools import Crew, until


def test_seats_that_differ_from_the_logs_are_a_problem_that_is_said_once(crew: Crew) -> None:
    one = crew.leader("one", seats=1)
    two = crew.standby("two", seats=2)
    until(lambda: two.health().problems, "it is said")
    (said,) = two.health().problems
    assert said.startswith("seats: seats=2 was asked for role 'A', which has 1 in the group's log")
    assert one.health().problems == ()
    three = crew.standby("three", seats=1)
    assert three.health().problems == ()
