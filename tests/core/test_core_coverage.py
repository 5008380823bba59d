"""Each of the rules R1 to R20 has a test that names it, and nearly each a scenario."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
RULES = ["r1", "r2", "r3", "r3a", *(f"r{n}" for n in range(4, 21))]
NAMES = [
    name
    for path in HERE.rglob("test_core_*.py")
    for name in re.findall(r"^def test_((?:r\d+a?_)+)", path.read_text(), flags=re.MULTILINE)
]
COMMENTS = "\n".join(
    line for path in (HERE / "golden").glob("*.txt") for line in path.read_text().splitlines() if line.startswith("#")
)


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_is_named_by_a_test(rule: str) -> None:
    assert any(rule in name.split("_") for name in NAMES)


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "r1"])
def test_each_rule_is_named_by_a_scenario(rule: str) -> None:
    assert re.search(rf"\b{rule.upper().replace('A', 'a')}\b", COMMENTS)
