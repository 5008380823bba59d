"""The rows of a portion are the same whether beats are put into columns at once or each is a row of its own."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from scribe import story

from pares.core.wire.records import Beat, decode, encode
from pares.ledger import open as open_ledger
from pares.spark.facts.folding import Partition
from pares.spark.histories import portions
from pares.spark.histories.plans import Plan
from pares.spark.histories.portions import Portion, portion
from pares.spark.source.reads import fold_from

pytestmark = pytest.mark.timeless


def _plan(url: str, low: int, high: int, groups: list[str] | None) -> Plan:
    known: dict[str, Any] = dict.fromkeys(Plan.__struct_fields__)
    known |= {
        "root": "",
        "url": url,
        "client": {},
        "log": "a log",
        "partition": 0,
        "batch": 7,
        "low": low,
        "high": high,
    }
    return Plan(**{**known, "groups": groups, "claims_in": 0, "world": "", "error_ms": 0})


def _portions(url: str, low: int, groups: list[str] | None) -> list[Portion]:
    with closing(open_ledger(url)) as log:
        plan = _plan(url, low, log.end(0), groups)
        fold = Partition(None if groups is None else frozenset(groups), 0, 0, claims=True)
        return [portion(plan, *found) for found in fold_from(log, fold, 0, 0, 0, plan.high)]


@pytest.mark.parametrize("groups", [None, ["g"], ["others"]])
@pytest.mark.parametrize("low", [0, 150])
def test_beats_in_columns_are_the_same_rows(
    groups: list[str] | None, low: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = story(5, roles=6, steps=300)
    log.raw(b"\xff no record")
    log.raw(encode(Beat(v=1, g="others", m="z~1", n=4, b=1, s=10)))
    log.raw(b'{"k":"later","v":9,"g":"g","m":"m1~0","n":1,"b":1,"s":0}')
    url = log.save(tmp_path / "log.db")
    quick = _portions(url, low, groups)
    assert any("beat" in found.records.column("kind").to_pylist() for found in quick)
    monkeypatch.setattr(portions, "at_once", lambda *_: None)
    assert quick == _portions(url, low, groups)


def test_a_beat_that_does_not_fit_goes_to_the_quarantine_and_the_others_stay(tmp_path: Path) -> None:
    log = story(5, roles=2, steps=40)
    url = log.save(tmp_path / "log.db")
    with closing(open_ledger(url)) as opened:
        plan, entries = _plan(url, 0, opened.end(0), None), opened.read(0)
    odd = next(at for at, entry in enumerate(entries) if type(decode(entry.payload)) is Beat)
    entries = [entry._replace(timestamp_ms=1 << 70) if at == odd else entry for at, entry in enumerate(entries)]
    found = portion(plan, entries, ())
    assert found.records.num_rows == len(entries) - 1
    (refused,) = found.refused
    assert (refused["table"], refused["offset"]) == ("records", entries[odd].offset)
    assert "ts_ms" in refused["reason"]
