"""`pares dev KIND`, as somebody types it who has a home folder with nothing in it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pares.dev.process import Identity, identify

PATIENCE = 120.0


@dataclass
class Home:
    folder: Path
    kind: str
    """kafka or nats."""
    env: dict[str, str] = field(default_factory=dict[str, str])
    """What the user's environment says besides."""

    def run(self, *arguments: str, kind: str | None = None, code: int = 0) -> subprocess.CompletedProcess[str]:
        env = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "PARES_"))}
        done = subprocess.run(
            [sys.executable, "-m", "pares", "dev", kind or self.kind, *arguments],
            env={**env, "HOME": str(self.folder), **self.env},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == code, done
        return done

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json").stdout)

    @property
    def data(self) -> Path:
        return self.folder / ".local" / "state" / "pares" / "dev" / self.kind


def processes(status: Any) -> list[Identity]:
    return [identify(node["pid"]) for node in status["nodes"]]


def one_of_three_is_killed_and_comes_back(home: Home, first: Any) -> list[Identity]:
    """Three nodes are up, as `first` says: after a SIGKILL of one, `up` starts just that one again, at the same place."""
    assert [node["state"] for node in first["nodes"]] == ["serving"] * 3
    before = processes(first)
    before[1].signal(signal.SIGKILL)
    assert before[1].wait(PATIENCE)
    status = home.json("status")
    assert status["up"] is False
    assert [node["state"] for node in status["nodes"]] == ["serving", "down", "serving"]
    second = home.json("up")
    assert second["up"] is True
    assert second["url"] == first["url"]
    after = processes(second)
    assert (after[0], after[2]) == (before[0], before[2])
    assert after[1] != before[1]
    return after
