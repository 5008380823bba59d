"""Of many groups each row is looked at once, whatever their number."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from pares.spark.result import Share, Whole
from pares.spark.sums import of_sums


class Counted:
    """A table that counts what is asked of it."""

    def __init__(self, table: pa.Table, tally: dict[str, int]) -> None:
        self._table, self._tally = table, tally
        self.column_names = table.column_names

    def column(self, name: str) -> Any:
        self._tally["passes"] += 1
        return self._table.column(name)

    def drop_columns(self, names: list[str]) -> Counted:
        return Counted(self._table.drop_columns(names), self._tally)

    def take(self, places: Any) -> pa.Table:
        self._tally["rows"] += len(places)
        return self._table.take(places)


@pytest.mark.parametrize("groups", [10, 1000])
def test_a_table_is_gone_through_once(groups: int) -> None:
    tally = {"passes": 0, "rows": 0}
    rows = [{"g": f"g{n % groups}", "n": n} for n in range(3 * groups)]
    share = Share(Counted(pa.Table.from_pylist(rows), tally))  # type: ignore[arg-type]
    for number in range(groups):
        assert share.of(f"g{number}").column("n").to_pylist() == [number, number + groups, number + 2 * groups]
    assert tally == {"passes": 1, "rows": len(rows)}


def test_what_is_of_no_group_is_every_groups() -> None:
    table = pa.table({"g": ["a", None, "b", "a"], "n": [1, 2, 3, 4]})
    share = Share(table)
    assert share.of("a").to_pydict() == {"n": [1, 2, 4]}
    assert share.of("b").to_pydict() == {"n": [2, 3]}
    assert share.of("c").to_pydict() == {"n": [2]}
    bare = pa.table({"n": [1]})
    assert Share(bare).of("a") is bare
    nobodys = Share(pa.table({"g": pa.array([None, None], pa.string()), "n": [1, 2]}))
    assert nobodys.of("a") is nobodys.of("b")


class Asked(dict[Any, Any]):
    """Rows by group that may be asked for by name, and not be gone through."""

    def __iter__(self) -> Any:
        raise AssertionError("all groups are gone through for one")

    keys = items = values = __iter__  # type: ignore[assignment]


def test_the_sums_of_one_group_are_found_without_a_look_at_the_others() -> None:
    sums: dict[str, Any] = {"gaps": Asked({f"g{n}": [n] for n in range(1000)} | {None: [-1]})}
    assert of_sums(sums, "g7") == {"gaps": [7, -1]}
    assert of_sums(sums, "nobody") == {"gaps": [-1]}


class Frame:
    columns = ("g", "n")

    def __init__(self) -> None:
        self.asked: list[str] = []

    def where(self, condition: str) -> Frame:
        self.asked.append(condition)
        return self

    def drop(self, name: str) -> Frame:
        return self


def test_frames_of_a_group_are_made_when_they_are_asked_for() -> None:
    frame = Frame()
    parts = [Whole({"terms": frame}, f"it's {n}") for n in range(1000)]  # type: ignore[dict-item]
    assert all("terms" in part and list(part) == ["terms"] and len(part) == 1 for part in parts)
    assert frame.asked == []
    assert parts[3]["terms"] is frame
    assert frame.asked == ["g IS NULL OR g = 'it\\'s 3'"]
