"""NELE, non-exclusive leader emergence: quotes that must not stop. `python -m examples.price_feed`

Each instrument is a role; its leader publishes a quote every 50 ms. For a feed two quotes of one tick do no harm, and a tick
without a quote does: so roles overlap. A worker that leaves by plan goes on until another leads, so no tick need be lost.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Final

import pares
from examples.troupe import Troupe, told

INSTRUMENTS: Final = ("AAPL", "IBM", "MSFT", "SAP")
TICK: Final = 0.05
SESSION: Final = 0.5
LAW: Final = pares.Nele(T=1.5)
"""Three sessions, as in the paper's example."""


def worker(name: str, ledger: str, quotes: Path) -> None:
    with pares.Member(
        ledger, group="feed", roles=INSTRUMENTS, name=name, session=SESSION, protocol=LAW, barrier=told
    ) as me:
        pares.leave_on_signals()
        for role in INSTRUMENTS:
            threading.Thread(target=publish, args=(me, role, quotes), daemon=True).start()
        threading.Event().wait()


def publish(me: pares.Member, role: str, quotes: Path) -> None:
    with closing(sqlite3.connect(quotes, timeout=30, isolation_level=None)) as table:
        for term in me.terms(role):
            while term:
                tick, price = int(time.time() / TICK), random.uniform(99, 101)
                table.execute("INSERT INTO quotes VALUES (?, ?, ?, ?)", (role, tick, price, me.name))
                term.wait_lost((tick + 1) * TICK - time.time())


def count(quotes: Path, since: float) -> tuple[int, int, int]:
    """Ticks since then (in seconds of the wall clock), those without a quote, and quotes beyond one of a tick."""
    with closing(sqlite3.connect(quotes, timeout=30)) as table:
        rows = table.execute(
            "SELECT instrument, tick, count(*) FROM quotes WHERE tick >= ? GROUP BY 1, 2", (int(since / TICK) + 1,)
        ).fetchall()
    ticks = {role: {tick: n for one, tick, n in rows if one == role} for role in INSTRUMENTS}
    last = min((max(seen, default=0) for seen in ticks.values()), default=0)
    first = int(since / TICK) + 1
    missing = sum(1 for seen in ticks.values() for tick in range(first, last) if tick not in seen)
    twice = sum(n - 1 for seen in ticks.values() for n in seen.values())
    return max(0, last - first) * len(INSTRUMENTS), missing, twice


def show(ledger: str, quotes: Path) -> int:
    """0 when every instrument is published again after each of the faults."""
    with closing(sqlite3.connect(quotes)) as table:
        table.execute("PRAGMA journal_mode = WAL")
        table.execute("CREATE TABLE quotes (instrument TEXT, tick INTEGER, price REAL, member TEXT)")
    with Troupe("price_feed", ledger, "--quotes", str(quotes)) as troupe:

        def shared() -> bool:
            leaders = troupe.leaders()
            return set(leaders) == set(INSTRUMENTS) and set(leaders.values()) == set(troupe.workers)

        for name in ("ann", "bob", "cyd"):
            troupe.start(name)
        troupe.until(shared, "three workers share four instruments")
        for what, harm in (("leaves by plan", troupe.end), ("is killed", troupe.kill)):
            since, victim = time.time(), troupe.leaders()["AAPL"]
            print(f"{victim}, who publishes AAPL, {what}")
            harm(victim)
            troupe.until(lambda: set(troupe.leaders()) == set(INSTRUMENTS), "every instrument has a leader")
            end = time.monotonic() + 1.0
            troupe.until(lambda end=end: time.monotonic() > end, "a second passes")
            ticks, missing, twice = count(quotes, since)
            print(f"  of {ticks} ticks {missing} were published by nobody, and {twice} quotes came twice")
    return 0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.price_feed", description=__doc__)
    parser.add_argument("--ledger", help="default: a file ledger of its own")
    parser.add_argument("--worker", metavar="NAME", help=argparse.SUPPRESS)
    parser.add_argument("--quotes", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker is not None:
        worker(options.worker, options.ledger, options.quotes)
        return 0
    with tempfile.TemporaryDirectory(prefix="pares-feed-") as folder:
        ledger = options.ledger or f"file://{folder}/group?partitions={len(INSTRUMENTS)}"
        return show(ledger, Path(folder) / "quotes.db")


if __name__ == "__main__":
    raise SystemExit(main())
