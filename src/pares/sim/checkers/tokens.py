"""Promise 4: tokens strictly grow per seat, also when the log was begun anew; and a fence is enough.

Between logs this is promised only if the wall clock of whoever begins the new one is not behind the old tokens, or if it has
seen them itself. Users write to a fenced sink in the name of their terms, rightly and too late.
"""

from __future__ import annotations

from pares.core.events import Append, Follow, Lead
from pares.core.wire.changes import Began, SeatChanged
from pares.core.wire.records import Seat
from pares.sim.checker import Checker, Landed
from pares.sim.process import Process
from pares.sim.scene import Scene
from pares.sim.sink import Sink
from pares.sim.trace import seat_name


class Tokens(Checker):
    promise = "tokens grow"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.sink = Sink()
        self.rng = scene.random("users")
        self.last: dict[Seat, int] = {}
        self.highest = 0
        self.known: dict[str, int] = {}
        """The highest token under which each process has led, as long as it runs."""
        self.era = 0
        """Rises whenever tokens may have fallen: writes of an earlier era are nobody's matter."""
        self.geneses: set[bytes] = set()
        """Those written for an earlier log: a late copy of one may begin a new log, with the base of old."""
        self.written: set[bytes] = set()

    def landed(self, landed: Landed) -> None:
        for change in landed.changes:
            if type(change) is Began:
                self._begin(landed, change.base)
            elif type(change) is SeatChanged and change.holder is not None:
                if change.token <= self.last.get(change.seat, -1):
                    raise self.broken(
                        f"the token of {seat_name(change.seat)} fell from {self.last[change.seat]} to {change.token} "
                        f"at {landed.offset}"
                    )
                self.last[change.seat] = change.token
                self.highest = max(self.highest, change.token)

    def _begin(self, landed: Landed, base: int) -> None:
        """A log begins. If its base is below what was given out before, was that allowed?"""
        if base > self.highest or landed.record is None:
            return None
        if landed.payload in self.geneses:
            return self._anew()
        writer = next((p for p in self.scene.processes.values() if p.id == landed.record.m), None)
        if writer is not None:
            if writer.wall.read_us(self.scene.engine.now) - self.scene.wall_slack > self.highest:
                raise self.broken(
                    f"{writer.id} begins a log with base {base}, though its clock is beyond {self.highest}"
                )
            if self.known.get(writer.name, 0) > base:
                raise self.broken(
                    f"{writer.id} begins a log with base {base}, and has led under {self.known[writer.name]}"
                )
        # Its clock is behind: nothing was promised. From here on everything is measured anew.
        return self._anew()

    def _anew(self) -> None:
        self.last, self.highest, self.sink, self.era = {}, 0, Sink(), self.era + 1

    def sent(self, process: Process, effect: Append) -> None:
        self.written.update(payload for payload in effect.payloads if payload.startswith(b'{"k":"genesis"'))

    def replaced(self) -> None:
        self.geneses |= self.written

    def killed(self, process: Process) -> None:
        self.known.pop(process.name, None)

    def ended(self, process: Process, id: str) -> None:
        if process.over is not None:
            self.known.pop(process.name, None)  # whoever comes next under its name remembers nothing

    # Users -----------------------------------------------------------------------------------------------------------

    def led(self, process: Process, effect: Lead) -> None:
        self.known[process.name] = max(self.known.get(process.name, 0), effect.token)
        self._write(process, effect.seat, effect.token, self.era)
        if self.rng.random() < 0.3:
            late = int(process.settings["session_ms"] * 1e6 * self.rng.uniform(0.01, 2))
            self.scene.engine.after(late, self._write, process, effect.seat, effect.token, self.era)

    def followed(self, process: Process, effect: Follow) -> None:
        """A write that was under way when the belief ended."""
        if self.rng.random() < 0.2:
            late = int(process.settings["session_ms"] * 1e6 * self.rng.uniform(0, 3))
            self.scene.engine.after(late, self._write, process, effect.seat, effect.token, self.era)

    def frozen(self, process: Process, length: int | None) -> None:
        """It stands between its check and its write; the write follows when it is thawed."""
        if length is not None:
            for seat, token in process.beliefs.items():
                self.scene.engine.after(length + 1, self._write, process, seat, token, self.era)

    def _write(self, process: Process, seat: Seat, token: int, era: int) -> None:
        if era != self.era or token > self.highest:
            return  # of a log before this one, whose tokens were higher, as was allowed
        right = process.believes(seat) and process.beliefs[seat] == token
        newest = self.last.get(seat, 0)
        seen = self.sink.seen.get(seat, 0)
        accepted = self.sink.write(seat, token)
        if right and not accepted and not process.settings.get("overlap_ms") and newest == token:
            raise self.broken(
                f"the fence refuses {process.id}, which rightly leads {seat_name(seat)}: {token} below {seen}"
            )
        if not right and accepted and seen > token:
            raise self.broken(f"the fence lets {process.id} write to {seat_name(seat)} by {token} after {seen}")
