"""A large group with many roles: when all are led, whether they stay so, and what the death of half of it costs.

    python -m bench.hosts.crowd --members 100 --roles 1000 [--processes 100] [--session 1] [--minutes 10] [--ledger kafka]

Interpreters are started first and members when all of those are ready, so that it is the group that is measured. What each
member believes is told by itself, as it happens, with the time of the stopwatch that all of them share; of a process that was
killed what it had told until then.
"""

from __future__ import annotations

import argparse
import logging
import queue
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Final, NamedTuple

import pares
from bench.cases import Row, spread
from bench.hosts.starts import Heard
from bench.part import play, tell
from bench.processes import Player, Troupe
from pares.runtime.clock import stopwatch

SETTLING: Final = 10.0
"""Seconds within which all is to be led."""
PATIENCE: Final = 120.0
WORDS: Final[dict[type, str]] = {pares.Acquired: "lead", pares.Revoked: "handing", pares.Fenced: "lost"}
STILL: Final = 3.0
"""Sessions without any change, after which a group counts as settled."""


class Told(NamedTuple):
    """One line of a player."""

    player: str
    word: str
    role: str
    at: int
    member: str


class Crowd:
    """What its players have told so far. `led`: the member that believes that it leads each role, as it said itself."""

    def __init__(self, troupe: Troupe) -> None:
        self._lines = troupe.lines
        self.led: dict[str, str] = {}
        self.lost = 0
        """Terms whose lease ran out, or that others took: not by plan."""
        self.terms = 0

    def next(self, timeout: float) -> Told | None:
        """What is told next; None if nothing is for so many seconds."""
        try:
            player, word, role, at, *rest = self._lines.get(timeout=timeout)
        except queue.Empty:
            return None
        told = Told(player, word, role, int(at), rest[0] if rest else "")
        if word == "lead":
            self.terms += 1
            self.led[role] = told.member
        elif word in ("handing", "lost") and self.led.get(role) == told.member:
            del self.led[role]
        self.lost += word == "lost"
        return told

    def until(self, roles: int, since: int) -> float:
        """Seconds from `since` until all of so many are led."""
        end, last = time.monotonic() + PATIENCE, since
        while len(self.led) < roles:
            told = self.next(1.0)
            last = last if told is None else told.at
            if time.monotonic() > end:
                raise TimeoutError(f"{len(self.led)} of {roles} roles are led after {PATIENCE:g} s")
        return (last - since) / 1e9

    def still(self, seconds: float, limit: float = PATIENCE) -> bool:
        """Waits until nothing has been told for so long; False if that does not happen."""
        end = time.monotonic() + limit
        while self.next(seconds) is not None:
            if time.monotonic() > end:
                return False
        return True

    def listen(self, seconds: float) -> int:
        """For so long; how much was told."""
        end, count = time.monotonic() + seconds, 0
        while (left := end - time.monotonic()) > 0:
            count += self.next(left) is not None
        return count


def measured(
    troupe: Troupe, members: int, roles: int, *, processes: int, session: float, calm: float, ledger: str
) -> Iterator[Row]:
    """Rows of one group, from its start to the death of half of it."""
    what = f"{members} members, {roles} roles, session {session:g} s, {ledger}"
    each = members // processes
    players = [
        troupe.cast(f"p{number}", _command(troupe.url, session, roles, number * each, each))
        for number in range(processes)
    ]
    crowd = Crowd(troupe)
    for _ in players:
        told = crowd.next(PATIENCE)
        if told is None or told.word != "ready":
            raise TimeoutError(f"in the place of 'ready' a process said {told}")
    began = stopwatch()
    for player in players:
        player.say("begin")
    took = crowd.until(roles, began)
    yield Row(f"{what}: all led after", f"{took:.2f} s", f"<= {SETTLING:g} s", took <= SETTLING)
    still = crowd.still(STILL * session)
    loads = Counter(crowd.led.values())
    uneven = max(loads.values()) - (min(loads.values()) if len(loads) == members else 0)
    yield Row(f"{what}: most and least that a member leads differ by", str(uneven), "1", still and uneven <= 1)
    yield Row(f"{what}: terms until then, of each role", f"{crowd.terms / roles:.2f}")
    yield from _calm(what, crowd, players, members, calm)
    yield from _half_dies(what, crowd, players, session)
    yield from _in_the_end(what, crowd, players[len(players) // 2 :])


def _calm(what: str, crowd: Crowd, players: Sequence[Player], members: int, seconds: float) -> Iterator[Row]:
    before, lost = [player.cpu() for player in players], crowd.lost
    began = time.monotonic()
    changes = crowd.listen(seconds)
    used = [100 * (player.cpu() - was) for player, was in zip(players, before, strict=True)]
    part = sum(used) / (time.monotonic() - began) / members
    yield Row(
        f"{what}: lost in {seconds / 60:g} minutes", f"{crowd.lost - lost} ({changes} changes)", "0", changes == 0
    )
    yield Row(f"{what}: processor of a member", f"{part:.2f} % of a core")
    yield Row(f"{what}: memory of a process", spread([_memory(player) for player in players], "MB"))


def _half_dies(what: str, crowd: Crowd, players: Sequence[Player], session: float) -> Iterator[Row]:
    dying = players[: len(players) // 2]
    names = {player.name for player in dying}
    orphans = {role for role, member in crowd.led.items() if member.partition(".")[0] in names}
    terms, killed = crowd.terms, stopwatch()
    for player in dying:
        player.kill()
    again: dict[str, float] = {}
    end = time.monotonic() + PATIENCE
    while len(again) < len(orphans) and time.monotonic() < end:
        told = crowd.next(1.0)
        if told is not None and told.word == "lead" and told.role in orphans and told.at > killed:
            again.setdefault(told.role, (told.at - killed) / 1e9)
    most = session + 0.2
    met = len(again) == len(orphans) and statistics.median(again.values()) <= most
    yield Row(
        f"{what}: half killed at once, led again after", spread(list(again.values()), "s", 2), f"p50 <= {most:g} s", met
    )
    crowd.still(STILL * session)
    moved = (crowd.terms - terms) / max(1, len(orphans))
    yield Row(f"{what}: terms for each role of the dead", f"{moved:.3f}", "<= 1.05", moved <= 1.05)


def _in_the_end(what: str, crowd: Crowd, living: Sequence[Player]) -> Iterator[Row]:
    for player in living:
        player.say("end")
    restarts = errors = 0
    left = {player.name for player in living}
    while left:
        told = crowd.next(PATIENCE)
        if told is None:
            raise TimeoutError(f"{sorted(left)} did not say how it went")
        if told.word == "ended":
            left.discard(told.player)
            restarts += told.at
            errors += int(told.member)
    yield Row(f"{what}: members that began anew, errors logged", f"{restarts}, {errors}", "0, 0", not restarts + errors)


def _memory(player: Player) -> float:
    with open(f"/proc/{player.process.pid}/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))


def _command(url: str, session: float, roles: int, first: int, count: int) -> list[str]:
    words = (url, session, roles, first, count, f"p{first // count}")
    return [sys.executable, "-m", "bench.hosts.crowd", "--play", *map(str, words)]


def perform(url: str, session: str, roles: str, first: str, count: str, name: str) -> None:
    """One process: its members, when it is told to."""
    heard = Heard()
    logging.getLogger("pares").addHandler(heard)
    members: list[pares.Member] = []
    names = [f"r{number}" for number in range(int(roles))]

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

    def begin() -> None:
        for number in range(int(first), int(first) + int(count)):
            # Members of one process have one ledger, as they would in a program.
            member = pares.Member(url, group="crowd", name=f"{name}.{number}", roles=names, session=float(session))
            members.append(member)
            threading.Thread(target=listen, args=(member,), daemon=True).start()

    def end() -> None:
        tell("ended", "-", sum(member.health().restarts for member in members), len(heard.errors))

    tell("ready", "-", stopwatch())
    play({}, {"begin": begin, "end": end})


def crowds(quick: bool) -> Iterator[Row]:
    """The case of `python -m bench`: on whatever ledger members are measured there."""
    with Troupe() as troupe:
        size = (10, 60) if quick else (100, 1000)
        calm = 3.0 if quick else 600.0
        yield from measured(
            troupe, *size, processes=size[0], session=1.0, calm=calm, ledger=troupe.url.partition(":")[0]
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.hosts.crowd", description=__doc__)
    parser.add_argument("--members", type=int, default=100)
    parser.add_argument("--roles", type=int, default=1000)
    parser.add_argument("--processes", type=int, help="as many as members, if not said")
    parser.add_argument("--session", type=float, default=1.0, help="seconds")
    parser.add_argument("--minutes", type=float, default=10.0, help="for which nothing may be lost")
    parser.add_argument("--ledger", choices=["file", "sqlite", "kafka"], default="file")
    options = parser.parse_args()
    with ExitStack() as stack:
        url: str | None = None
        if options.ledger == "kafka":
            from bench.on_kafka import cluster
            from bench.on_kafka import url as fresh

            url = fresh(stack.enter_context(cluster(1)))
        Troupe.begins = options.ledger
        troupe = stack.enter_context(Troupe(url))
        processes = options.processes or options.members
        size = {"processes": processes, "session": options.session, "calm": 60 * options.minutes}
        for row in measured(troupe, options.members, options.roles, ledger=options.ledger, **size):
            met = {None: "", True: "met", False: "MISSED"}[row.met]
            print(f"{row.what:84} {row.figures:32} {row.target:16} {met}".rstrip(), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--play"]:
        perform(*sys.argv[2:])
    else:
        main()
