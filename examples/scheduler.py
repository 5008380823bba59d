"""Fast NELI: one scheduler among several processes, as goNELI has it. `python -m examples.scheduler`

Only the leader beats, and it leads only while its own beats come back in time. The jobs are due every quarter of a second; each
is written down with the token of the term that ran it, and a job that two terms wanted is there once.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Final

import pares
from examples.troupe import Troupe, told

EVERY: Final = 0.25
SESSION: Final = 1.0


def worker(name: str, ledger: str, jobs: Path) -> None:
    law = pares.FastNeli(poll_interval=0.05)
    with (
        closing(sqlite3.connect(jobs, timeout=30, isolation_level=None)) as table,
        pares.Member(
            ledger, group="jobs", roles="scheduler", name=name, session=SESSION, protocol=law, barrier=told
        ) as me,
    ):
        pares.leave_on_signals()
        for term in me.terms("scheduler"):
            while term:
                due = int(time.time() / EVERY)
                table.execute("INSERT OR IGNORE INTO jobs VALUES (?, ?, ?)", (due, term.token, name))
                term.wait_lost((due + 1) * EVERY - time.time())


def show(ledger: str, jobs: Path, rounds: int) -> int:
    """0 when the terms that ran jobs follow each other: none ran one after its successor had."""
    with closing(sqlite3.connect(jobs, timeout=30, isolation_level=None)) as table:
        table.execute("PRAGMA journal_mode = WAL")
        table.execute("CREATE TABLE jobs (due INTEGER PRIMARY KEY, token INTEGER, by TEXT)")

        def ran(name: str) -> int:
            return table.execute("SELECT count(*) FROM jobs WHERE by = ?", (name,)).fetchone()[0]

        with Troupe("scheduler", ledger, "--jobs", str(jobs)) as troupe:
            for name in ("ann", "bob", "cyd"):
                troupe.start(name)
            for number in range(rounds):
                troupe.until(lambda: troupe.leaders().get("scheduler"), "somebody leads")
                leader = troupe.leaders()["scheduler"]
                before = ran(leader)
                troupe.until(lambda leader=leader, before=before: ran(leader) >= before + 3, f"{leader} runs jobs")
                print(f"{leader} is killed")
                troupe.kill(leader)
                troupe.start(f"{leader}{number}")
            troupe.until(lambda: troupe.leaders().get("scheduler"), "somebody leads")
        tokens = [token for (token,) in table.execute("SELECT token FROM jobs ORDER BY due")]
    ordered = tokens == sorted(tokens)
    print(
        f"{len(tokens)} jobs in {len(set(tokens))} terms: {'in order' if ordered else 'A TERM RAN ONE AFTER A LATER ONE'}"
    )
    return int(not ordered)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.scheduler", description=__doc__)
    parser.add_argument("--ledger", help="default: a file ledger of its own; kafka://HOST:PORT/TOPIC as goNELI has it")
    parser.add_argument("--rounds", type=int, default=2, help="how often the leader is killed")
    parser.add_argument("--worker", metavar="NAME", help=argparse.SUPPRESS)
    parser.add_argument("--jobs", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker is not None:
        worker(options.worker, options.ledger, options.jobs)
        return 0
    with tempfile.TemporaryDirectory(prefix="pares-jobs-") as folder:
        ledger = options.ledger or f"file://{folder}/group"
        return show(ledger, Path(folder) / "jobs.db", options.rounds)


if __name__ == "__main__":
    raise SystemExit(main())
