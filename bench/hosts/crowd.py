"""A large group with many roles: when all are led, whether they stay so, and what the death of half of it costs.

    python -m bench.hosts.crowd --members 100 --roles 1000 [--processes 100] [--session 1] [--minutes 10] [--ledger kafka]

Interpreters are started first and members when all of those are ready, so that it is the group that is measured. What each
member believes is told by itself, as it happens, with the time of the stopwatch that all of them share; of a process that was
killed what it had told until then.
"""

from __future__ import annotations

import argparse
import queue
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import pares
from bench.cases import Row, spread
from bench.processes import Player, Troupe
from bench.sections import CROWDS, line, or_why
from pares.runtime.clock import stopwatch

SETTLING: Final = 10.0
"""Seconds within which all is to be led."""
PATIENCE: Final = 120.0
STILL: Final = 3.0
"""Sessions without any change, after which a group counts as settled."""
LOOK: Final = 60.0
"""Seconds for which a group is looked at that did not come to lead all of its roles."""
MOST_MB: Final = 30
FLAT_MB: Final = 1.0
"""By how much a member's memory may grow while nothing happens."""
FOLLOWED: Final = 20.0
"""Seconds of the log that are read to know how fast it grows, when all else has been measured."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """What is measured. `session`, `calm` (for which nothing may be lost) and `patience` (until all is to be led, at most) in
    seconds."""

    members: int
    roles: int
    processes: int
    session: float
    calm: float
    patience: float = PATIENCE
    ledger: str

    @property
    def what(self) -> str:
        apart = f", {self.processes} processes" if self.processes != self.members else ""
        return f"{self.members} members, {self.roles} roles, session {self.session:g} s, {self.ledger}{apart}"

    @property
    def each(self) -> int:
        """Members of one process."""
        return self.members // self.processes


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

    def until(self, roles: int, since: int, patience: float) -> float | None:
        """Seconds from `since` until all of so many are led; None if they are not after so many seconds."""
        end, last = time.monotonic() + patience, since
        while len(self.led) < roles:
            told = self.next(1.0)
            last = last if told is None else told.at
            if time.monotonic() > end:
                return None
        return (last - since) / 1e9

    def still(self, seconds: float, limit: float = PATIENCE) -> bool:
        """Waits until nothing has been told for so long; False if that does not happen."""
        end = time.monotonic() + limit
        while self.next(seconds) is not None:
            if time.monotonic() > end:
                return False
        return True

    def listen(self, seconds: float) -> list[float]:
        """For so long; after how many seconds something was told, each time."""
        began, heard = time.monotonic(), list[float]()
        while (left := began + seconds - time.monotonic()) > 0:
            if self.next(left) is not None:
                heard.append(time.monotonic() - began)
        return heard


def measured(troupe: Troupe, group: Group) -> Iterator[Row]:
    """Rows of one group, from its start to the death of half of it."""
    players = [
        troupe.cast(f"p{number}", _command(troupe.url, group, number * group.each)) for number in range(group.processes)
    ]
    yield from or_why(group.what, _played(group, Crowd(troupe), troupe.url, players))


def _played(group: Group, crowd: Crowd, url: str, players: Sequence[Player]) -> Iterator[Row]:
    what, roles, session = group.what, group.roles, group.session
    for _ in players:
        said = crowd.next(PATIENCE)
        if said is None or said.word != "ready":
            raise TimeoutError(f"in the place of 'ready' a process said {said}")
    bare = [memory(player) for player in players]
    began = stopwatch()
    for player in players:
        player.say("begin")
    took = crowd.until(roles, began, group.patience)
    if took is None:
        said = f"{len(crowd.led)} of {roles} are led after {group.patience:g} s"
        yield Row(f"{what}: all led after", said, f"<= {SETTLING:g} s", met=False)
        yield from _calm(group, crowd, players, bare, min(group.calm, LOOK))
        yield from _in_the_end(what, crowd, players)
        return
    yield Row(f"{what}: all led after", f"{took:.2f} s", f"<= {SETTLING:g} s", took <= SETTLING)
    still = crowd.still(STILL * session)
    loads = Counter(crowd.led.values())
    uneven = max(loads.values(), default=0) - (min(loads.values()) if len(loads) == group.members else 0)
    yield Row(f"{what}: most and least that a member leads differ by", str(uneven), "1", still and uneven <= 1)
    yield Row(f"{what}: terms until then, of each role", f"{crowd.terms / roles:.2f}")
    yield from _calm(group, crowd, players, bare, group.calm)
    yield _growth(what, crowd, url, min(group.calm, FOLLOWED))
    yield from _half_dies(what, crowd, players, session)
    yield from _in_the_end(what, crowd, players[len(players) // 2 :])


def _calm(
    group: Group, crowd: Crowd, players: Sequence[Player], bare: Sequence[float], seconds: float
) -> Iterator[Row]:
    what, each = group.what, group.each
    before, lost, held = [player.cpu() for player in players], crowd.lost, [memory(player) for player in players]
    carried, began = [player.traffic() for player in players], time.monotonic()
    changes = crowd.listen(seconds)
    took = time.monotonic() - began
    used = [100 * (player.cpu() - was) / took / each for player, was in zip(players, before, strict=True)]
    found = f"{crowd.lost - lost} ({len(changes)} changes"
    found += f", from {changes[0]:.0f} to {changes[-1]:.0f} s)" if changes else ")"
    yield Row(f"{what}: lost in {seconds / 60:.3g} minutes", found, "0", not changes)
    yield Row(f"{what}: processor of a member", spread(used, "% of a core", 3))
    now = [player.traffic() for player in players]
    if all(one.sent > 0 for one in now):  # else there is no server, or no system that can say
        out, back = (
            sum(getattr(one, name) - getattr(was, name) for one, was in zip(now, carried, strict=True)) / took / 1e3
            for name in ("sent", "received")
        )
        yield Row(f"{what}: sent and received by all", f"{out:.1f} and {back:.1f} kB/s")
    last = [memory(player) for player in players]
    own = [(mb - base) / each for mb, base in zip(last, bare, strict=True)]
    grown = [(mb - was) / each for mb, was in zip(last, held, strict=True)]
    yield Row(f"{what}: memory of a process", spread(last, "MB"))
    yield Row(
        f"{what}: memory of a member, beside its interpreter",
        spread(own, "MB", 2),
        f"p50 <= {MOST_MB} MB",
        statistics.median(own) <= MOST_MB,
    )
    yield Row(
        f"{what}: memory of a member, grown in {seconds / 60:.3g} minutes",
        spread(grown, "MB", 2),
        f"p50 <= {FLAT_MB:g} MB",
        statistics.median(grown) <= FLAT_MB,
    )


def _growth(what: str, crowd: Crowd, url: str, seconds: float) -> Row:
    """What the log grows by, read from it."""
    with closing(pares.open(url)) as log:
        first, began = log.end(), time.monotonic()
        crowd.listen(seconds)
        end, took = log.end(), time.monotonic() - began
        count = size = 0
        while first < end:
            entries = log.read(first, timeout=1.0)
            if not entries:
                break  # only what brokers write for themselves is left
            found = [entry for entry in entries if entry.offset < end]
            count, size, first = (
                count + len(found),
                size + sum(len(entry.payload) for entry in found),
                entries[-1].offset + 1,
            )
    return Row(f"{what}: the log grows by", f"{count / took:.1f} records/s, {size / took / 1e3:.2f} kB/s")


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
    found = spread(list(again.values()), "s", 2) if again else "never"
    if len(again) < len(orphans):
        found += f"; {len(orphans) - len(again)} of {len(orphans)} are not led after {PATIENCE:g} s"
    yield Row(f"{what}: half killed at once, led again after", found, f"p50 <= {most:g} s", met)
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


def memory(player: Player) -> float:
    """Megabytes that are in memory now."""
    with open(f"/proc/{player.process.pid}/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))


def _command(url: str, group: Group, first: int) -> list[str]:
    words = (url, group.session, group.roles, first, group.each, f"p{first // group.each}")
    return [sys.executable, "-m", "bench.hosts.players", *map(str, words)]


def crowds(quick: bool, url: str | None = None) -> Iterator[Row]:
    """The case of `python -m bench`: on whatever ledger members are measured there."""
    members, roles, calm = (6, 30, 3.0) if quick else (100, 1000, 600.0)
    with Troupe(url) as troupe:
        ledger = troupe.url.partition(":")[0]
        group = Group(members=members, roles=roles, processes=members, session=1.0, calm=calm, ledger=ledger)
        yield from measured(troupe, group)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.hosts.crowd", description=__doc__)
    parser.add_argument("--members", type=int, default=100)
    parser.add_argument("--roles", type=int, default=1000)
    parser.add_argument("--processes", type=int, help="as many as members, if not said")
    parser.add_argument("--session", type=float, default=1.0, help="seconds")
    parser.add_argument("--minutes", type=float, default=10.0, help="for which nothing may be lost")
    parser.add_argument("--patience", type=float, default=PATIENCE, help="seconds until all is to be led, at most")
    parser.add_argument("--ledger", choices=["file", "sqlite", "kafka"], default="file")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the rows between the marks of this file")
    options = parser.parse_args()
    processes = options.processes or options.members
    if options.members % processes:
        parser.error(f"{options.members} members can't be dealt out evenly to {processes} processes")
    with ExitStack() as stack:
        url: str | None = None
        if options.ledger == "kafka":
            from bench.on_kafka import cluster
            from bench.on_kafka import url as fresh

            url = fresh(stack.enter_context(cluster(1)))
        Troupe.begins = options.ledger
        troupe = stack.enter_context(Troupe(url))
        group = Group(
            members=options.members,
            roles=options.roles,
            processes=processes,
            session=options.session,
            calm=60 * options.minutes,
            patience=options.patience,
            ledger=options.ledger,
        )
        rows: list[Row] = []
        for row in measured(troupe, group):
            rows.append(row)
            print(line(row), flush=True)
    if options.write is not None:
        CROWDS.write(options.write, rows)


if __name__ == "__main__":
    main()
