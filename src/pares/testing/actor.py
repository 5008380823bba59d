"""One process on the stage, by name: what happens to it, what can be seen of it, and what its user asks of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pares.core import events as ev
from pares.core.errors import ConfigError
from pares.core.wire.records import Seat
from pares.sim.engine import SECOND
from pares.sim.trace import seat_name
from pares.sim.wire import FATES

if TYPE_CHECKING:
    from pares.testing.stage import Stage


class Actor:
    """One process on the stage: what happens to it, and what its user asks of it. Made by `Stage.member`.

    This is one that runs claims; those of other protocols are in `shared_out` and `calling`, and refuse what these have not."""

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

    def cut(self, *, reads: bool = False, writes: bool = False, acks: bool = False, group: bool | None = None) -> None:
        """From now on it reads nothing, its appends do not arrive, or it is not told that they did; until `heal`. `group` (of
        NELI): it does not reach the coordinator."""
        if group is not None:
            raise ConfigError(
                "group= is of a stage whose members run NELI or Fast NELI: here nobody shares partitions out"
            )
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
