"""ALLCALL: a leader on every side of a split, and one again when it heals. `python -m examples.sides`

Members call each other on a bus (core NATS, or any ledger), and the lowest rank leads. Nothing is exclusive here: what the
leader does must bear being done on both sides, such as announcing an address. The process that leads is stopped for a while,
as if its machine had lost the network; another leads; and when it goes on, one of them does.
"""

from __future__ import annotations

import argparse
import signal
import tempfile
import threading
from typing import Final

import pares
from examples.troupe import Troupe, told

LAW: Final = pares.AllCall(heartbeat=0.2, lease=1.0, skew=0.2)
RANKS: Final = {"ann": 0, "bob": 1, "cyd": 2}


def worker(name: str, ledger: str) -> None:
    with pares.Member(ledger, group="sides", roles="address", name=name, rank=RANKS[name], protocol=LAW, barrier=told):
        pares.leave_on_signals()
        threading.Event().wait()


def show(ledger: str) -> int:
    """0 when one leads in the end: the lowest rank."""
    with Troupe("sides", ledger) as troupe:

        def leads(*names: str) -> bool:
            return set(troupe.leads.get("address", {})) == set(names)

        for name in RANKS:
            troupe.start(name)
        troupe.until(lambda: leads("ann"), "the lowest rank leads")
        print("ann stands still: nobody hears it")
        troupe.workers["ann"].send_signal(signal.SIGSTOP)
        troupe.until(lambda: "bob" in troupe.leads["address"], "the next one leads")
        print("ann goes on, and does not know what it has missed")
        troupe.workers["ann"].send_signal(signal.SIGCONT)
        troupe.until(lambda: leads("ann"), "one leads: the lowest rank, when bob's lease is over")
        print("ann leaves by plan")
        troupe.end("ann")
        troupe.until(lambda: leads("bob"), "the next one leads")
    return 0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.sides", description=__doc__)
    parser.add_argument("--ledger", help="nats://HOST:PORT, say; default: files of its own, as a bus")
    parser.add_argument("--worker", metavar="NAME", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker is not None:
        worker(options.worker, options.ledger)
        return 0
    with tempfile.TemporaryDirectory(prefix="pares-sides-") as folder:
        return show(options.ledger or f"file://{folder}/bus")


if __name__ == "__main__":
    raise SystemExit(main())
