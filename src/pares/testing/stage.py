"""Members on a simulated ledger, in virtual time: `Stage`, which has its `Actor`s.

    stage = Stage()
    alice = stage.member("alice", roles=["mail"])
    bob = stage.member("bob", roles=["mail"])
    stage.run(1)
    alice.kill()
    stage.run(2)
    assert stage.leader("mail") == "bob"
    print("\\n".join(stage.trace))

Promised: the members are the real protocol and write real records; nothing waits; one seed and one script give one trace.
Not promised: anything about speed. The ledger here answers in as many milliseconds as the stage was told.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from pares.core.claims.protocol import Config, RoleSpec
from pares.core.errors import ConfigError
from pares.core.wire import records
from pares.core.wire.records import AnyRecord
from pares.core.wire.world import World
from pares.runtime.config.protocols import TRAITS, AllCall, Protocol, ProtocolSettings, protocol_of
from pares.sim.checker import Checker
from pares.sim.engine import MS, SECOND, Engine, Stopwatch, WallClock
from pares.sim.scene import GROUP, Scene
from pares.sim.wire import Weather
from pares.testing.actor import Actor

if TYPE_CHECKING:
    from pares.testing.calling import Calling
    from pares.testing.shared_out import SharedOut

_SECONDS = {"session": "session_ms", "overlap": "overlap_ms", "settle": "settle_ms", "retention": "retention_ms"}
_KNOWN = {f.name for f in msgspec.structs.fields(Config)} - {"group", "id", "name", "lock"}


class Stage:
    """Members on a simulated ledger. `latency` (seconds) is how long an append, its answer and a delivery take each.

    All members of a stage run one protocol: that of the first one. NELI, NELE and Fast NELI share out `partitions` partitions,
    by a coordinator as Kafka has one; ALLCALL's members call on a bus. `world`, `log`, `write` and the like are of claims.

    `drift` spreads the rates of the members' stopwatches over what they allow; 0 gives everybody a true clock. Times in
    the trace are true time. `check=True` (the default) raises `pares.sim.checker.Broken` the moment a promise is broken.
    """

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
        partitions: int = 1,
    ) -> None:
        each = int(latency * SECOND)
        self.seed, self.partitions, self.check = seed, partitions, check
        self.protocol: str | None = None
        """What its members run; None before there is one."""
        self._other: SharedOut | Calling | None = None
        """Where those play who do not run claims."""
        self._begin = begin
        weather = Weather(send=(each, each), ack=(each, each), lag=(each, each), timeout=int(timeout * SECOND))
        self.scene = Scene(seed, group=group, weather=weather, told=True, begin=begin)
        self.actors: dict[str, Actor] = {}
        self.drift = drift
        self.rng = self.scene.random("stage")
        self._strangers: dict[str, int] = {}
        self.checkers: list[Checker] = []
        if check:
            from pares.sim.checkers import always

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
        protocol: Protocol = "claims",
        **config: Any,
    ) -> Actor:
        """A new process. Times in seconds. `protocol`: as of `pares.Member`, a name or settings such as `pares.Neli(T=0.4)`.

        `roles` (with `seats` each) are declared, and are what it is eligible for unless `eligible` says otherwise; with neither
        it is an administrator. `barrier`: how long its barrier takes; None: it never returns. `proof`: its death can be
        proven to members of the stage that have `proof` too. Other arguments are those of `pares.Member` (`rank`, `weight`,
        `host`, `zone`, `overlap`, `settle`, `drift`, `labels`).
        """
        if name in self.actors:
            raise ConfigError(f"there is a member {name!r} on the stage already: restart it, or choose another name")
        law, own = protocol_of(protocol)
        if self.protocol not in (None, law):
            raise ConfigError(
                f"{name!r} is to run {law!r}, and the members on the stage run {self.protocol!r}: a group runs one protocol"
            )
        if own is not None:
            given = {"roles": roles, "seats": seats, "session": session, "eligible": eligible, "proof": proof, **config}
            actor = self._elsewhere(own).add(name, own, barrier, barrier_timeout, given)
            self.protocol, self.actors[name] = law, actor
            if start:
                actor.process.start()
            return actor
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
        self.protocol = law
        actor = self.actors[name] = Actor(self, process)
        if start:
            process.start()
        return actor

    def _elsewhere(self, own: ProtocolSettings) -> SharedOut | Calling:
        if self._other is None:
            if self._begin:
                raise ConfigError(f"begin={self._begin} is for a log of claims: leave it out")
            if isinstance(own, AllCall):
                from pares.testing.calling import Calling

                self._other = Calling(self)
            else:
                from pares.testing.shared_out import SharedOut

                self._other = SharedOut(self)
        return self._other

    def admin(self, name: str = "admin", **config: Any) -> Actor:
        """A member that is eligible for nothing, and asks, pauses and rewinds."""
        return self.member(name, **config)

    # Time ------------------------------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """True time, in seconds since the stage was made."""
        return self._engine.now / SECOND

    @property
    def _engine(self) -> Engine:
        return self.scene.engine if self._other is None else self._other.scene.engine

    def run(self, seconds: float) -> None:
        """Lets so much time pass. Raises `Broken` when a promise is broken."""
        self._engine.run(self._engine.now + int(seconds * SECOND))

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
        """One member, or all of them, reach the ledger again; without a member, a `split` is over too."""
        if member is None and self._other is not None:
            self._other.heal()
        for actor in self.actors.values() if member is None else [self._actor(member)]:
            if not actor.reachable:
                actor.heal()

    def split(self, *sides: Iterable[Actor | str]) -> None:
        """ALLCALL: members of different sides hear nothing of each other until `heal`; those in no side hear all."""
        if self.protocol is None or TRAITS[self.protocol].on_log:
            raise ConfigError(
                "split() is ALLCALL's, whose members hear each other: with a log, cut members off by cut()"
            )
        assert self._other is not None
        self._other.split([[self._actor(member).name for member in side] for side in sides])

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
        self._of_claims("world")
        return self.scene.judge.world

    @property
    def log(self) -> list[tuple[int, int, bytes]]:
        """What stands in the log now: (offset, milliseconds, payload)."""
        self._of_claims("log")
        return self.scene.log.entries()

    @property
    def trace(self) -> list[str]:
        """One line for each thing that happened so far: seconds, who, what, seat, token, why."""
        return (self.scene if self._other is None else self._other.scene).story.text()

    def note(self, text: str) -> None:
        """A line of the test's own in the trace."""
        (self.scene if self._other is None else self._other.scene).note("--", text)

    def _of_claims(self, what: str) -> None:
        if self._other is not None:
            raise ConfigError(f"{what} is of a stage whose members run claims: these run {self.protocol!r}")

    # Making trouble --------------------------------------------------------------------------------------------------

    def write(self, payload: bytes | AnyRecord) -> int:
        """Appends bytes, or a record, that no member has written. Returns the offset."""
        self._of_claims("write()")
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
        self._of_claims("replay()")
        entry = self.scene.log.at(offset)
        if entry is None:
            raise ConfigError(f"there is no entry {offset} in the log any more")
        return self.scene.log.append([entry[2]], self.scene.engine.now)

    def trim(self, before: int) -> None:
        """The log now starts at `before`."""
        self._of_claims("trim()")
        self.scene.trim(before)

    def replace_log(self) -> None:
        """Another, empty, log stands in the place of this one from now on."""
        self._of_claims("replace_log()")
        self.scene.replace_log()

    @property
    def latency(self) -> float:
        return self.scene.weather.lag[1] / MS / 1000
