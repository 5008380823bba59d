"""The language of NELI's golden scenarios; the files look like those of `core_script`, and `Scenario` reads both.

Members are named; settings are those of `pares.core.neli.config.Config`, times in seconds. In the trace #N is the record at
offset N of that partition's log, and the tenure that it began.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from core_script import Scenario
from neli_judges import OneLeader, Tokens
from neli_process import NeliProcess
from neli_scene import GROUP, NeliScene

from pares.core.wire import neli_records
from pares.sim.checker import Broken
from pares.sim.engine import SECOND, Stopwatch, WallClock

TIMES: Final = {
    "threshold": "threshold_ms",
    "interval": "interval_ms",
    "barrier_limit": "barrier_ms",
    "error": "error_ms",
}


class NeliScenario(Scenario):
    """The same files, performed on a NELI stage."""

    def played(self) -> NeliScenario:
        show = NeliShow()
        return NeliScenario(self.comments, [(step, show.perform(step)) for step, _ in self.steps])

    @classmethod
    def read(cls, path: Path) -> NeliScenario:
        made = Scenario.read(path)
        return cls(made.comments, made.steps)


class NeliShow:
    """Performs the steps of one script."""

    def __init__(self) -> None:
        self.session = 1.0
        self.scene = NeliScene(told=True)
        self.told = 0

    def perform(self, step: str) -> list[str]:
        for pattern, act in COMMANDS:
            match = re.fullmatch(pattern, step)
            if match is not None:
                try:
                    act(self, *match.groups())
                except Broken as broken:
                    self.scene.note("BROKEN", str(broken))
                lines = self.scene.story.text()[self.told :]
                self.told += len(lines)
                return lines
        raise ValueError(f"no such step: {step!r}")

    def process(self, name: str) -> NeliProcess:
        return self.scene.processes[name]

    # The stage --------------------------------------------------------------------------------------------------------

    def stage(self, words: str) -> None:
        fields = dict(word.split("=") for word in words.split())
        self.session = float(fields.pop("session", "1"))
        self.scene = NeliScene(
            protocol=fields.pop("protocol"),
            partitions=int(fields.pop("partitions", "1")),
            session=int(self.session * SECOND),
            told=True,
        )
        self.exclusive = fields.pop("exclusive", "yes") == "yes"
        assert not fields, fields
        self.scene.watch([Tokens(self.scene), *([OneLeader(self.scene)] if self.exclusive else [])])

    def member(self, name: str, words: str | None) -> None:
        default = {"threshold": "0.3", "interval": "0.05", "roles": "0"}
        settings: dict[str, Any] = {"session_ms": int(self.session * 1000), "exclusive": self.exclusive}
        rate, wall, barrier, start = 1.0, 0.0, 0.0, True
        for word in [*(f"{k}={v}" for k, v in default.items()), *(words or "").split()]:
            key, _, value = word.partition("=")
            if key == "rate":
                rate = float(value)
            elif key == "wall":
                wall = float(value)
            elif key == "barrier":
                barrier = float(value)
            elif key == "start":
                start = value == "yes"
            elif key == "roles":
                settings["roles"] = tuple(value.split(","))
            elif key in TIMES:
                settings[TIMES[key]] = round(float(value) * 1000)
            elif key == "partitions":
                settings["partitions"] = int(value)
            elif key == "drift":
                settings["drift"] = float(value)
            else:
                raise ValueError(f"no such setting: {word}")
        process = self.scene.add(name, settings, stopwatch=Stopwatch(0, rate), wall=WallClock(int(wall * 1_000_000)))
        process.barrier_time = lambda seat: int(barrier * SECOND)
        if start:
            process.start()

    # What happens ------------------------------------------------------------------------------------------------------

    def run(self, seconds: str, quietly: str | None) -> None:
        self.scene.engine.run(self.scene.engine.now + round(float(seconds) * SECOND))
        if quietly:
            self.told = len(self.scene.story.lines)

    def start(self, name: str) -> None:
        self.process(name).start()

    def kill(self, name: str) -> None:
        self.process(name).kill()

    def freeze(self, name: str, point: str | None) -> None:
        if point is None:
            self.process(name).freeze()
        else:
            self.process(name).freeze_at = (point, 3600 * SECOND)

    def thaw(self, name: str) -> None:
        self.process(name).thaw()

    def close(self, name: str) -> None:
        self.process(name).close()

    def cut(self, name: str, what: str) -> None:
        self.scene.note(name, f"cut off {what}")
        log, group = what in ("the log", "everything"), what != "the log"
        self.process(name).cut(log=log, group=group, oblivious=what == "the group")

    def deafen(self, name: str) -> None:
        self.scene.note(name, "deaf")
        self.process(name).cut(reads=True)

    def mute(self, name: str) -> None:
        self.scene.note(name, "mute")
        self.process(name).cut(writes=True)

    def heal(self, name: str) -> None:
        self.scene.note(name, "healed")
        self.process(name).cut()

    def lie(self, what: str, partition: str, name: str) -> None:
        self.scene.note("group", f"{what} {partition} {'of' if what == 'loses' else 'to'} {name}")
        self.scene.coordinator.lie(self.process(name), int(partition), what == "loses")

    def shuffle(self) -> None:
        self.scene.coordinator.shuffle()

    def late(self, name: str) -> None:
        """The next append of this member is reported as failed and lands later."""
        for part in self.process(name).parts:
            part.wire.fate = "unknown"

    def copy(self, kind: str, name: str) -> None:
        """A late copy of this member's last record of that kind lands in partition 0."""
        log = self.scene.logs[0]
        found = [
            payload
            for _, _, payload in log.entries()
            if neli_records.decode(payload).m.startswith(f"{name}~") and f'"k":"{kind}"'.encode() in payload
        ]
        log.append([found[-1]], self.scene.engine.now)

    def write(self, text: str) -> None:
        self.scene.logs[0].append([text.replace("GROUP", GROUP).encode()], self.scene.engine.now)

    def replace(self) -> None:
        for log in self.scene.logs:
            log.replace()
        self.scene.note("log", "replaced")
        for process in self.scene.processes.values():
            process.wake(self.scene.engine.now)

    def set_wall(self, name: str, seconds: str) -> None:
        self.process(name).wall.offset_us = int(float(seconds) * 1_000_000)

    # What can be seen --------------------------------------------------------------------------------------------------

    def who(self) -> None:
        told: list[str] = []
        for name, process in sorted(self.scene.processes.items()):
            seats = sorted(role for role, index in process.beliefs if process.believes((role, index)))
            if seats:
                told.append(f"{name} leads {', '.join(seats)}")
        self.scene.note("--", "; ".join(told) or "nobody believes that it leads anything")

    def count(self, kind: str, seconds: str) -> None:
        """How many records of that kind are written in that time, in all partitions."""
        ends = [log.end for log in self.scene.logs]
        self.run(seconds, None)
        found = sum(
            f'"k":"{kind}"'.encode() in payload
            for log, end in zip(self.scene.logs, ends, strict=True)
            for offset, _, payload in log.entries()
            if offset >= end
        )
        self.scene.note("--", f"{found} {kind}s in {seconds} s")


COMMANDS: Final[list[tuple[str, Callable[..., None]]]] = [
    (r"stage (.+)", NeliShow.stage),
    (r"member (\w+)(?: (.+))?", NeliShow.member),
    (r"run ([\d.]+)(?: (quietly))?", NeliShow.run),
    (r"start (\w+)", NeliShow.start),
    (r"kill (\w+)", NeliShow.kill),
    (r"freeze (\w+)(?: (buffered|ticked))?", NeliShow.freeze),
    (r"thaw (\w+)", NeliShow.thaw),
    (r"close (\w+)", NeliShow.close),
    (r"cut (\w+) off (the log|the group|everything)", NeliShow.cut),
    (r"(\w+) is deaf", NeliShow.deafen),
    (r"(\w+) is mute", NeliShow.mute),
    (r"heal (\w+)", NeliShow.heal),
    (r"the group (gives|loses) (\d+) (?:to|of) (\w+)", NeliShow.lie),
    (r"the group moves a partition", NeliShow.shuffle),
    (r"the next append of (\w+) is late", NeliShow.late),
    (r"a late copy of the last (\w+) of (\w+)", NeliShow.copy),
    (r"write (\{.*)", NeliShow.write),
    (r"the log is replaced", NeliShow.replace),
    (r"the clock of (\w+) is (-?[\d.]+) s ahead", NeliShow.set_wall),
    (r"who believes\?", NeliShow.who),
    (r"count (\w+)s for ([\d.]+)", NeliShow.count),
]
