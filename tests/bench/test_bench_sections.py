"""Rows of a run among those of earlier ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.cases import Row
from bench.sections import STOPPED, Section, group, merged, or_why, section, table

from pares.core.errors import LedgerUnavailable


def rows(*whats: str, figures: str = "1 s") -> str:
    return table([Row(what, figures) for what in whats])


def shown(text: str) -> list[str]:
    """First and second cell of each row."""
    lines = [line.split("|") for line in text.splitlines() if line.startswith("|")]
    return [f"{cells[1].strip()} {cells[2].strip()}" for cells in lines[2:]]


def test_rows_that_were_not_measured_stay_where_they_are() -> None:
    found = merged(f"An old machine:\n\n{rows('a', 'b', 'c')}", f"A machine:\n\n{rows('b', 'd', figures='2 s')}")
    assert found.startswith("A machine:\n\n| what |")
    assert shown(found) == ["a 1 s", "b 2 s", "c 1 s", "d 2 s"]


def test_a_place_without_a_table_takes_all() -> None:
    now = f"A machine:\n\n{rows('a', 'b')}"
    assert merged("Not measured yet.", now) == merged("", now) == now


def test_a_group_that_is_measured_anew_keeps_none_of_its_old_rows() -> None:
    before = rows("100 members: led", "100 members: memory", "10 members: led")
    now = rows("100 members: led", figures="2 s")
    assert shown(merged(before, now, group)) == ["100 members: led 2 s", "10 members: led 1 s"]
    assert shown(merged(before, now)) == ["100 members: led 2 s", "100 members: memory 1 s", "10 members: led 1 s"]


def test_a_case_that_was_measured_is_no_longer_said_to_have_stopped() -> None:
    before = table([Row(f"idle: {STOPPED}", "1 s"), Row(f"crowd: {STOPPED}", "1 s")])
    assert shown(merged(before, rows("a", figures="2 s"), ran=["idle"])) == [f"crowd: {STOPPED} 1 s", "a 2 s"]


def test_a_section_is_written_between_its_marks(tmp_path: Path) -> None:
    of, page = section("of a test"), tmp_path / "page.md"
    page.write_text(f"before\n{of.begin}\nNot measured yet.\n{of.end}\nafter\n")
    of.write(page, [Row("a", "1 s", "<= 2 s", True)])
    of.write(page, [Row("b", "1 s", "<= 0 s", False)])
    text = page.read_text()
    assert text.startswith(f"before\n{of.begin}\n")
    assert text.endswith(f"| a | 1 s | <= 2 s | yes |\n| b | 1 s | <= 0 s | **no** |\n{of.end}\nafter\n")
    with pytest.raises(ValueError, match="once each"):
        Section().write(page, [Row("a", "1 s")])


@pytest.mark.parametrize("error", [TimeoutError("too late"), LedgerUnavailable("gone")])
def test_a_case_that_comes_to_nothing_is_a_row(error: Exception) -> None:
    def case() -> Iterator[Row]:
        yield Row("a", "1 s")
        raise error

    assert list(or_why("idle", case())) == [Row("a", "1 s"), Row(f"idle: {STOPPED}", str(error), "no error", met=False)]
