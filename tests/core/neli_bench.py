"""One member of the NELI family and the logs that it and a test write to; time stands still unless the test moves it."""

from __future__ import annotations

from typing import Any

from pares.core.events import Acked, Append, Assigned, Attached, Effect, Extend, Follow, Lead, Read, Tick
from pares.core.neli.classic import Neli
from pares.core.neli.config import Config
from pares.core.neli.fast import Fast
from pares.core.neli.induced import Induced
from pares.core.wire import neli_records
from pares.core.wire.neli_records import Announce, Number, PartitionCount, Place, RolesChanged, Share, Yield

MS = 1_000_000
WALL_US = 1_700_000_000_000_000


def config(**fields: Any) -> Config:
    settings: dict[str, Any] = {"group": "g", "id": "me~1", "name": "me", "roles": ("0",)}
    settings |= {"threshold_ms": 300, "interval_ms": 50, "session_ms": 1000}
    return Config(**settings | fields)


def fast(config: Config) -> Induced:
    return Induced(Fast(config))


def neli(config: Config) -> Induced:
    return Induced(Neli(config))


class Bench:
    """One member and the logs that it and the test write to. Time stands still unless the test moves it."""

    def __init__(self, core: Induced, start: int = 0, *, logs: Bench | None = None, idle: bool = False) -> None:
        """`logs`: those of another member, shared with it. `idle`: it does not begin to read yet."""
        self.core = core
        self.now = 10**12 if logs is None else logs.now
        self.logs: list[list[tuple[int, int, bytes]]] = [[] for _ in core.parts] if logs is None else logs.logs
        self.ends = [start] * len(core.parts) if logs is None else logs.ends
        self.effects: list[Effect] = []
        self.numbers: dict[tuple[str, int], int] = {}
        self._entered = False
        if not idle:
            self.go()

    def enter(self) -> None:
        """Begins to read."""
        self._entered = True
        for number in range(len(self.core.parts)):
            log = self.logs[number]
            self.step(Attached(log[0][0] if log else self.ends[number], self.ends[number], number))
        self.read()

    @property
    def wall_us(self) -> int:
        return WALL_US + self.now // 1000

    def step(self, event: Any) -> list[Effect]:
        effects = self.core.step(event, self.now)
        self.effects += effects
        return effects

    def wait(self, ms: float) -> None:
        self.now += int(ms * MS)

    def write(
        self, kind: Any, member: str, partition: int = 0, *, n: int | None = None, b: int = 0, **fields: Any
    ) -> int:
        """A record of somebody else's comes to stand in the log. Its offset."""
        key = (member, partition)
        self.numbers[key] = self.numbers.get(key, 0) + 1 if n is None else n
        if kind is Announce:
            fields = {"name": member.split("~")[0], "within": 300, "drift": 0.1, "of": len(self.core.parts), **fields}
        elif kind not in (Yield, PartitionCount, RolesChanged, Share, Number, Place):
            fields = {"within": 300, **fields}
        made = kind(v=1, g="g", m=member, n=self.numbers[key], b=b, s=50, **{"at": 0, **fields})
        return self.land(neli_records.encode(made), partition)

    def land(self, payload: bytes, partition: int = 0) -> int:
        offset = self.ends[partition]
        self.logs[partition].append((offset, self.wall_us // 1000, payload))
        self.ends[partition] += 1
        return offset

    def put(self, effect: Append) -> int:
        """The member's own append lands and is acknowledged."""
        offset = self.land(effect.payloads[0], effect.partition)
        self.step(Acked(effect.ticket, offset))
        return offset

    def read(self) -> list[Effect]:
        """Everything that is new, and once more for nothing."""
        before = len(self.effects)
        for number, log in enumerate(self.logs):
            position = self.core.position(number)
            self.step(Read([e for e in log if e[0] >= position], number, self.wall_us))  # type: ignore[arg-type]
            self.step(Read([], number, self.wall_us))
        return self.effects[before:]

    def tick(self) -> list[Append]:
        return [e for e in self.step(Tick(self.wall_us)) if isinstance(e, Append)]

    def go(self) -> list[Effect]:
        """Ticks, appends and reads until nothing more is to be written."""
        before, idle = len(self.effects), 0
        if not self._entered:
            self.enter()
        while idle < 2:
            puts = self.tick()
            for put in puts:
                self.put(put)
            self.read()
            idle = 0 if puts else idle + 1
        return self.effects[before:]

    def tick_until(self, kind: Any) -> None:
        """Goes on until records of that kind stand in every partition."""
        if not self._entered:
            self.enter()
        while not all(any(isinstance(neli_records.decode(entry[2]), kind) for entry in log) for log in self.logs):
            for put in self.tick():
                self.put(put)

    def leading(self) -> dict[str, int]:
        held: dict[str, int] = {}
        for effect in self.effects:
            if isinstance(effect, Lead):
                held[effect.seat[0]] = effect.token
            elif isinstance(effect, Follow):
                held.pop(effect.seat[0], None)
        return held

    def until(self) -> int:
        return [e.until for e in self.effects if isinstance(e, Lead | Extend)][-1]

    def kinds(self, partition: int = 0) -> list[str]:
        """What stands in that log, but for partitions and roles."""
        found = [type(neli_records.decode(payload)).__name__ for _, _, payload in self.logs[partition]]
        return [kind for kind in found if kind not in ("PartitionCount", "Share", "Number", "Place")]


def of(effects: list[Effect], kind: Any) -> list[Any]:
    return [effect for effect in effects if isinstance(effect, kind)]


def leading(core: Induced, **more: Any) -> Bench:
    bench = Bench(core, **more)
    bench.step(Assigned((0,)))
    bench.read()
    bench.go()
    assert bench.leading()
    return bench
