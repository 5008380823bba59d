"""The claims kernel on a simulated log, one step at a time: what golden scenarios and tests of rules are played on.

    stage = Stage()
    alice = stage.member("alice", roles=["mail"])
    stage.run(1)
    alice.kill()

The processes are those of `kernel.process`, which drive the real kernel and write real records; one seed and one script
give one trace. Real members are played by `pares.testing`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from kernel.promises import Checker, always
from kernel.scene import GROUP, Scene
from kernel.trace import seat_name
from kernel.wire import FATES, Weather

from pares.core import events as ev
from pares.core.claims.protocol import Config, RoleSpec
from pares.core.errors import ConfigError
from pares.core.wire import records
from pares.core.wire.records import AnyRecord, Seat
from pares.core.wire.world import World
from pares.sim.engine import SECOND, Stopwatch, WallClock

_SECONDS = {"session": "session_ms", "overlap": "overlap_ms", "settle": "settle_ms", "retention": "retention_ms"}
_KNOWN = {f.name for f in msgspec.structs.fields(Config)} - {"group", "id", "name", "lock"}


class Actor:
    """One process: what happens to it, and what its user asks of it. Made by `Stage.member`."""

    process: Any

    def __init__(self, stage: Stage, process: Any) -> None:
        self._stage = stage
        self.process = process

    def __repr__(self) -> str:
        return f"<Actor {self.id} {self.state}>"

    @property
    def name(self) -> str:
        return self.process.name

    @property
    def id(self) -> str:
        """`name~1`, after a restart `name~2`, and so on."""
        return self.process.id

    @property
    def state(self) -> str:
        """waiting (not started), joining, live, frozen, dead, closed or failed."""
        process = self.process
        if process.incarnations == 0:
            return "waiting"
        if not process.running:
            return "dead"
        if process.over is not None:
            return "closed" if type(process.over).__name__ == "Closed" else "failed"
        if process.frozen:
            return "frozen"
        return "live" if process.live else "joining"

    @property
    def reachable(self) -> bool:
        """Whether nothing is cut between it and the ledger."""
        return self.process.reachable

    def holds(self, role: str) -> bool:
        """What `Member.holds` answers now: by this member's own stopwatch."""
        return any(self.process.believes(seat) for seat in self.process.beliefs if seat[0] == role)

    def seats(self) -> list[str]:
        """The seats that this member believes it holds, as `role/index`."""
        return sorted(seat_name(s) for s in self.process.beliefs if self.process.believes(s))

    def token(self, role: str) -> int | None:
        """The token of its term, if it believes that it leads."""
        found = [
            token for seat, token in self.process.beliefs.items() if seat[0] == role and self.process.believes(seat)
        ]
        return found[0] if found else None

    # What happens to it ----------------------------------------------------------------------------------------------

    def kill(self) -> None:
        """The process is gone at once. With `proof=True` the others on its host learn of it."""
        self._stage.scene.kill(self.process)

    def restart(self) -> None:
        """The process starts (again) under its name, as a new incarnation."""
        self._stage.scene.kill(self.process)
        self.process.start()

    def freeze(self, seconds: float | None = None, *, at: str | None = None) -> None:
        """It stands still, for `seconds` or until `thaw`. `at`: at the next time that it has "fetched" (and not ticked yet) or
        "ticked" (and its append has not left yet)."""
        length = None if seconds is None else int(seconds * SECOND)
        if at is None:
            self._stage.scene.freeze(self.process, length)
        elif at in ("fetched", "ticked") and length is not None:
            self.process.freeze_at = (at, length)
        else:
            raise ConfigError(f"freeze(at={at!r}, seconds={seconds!r}): give 'fetched' or 'ticked', and how long")

    def thaw(self) -> None:
        self._stage.scene.thaw(self.process)

    def cut(self, *, reads: bool = False, writes: bool = False, acks: bool = False) -> None:
        """From now on it reads nothing, its appends do not arrive, or it is not told that they did; until `heal`."""
        wire = self.process.wire
        wire.reads_cut, wire.writes_cut, wire.acks_cut = reads, writes, acks or (reads and writes)
        what = [name for name, on in (("reads", reads), ("writes", writes), ("acks", acks)) if on]
        self._stage.scene.note(self.name, "is cut off", why=" and ".join(what))

    def heal(self) -> None:
        """It reaches the ledger again; appends that were held land now."""
        wire = self.process.wire
        wire.reads_cut = wire.writes_cut = wire.acks_cut = False
        self._stage.scene.note(self.name, "is healed")
        self.let_go()
        self.process.wake(self._stage.scene.engine.now)

    def hold(self) -> None:
        """Its appends leave it, but hang in the air until `let_go`. After the time-out they count as failed for it."""
        self.process.wire.holding = True

    def let_go(self) -> None:
        """What hangs in the air lands now, in the order in which it was sent."""
        wire = self.process.wire
        held, wire.held, wire.holding = wire.held, [], False
        for flight in held:
            wire.land(flight)

    def next_append(self, fate: str) -> None:
        """What befalls its next append: "lost", "unknown" (reported as failed, lands later), "silent" (lands, and nobody tells
        it) or "doubled"."""
        if fate not in FATES:
            raise ConfigError(f"next_append({fate!r}): choose one of {', '.join(FATES)}")
        self.process.wire.fate = fate

    def stall(self, seconds: float) -> None:
        """In its next round so much time passes between the fetch and the tick."""
        self.process.stall_next = int(seconds * SECOND)

    # What its user asks ----------------------------------------------------------------------------------------------

    def hand_over(self, role: str, to: Actor | None = None, why: str = "") -> None:
        self._ask(ev.HandOver(role, None if to is None else to.id, why))

    def step_down(self, role: str | None = None) -> None:
        self._ask(ev.StepDown(role))

    def drain(self) -> None:
        self._ask(ev.Ask(drain=self.id))

    def ask(self, role: str, to: Actor | None = None, *, index: int = 0) -> None:
        """As an administrator: this seat is to go elsewhere."""
        self._ask(ev.Ask(seat=(role, index), to=None if to is None else to.id))

    def pause(self, role: str | None = None, *, seconds: float) -> None:
        self._ask(ev.PauseFor(int(seconds * 1000), role))

    def resume(self, role: str | None = None) -> None:
        self._ask(ev.ResumeNow(role))

    def add_role(self, name: str, seats: int = 1, weight: float = 1.0, spread: str = "host") -> None:
        self._ask(ev.Declare(name, seats, weight, spread))

    def remove_role(self, name: str) -> None:
        self._ask(ev.Declare(name, removed=True))

    def mark(self, role: str, mark: int, *, index: int = 0) -> None:
        """The work of its current term has come so far."""
        token = self.process.beliefs.get((role, index))
        if token is None:
            raise ConfigError(f"{self.id} does not lead {role}/{index}: only a holder has marks to write")
        self._ask(ev.Marked((role, index), token, mark))

    def rewind(self, marks: Mapping[Seat, int]) -> None:
        self._ask(ev.RewindTo(tuple((role, index, mark) for (role, index), mark in sorted(marks.items()))))

    def ready(self, ready: bool) -> None:
        self._ask(ev.Ready(ready))

    def close(self) -> None:
        self._ask(ev.Close())

    def _ask(self, event: ev.Event) -> None:
        if not self.process.running:
            raise ConfigError(f"{self.name} does not run: start it by restart()")
        self.process.request(event)


class Stage:
    """Processes on a simulated log. `latency` (seconds) is how long an append, its answer and a delivery take each."""

    def __init__(
        self,
        *,
        seed: int | str = 0,
        latency: float = 0.001,
        timeout: float = 0.5,
        group: str = GROUP,
        begin: int = 0,
        drift: float = 0.0,
        check: bool = True,
    ) -> None:
        each = int(latency * SECOND)
        weather = Weather(send=(each, each), ack=(each, each), lag=(each, each), timeout=int(timeout * SECOND))
        self.scene = Scene(seed, group=group, weather=weather, told=True, begin=begin)
        self.actors: dict[str, Actor] = {}
        self.drift = drift
        self.rng = self.scene.random("stage")
        self._strangers: dict[str, int] = {}
        self.checkers: list[Checker] = []
        if check:
            self.checkers = always(self.scene)
            self.scene.watch(self.checkers)

    # Members there ----------------------------------------------------------------------------------------------------

    def member(
        self,
        name: str,
        *,
        roles: Iterable[str] = (),
        seats: int = 1,
        session: float = 1.0,
        eligible: Iterable[str] | None = None,
        barrier: float | None = 0.0,
        barrier_timeout: float = 30.0,
        proof: bool = False,
        start: bool = True,
        **config: Any,
    ) -> Actor:
        """A new process. Times in seconds. `barrier`: how long its barrier takes; None: it never returns. `proof`: its
        death can be proven to members that have `proof` too. `config`: what else `Config` has."""
        if name in self.actors:
            raise ConfigError(f"there is a member {name!r} on the stage already: restart it, or choose another name")
        names = tuple(roles)
        settings: dict[str, Any] = {
            "roles": tuple(RoleSpec(role, seats) for role in names),
            "eligible": names if eligible is None else tuple(eligible),
            "session_ms": round(session * 1000),
            "barrier_ms": round(barrier_timeout * 1000),
        }
        for key, value in config.items():
            if key in _SECONDS:
                key, value = _SECONDS[key], round(value * 1000)
            if key not in _KNOWN:
                raise ConfigError(f"member() knows no argument {key!r}; see pares.Member for those there are")
            settings[key] = value
        offset = self.rng.randint(1, 1000) * SECOND
        stopwatch = Stopwatch(offset, 1.0 + self.rng.uniform(-self.drift, self.drift))
        process = self.scene.add(name, settings, stopwatch=stopwatch, wall=WallClock(self.rng.randint(-60, 60) * 10**6))
        process.proof = proof
        process.barrier_time = lambda seat, token: None if barrier is None else int(barrier * SECOND)
        actor = self.actors[name] = Actor(self, process)
        if start:
            process.start()
        return actor

    def admin(self, name: str = "admin", **config: Any) -> Actor:
        """A member that is eligible for nothing, and asks, pauses and rewinds."""
        return self.member(name, **config)

    # Time ------------------------------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """True time, in seconds since the stage was made."""
        return self.scene.engine.now / SECOND

    def run(self, seconds: float) -> None:
        """Lets so much time pass. Raises `Broken` when a promise is broken."""
        self.scene.engine.run(self.scene.engine.now + int(seconds * SECOND))

    # The same by name ------------------------------------------------------------------------------------------------

    def kill(self, member: Actor | str) -> None:
        self._actor(member).kill()

    def restart(self, member: Actor | str) -> None:
        self._actor(member).restart()

    def freeze(self, member: Actor | str, seconds: float | None = None) -> None:
        self._actor(member).freeze(seconds)

    def thaw(self, member: Actor | str) -> None:
        self._actor(member).thaw()

    def cut(self, member: Actor | str, *, reads: bool = True, writes: bool = True) -> None:
        self._actor(member).cut(reads=reads, writes=writes)

    def heal(self, member: Actor | str | None = None) -> None:
        """One member, or all of them, reach the ledger again."""
        for actor in self.actors.values() if member is None else [self._actor(member)]:
            if not actor.reachable:
                actor.heal()

    def _actor(self, member: Actor | str) -> Actor:
        return member if isinstance(member, Actor) else self.actors[member]

    # What can be seen ------------------------------------------------------------------------------------------------

    def leader(self, role: str, index: int = 0) -> str | None:
        """The name of the member that believes that it holds the seat now; None if nobody does."""
        found = self.leaders(role, index)
        return found[0] if found else None

    def leaders(self, role: str, index: int | None = None) -> list[str]:
        """All that believe so (in overlap mode there may be two), or that hold any seat of the role."""
        found: list[str] = []
        for actor in self.actors.values():
            for seat in actor.process.beliefs:
                if seat[0] == role and index in (None, seat[1]) and actor.process.believes(seat):
                    found.append(actor.name)
        return sorted(found)

    @property
    def world(self) -> World:
        """What the log says by now: the world of a reader that has read everything."""
        return self.scene.judge.world

    @property
    def log(self) -> list[tuple[int, int, bytes]]:
        """What stands in the log now: (offset, milliseconds, payload)."""
        return self.scene.log.entries()

    @property
    def trace(self) -> list[str]:
        """One line for each thing that happened so far: seconds, who, what, seat, token, why."""
        return self.scene.story.text()

    def note(self, text: str) -> None:
        """A line of the test's own in the trace."""
        self.scene.note("--", text)

    # Making trouble --------------------------------------------------------------------------------------------------

    def write(self, payload: bytes | AnyRecord) -> int:
        """Appends bytes, or a record, that no member has written. Returns the offset."""
        data = payload if isinstance(payload, bytes) else records.encode(payload)
        return self.scene.log.append([data], self.scene.engine.now)

    def record(self, kind: type[records.Record], by: str, **fields: Any) -> AnyRecord:
        """A record in the name of the id `by`, with the base in force and a number higher than its last."""
        member = self.world.members.get(by)
        highest = max(self._strangers.get(by, 0), 0 if member is None else member.n)
        self._strangers[by] = highest + 1
        envelope = {"v": 1, "g": self.scene.group, "m": by, "n": highest + 1, "b": self.world.base, "s": 1000}
        made: Any = kind(**{**envelope, **fields})
        return made

    def replay(self, offset: int) -> int:
        """A late copy of the entry at `offset` lands now. Returns the copy's offset."""
        entry = self.scene.log.at(offset)
        if entry is None:
            raise ConfigError(f"there is no entry {offset} in the log any more")
        return self.scene.log.append([entry[2]], self.scene.engine.now)

    def trim(self, before: int) -> None:
        """The log now starts at `before`."""
        self.scene.trim(before)

    def replace_log(self) -> None:
        """Another, empty, log stands in the place of this one from now on."""
        self.scene.replace_log()
