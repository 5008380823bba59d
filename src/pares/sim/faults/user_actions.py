"""What users and administrators do while the storm lasts: pauses, roles, requests to move, marks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pares.core.events import Ask, Declare, Event, HandOver, Marked, PauseFor, ResumeNow, RewindTo, StepDown
from pares.core.wire.records import Seat
from pares.sim.engine import MS
from pares.sim.faults.random_events import Chance

if TYPE_CHECKING:
    from pares.sim.play import Play
    from pares.sim.process import Process


class Acts(Chance["Process"]):
    """Draws acts, at random times, until the storm is over."""

    def __init__(self, play: Play) -> None:
        self.play = play
        self.scene = play.scene
        self.added = 0
        self._marks: dict[Seat, int] = {}
        until = int(play.knobs.storm * play.unit)
        super().__init__(
            play.scene.engine, play.scene.random("acts"), play.knobs.acts, pace=0.7, unit=play.unit, until=until
        )

    def happen(self, kind: str) -> None:
        ACTIONS[kind](self)

    def own(self) -> list[Process]:
        return self.play.own

    def _who(self) -> Process | None:
        admin = self.play.admin
        if admin is not None and admin.live and self.rng.random() < 0.8:
            return admin
        live = [p for p in self.play.own if p.live and p.running]
        return self.rng.choice(live) if live else None

    def _ask(self, event: Event) -> None:
        process = self._who()
        if process is not None:
            self.play.disturb()
            self.scene.note(process.name, "asks", why=type(event).__name__)
            process.request(event)

    def _role(self) -> str | None:
        names = sorted(self.scene.judge.world.roles)
        return self.rng.choice(names) if names else None

    def _holder(self) -> Process | None:
        holders = [p for p in self.play.own if p.running and p.beliefs]
        return self.rng.choice(holders) if holders else None

    # ---------------------------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        ms = max(1, int(self.rng.uniform(0.3, 4) * self.play.unit / MS))
        self._ask(PauseFor(ms, self._role() if self.rng.random() < 0.5 else None))

    def resume(self) -> None:
        pauses = sorted(self.scene.judge.world.pauses.items())
        if pauses:
            self._ask(ResumeNow(self.rng.choice(pauses)[1].scope))

    def ask(self) -> None:
        seats = sorted(self.scene.judge.world.seats)
        if seats:
            to = self.rng.choice((None, *sorted(self.scene.judge.world.members)))
            self._ask(Ask(seat=self.rng.choice(seats), to=to))

    def drain(self) -> None:
        members = sorted(id for id, m in self.scene.judge.world.members.items() if not m.administrator)
        if members:
            drained = self.rng.choice(members)
            self._ask(Ask(drain=drained))
            process = self.play.of_id(drained)
            if process is not None:
                # As people do: what was drained is restarted, some time later.
                self.engine.after(int(self.rng.uniform(2, 6) * self.play.unit), self.play.restart, process)

    def rewind(self) -> None:
        seats = sorted(self.scene.judge.world.seats)
        if seats:
            chosen = self.rng.sample(seats, self.rng.randint(1, len(seats)))
            self._ask(RewindTo(tuple((role, index, self.rng.randint(0, 50)) for role, index in chosen)))

    def mark(self) -> None:
        process = self._holder()
        if process is not None:
            seat, token = self.rng.choice(sorted(process.beliefs.items()))
            mark = self._marks.get(seat, 0) + self.rng.randint(-2, 9)
            self._marks[seat] = max(0, mark)
            process.request(Marked(seat, token, self._marks[seat]))

    def add_role(self) -> None:
        if self.added < 3:
            self.added += 1
            self._ask(
                Declare(f"x{self.added}", self.rng.randint(1, 2), spread=self.rng.choice(("host", "zone", "none")))
            )

    def change_role(self) -> None:
        role = self._role()
        if role is not None:
            self._ask(Declare(role, self.rng.randint(1, 3), weight=self.rng.choice((1.0, 1.0, 2.0))))

    def remove_role(self) -> None:
        role = self._role()
        if role is not None:
            self._ask(Declare(role, removed=True))
            if self.rng.random() < 0.7:
                delay = int(self.rng.uniform(0.001, 3) * self.play.unit)
                self.engine.after(delay, self._ask, Declare(role, self.rng.randint(1, 2)))

    def hand_over(self) -> None:
        process = self._holder()
        if process is not None:
            self.play.disturb()
            seat = self.rng.choice(sorted(process.beliefs))
            to = self.rng.choice((None, *sorted(self.scene.judge.world.members)))
            self.scene.note(process.name, "hands over", seat=seat)
            process.request(HandOver(seat[0], to))

    def step_down(self) -> None:
        process = self._holder()
        if process is not None:
            self.play.disturb()
            seat = self.rng.choice(sorted(process.beliefs))
            self.scene.note(process.name, "steps down", seat=seat)
            process.request(StepDown(self.rng.choice((seat[0], None))))


ACTIONS: Final[dict[str, Callable[[Acts], None]]] = {
    "pause": Acts.pause,
    "resume": Acts.resume,
    "ask": Acts.ask,
    "drain": Acts.drain,
    "rewind": Acts.rewind,
    "mark": Acts.mark,
    "add_role": Acts.add_role,
    "change_role": Acts.change_role,
    "remove_role": Acts.remove_role,
    "hand_over": Acts.hand_over,
    "step_down": Acts.step_down,
}
