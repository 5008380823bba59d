"""`python -m bench.ordinary_real`: what ordinary trouble costs real processes on a SQLite file (compare `bench.ordinary`).

Nobody's death can be proven here, so only silence decides. Each process looks every 2 ms whether its member holds the role,
and tells each change."""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pares
from bench.worker import Blind

SESSION: Final = 1.0
ROLE: Final = "A"


class Slow(Blind):
    """A ledger whose appends take `delay` seconds more, and land halfway."""

    delay = 0.0

    def append(self, payload: bytes, partition: int = 0) -> int:
        return self.append_many([payload], partition)[0]

    def append_many(self, payloads: Sequence[bytes], partition: int = 0, *, urgent: bool = True) -> list[int]:
        time.sleep(self.delay / 2)
        offsets = self._ledger.append_many(payloads, partition, urgent=urgent)
        time.sleep(self.delay / 2)
        return offsets


def play(url: str, name: str, rank: int, ready: bool) -> None:
    """One process: `slow SECONDS` on standard input makes its appends slow."""
    slow = Slow(pares.open(url))
    ledger: Any = slow
    check = None if ready else lambda: False
    member = pares.Member(ledger, group="g", roles=[ROLE], name=name, rank=rank, session=SESSION, ready=check)

    def obey() -> None:
        for line in sys.stdin:
            slow.delay = float(line.split()[1])
        os._exit(0)  # its parent is gone

    threading.Thread(target=obey, daemon=True).start()
    held = False
    while True:
        if (now := member.holds(ROLE)) != held:
            held = now
            print(time.monotonic_ns(), int(held), flush=True)
        time.sleep(0.002)


class Player:
    """A process, and when it believed."""

    def __init__(self, url: str, name: str, rank: int = 0, ready: bool = True) -> None:
        command = [sys.executable, "-m", "bench.ordinary_real", "--play", url, name, str(rank), str(int(ready))]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, text=True, bufsize=1, cwd=Path(__file__).parent.parent
        )
        self.turns: list[tuple[int, bool]] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            at, held = line.split()
            self.turns.append((int(at), held == "1"))

    @property
    def holds(self) -> bool:
        return bool(self.turns) and self.turns[-1][1] and self.process.poll() is None

    def say(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()


def leader(players: list[Player], limit: float = 30.0) -> Player:
    """The member that leads now, or soon."""
    until = time.monotonic() + limit
    while time.monotonic() < until:
        for player in players:
            if player.holds:
                return player
        time.sleep(0.001)
    raise RuntimeError(f"nobody leads after {limit} s")


def end(players: list[Player]) -> None:
    for player in players:
        player.process.kill()
        player.process.wait()


def shares(players: list[Player], seconds: float) -> list[float]:
    """The part of samples, 5 ms apart, in which each of them leads."""
    found, count, until = [0] * len(players), 0, time.monotonic() + seconds
    while time.monotonic() < until:
        count += 1
        for i, player in enumerate(players):
            found[i] += player.holds
        time.sleep(0.005)
    return [n / count for n in found]


def not_ready(folder: str) -> str:
    url = f"sqlite:///{folder}/k1.db"
    players = [Player(url, "unready", 0, ready=False), Player(url, "other", 1)]
    leader(players)
    time.sleep(1)
    unready, other = shares(players, 30)
    end(players)
    return f"not ready for 30 s: the other leads in {100 * other:.1f} % of samples, it in {100 * unready:.1f} %"


def one_slow(folder: str) -> str:
    url = f"sqlite:///{folder}/k7.db"
    sick, healthy = Player(url, "sick", 0), Player(url, "healthy", 1)
    leader([sick])
    time.sleep(2)
    sick.say("slow 0.9")
    began = time.monotonic()
    leader([healthy])
    took = (time.monotonic() - began) / SESSION
    share = sum(shares([sick, healthy], 30))
    end([sick, healthy])
    return f"appends take 0.9 s: the healthy one leads after {took:.2f} sessions, then led {100 * share:.1f} % of 30 s"


def half_dies(folder: str, members: int, dying: int, rounds: int) -> str:
    found: list[float] = []
    for i in range(rounds):
        url = f"sqlite:///{folder}/k6-{members}-{i}.db"
        players = [Player(url, f"m{j}") for j in range(members)]
        first = leader(players)
        time.sleep(4 + 0.37 * i % 1)
        first = leader(players)
        others = [p for p in players if p is not first]
        dead, alive = [first, *others[: dying - 1]], others[dying - 1 :]
        for player in dead:
            player.process.kill()
        began = time.monotonic_ns()
        leader(alive)
        found.append(min(t for p in alive for t, held in p.turns if held and t > began) / 1e9 - began / 1e9)
        end(players)
    p50, worst = statistics.median(found), max(found)
    return f"{dying} of {members} die in one instant: led again after p50 {p50:.3f} s, worst {worst:.3f} s (n={rounds})"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.ordinary_real", description=__doc__)
    parser.add_argument("--play", nargs=4, metavar=("URL", "NAME", "RANK", "READY"), help="be one of the processes")
    parser.add_argument("--rounds", type=int, default=10, help="deaths of half a group (default: 10)")
    options = parser.parse_args()
    if options.play:
        url, name, rank, ready = options.play
        play(url, name, int(rank), ready == "1")
        return
    with tempfile.TemporaryDirectory(prefix="pares-ordinary-") as folder:
        for measure in (not_ready, one_slow):
            print(measure(folder), flush=True)
        for members, dying in ((3, 2), (10, 5)):
            print(half_dies(folder, members, dying, options.rounds), flush=True)


if __name__ == "__main__":
    main()
