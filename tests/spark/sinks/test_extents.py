"""What may follow what: a pure function of two values."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pares.core.errors import ParesError
from pares.spark.sinks.extents import (
    Extent,
    NotContiguous,
    OffsetExtent,
    Published,
    StreamExtent,
    decoded,
    encoded,
    follows,
)


def after(extent: Extent, last: Extent) -> str:
    try:
        return "published" if follows(extent, Published(0, 1, last, 1, 0)) else "dropped"
    except NotContiguous:
        return "refused"


LAST = StreamExtent("q", 7, "70", "80")


@pytest.mark.parametrize(
    ("extent", "what"),
    [
        (StreamExtent("q", 8, "80", "90"), "published"),
        (StreamExtent("q", 7, "70", "80"), "dropped"),
        (StreamExtent("q", 7, "70", "85"), "refused"),  # the same number, another end: a checkpoint from a backup
        (StreamExtent("q", 9, "90", "95"), "refused"),  # a hole
        (StreamExtent("q", 6, "60", "70"), "refused"),
        (StreamExtent("q", 7, "80", "90"), "refused"),
        (StreamExtent("new", 0, None, "80"), "refused"),  # a checkpoint that was lost: nobody can say where it begins
        (StreamExtent("new", 3, "80", "90"), "published"),  # its borders prove that it goes on
        (OffsetExtent(80, 90), "refused"),
    ],
)
def test_a_stream(extent: Extent, what: str) -> None:
    assert after(extent, LAST) == what


@pytest.mark.parametrize(
    ("extent", "what"),
    [
        (OffsetExtent(10, 20), "published"),
        (OffsetExtent(15, 20), "published"),  # what lies between is gone by retention, or was never there
        (OffsetExtent(0, 10), "dropped"),
        (OffsetExtent(2, 5), "dropped"),
        (OffsetExtent(5, 15), "refused"),
        (LAST, "refused"),
    ],
)
def test_offsets(extent: Extent, what: str) -> None:
    assert after(extent, OffsetExtent(0, 10)) == what


def test_a_sink_that_is_empty_begins_with_whatever_comes() -> None:
    assert follows(StreamExtent("q", 5, "50", "60"), None)


@given(st.lists(st.integers(0, 30), min_size=2, max_size=20))
def test_whatever_ranges_come_no_offset_is_published_twice(borders: list[int]) -> None:
    last, published = None, list[int]()
    for first, upto in pairwise(borders):
        extent = OffsetExtent(min(first, upto), max(first, upto))
        try:
            if extent.first < extent.next and follows(extent, last):
                published += range(extent.first, extent.next)
                last = Published(0, 1, extent, 0, 0)
        except NotContiguous:
            continue
    assert published == sorted(set(published))


@pytest.mark.parametrize("extent", [LAST, OffsetExtent(3, 4), StreamExtent("q", 0, None, '{"a":1}\n{"b":2}')])
def test_an_extent_is_kept_as_text(extent: Extent) -> None:
    assert decoded(encoded(extent)) == extent


def test_what_no_sink_has_written_is_named() -> None:
    with pytest.raises(ParesError, match="is no extent"):
        decoded('{"type":"other"}')
