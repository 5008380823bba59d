"""`python -m bench.history`: what audits of long logs, histories and following a log cost. See docs/bench.md."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from bench.cases import Row
from bench.figures import between, machine, put
from bench.history import audits, commands, follow

BEGIN, END = "<!-- figures of the history -->", "<!-- end of figures of the history -->"
SMALL = 30_000
_PART: Final = re.compile(r"<!-- case (\w+) -->\n(.*?)(?=<!-- case |\Z)", re.DOTALL)


def say(text: str) -> None:
    """Progress, on standard error."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stderr.flush()


ENGINES: Final = ("python", "spark")


@dataclass(frozen=True)
class Options:
    """What is measured with."""

    records: int = 10_000_000
    minutes: float = 120.0
    memory: str = "2g"
    """The heap of Spark's JVM."""
    engines: Sequence[str] = ENGINES
    """Of the followers."""
    rounds: int = commands.ROUNDS


def cases(of: Options) -> dict[str, Callable[[], Iterator[Row]]]:
    """All that is measured, in this order."""
    return {
        "start": lambda: commands.start(say, of.memory, of.rounds),
        "ledger": lambda: audits.from_a_ledger(say, of.records, of.memory),
        "decade": lambda: audits.decade(say, of.records, of.memory),
        "tasks": lambda: audits.in_tasks(say, of.records),
        "groups": lambda: audits.groups(say, of.records, of.memory),
        "terms": lambda: commands.terms(say, of.records, of.memory),
        "rules": lambda: audits.over_a_history(say, of.records, of.memory),
        "update": lambda: audits.update(say, of.records, of.memory),
        "follow": lambda: follow.cases(say, of.minutes * 60, of.engines, of.memory),
    }


def merged(before: str, measured: Mapping[str, str]) -> str:
    """The text between the marks: the parts that were measured now in the place of those of the same cases, and the others as
    they were. A part begins with a line that names its case."""
    parts = dict(pair for pair in _PART.findall(before))
    known = list(cases(Options()))
    parts = {name: text.strip("\n") for name, text in parts.items() if name in known} | dict(measured)
    return "\n\n".join(f"<!-- case {name} -->\n{parts[name]}" for name in known if name in parts)


def main() -> None:
    from bench.__main__ import table

    parser = argparse.ArgumentParser(
        prog="python -m bench.history", description="Measures audits, histories and following."
    )
    usual = Options()
    parser.add_argument(
        "--only", action="append", metavar="CASE", choices=list(cases(usual)), help="may be given again"
    )
    parser.add_argument("--quick", action="store_true", help="small, and one of everything: to see that it runs")
    parser.add_argument(
        "--records", type=int, default=usual.records, help="in logs and histories (default: 10,000,000)"
    )
    parser.add_argument("--minutes", type=float, default=usual.minutes, help="of following (default: 120)")
    parser.add_argument("--memory", default=usual.memory, help="the heap of Spark's JVM (default: 2g)")
    parser.add_argument(
        "--engine",
        action="append",
        choices=ENGINES,
        help="of the followers: may be given again (default: both at once)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the rows, as JSON")
    parser.add_argument(
        "--write",
        type=Path,
        metavar="FILE",
        help="put the tables between the marks of this file; of other cases they stay",
    )
    options = parser.parse_args()
    of = Options(options.records, options.minutes, options.memory, options.engine or ENGINES)
    if options.quick:
        of = Options(SMALL, 0.25, options.memory, options.engine or ENGINES, rounds=1)
    where, rows, parts = machine(), dict[str, list[Row]](), dict[str, str]()
    for name in options.only or cases(of):
        load, rows[name] = os.getloadavg()[0], []
        for row in cases(of)[name]():
            rows[name].append(row)
            met = {None: "", True: "met", False: "MISSED"}[row.met]
            print(f"{row.what:70} {row.figures:50} {row.target:16} {met}".rstrip(), flush=True)
        note = ". **Small, to see that it runs: these are no figures.**" if options.quick else ""
        parts[name] = f"{where}; load average {load:.1f} when it began{note}\n\n{table(rows[name])}"
        if options.write is not None:
            # After each case, so that what was measured is there if the next one ends the run.
            put(options.write, merged(between(options.write, BEGIN, END), parts), BEGIN, END)
    if options.json is not None:
        told = [asdict(row) | {"case": name} for name, found in rows.items() for row in found]
        options.json.write_text(json.dumps({"where": where, "rows": told}, indent=1) + "\n")


if __name__ == "__main__":
    main()
