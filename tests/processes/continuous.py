"""Continuous availability: roles that two members lead at any time, on two hosts, while processes and whole hosts are killed.

    python tests/processes/continuous.py --layout seats --kills 100

Two ways to have it (the seeds' section "continuously available systems"): `seats`, one group in which each role has two seats,
which go to different hosts; or `groups`, two disjoint groups over the same roles, each on a host of its own. Hosts are names
here: all processes run on this machine, and a host that fails is all of its processes killed at once.

Judged twice. By the members' own beliefs on the stopwatch that all processes share, taken on the safe side: the union of the
instants at which a check is known to have said yes has no gap. And by the audit, over all groups, from the log alone: of each
belief what its owner lived to say.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from process_beliefs import Belief, beliefs

from pares.dev import Kafka
from pares.runtime.clock import stopwatch

ROLES: Final = ("A", "B", "C", "D")
HOSTS: Final = ("east", "west")
PER_HOST: Final = 2
PATIENCE: Final = 120.0
FRESH: Final = 500_000_000
"""A belief that was checked so many nanoseconds ago at the most is held for present, when it is decided whom to kill next."""


class Player:
    """One worker process."""

    def __init__(self, company: Company, host: str, number: int) -> None:
        self.host, self.name = host, f"{host}{number}"
        group = company.group_of(host)
        self.folder = company.folder
        command = [sys.executable, str(Path(__file__).with_name("continuous_worker.py")), company.url, group]
        command += [self.name, host, ",".join(ROLES), str(company.seats), company.protocol]
        command += [str(company.session), str(company.overlap), str(company.folder)]
        with (company.folder / f"{self.name}.log").open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def beliefs(self) -> list[Belief]:
        path = self.folder / f"{self.name}.beliefs"
        return beliefs(path) if path.exists() else []

    def leads(self) -> set[int]:
        now = stopwatch()
        return {belief.role for belief in self.beliefs() if belief.last > now - FRESH}


class Company:
    """All processes of one run, and what is done to them."""

    def __init__(
        self,
        folder: Path,
        url: str,
        layout: str,
        *,
        protocol: str = "nele",
        session: float = 2.0,
        overlap: float = 2.0,
        seed: int = 1,
    ) -> None:
        self.folder, self.url, self.layout = folder, url, layout
        self.protocol, self.session, self.overlap = protocol, session, overlap
        self.seats = 2 if layout == "seats" else 1
        self.random = random.Random(seed)
        self.players: list[Player] = []
        self.dead: list[Player] = []
        self.faults: list[tuple[int, str, str]] = []
        """What was done to whom, for the audit: (wall-clock ms, member, fault)."""
        self.kills = 0
        self.hosts_killed = 0
        """How often all processes of a host were killed at once."""
        self._born = 0

    @property
    def beacon(self) -> float:
        """Seconds between two beacons of a member, at the most."""
        return (self.session + self.overlap) / 5 if self.overlap else self.session / 5

    @property
    def groups(self) -> list[str]:
        return ["g"] if self.layout == "seats" else [f"g-{host}" for host in HOSTS]

    def group_of(self, host: str) -> str:
        return "g" if self.layout == "seats" else f"g-{host}"

    def enlist(self, host: str) -> None:
        self._born += 1
        self.players.append(Player(self, host, self._born))

    def begin(self) -> int:
        """The instant from which each role is led twice."""
        for host in HOSTS:
            for _ in range(PER_HOST):
                self.enlist(host)
        self.until_led_on_each_host()
        return stopwatch()

    def until_led_on_each_host(self) -> None:
        end, everything = time.monotonic() + PATIENCE, set(range(len(ROLES)))
        while True:
            led = {host: [p.leads() for p in self.players if p.host == host] for host in HOSTS}
            if all(set[int]().union(*found) == everything for found in led.values()):
                return
            for player in self.players:
                if player.process.poll() is not None:
                    text = (self.folder / f"{player.name}.log").read_text()
                    raise AssertionError(f"{player.name} ended with {player.process.returncode}: {text[-2000:]}")
            assert time.monotonic() < end, f"not within {PATIENCE:g} s: every role is led on each host; led are {led}"
            time.sleep(0.02)

    def strike(self) -> None:
        """Kills one process, or all of one host, at once; then as many new ones come."""
        # On a machine so busy that nobody has looked lately, anybody will do.
        leaders = [player for player in self.players if player.leads()] or self.players
        victims = [self.random.choice(leaders)]
        if self.random.random() < 0.3:
            victims = [player for player in self.players if player.host == victims[0].host]
            self.hosts_killed += 1
        for victim in victims:
            self.faults.append((time.time_ns() // 1_000_000, victim.name, "crash"))
            victim.process.send_signal(signal.SIGKILL)
        self.kills += len(victims)
        for victim in victims:
            victim.process.wait()
            self.players.remove(victim)
            self.dead.append(victim)
        time.sleep(self.random.uniform(0, self.session / 4))
        for victim in victims:
            self.enlist(victim.host)
        self.until_led_on_each_host()
        # So long that whoever leads has said so since: the audit counts what is in the log, and nothing else.
        time.sleep(self.beacon + self.random.uniform(0, self.session / 8))

    def known_until(self) -> int:
        """An instant, of now, up to which the workers' beliefs are known: waits until somebody has looked since, of each role.
        [a disk that is busy holds up whoever writes into a mapped file, and what was not looked at is no gap]"""
        now, end = stopwatch(), time.monotonic() + PATIENCE
        while {belief.role for belief in self.all_beliefs() if belief.last >= now} < set(range(len(ROLES))):
            assert time.monotonic() < end, f"not within {PATIENCE:g} s: somebody has looked at each role"
            time.sleep(0.02)
        return now

    def all_beliefs(self) -> list[Belief]:
        return [belief for player in [*self.players, *self.dead] for belief in player.beliefs()]

    def said(self, first: int, last: int) -> list[tuple[int, str, str]]:
        """What workers wrote into their logs between two instants: why beliefs ended, and what took too long."""
        found: list[tuple[int, str, str]] = []
        for player in [*self.players, *self.dead]:
            text = (self.folder / f"{player.name}.log").read_text(errors="replace")
            lines = ((int(at), player.name, what) for at, what in re.findall(r"at (\d+): (.*)", text))
            found += [line for line in lines if first <= line[0] <= last]
        return sorted(found)

    def told(self, gap: tuple[int, int, int], first: int) -> Iterator[str]:
        """What is known of a gap (`uncovered`), `first` being the beginning of all: beliefs and words around it."""
        role, at, to = gap
        yield f"  {ROLES[role]}: {(to - at) / 1e6:.3f} ms, {(at - first) / 1e9:.3f} s after the beginning"
        near = [b for b in self.all_beliefs() if b.role == role and b.last > at - 10**9 and b.first < to + 10**9]
        for b in sorted(near, key=lambda b: b.first):
            yield f"    {b.member} by {b.token}: {(b.first - at) / 1e6:.3f} to {(b.last - at) / 1e6:.3f} ms"
        for when, who, what in self.said(at - 5 * 10**9, to + 10**9):
            yield f"    {(when - at) / 1e6:.3f} ms, {who}: {what}"

    def end(self) -> None:
        for player in self.players:
            if player.process.poll() is None:
                player.process.terminate()
        for player in self.players:
            try:
                player.process.wait(60)
            except subprocess.TimeoutExpired:
                player.process.kill()
                player.process.wait()


def uncovered(found: Iterable[Belief], first: int, last: int, roles: int = len(ROLES)) -> list[tuple[int, int, int]]:
    """(role, from, to): stretches between these two instants in which nobody is known to have believed."""
    gaps: list[tuple[int, int, int]] = []
    for role in range(roles):
        reached = first
        for belief in sorted((b for b in found if b.role == role), key=lambda b: b.first):
            if belief.first > reached:
                if reached >= last:
                    break
                gaps.append((role, reached, min(belief.first, last)))
            reached = max(reached, belief.last)
        if reached < last:
            gaps.append((role, reached, last))
    return gaps


def most_at_once(found: Iterable[Belief], roles: int = len(ROLES)) -> int:
    """The most members that believed in one role at once."""
    most = 0
    for role in range(roles):
        ends = sorted(x for b in found if b.role == role for x in ((b.first, 1), (b.last, -1)))
        depth = 0
        for _, change in ends:
            depth += change
            most = max(most, depth)
    return most


@contextmanager
def ledger(given: str | None, folder: Path, session: float) -> Iterator[str]:
    """The URL of the ledger to run on; `kafka` is a broker of one node that is there for as long. Its consumer groups have the
    same session as claims have elsewhere: a stock broker allows no less than 6 s."""
    if given != "kafka":
        yield given or f"sqlite:///{folder}/log.db?partitions={len(ROLES)}"
        return
    settings = folder / "client.properties"
    settings.write_text(f"session.timeout.ms={round(session * 1000)}\n")
    with Kafka() as kafka:
        yield kafka.topic_url("continuous", partitions=len(ROLES), config=str(settings.resolve()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layout", choices=("seats", "groups"), default="seats")
    parser.add_argument("--protocol", choices=("nele", "fast-neli"), default="nele")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--session", type=float, default=1.5)
    parser.add_argument("--overlap", type=float, default=1.5)
    parser.add_argument("--ledger", help="URL, or `kafka` for a broker of its own; a fresh SQLite file if not given")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--audit", action="store_true", help="have Spark audit the log, too")
    parser.add_argument(
        "--folder", type=Path, help="where to leave the log, what was done (faults.jsonl) and the beliefs"
    )
    told = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pares-continuous-") as name:
        folder: Path = told.folder or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        with ledger(told.ledger, folder, told.session) as url:
            sys.exit(0 if never_without(told, folder, url) else 1)


def never_without(told: argparse.Namespace, folder: Path, url: str) -> bool:
    """Plays, judges, and says what was found. Whether each role was led at each instant."""
    overlap = told.overlap if told.protocol == "nele" else 0.0
    settings = {"protocol": told.protocol, "session": told.session, "overlap": overlap, "seed": told.seed}
    company = Company(folder, url, told.layout, **settings)
    try:
        first = company.begin()
        while company.kills < told.kills:
            company.strike()
            print(f"{company.kills} killed", file=sys.stderr, flush=True)
        last, until_ms = company.known_until(), time.time_ns() // 1_000_000 - FRESH // 1_000_000
    finally:
        company.end()
    words = ("at_ms", "member", "fault")
    faults = [json.dumps(dict(zip(words, fault, strict=True))) for fault in company.faults]
    (folder / "faults.jsonl").write_text("\n".join([*faults, ""]))
    found = company.all_beliefs()
    gaps = uncovered(found, first, last)
    killed = f"{company.kills} kills ({company.hosts_killed} hosts at once)"
    print(f"{told.layout}, {told.protocol}: {killed} in {(last - first) / 1e9:.0f} s")
    print(f"{len(found)} beliefs; at most {most_at_once(found)} believed in one role at once")
    print(f"without a leader: {len(gaps)} times, {sum(to - at for _, at, to in gaps) / 1e6:.1f} ms in all")
    for gap in gaps:
        print("\n".join(company.told(gap, first)))
    return not gaps and (not told.audit or audited(company, url, until_ms))


def audited(company: Company, url: str, until_ms: int) -> bool:
    """What the audit finds in the log, and whether it is that each role was led all the time."""
    from pares.spark.together import audit_together

    result = audit_together(url, company.groups, faults=company.faults, until_ms=until_ms)
    for group in result.groups:
        verdicts = ", ".join(f"{p.verdict}" for p in group.promises)
        print(f"audit of {group.group}: {len(group.rows('terms'))} terms; {verdicts}")
    print(f"audit of the union: {len(result.gaps)} gaps")
    for gap in result.gaps:
        print(f"  {gap['role']}: {gap['to_ms'] - gap['from_ms']} ms")
    return not result.gaps


if __name__ == "__main__":
    main()
