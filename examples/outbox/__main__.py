"""python -m examples.outbox: the same run with pares and with three kinds of plain locks, and what came of each."""

from __future__ import annotations

import argparse
import contextlib
import sys

from rich.console import Console
from rich.table import Table

from examples.outbox.locks import KINDS
from examples.outbox.run import Outcome, Plan, run
from pares.dev import Postgres

COLUMNS = ("lock", "kills", "freezes", "orders", "published", "missing", "twice", "out of order", "refused")


def row(outcome: Outcome) -> list[str]:
    counts = outcome.counts
    numbers = [outcome.kills, outcome.freezes, counts.orders, counts.published]
    bad = [counts.missing, counts.twice, counts.out_of_order]
    return [
        outcome.kind,
        *map(str, numbers),
        *(f"[red]{number}[/red]" if number else "0" for number in bad),
        str(outcome.refused) if outcome.kind == "pares" else "-",
    ]


def main() -> int:
    """0: with pares every event was published once and in order; 1: not so."""
    plan = Plan()
    parser = argparse.ArgumentParser(prog="python -m examples.outbox", description=__doc__)
    parser.add_argument("--server", help="the URL of a PostgreSQL where databases may be made (else one is started)")
    parser.add_argument("--locks", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--seconds", type=float, default=plan.seconds, help="of orders and faults, for each")
    parser.add_argument("--pollers", type=int, default=plan.pollers)
    parser.add_argument("--shards", type=int, default=plan.shards)
    parser.add_argument("--session", type=float, default=plan.session, help="seconds for which a lock lasts")
    parser.add_argument("--seed", type=int, default=plan.seed)
    parser.add_argument(
        "--log",
        choices=["postgres", "sqlite"],
        default=plan.log,
        help="the group's log: two tables beside the orders, so that nothing but PostgreSQL is needed, or a file (postgres)",
    )
    given = parser.parse_args()
    plan = Plan(given.seconds, given.pollers, given.shards, given.session, given.seed, given.log)
    table = Table(title=f"{plan.pollers} pollers, {plan.shards} shards, locks of {plan.session:g} s")
    for column in COLUMNS:
        table.add_column(column, justify="left" if column == "lock" else "right", no_wrap=True)
    outcomes: list[Outcome] = []
    with contextlib.ExitStack() as stack:
        server = given.server or stack.enter_context(Postgres()).url
        for kind in given.locks:
            print(f"{kind}: {plan.seconds:g} s of orders and faults ...", file=sys.stderr, flush=True)
            outcomes.append(run(kind, server, plan))
            table.add_row(*row(outcomes[-1]))
    Console(width=max(Console().width, 110)).print(table)
    for outcome in outcomes:
        for failure in outcome.failures:
            print(f"{outcome.kind}: {failure}", file=sys.stderr)
    return int(any(not outcome.counts.clean for outcome in outcomes if outcome.kind == "pares"))


if __name__ == "__main__":
    sys.exit(main())
