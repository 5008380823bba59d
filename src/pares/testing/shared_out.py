"""The stage of NELI, NELE and Fast NELI: partitions, their logs, and a coordinator that shares them out, as Kafka's does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec.structs import asdict

from pares.core.errors import ConfigError
from pares.core.events import ChangeRoles, Event
from pares.ledger import Capabilities, Log
from pares.runtime.config.protocols import FastNeli, Nele, Partitioned, ProtocolSettings, protocol_of
from pares.runtime.config.settings import settings
from pares.runtime.here import here
from pares.runtime.neli.settings import check_seats, check_shape, check_sum
from pares.runtime.neli.settings import config as config_of
from pares.sim.engine import SECOND, Stopwatch, WallClock
from pares.sim.neli.process import NeliProcess
from pares.sim.neli.scene import NeliChecker, NeliScene
from pares.testing.refusing import RefusingActor

if TYPE_CHECKING:
    from pares.testing.stage import Stage

PLAIN: dict[str, Any] = {"name": None, "host": None, "zone": None, "labels": None, "rank": 0, "weight": 1}
PLAIN |= {"overlap": 0.0, "settle": None, "lock_folder": None, "drift": 0.1}
"""Arguments of `Member` as they are when nobody gives them."""


def unknown_among(config: Mapping[str, Any]) -> None:
    """Raises `ConfigError` for an argument that `Member` has not."""
    for key in config:
        if key not in PLAIN:
            raise ConfigError(f"member() knows no argument {key!r}; see pares.Member for those there are")


HERE_ALONE: Final = Capabilities(scope="process")


@dataclass(frozen=True)
class _Topic:
    """As much of a ledger as settings are checked against."""

    partitions: int
    kind: str = "memory"
    retention: float | None = None
    url: str = "the stage's ledger"
    capabilities: Capabilities = HERE_ALONE


class SharedOut:
    """Where such members play. The coordinator's session is that of the first member, and must be everybody's."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._scene: NeliScene | None = None
        self._session = 0.0

    @property
    def scene(self) -> NeliScene:
        assert self._scene is not None
        return self._scene

    def add(
        self, name: str, own: ProtocolSettings, barrier: float | None, barrier_timeout: float, given: dict[str, Any]
    ) -> RefusingActor:
        own = cast(Partitioned, own)
        stage = self._stage
        proof = given.pop("proof")
        eligible, seats, session, roles = (given.pop(key) for key in ("eligible", "seats", "session", "roles"))
        unknown_among(given)
        if proof:
            raise ConfigError(
                "proof=True: the stage's coordinator hears of a death by silence, as Kafka's does: leave it out"
            )
        asked = {**PLAIN, **given}
        law, _ = protocol_of(own)
        check_shape(law, {**asked, "eligible": eligible}, native=True)
        topic = cast(Log, _Topic(stage.partitions))
        check_seats(topic, seats)
        checked = settings(
            here(),
            group=stage.scene.group,
            roles=tuple(roles),
            seats=seats,
            eligible=None,
            session=session,
            barrier_timeout=barrier_timeout,
            retention=None,
            **{**asked, "name": name},
        )
        made = config_of(own, checked | {"seats": seats}, topic, session)
        if not isinstance(own, FastNeli):
            check_sum(made, session, session)
        self._open(own, session)
        fields = {key: value for key, value in asdict(made).items() if key not in ("id", "name", "seen")}
        rng = stage.rng
        # Exclusive NELI compares wall clocks with the log's: here they are one host's. The others compare none.
        wall = WallClock(0 if made.error_ms == 0 and made.exclusive else rng.randint(-60, 60) * 10**6)
        stopwatch = Stopwatch(rng.randint(1, 1000) * SECOND, 1.0 + rng.uniform(-stage.drift, stage.drift))
        process = self.scene.add(name, fields, stopwatch=stopwatch, wall=wall)
        process.barrier_time = lambda seat: None if barrier is None else int(barrier * SECOND)
        return SharedOutActor(stage, process)

    def _open(self, own: Partitioned, session: float) -> None:
        if self._scene is not None:
            if session != self._session:
                raise ConfigError(
                    f"session is {session:g}, and the group's is {self._session:g}: the coordinator has one for all members"
                )
            return
        stage = self._stage
        weather = stage.scene.weather
        self._session = session
        self._scene = scene = NeliScene(
            stage.seed,
            protocol="fast-neli" if isinstance(own, FastNeli) else "neli",
            partitions=stage.partitions,
            session=int(session * SECOND),
            group_delay=weather.lag,
            weather=weather,
            told=True,
        )
        if stage.check:
            scene.watch(_checkers(scene, exclusive=not isinstance(own, Nele)))

    def heal(self) -> None:
        """Nothing is between members but the logs."""

    def split(self, sides: list[list[str]]) -> None:
        raise NotImplementedError


def _checkers(scene: NeliScene, *, exclusive: bool) -> list[NeliChecker]:
    from pares.sim.neli.checkers import Barriers, NoGap, OneLeader, Tokens

    if exclusive:
        return [OneLeader(scene), Tokens(scene), Barriers(scene)]
    return [Tokens(scene, exclusive=False), NoGap(scene)]


class SharedOutActor(RefusingActor):
    """One that runs NELI, NELE or Fast NELI."""

    process: NeliProcess

    @property
    def reachable(self) -> bool:
        process = self.process
        return not process.group_cut and not any(p.wire.reads_cut or p.wire.writes_cut for p in process.parts)

    def token(self, role: str) -> int | None:
        process = self.process
        found = [token for seat, (token, _) in process.beliefs.items() if seat[0] == role and process.believes(seat)]
        return found[0] if found else None

    def kill(self) -> None:
        self.process.kill()

    def restart(self) -> None:
        self.process.kill()
        self.process.start()

    def freeze(self, seconds: float | None = None, *, at: str | None = None) -> None:
        """`at`: at the next time that it has "buffered" what it fetched and not looked at it yet, stands between its looks at
        its two "clocks", or has "ticked" (and its append has not left yet)."""
        length = None if seconds is None else int(seconds * SECOND)
        if at is None:
            self.process.freeze(length)
        elif at in ("buffered", "clocks", "ticked") and length is not None:
            self.process.freeze_at = (at, length)
        else:
            raise ConfigError(
                f"freeze(at={at!r}, seconds={seconds!r}): give 'buffered', 'clocks' or 'ticked', and how long"
            )

    def thaw(self) -> None:
        self.process.thaw()

    def cut(self, *, reads: bool = False, writes: bool = False, acks: bool = False, group: bool | None = None) -> None:
        """From reading the logs, from writing them, from the coordinator (`group`; None: with reads and writes both)."""
        if acks:
            raise ConfigError("acks=True is of a stage whose members run claims: cut writes")
        off = (reads and writes) if group is None else group
        self.process.cut(reads=reads, writes=writes, group=off)
        what = [name for name, on in (("reads", reads), ("writes", writes), ("its group", off)) if on]
        self.process.scene.note(self.name, "is cut off", why=" and ".join(what))

    def heal(self) -> None:
        self.process.scene.note(self.name, "is healed")
        self.process.cut()

    def add_role(self, name: str, seats: int = 1, weight: float = 1.0, spread: str = "host") -> None:
        if (seats, weight, spread) != (1, 1.0, "host"):
            raise ConfigError("seats, weight and spread of a role are of claims: here a group's roles are all alike")
        self._hear(ChangeRoles(add=(name,)))

    def remove_role(self, name: str) -> None:
        self._hear(ChangeRoles(drop=(name,)))

    def close(self) -> None:
        self._check_running()
        self.process.close()

    # What these protocols, or this stage, have not ------------------------------------------------------------------

    def _ask(self, event: Event) -> None:
        raise self._not_here(type(event).__name__)

    def _hear(self, event: ChangeRoles) -> None:
        self._check_running()
        self.process.hear(event)

    def _check_running(self) -> None:
        if not self.process.running:
            raise ConfigError(f"{self.name} does not run: start it by restart()")

    def _not_here(self, what: str) -> ConfigError:
        return ConfigError(
            f"{what} is not on a stage whose members run {self._stage.protocol!r}: its coordinator is one like Kafka's, which "
            "takes no wishes; play that with members on memory://NAME"
        )
