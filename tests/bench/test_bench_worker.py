"""The process that benchmarks start: where only silence is to decide, nothing else does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench.ordinary_real import Slow
from bench.worker import Blind
from msgspec.structs import replace

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


@pytest.mark.parametrize("url", ["file://{}/log", "sqlite:///{}/log.db"])
@pytest.mark.parametrize("blind", [Blind, Slow])
def test_a_blind_ledger_declares_all_else_that_its_ledger_does(tmp_path: Path, url: str, blind: type[Blind]) -> None:
    seen = pares.open(url.format(tmp_path))
    assert seen.capabilities.stamps
    assert blind(seen).capabilities == replace(seen.capabilities, scope="process")
    seen.close()


@pytest.mark.parametrize("url", ["file://{}/log", "sqlite:///{}/log.db"])
def test_members_on_a_blind_ledger_read_stamps(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence counts from the stamp, not from the reading: takeover by silence is measured as members have it."""
    ledger: Any = pares.open(url.format(tmp_path))
    stamped, plain = ledger.read_stamped, ledger.read
    counts: Counter[str] = Counter()

    def counting(name: str, action: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            counts[name] += 1
            return action(*arguments, **options)

        return counted

    monkeypatch.setattr(ledger, "read_stamped", counting("stamped", stamped))
    monkeypatch.setattr(ledger, "read", counting("plain", plain))
    blind: Any = Blind(ledger)
    with pares.Member(blind, group="g", roles=["A"], session=5.0) as member:
        assert member.wait("A", 30)
    assert counts["stamped"] > 0
    ledger.close()
