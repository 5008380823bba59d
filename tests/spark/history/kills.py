"""Updates of a history that are killed by SIGKILL at a random moment, and done again: the tables are as if nothing had been.

    python -m tests.spark.history.kills [--rounds N] [--seed N] [--format parquet|delta]

plays as many rounds as are asked for (200), says where kills struck, and ends with 1 if a table was ever torn, or other than
without a kill. `test_batches` stops an update before each of its calls to the system; here nothing is chosen, and with the
process goes what its libraries had not yet written. Tests play a few rounds.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, get_args

HERE: Final = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from deltalake import DeltaTable  # noqa: E402
from kept import named_by_delta, named_by_manifests, rows, saved, stored  # noqa: E402
from scribe import story  # noqa: E402

from pares.spark.histories import History, columns, delta, history  # noqa: E402
from pares.spark.histories.delta import Format  # noqa: E402

# Imports once what an update needs, and makes a process of its own for each: an interpreter's start would take longer than what
# is to be killed. Nothing has run by then that would have started a thread.
_NURSERY: Final = """
import os, sys
from pares.spark.histories import history
from pares.spark.histories import task
print("ready", flush=True)
for line in sys.stdin:
    path, url = line.rstrip("\\n").split("\\t")
    child = os.fork()
    if child == 0:
        history(None, path).update(url)
        os._exit(0)
    print(child, flush=True)
    sys.stdin.readline()  # it is not waited for before it was killed, so that its number is nobody else's
    _, status = os.waitpid(child, 0)
    print("killed" if os.WIFSIGNALED(status) else f"ended {os.waitstatus_to_exitcode(status)}", flush=True)
"""


class Nursery:
    """Runs updates, each in a process that can be killed."""

    def __init__(self, to: IO[str], of: IO[str]) -> None:
        self._to, self._of = to, of

    def update(self, path: Path, url: str, kill_after_s: float | None) -> str:
        """`killed`, or `ended` and the exit code."""
        self._to.write(f"{path}\t{url}\n")
        self._to.flush()
        child = int(self._line())
        if kill_after_s is not None:
            time.sleep(kill_after_s)
            os.kill(child, signal.SIGKILL)
        self._to.write("\n")
        self._to.flush()
        return self._line()

    def _line(self) -> str:
        line = self._of.readline()
        if not line:
            raise RuntimeError("the process that makes others is gone")
        return line.strip()


@contextmanager
def nursery() -> Iterator[Nursery]:
    command = [sys.executable, "-c", _NURSERY]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            yield Nursery(process.stdin, process.stdout)
        finally:
            process.kill()


def play(count: int, seed: int, folder: Path, format: Format = "parquet") -> tuple[Counter[str], list[str]]:
    """How often kills struck where, and what was wrong."""
    dice = random.Random(seed)
    url = saved(story(3, roles=8, steps=500), folder / "l.db")
    begun, straight = (history(None, folder / name, format=format) for name in ("begun", "straight"))
    first = begun.update(url, max_records=300)
    assert first is not None
    shutil.copytree(begun.path, straight.path)
    straight.update(url)
    expected, before = stored(straight), stored(begun)
    whole = [{name: rows(of, name) for name in columns.TABLES} for of in (begun, straight)]
    struck, wrong = Counter[str](), list[str]()
    with nursery() as hands:
        shutil.copytree(begun.path, folder / "timed")
        began = time.monotonic()
        hands.update(folder / "timed", url, None)
        span = time.monotonic() - began
        for number in range(count):
            shutil.copytree(begun.path, folder / "killed")
            kept = history(None, folder / "killed")
            said = hands.update(kept.path, url, dice.random() * span)
            # So that few kills come too late, on a machine that is faster or slower by now.
            span *= 1.05 if said == "killed" else 0.8
            found = stored(kept)
            struck[_where(said, found, before, expected)] += 1
            if {name: rows(kept, name) for name in columns.TABLES} not in whole:
                wrong.append(f"round {number}: a table is neither as before nor as after the batch")
            wrong += [f"round {number}: {text}" for text in _other_than_named(kept)]
            kept.update(url)
            kept.sweep(older_than_s=-1)
            if kept.format != format or kept.check() or stored(kept) != expected:
                wrong.append(f"round {number}: done again, the history is another one: {kept.check()}")
            wrong += [f"round {number}, done again: {text}" for text in _other_than_named(kept, whole=True)]
            shutil.rmtree(kept.path)
    return struck, wrong


def _other_than_named(kept: History, *, whole: bool = False) -> list[str]:
    """Tables of Delta that have other files than the manifests name, up to the batch that they say or (`whole`) to the last, or
    one twice."""
    if kept.format == "parquet":
        return []
    upto = {name: delta.upto_of(DeltaTable(kept.path / name)) for name in delta.PUBLISHED}
    due = {name: named_by_manifests(kept, name, None if whole else of) for name, of in upto.items()}
    return [f"the Delta table {name} is another one" for name in due if named_by_delta(kept, name) != due[name]]


def _where(said: str, found: dict[str, bytes], before: dict[str, bytes], expected: dict[str, bytes]) -> str:
    if said != "killed":
        return said
    new = found.keys() - before.keys()
    if expected.keys() <= found.keys():
        return "after the commit"
    if new & expected.keys():
        return "between its files and the commit"
    return "while it wrote" if new else "before it wrote anything"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    parser.add_argument("--format", choices=get_args(Format), default="parquet")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pares-kills-") as folder:
        struck, wrong = play(asked.rounds, asked.seed, Path(folder), asked.format)
    for where, often in struck.most_common():
        print(f"{often:6} {where}")
    print(
        "\n".join(wrong)
        or f"{asked.rounds} rounds: the tables were whole after each kill, and the same when done again"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
