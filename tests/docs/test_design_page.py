"""docs/design.md is the one text that code refers to: each rule stands there once, and has code that follows it."""

from __future__ import annotations

import re

import pytest
from doc_pages import ROOT

PAGE = ROOT / "docs" / "design.md"
SOURCE = "\n".join(path.read_text() for path in sorted((ROOT / "src").rglob("*.py")))
FAMILIES = {"A": 3, "R": 23, "C": 12, "N": 10, "H": 18}
"""How many rules each letter has."""
CITED = re.compile(r"\b([RHACN]\d{1,2})(?:[a-c]?)\b")


def stated(text: str) -> list[str]:
    """The rules that a text states, in the order in which they stand: headings, bold beginnings of an item, rows of a table."""
    return re.findall(r"^(?:### |- \*\*|\| )([RHACN]\d{1,2})\b", text, re.MULTILINE)


@pytest.mark.parametrize("letter", FAMILIES)
def test_each_rule_is_stated_once_and_in_order(letter: str) -> None:
    of_letter = [rule for rule in stated(PAGE.read_text()) if rule[0] == letter]
    assert of_letter == [f"{letter}{number}" for number in range(1, FAMILIES[letter] + 1)]


def test_the_code_refers_to_each_rule_and_to_no_other() -> None:
    cited = {match[1] for match in CITED.finditer(SOURCE)}
    assert set(stated(PAGE.read_text())) <= cited, "no code follows a rule of the page: say there that it is not built"
    assert cited <= set(stated(PAGE.read_text())), "the code refers to a rule that the page does not state"


def test_the_check_sees_a_rule_that_is_missing_or_doubled() -> None:
    assert stated("### R1 Order\n\n### R3a Hands\n- **N2 Wait.** So.\n| H3 | hole | rule |\nR4 says\n") == [
        "R1",
        "N2",
        "H3",
    ]
