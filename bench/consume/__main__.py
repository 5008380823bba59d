"""`python -m bench.consume`: consumers beside consumer groups, share groups and pyrallel-consumer. See docs/bench.md."""

from __future__ import annotations

import argparse
import compileall
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Final

import pares
from bench.cases import Row
from bench.consume import claims, handlers, memory, rebalance, replay, settle, throughput
from bench.consume.crew import Crew
from bench.consume.kept import merge
from bench.consume.picture import TITLE, picture, points
from bench.consume.ways import missing
from bench.figures import machine
from bench.sections import table
from pares.core.errors import ParesError

LEFT_OUT = "left-out"
"""What stands in the document in the place of a case for peers that are not here."""
PEERS: Final = frozenset({"throughput", "handlers"})
"""The cases that measure peers which may not be here."""
IMAGE = "bench-consume.svg"
Cases = dict[str, Callable[[bool], Iterator[Row]]]


def cases(minutes: float) -> Cases:
    """All that is measured, in this order. `minutes`: of traffic, for memory."""
    return {
        "replay": replay.cases,
        "claims": claims.cases,
        "throughput": throughput.cases,
        "rebalance": rebalance.cases,
        "handlers": handlers.cases,
        "settle": settle.cases,
        "memory": partial(memory.cases, minutes=minutes),
    }


def told(name: str, rows: Iterator[Row]) -> Iterator[Row]:
    """Rows of a case; where it comes to nothing, a row that says so, and the other cases are measured all the same."""
    try:
        yield from rows
    except (ParesError, OSError) as error:  # among them: not in time, a worker that fell over
        yield Row(f"{name}: not measured further", str(error), "no error", met=False)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.consume", description="Measures consumers beside their peers, on a Kafka that it starts."
    )
    parser.add_argument("--only", action="append", metavar="CASE", choices=list(cases(1)), help="may be given again")
    parser.add_argument("--quick", action="store_true", help="small, and one of everything: to see that it runs")
    parser.add_argument("--minutes", type=float, default=60.0, help="of traffic, for memory (default: 60)")
    parser.add_argument(
        "--pyrallel",
        metavar="PYTHON",
        help="an interpreter (3.12 or newer) that has pyrallel-consumer; else it is left out",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the rows, as JSON")
    parser.add_argument(
        "--write",
        type=Path,
        metavar="FILE",
        help="put the tables of these cases between the marks of this file, and with throughput a picture beside it",
    )
    options = parser.parse_args()
    Crew.peer = options.pyrallel
    # As after installation: workers that compile for themselves at their start are slow to come.
    for folder in (Path(pares.__file__).parent, Path(__file__).parents[1]):
        compileall.compile_dir(folder, quiet=2)
    where, began = f"{machine()}; load average {os.getloadavg()[0]:.1f} when it began", time.monotonic()
    chosen = options.only or list(cases(options.minutes))
    found: dict[str, list[Row]] = {LEFT_OUT: list(missing()) if PEERS & set(chosen) else []}
    for row in found[LEFT_OUT]:
        print(f"{row.what}: {row.figures}", flush=True)
    for name in chosen:
        rows = found[name] = []
        for row in told(name, cases(0.5 if options.quick else options.minutes)[name](options.quick)):
            rows.append(row)
            met = {None: "", True: "met", False: "MISSED"}[row.met]
            print(f"{row.what:84} {row.figures:44} {row.target:14} {met}".rstrip(), flush=True)
    where += f". The run took {(time.monotonic() - began) / 60:.0f} minutes."
    if options.quick:
        where += " **Small, and one of everything, to see that it runs: these are no figures.**"
    if options.json is not None:
        every = [asdict(row) for rows in found.values() for row in rows]
        options.json.write_text(json.dumps({"where": where, "rows": every}, indent=1) + "\n")
    if options.write is not None:
        write(options.write, found, where)


def write(file: Path, found: dict[str, list[Row]], where: str) -> None:
    """Tables of the cases that were measured, each with where that was; those of others stay. Beside the table of throughput
    stands a picture."""
    new = {name: f"*{name}*: {where}\n\n{table(rows)}" for name, rows in found.items() if rows}
    if lines := points(found.get("throughput", ())):
        file.with_name(IMAGE).write_text(picture(lines))
        new["throughput"] += f"\n\n![{TITLE}]({IMAGE})"
    merge(file, new, (LEFT_OUT, *cases(1)))


if __name__ == "__main__":
    main()
