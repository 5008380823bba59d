"""A member in a process of its own, for the benchmarks: tells its beliefs on standard output, obeys standard input.

    python -m bench.worker URL NAME SESSION ROLES [noproof]

Lines out: `lead ROLE NS TOKEN`, `lost ROLE NS`, `cpu SECONDS`; NS is the stopwatch, which all processes of a host share.
Lines in: `hand ROLE NAME` hands a role over, `cpu` asks for the processor time used so far, the end of the input ends it.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import Any

import pares
from pares.runtime.clock import stopwatch

_told = threading.Lock()


def tell(*words: object) -> None:
    with _told:
        sys.stdout.write(" ".join(map(str, words)) + "\n")
        sys.stdout.flush()


class Blind:
    """A ledger next to which no locks can be put: so nobody's death can be proven, and only silence decides."""

    kind = "memory"

    def __init__(self, ledger: Any) -> None:
        self._ledger = ledger

    @property
    def place(self) -> Path | None:
        return None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)


def main() -> None:
    url, name, session, roles = sys.argv[1:5]
    names = [f"r{i}" for i in range(int(roles))] if roles.isdigit() else roles.split(",")
    ledger: Any = pares.open(url)
    if "noproof" in sys.argv[5:]:
        ledger = Blind(ledger)

    told: set[int] = set()
    telling = threading.Lock()

    def lead(role: str, now: int, token: int) -> None:
        with telling:
            if token not in told:
                told.add(token)
                tell("lead", role, now, token)

    def first(term: pares.Term | None) -> None:
        if term is not None:
            lead(term.role, stopwatch(), term.token)

    def heard(event: pares.Event) -> None:
        now = stopwatch()
        if isinstance(event, pares.Acquired):
            lead(event.role, now, event.token)
        elif isinstance(event, pares.Revoked | pares.Fenced):
            tell("lost", event.role, now)

    few = len(names) <= 10
    member = pares.Member(ledger, group="bench", roles=names, name=name, session=float(session))
    if few:
        # Not the barrier: that would be part of what a handover is measured to take.
        threading.Thread(target=lambda: [heard(event) for event in member.events()], daemon=True).start()
        # Events are heard from the first look on; a member may lead before that.
        for role in names:
            threading.Thread(target=lambda role=role: first(member.wait(role)), daemon=True).start()
    for line in sys.stdin:
        words = line.split()
        if words[0] == "hand":
            tell("handing", words[1], stopwatch())
            member.hand_over(words[1], words[2])
        elif words[0] == "cpu":
            tell("cpu", time.process_time())
    member.close()


if __name__ == "__main__":
    main()
