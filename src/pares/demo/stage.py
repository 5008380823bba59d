"""Runs the demo: members up, faults on schedule, everything told, everybody down again, then the count.

The conductor watches as any observer would: moves come from the ledger, quotes from the table. The only thing that it does
inside the group is to ask for a drain, as an administrator.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

from pares.core.errors import ConfigError, ParesError
from pares.core.wire.records import Seat
from pares.core.wire.shown import short_token
from pares.demo.heard import HeardStory
from pares.demo.law import law_of
from pares.demo.location import Where, open_patiently
from pares.demo.processes import Actor, Cast, Settings
from pares.demo.quotes import TICK_MS, Count, Quotes, now_ms
from pares.demo.schedule import FREEZE_SECONDS, Step, schedule, tickers
from pares.demo.screen import Frame, Screen
from pares.demo.worker import Unplugged, locks_in
from pares.ledger import Ledger, parse, partition_of
from pares.ledger.registry import scheme_of
from pares.runtime import Admin
from pares.view import Move, Story, name_of
from pares.view.tenure_story import TenureStory

GROUP: Final = "demo"
SETTLE: Final = 0.7
SETTLE_SECONDS: Final = 30.0
"""How long to wait for all members and leaders at the start before giving up, on however slow a machine."""
LOOK_SECONDS: Final = 0.02
OVERTURE: Final = f"""\
Processes share price feeds: of each instrument one of them is the leader, and
publishes a quote every {TICK_MS} ms. All that they have in common is a log in {{log}}.
Some of them will be killed, frozen and drained.
"""


@dataclass(frozen=True, slots=True)
class Options:
    """What the user may choose."""

    seconds: float = 25.0
    members: int = 4
    roles: int = 12
    ledger: str | None = None
    seed: int = 1
    overlap: bool = False
    protocol: str = "claims"

    def check(self) -> None:
        """Raises `ConfigError` for what can't work."""
        law_of(self.protocol, overlap=self.overlap)
        for what, value, least, most in (
            ("--seconds", self.seconds, 5, 3600),
            ("--members", self.members, 3, 16),
            ("--roles", self.roles, 1, 100),
        ):
            if not least <= value <= most:
                raise ConfigError(f"{what} {value:g} is out of range: give {least} to {most}")


@dataclass(slots=True)
class Outcome:
    """What was seen, for the summary and for the audit."""

    ledger: str
    group: str
    overlap: bool
    quotes: Path
    moves: list[Move]
    faults: list[tuple[int, str, str]]
    count: Count
    believed: dict[tuple[Seat, int], int]
    """Seat and token (two partitions may have given out the same one) to the wall clock (ms) at which the holder told that it
    leads."""
    stopped: dict[tuple[Seat, int], int]
    """As `believed`: when it told that it had stopped."""
    started_ms: int
    ended_ms: int
    lost: list[str] = field(default_factory=list)
    """Members that ended without having been asked to: none, or something is wrong."""


class Stage:
    """One run. `play` does it all; `close` leaves nothing behind, whenever it is called."""

    def __init__(self, options: Options, where: Where, screen: Screen, folder: Path) -> None:
        options.check()
        self.options, self.where, self.screen, self.folder = options, where, screen, folder
        self.ledger = open_patiently(where.url)
        self.quotes_file = folder / "quotes.db"
        self.quotes = Quotes(self.quotes_file, fenced=False)
        self.group = GROUP if where.fresh else f"{GROUP}-{now_ms()}"
        self.law = law_of(options.protocol, overlap=options.overlap)
        roles = tickers(options.roles)
        self.story = (
            HeardStory(self.ledger, self.group, roles)
            if self.law.calls
            else TenureStory(self.ledger, self.group)
            if self.law.shares_out
            else Story(self.ledger, self.group, partition=partition_of(where.url))
        )
        self.cast = Cast(
            Settings(
                ledger=where.url,
                group=self.group,
                quotes=self.quotes_file,
                roles=roles,
                protocol=options.protocol,
                overlap=options.overlap,
                settle=SETTLE,
                seed=options.seed,
                folder=folder,
            )
        )
        self.admin: Admin | None = None
        self.dice = random.Random(options.seed)
        self.begun = time.monotonic()
        self.faults: list[tuple[int, str, str]] = []
        self.lost: list[str] = []
        self.started_ms = now_ms()
        self._refused = 0
        self._frozen: list[Actor] = []
        self._late = 0.0
        """By how many seconds the schedule lies back, because on this machine something took longer than it had been given."""

    # The play --------------------------------------------------------------------------------------------------------

    def play(self) -> Outcome:
        """Everything up to the last member's leaving. Raises `ParesError` if the members do not get going."""
        self.screen.note(OVERTURE.format(log=self.where.words) + self.law.words)
        for _ in range(self.options.members):
            self.cast.start()
        self._settle()
        if self.law.placed:
            self.admin = Admin(cast(Ledger, Unplugged(self.ledger, locks_in(self.folder))), group=self.group)
        steps = schedule(self.options.seconds, overlap=self.law.two, calling=self.law.calls)
        while self.on_schedule < self.options.seconds:
            if steps and self.on_schedule >= steps[0].at and self._may_come(steps[0]):
                self._do(steps.pop(0))
            self._look(steps[0] if steps else None)
            time.sleep(LOOK_SECONDS)
        return self._finish()

    @property
    def at(self) -> float:
        """Seconds since all were settled."""
        return time.monotonic() - self.begun

    @property
    def on_schedule(self) -> float:
        """The same on the schedule's clock, which waits for what is slow."""
        return self.at - self._late

    def _may_come(self, step: Step) -> bool:
        """Nobody is thawed before others publish what it led: else the thaw would show nothing. On a busy machine the rest of
        the schedule waits for that."""
        if step.what != "thaw" or self._late > SETTLE_SECONDS:
            return True
        last = {quote.member for quote in self.quotes.last().values()}
        if not last & {actor.name for actor in self._frozen}:
            return True
        self._late += self.on_schedule - step.at
        return False

    def _settle(self) -> None:
        """Waits until every member is there and every instrument has a leader and a quote."""
        roles = self.cast.settings.roles
        while True:
            self.story.catch_up()
            world = self.story.world
            held = sum(1 for seat in world.seats.values() if seat.holder is not None)
            if isinstance(self.story, HeardStory):
                here, balanced = self.story.here, True  # one leads it all
            else:
                here = {member.name for member in world.members.values()}
                loads = [len(world.held.get(id, ())) for id, m in world.members.items() if not m.administrator]
                balanced = bool(loads) and max(loads) - min(loads) <= 1
            if held == len(roles) and here >= set(self.cast.actors) and balanced and len(self.quotes.last()) == held:
                break
            for actor in self.cast.look():
                raise ParesError(f"{actor.name} ended before the demo began: {_last_words(actor)}")
            if self.at > SETTLE_SECONDS:
                raise ParesError(f"after {SETTLE_SECONDS:g} s only {held} of {len(roles)} instruments had a leader")
            time.sleep(LOOK_SECONDS)
        took = self.at
        self.begun = time.monotonic()
        self.screen.note(
            f"{len(here)} members share {held} instruments, {took:.1f} s after the first process was started.\n"
        )

    def _look(self, coming: Step | None) -> None:
        for move in self.story.catch_up():
            self.screen.move(self.at, move)
        for role, member, token, seen, _ in self.quotes.refusals()[self._refused :]:
            self._refused += 1
            self.screen.fault(
                self.at,
                f"{role:<6} the fence refused {member}'s write: token {short_token(token, seen)} is below "
                f"{short_token(seen, token)}",
            )
        for actor in self.cast.look():
            self.lost.append(actor.name)
            self.screen.fault(self.at, f"{actor.name} ended by itself: {_last_words(actor)}")
        for actor in self.cast.actors.values():
            if actor.state == "drains" and actor.name not in self._leaders():
                self.cast.close(actor)
        self.screen.show(
            Frame(self.on_schedule, self.options.seconds, self.story, self.cast.actors, self.quotes.last, coming)
        )

    def _leaders(self) -> set[str]:
        return {name_of(seat.holder) for seat in self.story.world.seats.values() if seat.holder is not None}

    def _victim(self) -> Actor | None:
        """A live member that leads something, if the group can do without it."""
        live = [actor for actor in self.cast.actors.values() if actor.state == "live"]
        leading = [actor for actor in live if actor.name in self._leaders()]
        return self.dice.choice(leading) if len(live) > 2 and leading else None

    def _do(self, step: Step) -> None:
        if step.what == "add":
            self._fault(self.cast.start().name, "added", "{} is added")
        elif step.what == "thaw":
            for actor in self._frozen:
                self._fault(actor.name, "thawed", "{} is thawed (SIGCONT); it does not know what it has missed")
                self.cast.thaw(actor)
            self._frozen.clear()
        elif (actor := self._victim()) is not None:
            self._harm(step.what, actor)

    def _harm(self, what: str, actor: Actor) -> None:
        if what == "kill":
            self._fault(actor.name, "killed", "{} is killed (SIGKILL)")
            self.cast.kill(actor)
        elif what == "freeze":
            before = self.at
            self.cast.freeze(actor, self._nobody_holds_a_file)
            self._late += self.at - before
            self._fault(actor.name, "frozen", "{} is frozen (SIGSTOP) between its look at the term and its write")
            self._frozen.append(actor)
        elif what == "cut":
            self._fault(actor.name, "cut off", f"{{}} can't reach the ledger for {FREEZE_SECONDS:g} s, and works on")
            self.cast.cut(actor)
        else:
            asks = "it is asked" if self.admin is None else "an administrator asks it"
            self._fault(actor.name, "drained", f"{{}} is drained: {asks} to hand everything over")
            actor.state = "drains"
            if self.admin is None:
                self.cast.drain(actor)
            else:
                self.admin.drain(actor.name)

    def _fault(self, member: str, fault: str, text: str) -> None:
        self.faults.append((now_ms(), member, fault))
        self.quotes.fault(member, fault)
        self.screen.fault(self.at, text.format(member))

    def _nobody_holds_a_file(self) -> bool:
        """Whether both files can be written: the frozen member holds neither's lock."""
        return self.quotes.writable() and writable(self.ledger)

    # The end ---------------------------------------------------------------------------------------------------------

    def _finish(self) -> Outcome:
        self.screen.close()
        ended = now_ms()
        for actor in self._frozen:
            self.cast.thaw(actor)
        if self.admin is not None:
            self.admin.close()
        moves = list(self.story.moves)
        self.cast.end()
        count = self.quotes.count()  # members publish up to their end, and the audit sees all of it
        self.story.catch_up()
        believed: dict[tuple[Seat, int], int] = {}
        stopped: dict[tuple[Seat, int], int] = {}
        for did, _ in self.story.dids:
            (believed if did.what == "lead" else stopped).setdefault((did.seat, did.token), did.at)
        return Outcome(
            ledger=self.where.url,
            group=self.group,
            overlap=self.law.two,
            quotes=self.quotes_file,
            moves=moves,
            faults=self.faults,
            count=count,
            believed=believed,
            stopped=stopped,
            started_ms=self.started_ms,
            ended_ms=ended,
            lost=self.lost,
        )

    def close(self) -> None:
        """Ends what still runs and closes what is open."""
        self.screen.close()
        self.cast.end_at_once()
        if self.admin is not None:
            self.admin.close()
        self.quotes.close()
        if isinstance(self.story, HeardStory):
            self.story.close()
        self.ledger.close()


def writable(ledger: Ledger) -> bool:
    """Whether nobody stands still inside a write to the ledger's file."""
    if not scheme_of(ledger.url).write_lock:
        return True
    import sqlite3
    from contextlib import closing

    file = parse(ledger.url).path[1:]
    with closing(sqlite3.connect(file, timeout=0.06, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        except sqlite3.OperationalError:
            return False
    return True


def _last_words(actor: Actor) -> str:
    text = actor.errors.read_text(errors="replace").strip()
    return text.splitlines()[-1] if text else f"exit code {actor.process.returncode}, and it said nothing"


def new_folder() -> Path:
    """A folder of its own for one run, on a local file system."""
    return Path(tempfile.mkdtemp(prefix="pares-demo-"))


def remove_folder(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
