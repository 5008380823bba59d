"""The cases on the file ledger: `python -m bench --ledger file`. Its bars are lower than SQLite's."""

from __future__ import annotations

import statistics
from argparse import Namespace
from collections.abc import Callable, Iterator
from typing import Final

from bench import cases as common
from bench.cases import Row, crash, handed_over, spread
from bench.files import appends
from bench.idle import members

PROVEN_MS: Final = 3
BY_SILENCE: Final = 0.75
"""Of a session."""
HANDOVER_MS: Final = 1
IDLE: Final = {(3, 1.0): 0.3, (100, 1.0): 0.5, (10, 10.0): 0.05, (30, 10.0): 0.05, (100, 10.0): 0.05}
"""Percent of a core that an idle member may take, by how many there are and their session."""

Cases = dict[str, Callable[[bool], Iterator[Row]]]


def cases(options: Namespace) -> Cases:
    """What `--ledger file` measures, as its options say. Members begin on files: see `Troupe.begins`."""
    return {
        "takeover": takeovers,
        "handover": handovers,
        "append": written,
        "idle": lambda quick: idle(options.members, options.session, quick),
        "thousand": common.thousand,
        "false": common.false_takeovers,
    }


def takeovers(quick: bool) -> Iterator[Row]:
    rounds = 3 if quick else 30
    yield _within("crash takeover, death proven", crash(1.0, True, rounds), PROVEN_MS, digits=2)
    yield Row(common.KERNEL, spread(common.ended(rounds), digits=2))
    for session in (1.0, 0.3):
        found = crash(session, False, rounds)
        yield _within(f"crash takeover by silence, session {session:g} s", found, BY_SILENCE * session * 1000, digits=0)


def handovers(quick: bool) -> Iterator[Row]:
    found = handed_over(10 if quick else 50)
    yield _within("handover, from hand_over() to the other's belief", found, HANDOVER_MS, digits=2)


def _within(what: str, found: list[float], most: float, digits: int) -> Row:
    return Row(what, spread(found, digits=digits), f"p50 <= {most:g} ms", statistics.median(found) <= most)


def written(quick: bool) -> Iterator[Row]:
    for what, values, target, met in appends.rows(quick):
        yield Row(what, spread(values, "us") if len(values) > 1 else f"{values[0]:,.0f} a second", target, met)


def idle(counts: list[int] | None, sessions: list[float] | None, quick: bool) -> Iterator[Row]:
    """All hold a role of their own; each group on a log of its own."""
    sent: dict[tuple[int, float], float] = {}
    for count, session in members.groups(counts, sessions, quick):
        yield from members.idle(count, session, quick=quick, bars=IDLE, sent=sent)
