"""The workers of one way, as processes: each in its place, under its name, again and again."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

from chaos.delivery.plan import Task
from pares.core.errors import CapabilityError
from pares.dev.process import Started, start

ROOT: Final = Path(__file__).resolve().parents[2]


class Crew:
    """`task`: what a worker of that name is told, given the path of its journal; `command`: what runs it in that place."""

    def __init__(
        self,
        folder: Path,
        places: list[str],
        task: Callable[[str, Path], Task],
        command: Callable[[Task, str], list[str]],
        seed: int,
    ) -> None:
        self.folder, self.places = folder, places
        self._task, self._command = task, command
        self._dice = Random(seed)
        self._running: dict[str, Started] = {}
        self._starts: dict[str, int] = {}
        self.fallen: list[str] = []
        """Workers that have ended by themselves, in words."""
        self.died: set[str] = set()
        """Workers of which a process was killed, or has ended by itself."""

    def begin(self, place: str) -> None:
        """Starts the worker there."""
        number = self._starts[place] = self._starts.get(place, 0) + 1
        task = self._task(place, self.folder / f"{place}-{number}.journal")
        log = self.folder / f"{place}.log"
        self._running[place] = start(self._command(task, place), log=log, folder=ROOT, survive=False)

    def begin_all(self) -> None:
        for place in self.places:
            self.begin(place)

    def all_work(self) -> bool:
        """Whether each worker has been given something since it was started first."""
        journals = {path.stem.rpartition("-")[0] for path in self.folder.glob("*.journal") if path.stat().st_size}
        return journals >= set(self.places)

    def quiet(self, seconds: float) -> Callable[[], bool]:
        """To be asked again and again: whether nobody has written anything down for so long."""
        seen, since = -1, time.monotonic()

        def look() -> bool:
            nonlocal seen, since
            written = sum(path.stat().st_size for path in self.folder.glob("*.journal"))
            if written != seen:
                seen, since = written, time.monotonic()
            return time.monotonic() - since >= seconds

        return look

    def one_that_runs(self) -> str:
        """Picked by chance."""
        self.look()
        return self._dice.choice(sorted(self._running))

    def process(self, place: str) -> Started:
        return self._running[place]

    def kill(self, place: str) -> None:
        process = self._running.pop(place)
        self.died.add(place)
        process.identity.signal(signal.SIGKILL)
        process.wait(20)

    def look(self) -> None:
        """Starts those again that have ended by themselves."""
        for place, process in list(self._running.items()):
            code = process.ended()
            if code is not None:
                self.died.add(place)
                log = self.folder / f"{place}.log"
                said = log.read_text(errors="replace").strip().splitlines()[-1:] if log.exists() else []
                self.fallen.append(f"{place} ended with {code}: {' '.join(said)}")
                if len(self.fallen) > 5 * len(self.places):
                    raise CapabilityError(f"workers end by themselves again and again: {self.fallen[-1]}")
                self.begin(place)

    def end(self) -> None:
        for process in self._running.values():
            process.identity.signal(signal.SIGCONT)
            process.identity.signal(signal.SIGTERM)
        until = time.monotonic() + 20
        for process in self._running.values():
            if not process.wait(max(0.0, until - time.monotonic())):
                process.identity.signal(signal.SIGKILL)
                process.wait(10)
        self._running.clear()
