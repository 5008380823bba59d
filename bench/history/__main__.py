"""`python -m bench.history`: what audits of long logs, histories and following a log cost. See docs/bench.md."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

from bench.cases import Row
from bench.figures import machine, put
from bench.history import audits, follow

BEGIN, END = "<!-- figures of the history -->", "<!-- end of figures of the history -->"
SMALL = 30_000


def say(text: str) -> None:
    """Progress, on standard error."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stderr.flush()


def cases(records: int, minutes: float) -> dict[str, Callable[[], Iterator[Row]]]:
    """All that is measured, in this order."""
    return {
        "ledger": lambda: audits.from_a_ledger(say, records),
        "rules": lambda: audits.over_a_history(say, records),
        "update": lambda: audits.update(say, records),
        "follow": lambda: follow.cases(say, minutes * 60),
    }


def main() -> None:
    from bench.__main__ import table

    parser = argparse.ArgumentParser(
        prog="python -m bench.history", description="Measures audits, histories and following."
    )
    parser.add_argument("--only", action="append", metavar="CASE", choices=list(cases(1, 1)), help="may be given again")
    parser.add_argument("--quick", action="store_true", help="small, and one of everything: to see that it runs")
    parser.add_argument("--records", type=int, default=10_000_000, help="in logs and histories (default: 10,000,000)")
    parser.add_argument("--minutes", type=float, default=120.0, help="of following, for each engine (default: 120)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the rows, as JSON")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the table between the marks of this file")
    options = parser.parse_args()
    records, minutes = (SMALL, 0.25) if options.quick else (options.records, options.minutes)
    where, rows = f"{machine()}; load average {os.getloadavg()[0]:.1f} when it began", list[Row]()
    for name in options.only or cases(1, 1):
        for row in cases(records, minutes)[name]():
            rows.append(row)
            met = {None: "", True: "met", False: "MISSED"}[row.met]
            print(f"{row.what:70} {row.figures:50} {row.target:16} {met}".rstrip(), flush=True)
    if options.quick:
        where += ". **Small, and one of everything, to see that it runs: these are no figures.**"
    if options.json is not None:
        options.json.write_text(json.dumps({"where": where, "rows": [asdict(row) for row in rows]}, indent=1) + "\n")
    if options.write is not None:
        put(options.write, f"{where}\n\n{table(rows)}", BEGIN, END)


if __name__ == "__main__":
    main()
