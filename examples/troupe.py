"""What the examples of the protocols share: workers as processes, and who says that it leads what."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pares

ROOT: Final = Path(__file__).parents[1]
PATIENCE: Final = 60.0
_telling = threading.Lock()


def tell(event: str, **more: object) -> None:
    """A worker's line to the process that started it; in one piece, as several threads tell."""
    with _telling:
        sys.stdout.write(json.dumps({"event": event, **more}) + "\n")
        sys.stdout.flush()


def told(event: pares.Event) -> None:
    """A barrier that tells what becomes of the member's roles."""
    match event:
        case pares.Acquired(role=role, token=token):
            tell("leads", role=role, token=token)
        case pares.Revoked(role=role, token=token) | pares.Fenced(role=role, token=token):
            tell("stops", role=role, token=token)
        case _:
            pass


class Troupe:
    """Workers of one example: `python -m examples.MODULE --worker NAME --ledger URL`. All of them end with it."""

    def __init__(self, module: str, ledger: str, *options: str) -> None:
        self._command = [sys.executable, "-m", f"examples.{module}", "--ledger", ledger, *options]
        self._lines: queue.SimpleQueue[tuple[str, dict[str, Any]]] = queue.SimpleQueue()
        self.workers: dict[str, subprocess.Popen[str]] = {}
        self.leads: dict[str, dict[str, int]] = {}
        """Of each role who says that it leads it, and by which token."""

    def __enter__(self) -> Troupe:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers.values():
            worker.kill()
            worker.wait()

    def start(self, name: str, *options: str) -> None:
        worker = subprocess.Popen(
            [*self._command, "--worker", name, *options], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        self.workers[name] = worker
        threading.Thread(target=self._listen, args=(name, worker), daemon=True).start()

    def kill(self, name: str) -> None:
        """At once, as a machine dies."""
        worker = self.workers.pop(name)
        worker.kill()
        worker.wait()
        self._forget(name)

    def end(self, name: str) -> None:
        """By plan: it hands over and leaves."""
        worker = self.workers.pop(name)
        worker.send_signal(signal.SIGTERM)
        worker.wait(PATIENCE)
        self._forget(name)

    def leaders(self) -> dict[str, str]:
        """Of each role the one that says so by the highest token."""
        return {role: max(by, key=lambda name: by[name]) for role, by in self.leads.items() if by}

    def until(self, true: Callable[[], object], what: str) -> None:
        """Waits, and listens to the workers meanwhile. Raises `TimeoutError` when that takes a minute."""
        end = time.monotonic() + PATIENCE
        while not true():
            try:
                name, line = self._lines.get(timeout=0.05)
            except queue.Empty:
                if time.monotonic() > end:
                    raise TimeoutError(f"not so after {PATIENCE:g} s: {what} ({self.leads})") from None
                continue
            by = self.leads.setdefault(line["role"], {})
            if name not in self.workers:
                continue
            if line["event"] == "leads":
                by[name] = line["token"]
                print(f"  {line['role']:<10} {name} leads, token {line['token']}")
            elif by.get(name) == line["token"]:
                del by[name]

    def _forget(self, name: str) -> None:
        for by in self.leads.values():
            by.pop(name, None)

    def _listen(self, name: str, worker: subprocess.Popen[str]) -> None:
        assert worker.stdout is not None
        with worker.stdout as lines:
            for line in lines:
                self._lines.put((name, json.loads(line)))
