"""Which faults come when: fixed before the first process starts, so that the screen can announce each one.

Whom a fault meets is drawn when it comes, from a seeded die, among the members that lead something then: a fault that meets
nobody's leader shows nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_NAMES: Final = (
    "ann bob cyd dan eve fay gus hal ida jon kim lea max ned oda pam quy rob sue tom una vic wes xia yan zoe"
)
_TICKERS: Final = (
    "AAPL AMZN ASML BHP GOOG IBM INTC KO MSFT NVDA SAP TSLA "
    "AMD BA CAT CSCO CVX DIS GE HD JNJ JPM MCD NKE ORCL PEP PFE PG SHEL SONY T TM UNP V WMT XOM"
)

FREEZE_SECONDS: Final = 2.6
"""Longer than two sessions of the demo, so that a frozen leader has a successor well before it thaws."""
LEAD_IN: Final = 1.5
SESSION: Final = 1.0
OVERLAP: Final = 0.8
"""For `--overlap`: a cut-off leader's lease, a little shorter than its session, and this outlast a takeover."""


@dataclass(frozen=True, slots=True)
class Step:
    at: float
    """Seconds after the members have settled."""
    what: str
    """kill, freeze, thaw, cut, add or drain."""

    @property
    def words(self) -> str:
        return {
            "kill": "kill -9 a leader",
            "freeze": f"freeze a leader (SIGSTOP) for {FREEZE_SECONDS:g} s",
            "thaw": "thaw it (SIGCONT)",
            "cut": f"cut a leader off from the ledger for {FREEZE_SECONDS:g} s",
            "add": "add a member",
            "drain": "drain a leader",
        }[self.what]


EXCLUSIVE: Final = ("kill", "add", "freeze", "kill", "add", "drain", "freeze", "add", "drain")
OVERLAPPING: Final = ("kill", "add", "cut", "kill", "add", "drain", "cut", "add", "drain")
"""Without exclusivity the telling fault is a leader that still works but can't be heard: nobody stops it, and in no tick
may there be nobody."""
CALLING: Final = ("kill", "add", "cut", "kill", "add", "drain", "freeze", "add", "drain")
"""ALLCALL: one that is cut off leads on, and on the other side another does."""


def schedule(seconds: float, *, overlap: bool = False, calling: bool = False) -> list[Step]:
    """The steps of a demo that lasts `seconds`; the shorter it is, the fewer."""
    chosen: list[tuple[str, float]] = []
    end = LEAD_IN
    for kind in CALLING if calling else OVERLAPPING if overlap else EXCLUSIVE:
        takes = FREEZE_SECONDS + 1.2 if kind in ("freeze", "cut") else 1.6
        if end + takes > seconds:
            break
        chosen.append((kind, takes))
        end += takes
    # What is left of the time is shared out, so that there is something to see until the end.
    rest = (seconds - end) / max(1, len(chosen))
    steps: list[Step] = []
    at = LEAD_IN
    for kind, takes in chosen:
        steps.append(Step(round(at, 2), kind))
        if kind == "freeze":
            steps.append(Step(round(at + FREEZE_SECONDS, 2), "thaw"))
        at += takes + rest
    return steps


def tickers(count: int) -> list[str]:
    """`count` instruments; made-up ones when the known ones run out."""
    known = _TICKERS.split()
    return [*known, *(f"FND{n:03d}" for n in range(1, max(0, count - len(known)) + 1))][:count]


def member_name(index: int) -> str:
    """The name of the demo's member number `index`."""
    names = _NAMES.split()
    turn, place = divmod(index, len(names))
    return names[place] if turn == 0 else f"{names[place]}{turn + 1}"


def member_index(name: str) -> int:
    """The number of the demo's member `name`; 0 for a stranger."""
    letters = name.rstrip("0123456789")
    names = _NAMES.split()
    return names.index(letters) if letters in names else 0
