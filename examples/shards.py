"""NELI, exclusive leader induction: orders in shards, each handled by one worker. `python -m examples.shards`

An order belongs to a shard by its key, a shard is a role, and NELI gives each role to the owner of its partition: as many
partitions as shards, so each has one of its own. A worker handles what its shards have; a fence in the table refuses one
that was stopped between its look at the term and its write.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
import threading
import zlib
from contextlib import closing
from pathlib import Path
from typing import Final

import pares
from examples.troupe import Troupe, told
from pares.fence import SqlFence

SHARDS: Final = tuple(str(number) for number in range(6))
"""An integer is its own partition."""
SESSION: Final = 1.0
ORDERS: Final = 600


def shard_of(key: str) -> str:
    return SHARDS[zlib.crc32(key.encode()) % len(SHARDS)]


def worker(name: str, ledger: str, orders: Path) -> None:
    with pares.Member(
        ledger, group="orders", roles=SHARDS, name=name, session=SESSION, protocol="neli", barrier=told
    ) as me:
        pares.leave_on_signals()
        for shard in SHARDS:
            threading.Thread(target=handle, args=(me, shard, orders), daemon=True).start()
        threading.Event().wait()


def handle(me: pares.Member, shard: str, orders: Path) -> None:
    fence = SqlFence()
    with closing(sqlite3.connect(orders, timeout=30, isolation_level=None)) as table:
        for term in me.terms(shard):
            while term:
                try:
                    if not handle_one(table, fence, term, me.name):
                        term.wait_lost(0.02)
                except pares.Stale:
                    break  # a successor has written already


def handle_one(table: sqlite3.Connection, fence: SqlFence, term: pares.Term, name: str) -> bool:
    table.execute("BEGIN IMMEDIATE")
    try:
        fence.check(table, term)
        row = table.execute("SELECT id FROM orders WHERE shard = ? AND by IS NULL LIMIT 1", (term.role,)).fetchone()
        if row is not None:
            table.execute("UPDATE orders SET by = ?, times = times + 1 WHERE id = ?", (name, row[0]))
        table.execute("COMMIT")
    except BaseException:
        table.execute("ROLLBACK")
        raise
    return row is not None


def show(ledger: str, orders: Path) -> int:
    """0 when every order was handled, once."""
    with closing(sqlite3.connect(orders, timeout=30, isolation_level=None)) as table:
        table.execute("PRAGMA journal_mode = WAL")
        table.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, shard TEXT, by TEXT, times INTEGER DEFAULT 0)")

        def come(first: int, last: int) -> None:
            shards = [(number, shard_of(f"customer {number}")) for number in range(first, last)]
            table.executemany("INSERT INTO orders (id, shard) VALUES (?, ?)", shards)

        def left() -> int:
            return table.execute("SELECT count(*) FROM orders WHERE by IS NULL").fetchone()[0]

        with Troupe("shards", ledger, "--orders", str(orders)) as troupe:
            come(0, ORDERS // 2)
            for name in ("ann", "bob", "cyd"):
                troupe.start(name)
            troupe.until(lambda: set(troupe.leaders()) == set(SHARDS), "every shard has a worker")
            victim = troupe.leaders()["0"]
            print(f"{victim}, who has shard 0, is killed")
            troupe.kill(victim)
            come(ORDERS // 2, ORDERS)
            troupe.until(lambda: not left(), "all orders are handled")
        by = table.execute("SELECT by, count(*), max(times) FROM orders GROUP BY by ORDER BY by").fetchall()
    for name, number, _ in by:
        print(f"{name} handled {number} orders")
    once = all(most == 1 for _, _, most in by)
    print(f"all {ORDERS} orders were handled, {'each once' if once else 'SOME MORE THAN ONCE'}")
    return int(not once)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.shards", description=__doc__)
    parser.add_argument("--ledger", help="default: a file ledger of its own")
    parser.add_argument("--worker", metavar="NAME", help=argparse.SUPPRESS)
    parser.add_argument("--orders", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker is not None:
        worker(options.worker, options.ledger, options.orders)
        return 0
    with tempfile.TemporaryDirectory(prefix="pares-shards-") as folder:
        ledger = options.ledger or f"file://{folder}/group?partitions={len(SHARDS)}"
        return show(ledger, Path(folder) / "orders.db")


if __name__ == "__main__":
    raise SystemExit(main())
