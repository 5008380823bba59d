"""The public names of `pares.spark` are as recorded; see tests/oracles."""

from __future__ import annotations

from tests.oracles.records import NEED_SPARK, difference


def test_what_was_recorded_is_what_is_found() -> None:
    (name,) = NEED_SPARK
    said = difference(name)
    assert not said, f"if that is meant, run `python -m tests.oracles --record {name}`, and review the diff:\n{said}"
