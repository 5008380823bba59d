"""What was measured, kept as JSON: a run takes a while, and a better table should not need another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.peers.contenders import CONTENDERS
from bench.peers.measure import Result, Yes


class _Kept(msgspec.Struct):
    key: str
    crash: list[float]
    handover: list[float]
    yes: dict[str, list[Yes]]
    sent: float | None
    records: float | None
    cpu: list[float]


class _Run(msgspec.Struct):
    where: str
    results: list[_Kept]
    missing: list[tuple[str, str]]


def save(file: Path, where: str, results: Sequence[Result], missing: Sequence[tuple[str, str]]) -> None:
    """`where`: on what machine, with what versions."""
    kept = [_Kept(r.contender.key, r.crash, r.handover, r.yes, r.sent, r.records, r.cpu) for r in results]
    file.write_bytes(msgspec.json.format(msgspec.json.encode(_Run(where, kept, list(missing)))) + b"\n")


def load(file: Path) -> tuple[str, list[Result], list[tuple[str, str]]]:
    """Raises `msgspec.ValidationError` for what `save` has not written, `KeyError` for a contender that is no more."""
    run = msgspec.json.decode(file.read_bytes(), type=_Run)
    results = [Result(CONTENDERS[k.key], k.crash, k.handover, k.yes, k.sent, k.records, k.cpu) for k in run.results]
    return run.where, results, run.missing
