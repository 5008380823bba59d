"""One member (`Claims`) on a log that the test holds in its hand, and where it decides what becomes of each append."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from core_authors import GROUP, Paper, Pen, began

from pares.core import events as ev
from pares.core.claims.protocol import Claims, Config, RoleSpec, Stage
from pares.core.lease import MS
from pares.core.wire import records as R
from pares.core.wire.records import Seat

WALL_US = 1_700_000_000_000_000
Fate = Callable[[list[Any]], str]


def lands(records: list[Any]) -> str:
    return "lands"


class Solo:
    """A member, a log, a stopwatch. Appends land, and are read back, within the tick that made them, unless `fate` says:

    lands; fails (certainly not in the log); lost (unknown, not in the log); late (unknown, and in the log); deaf (acknowledged,
    in the log, not read until `reading` is True again).
    """

    def __init__(self, *roles: str, paper: Paper | None = None, start: int = 0, **config: Any) -> None:
        given: dict[str, Any] = {"group": GROUP, "id": "a~1", "name": "a", "roles": tuple(RoleSpec(r) for r in roles)}
        self.claims = Claims(Config(**{**given, **config}))
        self.paper = Paper() if paper is None else paper
        self.now = 0
        self.fate: Fate = lands
        self.reading = True
        self.barriers = True
        self.effects: list[ev.Effect] = []
        self.sent: list[Any] = []
        self.attached = False
        self.start = start

    @property
    def me(self) -> str:
        return self.claims.me

    @property
    def world(self) -> Any:
        return self.claims.reader.world

    def step(self, event: ev.Event) -> list[ev.Effect]:
        made = self.claims.step(event, self.now)
        self.effects += made
        return made

    def read(self) -> None:
        if not self.attached:
            self.attached = True
            self.step(ev.Attached(self.start, self.paper.end))
        if self.reading:
            for _ in range(50):
                before = (self.claims.position, self.claims.reader.state)
                news = [e for e in self.paper.entries if e[0] >= max(self.start, self.claims.position)]
                self.step(ev.Read(news, began=self.now))
                if (self.claims.position, self.claims.reader.state) == before:
                    break

    def tick(self) -> None:
        """One round: what is new is read, then it acts."""
        self.read()
        todo = self.step(ev.Tick(WALL_US + self.now // 1000))
        for effect in todo:
            if isinstance(effect, ev.Append):
                self._append(effect)
            elif isinstance(effect, ev.Barrier) and self.barriers:
                self.step(ev.WorkOver(effect.seat, effect.token))
        self.read()

    def _append(self, append: ev.Append) -> None:
        records = [R.decode(payload) for payload in append.payloads]
        fate = self.fate(records)
        self.sent += records
        if fate in ("lands", "late", "deaf"):
            for payload in append.payloads:
                self.paper.put(payload)
        if fate == "deaf":
            self.reading = False
        if fate in ("lands", "deaf"):
            self.step(ev.Acked(append.ticket, self.paper.end - 1))
        else:
            self.step(ev.Failed(append.ticket, unknown=fate != "fails"))

    def run(self, seconds: float, *, every: float = 0.01) -> list[Any]:
        """Ticks every so often; returns the records handed over meanwhile."""
        done = len(self.sent)
        end = self.now + int(seconds * 1000) * MS
        while self.now < end and self.claims.stage is not Stage.OVER:
            self.now += int(every * 1000) * MS
            self.tick()
        return self.sent[done:]

    def kinds(self, records: list[Any]) -> list[str]:
        return [type(record).__name__ for record in records]

    def of(self, kind: type) -> list[Any]:
        """All effects of a kind so far."""
        return [effect for effect in self.effects if isinstance(effect, kind)]

    @property
    def ending(self) -> ev.Effect | None:
        found = [e for e in self.effects if isinstance(e, ev.Stop | ev.Restart) or type(e).__name__ == "Closed"]
        return found[-1] if found else None


def once(kind: str, fate: str = "lost") -> Fate:
    """The first append with a record of that kind in it has this fate; every other one lands."""
    met: list[bool] = []

    def choose(records: list[Any]) -> str:
        if not met and any(type(record).__name__ == kind for record in records):
            met.append(True)
            return fate
        return "lands"

    return choose


# Members in the middle of things -------------------------------------------------------------------------------------

A: Seat = ("A", 0)
LOCK = R.Lock(boot="boot", device="0", inode="1", file="f")


def leader(**config: Any) -> Solo:
    """A member that leads A."""
    solo = Solo("A", **config)
    solo.run(0.3)
    assert solo.world.seats[A].holder == solo.me
    return solo


def joined(solo: Solo, id: str, **join: Any) -> Pen:
    """Somebody else, who has shown that it reads, and says nothing more by itself."""
    pen = Pen(solo.paper, id, **{"reads": R.READS, **join})
    pen.base = solo.world.base
    pen.join().beat()
    return pen


def with_others(*ids: str, leader_: dict[str, Any] | None = None, **join: Any) -> tuple[Solo, list[Pen]]:
    """A member that leads A, in a group with others."""
    solo = leader(**(leader_ or {}))
    pens = [joined(solo, id, **join) for id in ids]
    solo.run(0.05)
    return solo, pens


def challenger(**holder: Any) -> tuple[Solo, Pen]:
    """A member in a group where `h~1` holds A and says nothing more."""
    paper, (h,) = began("h~1", **holder)
    h.claim("A")
    solo = Solo("A", paper=paper)
    solo.run(0.1)
    return solo, h
