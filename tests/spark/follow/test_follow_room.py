"""A follower whose checkpoint has no room: it says so, and the lines that were whole are read on the next start."""

from __future__ import annotations

from pathlib import Path

import pytest
from full_disk import files_of_at_most

from pares.core.errors import CapabilityError
from pares.spark.follow.checkpoint import Checkpoint, Line

pytestmark = pytest.mark.timeless


def _line(number: int) -> Line:
    return Line(arrived=number, to=["webhook:" + "x" * 40])


def test_with_no_room_it_says_what_to_do_and_keeps_what_was_told(tmp_path: Path) -> None:
    with Checkpoint(tmp_path) as kept:
        kept.note([_line(1), _line(2)])
        more = [_line(number) for number in range(3, 9)]
        says = r"no room left at .*: make some, and start the follower again"
        with files_of_at_most(200), pytest.raises(CapabilityError, match=says):
            kept.note(more)
    told = (tmp_path / "told-00000000").read_bytes()
    assert len(told) == 200
    assert not told.endswith(b"\n"), "a part of a line is there"
    with Checkpoint(tmp_path) as kept:
        before = kept.lines()
        assert [line.arrived for line in before] == list(range(1, 1 + len(before)))
        assert len(before) >= 2
        kept.note([_line(77)])
        assert [line.arrived for line in kept.lines()] == [*range(1, 1 + len(before)), 77]


def test_a_line_that_a_kill_has_torn_spoils_none_behind_it(tmp_path: Path) -> None:
    with Checkpoint(tmp_path) as kept:
        kept.note([_line(1)])
    with (tmp_path / "told-00000000").open("ab") as file:
        file.write(b'{"number":')
    with Checkpoint(tmp_path) as kept:
        kept.note([_line(2)])
        kept.note([_line(3)])
        assert [line.arrived for line in kept.lines()] == [1, 2, 3]
