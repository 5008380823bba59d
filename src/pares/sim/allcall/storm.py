"""Faults: what befalls ALLCALL's members, and the bus, while the storm lasts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from pares.core.allcall.messages import Call, encode
from pares.sim.allcall.knobs import FAULTS
from pares.sim.allcall.net import Cut, Message
from pares.sim.allcall.process import AllCallProcess
from pares.sim.engine import MS
from pares.sim.faults.random_events import Chance

if TYPE_CHECKING:
    from pares.sim.allcall.play import AllCallPlay


class AllCallStorm(Chance[AllCallProcess]):
    """Draws faults, at random times, until it is over."""

    def __init__(self, play: AllCallPlay, until: int) -> None:
        self.play = play
        self.scene = play.scene
        knobs = play.knobs
        super().__init__(
            play.scene.engine, play.scene.random("storm"), knobs.faults, pace=knobs.pace, unit=play.unit, until=until
        )

    def happen(self, kind: str) -> None:
        STRIKES[kind](self)

    def own(self) -> list[AllCallProcess]:
        return self.play.own

    def _while_cut(self) -> int:
        """How long something stays cut: sometimes long enough for each side to go its own way."""
        return int(self.rng.uniform(0.1, 1) * self.play.knobs.reach * self.play.bounds.quiet)

    # Processes -------------------------------------------------------------------------------------------------------

    def crash(self) -> None:
        process = self.someone()
        if process is not None:
            self.scene.disturbed()
            process.kill()
            self.engine.after(self.span(0, 4), self.play.start, process)

    def restart(self) -> None:
        """Within its own lease."""
        process = self.someone()
        if process is not None:
            self.scene.disturbed()
            process.kill()
            self.engine.after(self.span(0, 0.5), self.play.start, process)

    def freeze(self) -> None:
        process = self.someone()
        if process is not None:
            self._freeze_for(process, self.span(0.02, 3), process.freeze)

    def freeze_inside(self) -> None:
        process = self.someone()
        if process is not None:
            self._freeze_for(process, self.span(0.1, 2), lambda length: setattr(process, "freeze_at", length))

    def _freeze_for(self, process: AllCallProcess, length: int, freeze: Callable[[int], None]) -> None:
        self.scene.disturbed()
        freeze(length)
        self.engine.after(length + 3 * self.play.bounds.beat, self.scene.disturbed)

    def close(self) -> None:
        process = self.someone()
        if process is not None:
            self.scene.disturbed()
            process.close()
            self.engine.after(self.span(0.1, 4), self.play.start, process)

    def step_down(self) -> None:
        process = self.someone(holder=True)
        if process is not None:
            self.scene.disturbed()
            self.engine.after(self.play.bounds.barrier, self.scene.disturbed)
            process.step_down(self.rng.choice((None, process.roles[0])))

    def ready(self) -> None:
        process = self.someone()
        if process is not None:
            self.scene.disturbed()
            process.become(ready=False)
            self.engine.after(self.span(0.1, 4), self._ready_again, process)

    def _ready_again(self, process: AllCallProcess) -> None:
        self.scene.disturbed()
        process.become(ready=True)

    def barrier(self) -> None:
        """Somebody's next barriers never return, until they time out."""
        process = self.someone(holder=True)
        if process is not None:
            self.scene.disturbed()
            process.barrier_time = lambda: None
            process.step_down()
            for timed_out in (1, 2, 3, 4):
                self.engine.after(timed_out * self.play.unit, self.scene.disturbed)

    def wall(self) -> None:
        """Somebody's wall clock is set."""
        process = self.someone()
        if process is not None:
            self.scene.disturbed()
            self.play.set_wall(process, self.rng)
            process.connected_again()

    # Connections -----------------------------------------------------------------------------------------------------

    def _hurt(self, what: str, length: int, do: Callable[[AllCallProcess], None]) -> None:
        process = self.someone()
        if process is not None and process.station.well:
            self.scene.note(process.name, what)
            self.scene.disturbed()
            do(process)
            self.play.hurt(process)
            self.engine.after(length, self.play.heal, process)

    def disconnect(self) -> None:
        self._hurt("is disconnected", self._while_cut(), self.scene.net.disconnect)

    def blink(self) -> None:
        """A new connection; what was on its way is gone."""
        self._hurt("is disconnected for a moment", self.span(0, 0.1), self.scene.net.disconnect)

    def deaf(self) -> None:
        self._hurt("is deaf", self._while_cut(), lambda process: setattr(process.station, "deaf", True))

    def mute(self) -> None:
        """Nothing that it says reaches anybody, itself included, and it is not told."""
        self._hurt("is mute", self._while_cut(), lambda process: setattr(process.station, "mute", True))

    def outage(self) -> None:
        """The bus is out of everybody's reach."""
        length = self._while_cut()
        self.scene.note("bus", "out of reach")
        self.scene.disturbed()
        for process in self.play.own:
            self.scene.net.disconnect(process)
            self.play.hurt(process)
            self.engine.after(length, self.play.heal, process)

    def one_way(self) -> None:
        """From some to some others nothing passes; back it does."""
        names = [process.name for process in self.play.own]
        deaf = set(self.rng.sample(names, self.rng.randint(1, len(names) - 1)))
        mute = set(self.rng.sample(sorted(set(names) - deaf), self.rng.randint(1, len(names) - len(deaf))))
        self.scene.note("bus", "is cut", why=f"from {sorted(mute)} to {sorted(deaf)}")
        self._cut(lambda source, target: source in mute and target in deaf)

    def split(self) -> None:
        self._cut(self.play.sides(self.rng))

    def _cut(self, cut: Cut) -> None:
        self.scene.disturbed()
        self.scene.net.cuts.append(cut)
        self.engine.after(self._while_cut(), self.play.mend, cut)

    # Messages --------------------------------------------------------------------------------------------------------

    def replay(self) -> None:
        """Copies of what was said long ago, longer than it counts."""
        self.play.replay(self.rng, self.rng.randint(1, 6))

    def garbage(self) -> None:
        process = self.someone()
        history = self.scene.net.history
        if process is None or not history:
            return
        call = self.rng.choice(history).call
        later = msgspec.structs.replace(call, m="stranger~1", v=7, n=1)
        huge = msgspec.structs.replace(call, m="stranger~1", g="another group", c=[])
        for payload in (b"", b"{", b"\xff", b"[" * 1000, b"x" * 70_000, encode(later), encode(huge)):
            self._throw(process, payload)

    def _throw(self, process: AllCallProcess, payload: bytes) -> None:
        nothing = Call(1, "ping", "", "", 0, 0, 0, "ping", [], [])
        self.scene.net.deliver_after(MS, process.name, process.name, Message("--", nothing, payload, self.engine.now))


STRIKES: Final[dict[str, Callable[[AllCallStorm], None]]] = {name: getattr(AllCallStorm, name) for name in FAULTS}
