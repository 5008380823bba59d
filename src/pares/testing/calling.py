"""The stage of ALLCALL: a bus, on which members hear each other or don't."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from pares.core.errors import ConfigError
from pares.core.events import Ask, Close, Event, HandOver, Ready, StepDown
from pares.core.reasons import DRAINED, HANDED_OVER
from pares.core.wire.records import Seat
from pares.runtime.allcall.settings import check_foreign, settings_of
from pares.runtime.config.protocols import AllCall, ProtocolSettings
from pares.runtime.config.settings import SESSION, settings
from pares.runtime.here import here
from pares.sim.allcall.knobs import Bounds, Weather, draw
from pares.sim.allcall.net import Cut
from pares.sim.allcall.process import NEVER, AllCallProcess
from pares.sim.allcall.scene import AllCallScene
from pares.sim.engine import SECOND, Stopwatch, WallClock
from pares.testing.refusing import RefusingActor
from pares.testing.shared_out import PLAIN, unknown_among

if TYPE_CHECKING:
    from pares.testing.stage import Stage

LOOKS: int = 5
"""How often a beat the checker looks."""
FOR_GOOD: int = 2**60
"""Nanoseconds that no play lasts."""


class Calling:
    """Where such members play. All of a group should have the same settings; on the stage they must."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        weather = Weather(delay=(stage.scene.weather.lag[0], stage.scene.weather.lag[1]))
        self.scene = AllCallScene(stage.seed, weather=weather, told=True)
        self._own: AllCall | None = None
        self._seats: list[Seat] = []
        self._split: Cut | None = None

    def add(
        self, name: str, own: ProtocolSettings, barrier: float | None, barrier_timeout: float, given: dict[str, Any]
    ) -> RefusingActor:
        assert isinstance(own, AllCall)
        stage = self._stage
        if given.pop("proof"):
            raise ConfigError("proof=True: no death is proven in ALLCALL: leave it out")
        eligible, seats, session, roles = (given.pop(key) for key in ("eligible", "seats", "session", "roles"))
        unknown_among(given)
        asked = {**PLAIN, **given}
        if session != 1.0:
            raise ConfigError("session: leaders have a lease here: protocol=pares.AllCall(lease=, heartbeat=)")
        check_foreign({**asked, "eligible": eligible, "seats": seats, "session": SESSION})
        if self._own is not None and own != self._own:
            raise ConfigError(f"{name!r} is given {own}, and the others run {self._own}: all of a group have the same")
        checked = settings(
            here(),
            group=stage.scene.group,
            roles=tuple(roles),
            seats=1,
            eligible=None,
            session=1.0,
            barrier_timeout=barrier_timeout,
            retention=None,
            **{**asked, "name": name},
        )
        made = settings_of(checked, own, here().random())
        fields = {key: value for key, value in asdict(made).items() if key != "id"}
        fields["phase_ms"] = stage.rng.randrange(made.heartbeat_ms)  # one seed, one play
        rate = 1.0 + stage.rng.uniform(-stage.drift, stage.drift)
        stopwatch = Stopwatch(stage.rng.randint(1, 1000) * SECOND, rate)
        process = self.scene.add(name, fields, stopwatch=stopwatch, wall=WallClock())
        process.barrier_time = lambda: None if barrier is None else int(barrier * SECOND)
        self._watch(own, made.roles)
        return CallingActor(stage, process)

    def _watch(self, own: AllCall, roles: tuple[str, ...]) -> None:
        self._seats += [(role, 0) for role in roles if (role, 0) not in self._seats]
        if self._own is None and self._stage.check:
            from pares.sim.allcall.checkers import OneSide

            times = {"beat_ms": own.heartbeat, "lease_ms": own.lease, "skew_ms": own.skew}
            bias: dict[str, Any] = {key: round(1000 * value) for key, value in times.items()}
            bias |= {"order": own.order, "drift": self._stage.drift, "wall_s": 0.0, "barrier": 0.0, "wakes_late": 0}
            knobs = draw(0, {**bias, "weather": asdict(self.scene.net.weather)})
            bounds = Bounds(knobs)
            self.scene.watch([OneSide(self.scene, bounds, self._seats)])
            self.scene.engine.at(self.scene.engine.now, self.scene.look_every, bounds.beat // LOOKS)
        self._own = own

    def split(self, sides: list[list[str]]) -> None:
        """Members of different sides do not hear each other."""
        self.heal()
        side = {name: number for number, names in enumerate(sides) for name in names}
        cut = self._split = lambda one, other: (
            side.get(one, -1) != side.get(other, -1) and one in side and other in side
        )
        self.scene.net.cuts.append(cut)
        self.scene.note("--", "split", why=" | ".join(", ".join(names) for names in sides))

    def heal(self) -> None:
        if self._split is not None:
            self.scene.net.cuts.remove(self._split)
            self._split = None
            self.scene.note("--", "healed")


class CallingActor(RefusingActor):
    """One that runs ALLCALL."""

    process: AllCallProcess

    @property
    def state(self) -> str:
        process = self.process
        if process.incarnations == 0:
            return "waiting"
        if process.over is not None:
            return "closed"
        if not process.running:
            return "dead"
        if process.frozen:
            return "frozen"
        return "live" if process.core is not None and process.core.live else "joining"

    @property
    def reachable(self) -> bool:
        return self.process.station.well

    def token(self, role: str) -> int | None:
        process = self.process
        return process.beliefs[role, 0][0] if process.believes((role, 0)) else None

    def kill(self) -> None:
        self.process.kill()

    def restart(self) -> None:
        self.process.kill()
        self.process.start()

    def freeze(self, seconds: float | None = None, *, at: str | None = None) -> None:
        """`at`: at the next time that it has "ticked" (and what it says has not left yet)."""
        if at is None:
            self.process.freeze(FOR_GOOD if seconds is None else int(seconds * SECOND))
        elif at == "ticked" and seconds is not None:
            self.process.freeze_at = int(seconds * SECOND)
        else:
            raise ConfigError(f"freeze(at={at!r}, seconds={seconds!r}): give 'ticked', and how long")

    def thaw(self) -> None:
        self.process.thaw(self.process.incarnations)

    def cut(self, *, reads: bool = False, writes: bool = False, acks: bool = False, group: bool | None = None) -> None:
        """From now on it hears nobody (`reads`), nobody hears it (`writes`), or both; until `heal`. It does not hear itself
        either way."""
        if group is not None:
            raise self._not_here("group=")
        station = self.process.station
        station.deaf, station.mute = reads, writes or acks
        self.process.well_since = NEVER
        what = [name for name, on in (("hearing", station.deaf), ("being heard", station.mute)) if on]
        self.process.scene.note(self.name, "is cut off", why=" and ".join(what))

    def heal(self) -> None:
        station = self.process.station
        station.deaf = station.mute = False
        self.process.scene.note(self.name, "is healed")
        self.process.connected_again()

    def _ask(self, event: Event) -> None:
        process = self.process
        if not process.running:
            raise ConfigError(f"{self.name} does not run: start it by restart()")
        match event:
            case HandOver(role):
                if self.holds(role):  # the lowest rank leads: to whom is not this one's to say
                    process.ask(StepDown(role, event.why or HANDED_OVER))
            case Ask(drain=drain) if drain == self.id:
                process.ask(StepDown(None, DRAINED))
                process.become(ready=False)
            case Ready(ready):
                process.become(ready=ready)
            case StepDown() | Close():
                process.ask(event)
            case _:
                raise self._not_here(type(event).__name__)

    # What ALLCALL has not --------------------------------------------------------------------------------------------

    def _not_here(self, what: str) -> ConfigError:
        return ConfigError(f"{what} is not in ALLCALL, which has no log and no administrators")
