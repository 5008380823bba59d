"""One process of a crowd (`bench.hosts.crowd`): some members of one group, on one ledger, as a program would have them.

    python -m bench.hosts.players URL SESSION ROLES FIRST COUNT NAME

Lines out: `ready - NS`, then for each member as in `bench.worker`, with the member's name behind the time; in the end
`ended - RESTARTS ERRORS`. Lines in: `begin` makes the members, `end` asks how it went; and the questions in `bench.part`.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Iterator
from typing import Final

import pares
from bench.hosts.starts import Heard
from bench.part import play, tell
from pares.runtime.clock import stopwatch

NAMED: Final = 5_000
"""More roles than that a join does not name: it has 64 KiB."""
BEHIND: Final = 10
"""How nice members are to a service on the same machine: it would have one of its own. [a broker that a thousand threads keep
from running is taken for dead by its own cluster, and leads nothing]"""
WORDS: Final[dict[type, str]] = {pares.Acquired: "lead", pares.Revoked: "handing", pares.Fenced: "lost"}


def members(url: str, session: float, roles: int, numbers: range, name: str) -> Iterator[pares.Member]:
    """One after the other, all of them on one ledger, which is opened once."""
    ledger = pares.open(url)
    names = [f"r{number}" for number in range(roles)]
    eligible = None if roles <= NAMED else "*"
    for number in numbers:
        yield pares.Member(
            ledger, group="crowd", name=f"{name}.{number}", roles=names, session=session, eligible=eligible
        )


def listen(member: pares.Member) -> None:
    events, known = member.events(), set[int]()
    for role in member.health().leads:  # what it led before it was listened to
        term = member.term(role)
        if term is not None:
            known.add(term.token)
            tell("lead", role, stopwatch(), member.name)
    for event in events:
        if isinstance(event, pares.Acquired | pares.Revoked | pares.Fenced):
            word = WORDS[type(event)]
            if word != "lead" or event.token not in known:
                tell(word, event.role, stopwatch(), member.name)


def main() -> None:
    url, session, roles, first, count, name = sys.argv[1:7]
    if pares.ledger.parse(url).host:
        os.nice(BEHIND)
    heard = Heard()
    logging.getLogger("pares").addHandler(heard)
    made: list[pares.Member] = []

    def begin() -> None:
        numbers = range(int(first), int(first) + int(count))
        for member in members(url, float(session), int(roles), numbers, name):
            made.append(member)
            threading.Thread(target=listen, args=(member,), daemon=True).start()

    def end() -> None:
        tell("ended", "-", sum(member.health().restarts for member in made), len(heard.errors))

    tell("ready", "-", stopwatch())
    play({}, {"begin": begin, "end": end})


if __name__ == "__main__":
    main()
