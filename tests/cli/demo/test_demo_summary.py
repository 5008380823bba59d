"""The demo's last screen: what it says is what there is, brackets included."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from demo_tools import PLAYED
from pares.core.errors import LedgerUnavailable
from pares.core.reasons import SUPERSEDED
from pares.core.wire.records import Seat
from pares.demo.quotes import Count
from pares.demo.stage import Outcome
from pares.demo.summary import Summary, show, takeovers
from pares.demo.worker import Unplugged
from pares.ledger import open as open_ledger
from pares.view import Move


def shown(summary: Summary, *, overlap: bool = False) -> str:
    out = io.StringIO()
    show(Console(file=out, width=120), summary, overlap=overlap)
    return out.getvalue()


def test_what_to_install_keeps_its_extra() -> None:
    assert "pip install 'pares[spark]'" in shown(replace(PLAYED, why_no_audit="no pandas: pip install 'pares[spark]'"))


def test_a_ledger_with_brackets_in_its_name_can_be_copied() -> None:
    assert "--ledger 'sqlite:///a[b].db' --group demo" in shown(replace(PLAYED, kept=True, ledger="sqlite:///a[b].db"))


def test_whoever_sees_gaps_is_told_of_the_other_mode() -> None:
    assert "pares demo --overlap" in shown(PLAYED)
    assert "pares demo --overlap" not in shown(replace(PLAYED, missing=0))
    assert "pares demo --overlap" not in shown(PLAYED, overlap=True)


A, B = ("AAPL", 0), ("MSFT", 0)


def played(
    moves: list[Move], faults: list[tuple[int, str, str]], times: dict[tuple[Seat, int], tuple[int, int]]
) -> Outcome:
    """What was seen of `moves`; `times`: by seat and token, when that term's belief began and ended."""
    believed = {term: began for term, (began, _) in times.items()}
    stopped = {term: ended for term, (_, ended) in times.items()}
    nothing = Count(0, 0, 0, 0, 0, 0)
    return Outcome("sqlite:///a.db", "g", True, Path("q.db"), moves, faults, nothing, believed, stopped, 0, 9)


def moved(seat: Seat, before: str | None, to: str, token: int, cause: str, why: str = "") -> Move:
    return Move(token, 0, seat, before, to, token, cause, why, 0)


def test_partitions_that_gave_out_the_same_token_are_told_apart() -> None:
    moves = [moved(A, None, "x~1", 5, "first"), moved(B, None, "x~1", 5, "first")]
    moves += [moved(A, "x~1", "y~1", 6, "released", "revoked"), moved(B, "x~1", "y~1", 6, "released", "revoked")]
    times = {(A, 5): (0, 100), (B, 5): (0, 7000), (A, 6): (140, 9000), (B, 6): (7060, 9000)}
    assert takeovers(played(moves, [], times)) == {"balance": {"count": 2, "p50_ms": 50, "max_ms": 60}}


def test_what_the_group_of_nele_gave_to_another_is_told_by_what_was_done() -> None:
    """There nobody is asked to hand over: killed, drained or neither, the log says the same of all."""
    seats: list[Seat] = [(name, 0) for name in ("killed", "drained", "cut off", "nothing")]
    moves = [moved(seat, None, f"{seat[0]}~1", 5, "first") for seat in seats]
    moves += [moved(seat, f"{seat[0]}~1", "y~1", 6, "handover", SUPERSEDED) for seat in seats]
    faults = [(90, name, name) for name in ("killed", "drained", "cut off")]
    times = {(seat, 5): (0, 130) for seat in seats} | {(seat, 6): (120, 900) for seat in seats}
    found = takeovers(played(moves, faults, times))
    assert {cause: (ms["count"], ms["max_ms"]) for cause, ms in found.items()} == {
        "crash": (1, 30),
        "drain": (1, 30),
        "balance": (2, 0),
    }
    assert {move.reason() for move in moves[4:]} == {"the group gave it to y"}


def test_a_member_that_is_cut_off_reaches_its_ledger_by_no_way(tmp_path: Path) -> None:
    """Also not by what only some ledgers have: members of NELI append to several partitions at once."""
    ledger = open_ledger(f"sqlite:///{tmp_path}/log.db?partitions=2")
    member: Any = Unplugged(ledger, tmp_path)
    ways: dict[str, tuple[Any, ...]] = {
        "append": (b"x",),
        "append_many": ([b"x"],),
        "append_each": ([(0, b"x"), (1, b"x")],),
        "changed": ([0, 0],),
        "read": (0,),
        "read_stamped": (0,),
        "has": (0, b"x"),
        "start": (),
        "end": (),
        "identity": (),
        "checks": (),
        "trim": (0,),
    }
    public = {name for name in dir(ledger) if not name.startswith("_") and callable(getattr(ledger, name))}
    assert public - ways.keys() == {"bell", "close", "has_topic", "topic"}, "these reach no log, or no member asks"
    for way, given in ways.items():
        getattr(member, way)(*given)
    member.pull(600)
    for way, given in ways.items():
        with pytest.raises(LedgerUnavailable):
            getattr(member, way)(*given)
    ledger.close()
