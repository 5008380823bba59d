"""A member that may have forgotten something calls nobody and leads none for a lease and the skew, until it hears a claim."""

from __future__ import annotations

from pares.sim.engine import MS
from pares.sim.members.allcall.calls import Message
from pares.sim.members.allcall.ground import Ground
from pares.sim.members.allcall.promises.base import AllCallPromise
from pares.sim.members.sight import Held
from pares.sim.world.process import Process


class Silence(AllCallPromise):
    name = "newcomers keep silent"

    def __init__(self, stage: Ground) -> None:
        super().__init__(stage)
        self.wait = (stage.plan.lease_ms + stage.plan.skew_ms) * MS
        self.known: set[tuple[Process, str]] = set()
        self.awake: set[Process] = set()
        self.since: dict[Process, int] = {}
        self.world.on_start.append(self._starts)
        stage.calls.published.append(self._published)
        stage.calls.heard.append(self._heard)
        stage.sight.began.append(self._began)

    def _starts(self, process: Process) -> None:
        self.since[process] = process.reading()

    def _heard(self, process: Process, message: Message) -> None:
        for claim in message.call.c:
            if claim.ttl:
                self.known.add((process, claim.role))
                self.awake.add(process)

    def _young(self, process: Process) -> bool:
        return process.reading() < self.since[process] + self.wait

    def _published(self, message: Message) -> None:
        call, process = message.call, message.process
        if call.k == "ping" and call.p != "gone" and self._young(process) and process not in self.awake:
            self.fail(f"{call.m} calls all before it can know what it forgot")

    def _began(self, held: Held) -> None:
        if self._young(held.process) and (held.process, held.term.role) not in self.known:
            raise self.broken(f"{held} begins before its member can know who leads")
