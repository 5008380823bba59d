"""What members say when a term ends, and what the audit makes of it: the same words on both sides."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from pares.core.reasons import BARRIER_TIMED_OUT, BEHIND, LEFT, LOST, REASONS, REVOKED, STUCK
from pares.core.wire.records import BadRecord, Did, Release, Transfer, decode
from pares.sim.log import SimLog
from pares.sim.members.plan import draw
from pares.sim.members.play import play
from pares.spark.intervals import CAUSES

SEEDS = 24
SLOW = 6


def test_the_audit_has_a_word_for_each_reason() -> None:
    assert set(CAUSES) == REASONS | {LOST, REVOKED}, "the latter two are of the protocols over shared-out partitions"


def test_members_give_no_other_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    """In simulated worlds with every fault there is: each word that the table has is met, and no other one."""
    said, appended = set[str](), SimLog.append

    def append(log: SimLog, payloads: Iterable[bytes], now: int, **how: Any) -> int:
        payloads = list(payloads)
        said.update(why for why in map(_why, payloads) if why)
        return appended(log, payloads, now, **how)

    monkeypatch.setattr(SimLog, "append", append)
    for seed in range(SEEDS):
        assert not play(draw(seed)).broken
    for seed in range(SLOW):  # few seeds draw a member that is too slow to lead for its whole life
        plan = draw(seed, {"slow": (1.5, *[0.0] * 4), "faults": {}})
        assert not play(replace(plan, calm=plan.calm + 8)).broken
    late = {"barrier": 8.0, "barrier_timeout": 0.05, "faults": {}}
    asked = {"acts": {"move": 1.0}, "admin": True, "faults": {}}  # by an administrator, of another than the holder
    for bias in (late, asked):
        assert not play(draw(0, bias)).broken
    assert said <= REASONS
    # Said after the member's last record; rare; and by consumers.
    assert REASONS - said <= {LEFT, BARRIER_TIMED_OUT, BEHIND, STUCK}


def _why(payload: bytes) -> str:
    try:
        record = decode(payload)
    except BadRecord:
        return ""
    if isinstance(record, Did) and record.what == "stop":
        return "" if " by " in record.why else record.why  # who took it is no reason of the holder's own
    return record.why if isinstance(record, Release | Transfer) else ""
