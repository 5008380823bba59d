"""A group's log, written by hand: real records on a real SQLite ledger, so that a test knows what a command has to say."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pares.cli import main
from pares.core.wire import records as r
from pares.ledger import Ledger
from pares.ledger import open as open_ledger

BASE = 5_000_000


OPENED: list[Ledger] = []
"""By the test that runs. It need not close them: conftest.py does."""


@dataclass
class HandLog:
    """Each method appends one record, in the name of a member that is called by its plain name."""

    path: Path
    group: str = "default"
    session: int = 1000
    overlap: int = 0
    due: int = 250
    options: str = ""
    numbers: dict[str, int] = field(default_factory=dict[str, int])
    last: dict[str, int] = field(default_factory=dict[str, int])

    def __post_init__(self) -> None:
        self.url = f"sqlite:///{self.path}{self.options}"
        self.ledger = open_ledger(self.url)
        OPENED.append(self.ledger)
        self.put(r.Genesis, "chief", b=BASE, base=BASE)
        self.join("chief", eligible=())

    def put(self, kind: Any, who: str, /, *, b: int = BASE, **fields: Any) -> int:
        member = f"{who}~1"
        self.numbers[member] = self.numbers.get(member, 0) + 1
        record = kind(v=1, g=self.group, m=member, n=self.numbers[member], b=b, s=self.due, **fields)
        self.last[member] = self.raw(r.encode(record))
        return self.last[member]

    def raw(self, payload: bytes) -> int:
        return self.ledger.append(payload)

    def join(self, name: str, **fields: Any) -> None:
        self.put(r.Join, name, name=name, session=self.session, overlap=self.overlap, host="h1", **fields)

    def role(self, name: str, **fields: Any) -> None:
        self.put(r.Role, "chief", name=name, **fields)

    def claim(self, name: str, role: str, over: str | None = None) -> int:
        """Returns the token."""
        named = None if over is None else (f"{over}~1", self.last[f"{over}~1"])
        return BASE + self.put(r.Claim, name, seat=(role, 0), over=named)

    def transfer(self, name: str, role: str, token: int, to: str, why: str) -> int:
        return BASE + self.put(r.Transfer, name, seat=(role, 0), token=token, to=f"{to}~1", why=why)

    def release(self, name: str, role: str, token: int, why: str) -> None:
        self.put(r.Release, name, seat=(role, 0), token=token, why=why)


@dataclass(frozen=True)
class Ran:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def one_line(self) -> str:
        """The error, which must be one line and no traceback."""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        return lines[0]


HUMBLE = (
    "import ctypes, os, sys\n"
    "for capability in (1, 2):\n"  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    "    ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)\n"  # PR_CAPBSET_DROP: holds from the next exec on
    "os.execv(sys.executable, [sys.executable, '-m', 'pares', *sys.argv[1:]])\n"
)


def pares(*arguments: str, env: dict[str, str] | None = None, timeout: float = 60, humble: bool = False) -> Ran:
    """Runs the real command in a process of its own. `timeout` only ends what would hang.

    `humble`: permissions of files bind it even if the tests are run by root.
    """
    begin = ["-c", HUMBLE] if humble else ["-m", "pares"]
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PARES_")}
    done = subprocess.run(
        [sys.executable, *begin, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env={**clean, "NO_COLOR": "1", **(env or {})},
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def pares_here(*arguments: str) -> Ran:
    """The same within this process, which is a hundred times as quick: for what is said before anything is begun."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ:
            if name.startswith("PARES_"):
                patch.delenv(name)
        patch.setenv("NO_COLOR", "1")
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as end:
            main([*arguments])
    assert isinstance(end.value.code, int)
    return Ran(end.value.code, out.getvalue(), err.getvalue())
