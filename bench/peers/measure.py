"""What is measured, for every contender in the same way: three processes, of which one believes that it leads.

A fault comes only when all three are ready, exactly one has believed for a while, and after a random part of a third of a
session more, since nobody's heartbeats are further apart: else it would always meet the same moment between two of them.
"""

from __future__ import annotations

import contextlib
import queue
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import TracebackType

import pares
from bench.peers.contenders import Contender
from bench.processes import PATIENCE, Troupe
from pares.runtime.clock import stopwatch

MEMBERS = 3
LOOK = 1.0
LONGER = 1.5
"""How much longer than its session it was frozen, at least."""


@dataclass(frozen=True)
class Rounds:
    """How many of what. `idle`: for how many seconds load is counted; `look`: for how many a thawed leader is watched."""

    kills: int
    hands: int
    thaws: int
    idle: float
    look: float = LOOK


FULL = Rounds(kills=15, hands=15, thaws=6, idle=8.0)
FULL_SLOW = Rounds(kills=8, hands=8, thaws=4, idle=8.0)
"""For sessions of which a few take a minute."""
QUICK = Rounds(kills=1, hands=1, thaws=1, idle=3.0)


def rounds_of(contender: Contender, quick: bool) -> Rounds:
    return QUICK if quick else FULL_SLOW if contender.slow else FULL


@dataclass(frozen=True)
class Yes:
    """What a leader that had been frozen said after it was thawed, while somebody else led: how often yes, and until when in ms
    after the thaw; None if it still did when the look was over."""

    count: int
    ms: float | None


@dataclass
class Result:
    """One contender's figures, in ms, per second, and % of a core; empty or None: not measured. `sent` are TCP segments with
    data that the members send, `records` what the log grew by."""

    contender: Contender
    crash: list[float] = field(default_factory=list)
    handover: list[float] = field(default_factory=list)
    yes: dict[str, list[Yes]] = field(default_factory=dict)
    sent: float | None = None
    records: float | None = None
    cpu: list[float] = field(default_factory=list)


class Cast(Troupe):
    """Three processes of one contender; knows who believes. In the end all are killed, not asked: some may be hurt."""

    def __init__(self, contender: Contender, address: str) -> None:
        super().__init__()
        self.contender, self.address = contender, address
        self._count = 0
        self._told: list[tuple[str, str, int]] = []
        """All that was heard, as it came: lines of two processes may come in either order."""
        self._believes: dict[str, bool] = {}
        self._ready: set[str] = set()
        for _ in range(MEMBERS):
            self.add()

    def add(self) -> None:
        name = f"m{self._count}"
        self._count += 1
        self.cast(name, self.contender.command(self.address, name))

    def next(self, timeout: float) -> tuple[str, str, int] | None:
        """The next thing that happens: who, what, when; None if nothing did in time."""
        try:
            name, word, _, at, *_ = self.lines.get(timeout=timeout)
        except queue.Empty:
            self._check()
            return None
        if word == "ready":
            self._ready.add(name)
        else:
            self._believes[name] = word == "lead"
        self._told.append((name, word, int(at)))
        return self._told[-1]

    def _check(self) -> None:
        """A process that fell over would be waited for in vain."""
        for name, player in self.players.items():
            if (code := player.process.poll()) is not None:
                raise ChildProcessError(
                    f"{self.contender.key}: {name} ended with {code}; what it said of that is on standard error"
                )

    def until(self, word: str, since: int, but: str = "") -> tuple[str, int]:
        """The first to say that at that time or later, and when; it may have been heard already."""
        end, looked = time.monotonic() + PATIENCE, 0
        while (left := end - time.monotonic()) > 0:
            for name, said, at in self._told[looked:]:
                if said == word and at >= since and name != but:
                    return name, at
            looked = len(self._told)
            self.next(left)
        raise TimeoutError(f"{self.contender.key}: nobody said {word!r} for {PATIENCE:g} s")

    def settled(self) -> str:
        """The one that leads, when all is quiet and everybody is there."""
        end = time.monotonic() + 2 * PATIENCE
        while time.monotonic() < end:
            if self.next(self.contender.quiet) is not None:
                continue
            leaders = [name for name, leads in self._believes.items() if leads]
            if len(leaders) == 1 and self._ready >= self.players.keys():
                self.next(random.random() * self.contender.session / 3)
                if self._believes.get(leaders[0]) and self.lines.empty():
                    return leaders[0]
        raise TimeoutError(
            f"{self.contender.key}: no calm in {2 * PATIENCE:g} s; who believes: {self._believes}, who is ready: {self._ready}"
        )

    def lose(self, name: str) -> int:
        """Kills one of them; the moment before it."""
        player = self.players.pop(name)
        killed = stopwatch()
        player.kill()
        player.process.wait()
        self._forget(name)
        return killed

    def _forget(self, name: str) -> None:
        self._believes.pop(name, None)
        self._ready.discard(name)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for player in self.players.values():
            player.kill()
        super().__exit__(kind, error, trace)


def crash(cast: Cast) -> float:
    """From SIGKILL to the successor's belief; somebody new takes the dead one's place."""
    leader = cast.settled()
    killed = cast.lose(leader)
    _, at = cast.until("lead", killed, but=leader)
    cast.add()
    return (at - killed) / 1e6


def handover(cast: Cast) -> float:
    """From the moment when the leader is told to give up to the successor's belief."""
    leader = cast.settled()
    asked = stopwatch()
    cast.players[leader].say("hand r")
    _, began = cast.until("handing", asked)
    _, at = cast.until("lead", began, but=leader)
    return (at - began) / 1e6


def thaw(cast: Cast, look: float) -> dict[str, Yes]:
    """Freezes the leader until somebody else leads and longer, and hears what it says once it may run on, by form of asking."""
    leader = cast.settled()
    player = cast.players[leader]
    player.say("watch")
    time.sleep(0.1)
    frozen = stopwatch()
    player.freeze(cast.contender.url.format(cast.address))
    _, at = cast.until("lead", frozen, but=leader)
    time.sleep(max(0.0, LONGER * cast.contender.session - (at - frozen) / 1e9) + 0.3)
    thawed = stopwatch()
    player.signal(signal.SIGCONT)
    time.sleep(look)
    said = {form: answers(count, last - thawed, ended) for form, count, last, ended in player.watched(thawed)}
    if missing := [form for form in cast.contender.forms if form not in said]:
        raise ValueError(f"{cast.contender.key}: {leader} did not say how {', '.join(missing)} answered")
    return said


def answers(count: int, last: int, ended: bool) -> Yes:
    """`last`: nanoseconds from the thaw to the last yes."""
    if count == 0:
        return Yes(0, 0.0)
    return Yes(count, last / 1e6 if ended else None)


def idle(cast: Cast, seconds: float, result: Result) -> None:
    cast.settled()
    time.sleep(min(seconds, 2.0))
    players = list(cast.players.values())
    with ledger(cast) as end:
        sent, cpu, records = [p.sent() for p in players], [p.cpu() for p in players], end()
        began = stopwatch()
        time.sleep(seconds)
        took = (stopwatch() - began) / 1e9
        result.cpu = [(p.cpu() - before) / took * 100 for p, before in zip(players, cpu, strict=True)]
        if cast.contender.ledger:
            result.records = (end() - records) / took
        if cast.contender.tcp and all(count >= 0 for count in sent):
            result.sent = (sum(p.sent() for p in players) - sum(sent)) / took


@contextlib.contextmanager
def ledger(cast: Cast) -> Iterator[Callable[[], int]]:
    """A look at the end of the log, if there is one."""
    if not cast.contender.ledger:
        yield lambda: 0
        return
    log = pares.open(cast.contender.url.format(cast.address))
    try:
        yield log.end
    finally:
        log.close()


def measure(contender: Contender, rounds: Rounds, tell: Callable[[str], None]) -> Result:
    result = Result(contender)
    with contender.stage() as address, Cast(contender, address) as cast:
        for _ in range(rounds.kills):
            result.crash.append(crash(cast))
            tell(f"crash {result.crash[-1]:.1f} ms")
        for _ in range(rounds.hands):
            result.handover.append(handover(cast))
            tell(f"handover {result.handover[-1]:.1f} ms")
        for _ in range(rounds.thaws):
            for form, yes in thaw(cast, rounds.look).items():
                result.yes.setdefault(form, []).append(yes)
                tell(f"thawed, {form}: {yes}")
        idle(cast, rounds.idle, result)
        tell(f"idle: {result.sent} segments/s, {result.records} records/s, {result.cpu} %")
    return result
