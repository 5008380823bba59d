"""What a follower knows, in a folder: after a restart it goes on, and tells nothing twice and misses nothing.

    state-N     the state at some positions of the log, whole or not at all
    told-N      what was told since, line by line, each on the disk before it is sent; what has arrived where; and at its
                beginning what had not arrived when the state was written

A state is written from time to time, as that takes the longer the more is kept; a line is written with each alarm. A restart
takes the newest state, reads in silence up to where the last line was written, holds what it finds against the lines, and tells
what differs. Rules:

* A line is on the disk before its alarm is sent. [killed in between, it would tell it again]
* What has arrived is noted after that. A follower that is killed just between the two sends that one alarm again, with the same
  id: nothing can do better without the receiver's help.
* One follower a folder. [two would each tell a half]
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Final

import msgspec
from msgspec import Struct, field, structs

from pares.core.errors import ConfigError
from pares.spark.facts.folding import Partition
from pares.spark.facts.frozen import OtherState, freeze, thaw
from pares.spark.follow.judge import Alarm, Judge
from pares.spark.host.room import room

AGAIN: Final = "start the follower again: it goes on from there, and tells what it has not told"
"""What to do when the disk was full."""
CARRIED: Final = 100_000
"""Alarms that have not arrived and are kept for their receivers; of more the oldest are given up, which is said."""
_STATE: Final = "state-"
_TOLD: Final = "told-"


class State(Struct):
    """All that a follower knows at `positions`."""

    about: str
    """Which log, which groups, with which allowances: another one's state is refused."""
    identity: str
    positions: dict[int, int]
    folds: dict[int, Partition]
    judge: Judge
    number: int = 0
    """How many alarms were told."""
    certain: int = 0
    """How many violations are certain, of those that were told and not taken back."""


class Line(Struct, omit_defaults=True):
    """One line: an alarm that is told to some receivers, or one, by its number, that has arrived at some of them."""

    alarm: Alarm | None = None
    number: int = 0
    at: dict[str, int] = field(default_factory=dict[str, int])
    to: list[str] = field(default_factory=list[str])
    arrived: int = 0
    carried: bool = False
    """It was told before the state was written."""


class Checkpoint:
    """See the module. Close it, or use it with `with`."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._lock = (self._folder / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise ConfigError(
                f"another process follows a log with the checkpoint {folder}: give each its own"
            ) from None
        self._file: FileIO | None = None
        self._generation = max(self._generations(), default=0)

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def load(self, about: str) -> State | None:
        """The newest state; None if there is none that this version can read. Raises `ConfigError` for one that is about
        something else."""
        for generation in sorted(self._generations(), reverse=True):
            with contextlib.suppress(OtherState):
                state: State = thaw((self._folder / f"{_STATE}{generation:08d}").read_bytes())
                if state.about != about:
                    raise ConfigError(
                        f"the checkpoint {self._folder} is about {state.about}, and not about {about}: give another folder"
                    )
                self._generation = generation
                return state
        return None

    def lines(self) -> list[Line]:
        """What was told since the state. A last line that is not whole was never acted upon."""
        try:
            text = self._told(self._generation).read_bytes()
        except FileNotFoundError:
            return []
        whole = text[: text.rfind(b"\n") + 1]
        return [msgspec.json.decode(line, type=Line) for line in whole.splitlines()]

    def note(self, lines: list[Line], *, sync: bool = True) -> None:
        """Adds lines, which are on the disk when this returns; without `sync` they survive this process, and not the host."""
        if not lines:
            return
        if self._file is None:
            self._file = self._opened()
        with room(self._folder, AGAIN):
            data = memoryview(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
            while data:
                data = data[self._file.write(data) :]
            if sync:
                os.fsync(self._file.fileno())

    def _opened(self) -> FileIO:
        """The file of the lines, behind the last one that is whole. [what a full disk, or a kill, has left of a line, and the
        next line behind it, would be one that nobody can read]"""
        file = FileIO(self._told(self._generation), "ab+")
        file.seek(0)
        file.truncate(file.readall().rfind(b"\n") + 1)
        return file

    def save(self, state: State) -> int:
        """Takes the place of what was kept before; how many alarms that have not arrived are given up."""
        left = undelivered(self.lines())
        generation = self._generation + 1
        carried = [structs.replace(line, carried=True, at={}) for line in left[-CARRIED:]]
        self._written(self._told(generation), b"".join(msgspec.json.encode(line) + b"\n" for line in carried))
        self._written(self._folder / f"{_STATE}{generation:08d}", freeze(state))
        if self._file is not None:
            self._file.close()
            self._file = None
        self._generation = generation
        for path in self._folder.iterdir():
            name = path.name.removeprefix(".").removeprefix(_STATE).removeprefix(_TOLD)
            if name.isdigit() and int(name) < generation:
                path.unlink()
        return max(0, len(left) - CARRIED)

    def _written(self, path: Path, data: bytes) -> None:
        draft = path.with_name(f".{path.name}")
        with room(self._folder, AGAIN), draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._lock.close()

    def _told(self, generation: int) -> Path:
        return self._folder / f"{_TOLD}{generation:08d}"

    def _generations(self) -> list[int]:
        names = [path.name for path in self._folder.iterdir() if path.name.startswith(_STATE)]
        return [int(name.removeprefix(_STATE)) for name in names]


def net(lines: list[Line]) -> dict[str, tuple[Alarm, Alarm]]:
    """By id, the first and the last that was told of each violation since the state."""
    found: dict[str, tuple[Alarm, Alarm]] = {}
    for line in lines:
        if line.alarm is not None and not line.carried:
            first, _ = found.get(line.alarm.id, (line.alarm, line.alarm))
            found[line.alarm.id] = first, line.alarm
    return found


def undelivered(lines: list[Line]) -> list[Line]:
    """What was told and has not arrived, each with the receivers that have yet to get it."""
    left: dict[int, Line] = {}
    for line in lines:
        if line.alarm is not None:
            left[line.number] = line
        elif line.arrived in left:
            told = left[line.arrived]
            left[line.arrived] = structs.replace(told, to=[name for name in told.to if name not in line.to])
    return [line for line in left.values() if line.to]
