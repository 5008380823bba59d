"""A member in a process of its own, for the benchmarks: tells its beliefs on standard output, obeys standard input.

    python -m bench.worker URL NAME SESSION ROLES [noproof | locks=FOLDER]

Lines out: `ready - NS`, `lead ROLE NS TOKEN`, `lost ROLE NS`, `handing ROLE NS`, and the answers in `bench.part`.
Lines in: `hand ROLE [NAME]` hands a role over; `eat FILE` takes memory until the kernel kills it, with the time of its last
sign of life in the file; and the questions in `bench.part`.
"""

from __future__ import annotations

import mmap
import sys
import threading
import time
from pathlib import Path
from typing import Any

from msgspec.structs import replace

import pares
from bench.part import play, tell
from pares.ledger import Capabilities
from pares.runtime.clock import stopwatch


class Blind:
    """A ledger next to which no locks can be put: so nobody's death can be proven, and only silence decides. In all else it is
    the ledger that it wraps: what that declares, members use (stamps, for one, from which silence is counted)."""

    def __init__(self, ledger: Any) -> None:
        self._ledger = ledger

    @property
    def capabilities(self) -> Capabilities:
        return replace(self._ledger.capabilities, scope="process")

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

    def ready() -> None:
        while member.state == "joining":
            time.sleep(0.02)
        tell("ready", "-", stopwatch())

    def hand(role: str, to: str | None = None) -> None:
        tell("handing", role, stopwatch())
        member.hand_over(role, to)

    def eat(path: str) -> None:
        with open(path, "r+b") as file, mmap.mmap(file.fileno(), 8) as sign:
            eaten: list[bytearray] = []
            while True:
                sign[:] = stopwatch().to_bytes(8, "little")
                eaten.append(bytearray(64 * 1024))

    few = len(names) <= 10
    folder = next((word.removeprefix("locks=") for word in sys.argv[5:] if word.startswith("locks=")), None)
    member = pares.Member(ledger, group="bench", roles=names, name=name, session=float(session), lock_folder=folder)
    if few:
        # Not the barrier: that would be part of what a handover is measured to take.
        threading.Thread(target=lambda: [heard(event) for event in member.events()], daemon=True).start()
        # Events are heard from the first look on; a member may lead before that.
        for role in names:
            threading.Thread(target=lambda role=role: first(member.wait(role)), daemon=True).start()
    threading.Thread(target=ready, daemon=True).start()
    play({"holds()": lambda: member.holds(names[0])}, {"hand": hand, "eat": eat})
    member.close()


if __name__ == "__main__":
    main()
