"""The process that benchmarks start: where only silence is to decide, nothing else does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bench.ordinary_real import Slow
from bench.worker import Blind

import pares
from pares.core.wire.records import Join, decode


def joined_with_a_lock(ledger: Any) -> bool:
    with pares.Member(ledger, group="g", roles=["A"], session=5.0) as member:
        assert member.wait("A", 30)
        records = [decode(entry.payload) for entry in ledger.read(0, 0)]
    return any(record.lock is not None for record in records if isinstance(record, Join))


@pytest.mark.parametrize("blind", [Blind, Slow])
def test_beside_a_blind_ledger_nobody_can_be_proven_dead(tmp_path: Path, blind: type[Blind]) -> None:
    assert joined_with_a_lock(pares.open(f"sqlite:///{tmp_path}/seen.db"))
    assert not joined_with_a_lock(blind(pares.open(f"sqlite:///{tmp_path}/unseen.db")))
