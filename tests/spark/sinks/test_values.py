"""Nested values, as databases take them."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from pares.spark.sinks.values import as_json, is_json, values

MAP = pa.map_(pa.int32(), pa.list_(pa.struct([("a", pa.date32()), ("b", pa.map_(pa.string(), pa.binary()))])))


@pytest.mark.parametrize(
    ("kind", "yes"),
    [
        (pa.int64(), False),
        (pa.list_(pa.int64()), False),
        (pa.list_(pa.list_(pa.string())), False),
        (pa.map_(pa.string(), pa.int64()), True),
        (pa.struct([("a", pa.int64())]), True),
        (pa.large_list(pa.struct([("a", pa.int64())])), True),
        (pa.list_(MAP), True),
    ],
)
def test_what_is_kept_as_json(kind: pa.DataType, yes: bool) -> None:
    assert is_json(kind) is yes


def test_maps_are_objects_at_any_depth() -> None:
    day = date(2026, 11, 23)
    column = pa.array([[(1, [{"a": day, "b": [("x", b"\xff")]}, None])], None], MAP)
    found = values(column)
    assert found == [{"1": [{"a": day, "b": {"x": b"\xff"}}, None]}, None]
    assert json.loads(as_json(found[0])) == {"1": [{"a": "2026-11-23", "b": {"x": "ff"}}, None]}


def test_what_json_does_not_have() -> None:
    given: list[Any] = [datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1), Decimal("1.50")]
    assert json.loads(as_json(given)) == ["2026-01-01 00:00:00+00:00", "2026-01-01 00:00:00", "1.50"]
