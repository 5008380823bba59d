"""`python -m bench`: all cases, or those named by --only. See docs/bench.md for how to read the figures."""

from __future__ import annotations

import argparse
import compileall
import json
from dataclasses import asdict
from pathlib import Path

import pares
from bench import on_kafka
from bench.allcall import cases as allcall
from bench.cases import CASES, Row
from bench.compare import ratio, recorded
from bench.consume import replay
from bench.figures import BEGIN, END, between, machine, put
from bench.hosts.cases import wakes
from bench.hosts.crowd import crowds
from bench.hosts.starts import starts
from bench.ledgers import cases as on_ledgers
from bench.ledgers import table as ledgers_table
from bench.neli import cases as on_neli
from bench.processes import Troupe

MORE = {"witness": wakes, "starts": starts, "crowd": crowds, "replay": replay.cases}
PAGE = Path(__file__).parents[1] / "docs" / "bench.md"


def table(rows: list[Row]) -> str:
    lines = ["| what | min / p50 / max | target | met |", "|---|---|---|---|"]
    said = {True: "yes", False: "**no**", None: ""}
    lines += [f"| {row.what} | {row.figures} | {row.target} | {said[row.met]} |" for row in rows]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measures pares on this machine.")
    parser.add_argument("--only", action="append", metavar="CASE", help="only this case; may be given again")
    parser.add_argument("--quick", action="store_true", help="fewer rounds: to see that it runs")
    parser.add_argument(
        "--ledger", choices=["sqlite", "file", "kafka"], default="sqlite", help="kafka: on brokers of its own"
    )
    parser.add_argument(
        "--ledgers",
        nargs="+",
        choices=["all", *on_ledgers.LEDGERS],
        help="the same measurements on each of these, one after the other; beside PostgreSQL an elector by its advisory lock",
    )
    parser.add_argument(
        "--protocol",
        choices=["claims", "neli", "allcall"],
        default="claims",
        help="neli: NELI and Fast NELI, on a Kafka of its own; allcall: on core NATS",
    )
    parser.add_argument("--nodes", type=int, action="append", help="brokers; may be given again (default: 1, then 3)")
    parser.add_argument(
        "--rounds", type=int, default=50, help="kills, handovers and healings, on Kafka and of ALLCALL (default: 50)"
    )
    parser.add_argument(
        "--minutes", type=float, default=10, help="false takeovers are waited for, on Kafka (default: 10)"
    )
    parser.add_argument(
        "--members",
        type=int,
        action="append",
        help="of an idle group, on Kafka; may be given again (default: 3, 10, 30, 100)",
    )
    parser.add_argument(
        "--session",
        type=float,
        action="append",
        help="of an idle group, on Kafka; may be given again (default: 1 s, 10 s)",
    )
    parser.add_argument("--json", action="store_true", help="rows as JSON")
    parser.add_argument("--table", action="store_true", help="the table for the document, too")
    parser.add_argument(
        "--compare",
        type=Path,
        nargs="?",
        const=PAGE,
        metavar="FILE",
        help="beside each row its ratio to the one recorded in this file (default: docs/bench.md)",
    )
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the table between the marks of this file")
    options = parser.parse_args()
    cases, marks, kind = (
        CASES | MORE,
        (BEGIN, END),
        options.ledger,
    )
    Troupe.begins = "file" if options.ledger == "file" else "sqlite"
    if options.protocol == "neli":
        cases, marks, kind = on_neli.cases(options), (on_neli.BEGIN, on_neli.END), "neli"
    elif options.protocol == "allcall":
        cases, marks, kind = allcall.cases(options), (allcall.BEGIN, allcall.END), "allcall"
    elif options.ledgers:
        cases, marks, kind = on_ledgers.cases(options), (on_ledgers.BEGIN, on_ledgers.END), "these ledgers"
    elif options.ledger == "kafka":
        cases, marks = on_kafka.cases(options), (on_kafka.BEGIN, on_kafka.END)
    if options.ledger == "file" and options.write is not None:
        parser.error("the table of the document is of members on SQLite: leave --write out")
    if options.ledgers and options.compare is not None:
        parser.error("the table of the ledgers has medians only: leave --compare out")
    if unknown := set(options.only or ()) - cases.keys():
        parser.error(f"no case on {kind}: {', '.join(sorted(unknown))}; there are {', '.join(cases)}")
    before = {} if options.compare is None else recorded(options.compare, *marks)
    # As after installation: a process that compiles for itself keeps the compiler's leavings, and takes longer to end.
    compileall.compile_dir(Path(pares.__file__).parent, quiet=2)
    rows: list[Row] = []
    for name in options.only or cases:
        for row in cases[name](options.quick):
            rows.append(row)
            if not options.json:
                met = {None: "", True: "met", False: "MISSED"}[row.met]
                beside = "" if options.compare is None else f"  {ratio(row.figures, before.get(row.what))}"
                print(f"{row.what:72} {row.figures:40} {row.target:18} {met:6}{beside}".rstrip(), flush=True)
    if options.ledgers:
        stood = "" if options.write is None else between(options.write, *marks)
        shown = f"{machine()}:\n\n{ledgers_table.table(rows, stood)}"
    else:
        shown = f"{machine()}:\n\n{table(rows)}"
    if options.table:
        print(f"\n{shown}", flush=True)
    if options.json:
        print(json.dumps({"machine": machine(), "rows": [asdict(row) for row in rows]}, indent=1))
    if options.write is not None:
        put(options.write, shown, *marks)


if __name__ == "__main__":
    main()
