"""docs/from-goneli.md names tests: each of them is there, and no weakness and no test of goNELI's is left out."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "from-goneli.md").read_text()
NAMED = re.compile(r"`(test_\w+)(?:::(test_\w+))?`")
NAMES = """
    DefaultKafkaConsumerProvider DefaultKafkaProducerProvider GetString ConfigString ValidateConfig_valid ValidateConfig_default
    ValidateConfig_invalidLimits ValidateConfig_invalidName ValidateConfig_invalidLeaderTopic SanitiseName LeaderAcquired_string
    LeaderRevoked_string LeaderFenced_string CorrectInitialisation ConfigError ErrorDuringConsumerInitialisation
    ErrorDuringConsumerConfiguration ErrorDuringSubscribe ErrorDuringProducerInitialisation ErrorDuringProducerConfiguration
    PulseNotLeader PulseAfterClose Deadline BasicLeaderElectionAndRevocation LeaderElectionAndRevocation_nopBarrier
    LeaderElectionAndRevocation_timeoutAndReconnect NonFatalErrorInReadMessage FatalErrorInReadMessage NonFatalErrorInProduce
    FatalErrorInProduce CloseConsumerError DeliveryReports ClosePulser PulserWithError PerformTimed_noError
    PerformTimed_withError PerformTimed_withTimeout Transition MockConfigValidationError MockConfigString MockBackground
    MockPulseTimeout MockPulseEventuallyLeader MockPulseError Example Example_secureBroker Example_lowLevel TestOneNode
    TestFourNodes soak TestGroupJoinDetection_assigned
"""
"""goNELI 0.5.0's tests, and one of a fork of it."""


def rows(title: str) -> list[list[str]]:
    """The cells of the table under a heading."""
    section = PAGE.split(f"## {title}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def defined_in(file: str) -> set[str]:
    (path,) = (ROOT / "tests").rglob(f"{file}.py")
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}


def test_every_test_that_the_page_names_is_there() -> None:
    found = NAMED.findall(PAGE)
    assert len(found) > 50
    for file, name in found:
        there = defined_in(file)
        assert there, file
        assert not name or name in there, f"{file}::{name}"


def test_every_weakness_is_shown_to_be_absent() -> None:
    table = rows("What was wrong, and is not")
    assert [cells[0] for cells in table] == [f"W{number}" for number in range(1, 18)]
    for cells in table:
        assert any(name for _, name in NAMED.findall(cells[-1])), cells[0]


def test_every_test_of_goNELIs_has_one_of_ours() -> None:
    told = [
        name for cells in rows("Its tests, and ours") for name in re.split(r", | \(", cells[0]) if name[0].isalpha()
    ]
    named = [name for name in told if not name.startswith("a fork")]
    assert sorted(named) == sorted(NAMES.split())
    for cells in rows("Its tests, and ours"):
        assert NAMED.search(cells[-1]) or cells[0] == "soak", cells[0]
