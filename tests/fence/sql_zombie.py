"""A leader that writes to PostgreSQL behind a SqlFence, for tests with real processes; it freezes itself where it is told.

    python sql_zombie.py LEDGER SINK NAME WHERE

It leads the role `r` and writes a row in each transaction. `WHERE`: "between" (it has looked at its term and is about to
begin), "inside" (it has passed the fence and written, and is about to commit), or "never". There it says so and waits, once,
for a line on its standard input; when it goes on it writes in the old term's name without another look at it, as a program does
that was stopped between its check and its write. It is the test that stops it: only from outside can one see that its member,
in a thread of its own, is not inside a transaction of the ledger's file. It ends when it is refused. A line on its standard
output for each thing that happens.
"""

from __future__ import annotations

import sys
import time

import psycopg

import pares
from pares.fence import SqlFence, Stale


def wait_once(where: str, here: str) -> None:
    if where == here:
        print("freezes", flush=True)
        sys.stdin.readline()
        print("thawed", flush=True)


def main() -> None:
    url, sink, name, where = sys.argv[1:]
    fence = SqlFence(stall=2.0)
    with pares.Member(url, group="g", roles=["r"], name=name, session=1.0) as me, psycopg.connect(sink) as connection:
        for term in me.terms("r"):
            print("leads", term.token, flush=True)
            wrote = 0
            while term:
                if wrote == 5:
                    wait_once(where, "between")
                try:
                    with connection.transaction():
                        fence.check(connection, term)
                        connection.execute("INSERT INTO work (token) VALUES (%s)", (term.token,))
                        if wrote == 5:
                            wait_once(where, "inside")
                except Stale as stale:
                    print("stale", stale.token, stale.seen, flush=True)
                    return
                except psycopg.Error as error:
                    print("error", type(error).__name__, flush=True)
                    return
                wrote += 1
                print("wrote", flush=True)
                time.sleep(0.01)


main()
