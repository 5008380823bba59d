"""What NELI and Fast NELI promise. No checker knows how the protocols work."""

from __future__ import annotations

from typing import Any

from kernel.trace import seat_name
from neli_process import NeliProcess
from neli_scene import NeliChecker, NeliScene

from pares.core.events import Lead
from pares.core.wire.neli_records import Announce, Foreign, InductionRecord, decode
from pares.core.wire.records import BadRecord, Seat


def decoded(payload: bytes) -> InductionRecord | Foreign | None:
    """What stands in a log; None for what is no record."""
    try:
        return decode(payload)
    except BadRecord:
        return None


class OneLeader(NeliChecker):
    """Exclusive: at no instant do two members believe that they hold one seat."""

    promise = "exclusive belief"

    def led(self, process: NeliProcess, effect: Lead) -> None:
        self._look(process, effect.seat)

    def renewed(self, process: NeliProcess, effect: Any) -> None:
        for seat in effect.seats:
            self._look(process, seat)

    def _look(self, process: NeliProcess, seat: Seat) -> None:
        if not process.believes(seat):
            return
        now = self.scene.engine.now
        for other in self.scene.processes.values():
            if other is not process and other.believes(seat):
                left = (min(process.belief_ends(seat), other.belief_ends(seat)) - now) / 1e6
                raise self.broken(
                    f"{process.id} and {other.id} both believe that they hold {seat_name(seat)}, "
                    f"for {left:.3f} ms if nobody stops"
                )


class Tokens(NeliChecker):
    """Each token is base + offset of an announcement that its holder made in the seat's log, and a member's grow. Exclusive: so
    do those of a seat, in the order in which it is led. Non-exclusive: who has read of a later one does not begin to lead."""

    promise = "tokens grow"

    def __init__(self, scene: NeliScene, *, exclusive: bool = True) -> None:
        super().__init__(scene)
        self.exclusive = exclusive
        self.last: dict[Seat, tuple[str, int]] = {}
        self.own: dict[tuple[Seat, str], int] = {}
        self.announced: dict[tuple[str, int], list[tuple[int, int]]] = {}
        """Where (log, offset) somebody has announced itself by a token."""
        for number, log in enumerate(scene.logs):
            log.listeners.append(lambda entries, number=number: self._landed(number, entries))

    def _landed(self, number: int, entries: list[Any]) -> None:
        for offset, _, payload in entries:
            record = decoded(payload)
            if isinstance(record, Announce):
                self.announced.setdefault((record.m, record.b + offset), []).append((number, offset))

    def replaced(self, number: int) -> None:
        """Between logs tokens grow if clocks do (R9): from here on they are measured anew."""
        self.last.clear()
        self.own.clear()

    def led(self, process: NeliProcess, effect: Lead) -> None:
        seat, token = effect.seat, effect.token
        if (process.id, token) not in self.announced:
            raise self.broken(f"{process.id} leads {seat_name(seat)} by {token}, which it never announced")
        own = self.own.get((seat, process.name), 0)
        if token <= own:
            raise self.broken(f"{process.id} leads {seat_name(seat)} by {token}, after its own {own}")
        self.own[seat, process.name] = token
        last = self.last.get(seat, ("", 0))
        if token > last[1]:
            self.last[seat] = process.id, token
        elif self.exclusive or self._has_read(process, last):
            raise self.broken(f"{process.id} leads {seat_name(seat)} by {token}, after {last[1]} of {last[0]}")

    def _has_read(self, process: NeliProcess, last: tuple[str, int]) -> bool:
        core = process.core
        assert core is not None
        return all(number < len(core.parts) and core.position(number) > at for number, at in self.announced[last])
