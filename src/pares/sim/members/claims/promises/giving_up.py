"""Giving up is final (R4c, R5), seen where a record leaves the process: the writer of a release, a transfer or a leave has
stopped believing before, and will not believe in that term again, whatever becomes of the record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pares.core.wire.records import BadRecord, Leave, Release, Transfer, decode
from pares.sim.members.promises.base import Promise
from pares.sim.members.sight import Held

if TYPE_CHECKING:
    from pares.sim.members.claims.ground import Ground
    from pares.sim.world.process import Process

WORDS: Final = (b'{"k":"release"', b'{"k":"transfer"', b'{"k":"leave"')


class GivingUp(Promise):
    name = "giving up is final"

    def __init__(self, stage: Ground) -> None:
        super().__init__(stage)
        self.given: set[tuple[str, str, int, int]] = set()
        """Member, role, seat and token of what was given up."""
        self.left: set[str] = set()
        self.world.on_sent.append(self._sent)
        stage.sight.began.append(self._believes)
        stage.sight.prolonged.append(self._believes)

    def _sent(self, process: Process, ledger: object, partition: int, payloads: Sequence[bytes]) -> None:
        """By a task: what is handed over for appending."""
        for payload in payloads:
            if not payload.startswith(WORDS):
                continue
            try:
                record = decode(payload)
            except BadRecord:
                continue
            if isinstance(record, Release | Transfer):
                given = (record.m, *record.seat, record.token)
                self.given.add(given)
                self._still(process, lambda held, given=given: _key(held) == given, "gives it up")
            elif isinstance(record, Leave):
                self.left.add(record.m)
                self._still(process, lambda held, me=record.m: held.term.member == me, "leaves")

    def _still(self, process: Process, which: object, does: str) -> None:
        for held in self.stage.sight.of_process(process):
            if which(held) and held.term.deadline_ns > process.reading():  # type: ignore[operator]
                self.fail(f"{held} {does}, and believes for {held.left():.3f} ms")

    def _believes(self, held: Held) -> None:
        if held.term.member in self.left and held.believing():
            raise self.broken(f"{held} believes after its leave")
        if _key(held) in self.given and held.believing():
            raise self.broken(f"{held} believes again in a term that it gave up")


def _key(held: Held) -> tuple[str, str, int, int]:
    return (held.term.member, held.seat[1], held.seat[2], held.token)
