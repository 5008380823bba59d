"""What comments and pages refer to is in the tree: rules, promises, files, headings."""

from __future__ import annotations

from pathlib import Path

import pytest
from doc_pages import ROOT, anchors
from reference_pages import ELSEWHERE, FILE, MODULE, PROMISE, RULE, files, is_in_a_module, names, promises, rules, said

OF_OTHERS = {
    "README.md": {"work.py"},
    "docs/guide.md": {"management/commands/poll_outbox.py", "pricing.py"},
    "docs/security.md": {"kafka-topics.sh"},
    "examples/shop_django/management/commands/send_letters.py": {"manage.py"},
    "src/pares/runtime/config/environment.py": {"pricing.py"},
    "tests/house/__init__.py": {"kafka/kafka_tail.py"},
    "tests/house/checks.py": {"ledger/kafka/tail.py"},
}
"""Files of a user's, and of other projects, in examples."""
HERE = Path(__file__).resolve()
TEXTS = {path: said(path, text) for path, text in files().items() if path != HERE and path.name != "reference_pages.py"}


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_the_rules_are_all_there() -> None:
    assert rules() >= {
        *(f"R{n}" for n in range(1, 24)),
        "R3a",
        "R4c",
        *(f"H{n}" for n in range(1, 19)),
        "A1",
        "A2",
        "A3",
    }
    assert rules() >= {*(f"W{n}" for n in range(1, 18)), *(f"N{n}" for n in range(1, 11))}
    assert promises() >= set("12345")


def test_every_rule_that_is_referred_to_is_explained() -> None:
    found = [(name(path), rule) for path, text in TEXTS.items() for rule in RULE.findall(text)]
    assert len(found) > 800
    assert [each for each in found if each[1] not in rules()] == [], (
        "no such rule in docs/design.md (W: docs/from-goneli.md)"
    )


def test_every_promise_that_is_referred_to_is_made() -> None:
    found = [(name(path), number) for path, text in TEXTS.items() for pair in PROMISE.findall(text) for number in pair]
    assert len(found) > 10
    assert [each for each in found if each[1] and each[1] not in promises()] == [], (
        "no such promise in docs/guarantees.md"
    )


def test_nothing_refers_to_a_text_that_is_not_in_the_tree() -> None:
    assert [(name(path), text) for path, said in TEXTS.items() for text in ELSEWHERE.findall(said)] == []


def test_every_file_and_heading_that_is_referred_to_is_there() -> None:
    wrong: list[str] = []
    count = 0
    for path, text in TEXTS.items():
        for file, heading in FILE.findall(text):
            count += 1
            if file in OF_OTHERS.get(name(path), set()):
                continue
            if file not in names():
                wrong.append(f"{name(path)}: {file} is not there")
            elif heading:
                target = next(found for found in (path.parent / file, ROOT / file) if found.exists())
                if heading not in anchors(target):
                    wrong.append(f"{name(path)}: {file} has no heading #{heading}")
    assert count > 300
    assert wrong == []


def test_every_module_that_is_referred_to_is_there() -> None:
    found = [(name(path), module) for path, text in TEXTS.items() for module in MODULE.findall(text)]
    assert len(found) > 20
    assert [each for each in found if not is_in_a_module(each[1])] == []


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("core.lease", True),
        ("core.lease.NOTHING", False),
        ("core.wire.fold.fold", True),
        ("core.living", False),
        ("nope.x", False),
    ],
)
def test_what_is_a_module(path: str, there: bool) -> None:
    assert is_in_a_module(path) is there


def test_files_of_others_are_still_named_where_the_list_says() -> None:
    for path, given in OF_OTHERS.items():
        assert given <= {file for file, _ in FILE.findall(TEXTS[ROOT / path])}, path


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("holds (R7, R3a)", ["R7", "R3a"]),
        ("H1 to H18", ["H1", "H18"]),
        ("`R1` A1.2 x.R3 R2D2 R4-1", []),
        ("R20: x", ["R20"]),
    ],
)
def test_what_is_a_reference_to_a_rule(text: str, found: list[str]) -> None:
    assert RULE.findall(text) == found


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("as facts/kernel.md says", True),
        ("(design, section 5)", True),
        ("(K2)", True),
        ("see S10.", True),
        ("S602, S604", False),
    ],
)
def test_what_refers_out_of_the_tree(text: str, wrong: bool) -> None:
    assert bool(ELSEWHERE.search(text)) is wrong


def test_code_is_read_by_what_it_says_to_people() -> None:
    text = '"""Of R1."""\nR2 = 3  # by R3\n"""Then\nR4."""\n'
    assert RULE.findall(said(Path("x.py"), text)) == ["R1", "R3", "R4"]
