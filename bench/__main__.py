"""`python -m bench`: all cases, or those named by --only. See docs/bench.md for how to read the figures."""

from __future__ import annotations

import argparse
import compileall
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import pares
from bench import on_kafka
from bench.allcall import cases as allcall
from bench.cases import CASES, Row
from bench.compare import ratio, recorded
from bench.figures import between, machine, put
from bench.files import cases as on_files
from bench.hosts.cases import wakes
from bench.hosts.crowd import crowds
from bench.hosts.starts import on_history, starts
from bench.ledgers import cases as on_ledgers
from bench.ledgers import table as ledgers_table
from bench.neli import cases as on_neli
from bench.processes import Troupe
from bench.sections import CROWDS, FILES, IDLE_KAFKA, SQLITE, STOPPED, WITNESSES, Section, line, or_why, table

Cases = dict[str, Callable[[bool], Iterator[Row]]]
LOCAL: Cases = {
    "witness": wakes,
    "starts": lambda quick: (row for case in (starts, on_history) for row in case(quick)),
    "crowd": crowds,
}
"""Cases on this host that run only when they are named."""
PAGE = Path(__file__).parents[1] / "docs" / "bench.md"
MORE = """Cases that run only when they are named by --only, since each has a table of its own and some are long: witness (two
minutes; with --ledger kafka ten, as root), starts (three minutes), crowd (a quarter of an hour), and with --ledger kafka idle
(twenty minutes). They take the ledger that --ledger says."""


class Kind(NamedTuple):
    """What is measured: its name, the cases that run unless others are named, those that run only then, and where rows go."""

    name: str
    usual: Cases
    more: Cases
    section: Section
    apart: dict[str, Section]
    """Where rows of some cases go."""


def kind_of(options: argparse.Namespace) -> Kind:
    if options.protocol == "neli":
        return Kind("neli", on_neli.cases(options), {}, Section(on_neli.BEGIN, on_neli.END), {})
    if options.protocol == "allcall":
        return Kind("allcall", allcall.cases(options), {}, Section(allcall.BEGIN, allcall.END), {})
    if options.ledgers:
        return Kind("these ledgers", on_ledgers.cases(options), {}, Section(on_ledgers.BEGIN, on_ledgers.END), {})
    apart = {"witness": WITNESSES, "starts": CROWDS, "crowd": CROWDS}
    if options.ledger == "kafka":
        section = Section(on_kafka.BEGIN, on_kafka.END)
        return Kind("kafka", on_kafka.cases(options), on_kafka.more(options), section, apart | {"idle": IDLE_KAFKA})
    if options.ledger == "file":
        return Kind("file", on_files.cases(options), LOCAL, FILES, apart)
    return Kind("sqlite", CASES, LOCAL, SQLITE, apart)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measures pares on this machine.", epilog=MORE)
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
        help="of an idle group, on Kafka and on files; may be given again (default: 3, 10, 30, 100)",
    )
    parser.add_argument(
        "--session",
        type=float,
        action="append",
        help="of an idle group, on Kafka and on files; may be given again (default: 1 s, 10 s)",
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
    parser.add_argument(
        "--write", type=Path, metavar="FILE", help="put rows between the marks of this file; others stay"
    )
    options = parser.parse_args()
    kind = kind_of(options)
    cases = kind.usual | kind.more
    Troupe.begins = "file" if options.ledger == "file" else "sqlite"
    if options.ledgers and options.compare is not None:
        parser.error("the table of the ledgers has medians only: leave --compare out")
    if unknown := set(options.only or ()) - cases.keys():
        parser.error(f"no case on {kind.name}: {', '.join(sorted(unknown))}; there are {', '.join(cases)}")
    names = list(dict.fromkeys(options.only or kind.usual))
    sections = {name: kind.apart.get(name, kind.section) for name in names}
    if options.write is not None:
        for section in dict.fromkeys(sections.values()):
            try:  # before an hour of measuring
                between(options.write, section.begin, section.end)
            except (OSError, ValueError) as error:
                parser.error(f"nothing could be written: {error}")
    before: dict[str, str] = {}
    if options.compare is not None:
        for section in dict.fromkeys(sections.values()):
            before |= recorded(options.compare, section.begin, section.end)
    # As after installation: a process that compiles for itself keeps the compiler's leavings, and takes longer to end.
    compileall.compile_dir(Path(pares.__file__).parent, quiet=2)
    found: dict[Section, list[Row]] = {}
    for name, section in sections.items():
        for row in or_why(name, cases[name](options.quick)):
            found.setdefault(section, []).append(row)
            if not options.json:
                beside = "" if options.compare is None else f"  {ratio(row.figures, before.get(row.what))}"
                print(line(row, beside), flush=True)
    rows = [row for part in found.values() for row in part]
    if options.ledgers:
        stood = "" if options.write is None else between(options.write, kind.section.begin, kind.section.end)
        shown = f"{machine()}:\n\n{ledgers_table.table(rows, stood)}"
    else:
        shown = f"{machine()}:\n\n{table(rows)}"
    if options.table:
        print(f"\n{shown}", flush=True)
    if options.json:
        print(json.dumps({"machine": machine(), "rows": [asdict(row) for row in rows]}, indent=1))
    if options.write is not None and options.ledgers:
        put(options.write, shown, kind.section.begin, kind.section.end)
    elif options.write is not None:
        for section, part in found.items():
            section.write(options.write, part, names)
    if any(row.what.endswith(STOPPED) for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
