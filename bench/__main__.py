"""`python -m bench`: all cases, or those named by --only. See docs/bench.md for how to read the figures."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from bench.cases import CASES, Row
from bench.figures import machine, put


def table(rows: list[Row]) -> str:
    lines = ["| what | min / p50 / max | target | met |", "|---|---|---|---|"]
    said = {True: "yes", False: "**no**", None: ""}
    lines += [f"| {row.what} | {row.figures} | {row.target} | {said[row.met]} |" for row in rows]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measures pares on this machine.")
    parser.add_argument("--only", action="append", choices=sorted(CASES), help="only this case; may be given again")
    parser.add_argument("--quick", action="store_true", help="fewer rounds: to see that it runs")
    parser.add_argument("--json", action="store_true", help="rows as JSON")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the table between the marks of this file")
    options = parser.parse_args()
    rows: list[Row] = []
    for name in options.only or CASES:
        for row in CASES[name](options.quick):
            rows.append(row)
            if not options.json:
                met = {None: "", True: "met", False: "MISSED"}[row.met]
                print(f"{row.what:58} {row.figures:40} {row.target:18} {met}", flush=True)
    if options.json:
        print(json.dumps({"machine": machine(), "rows": [asdict(row) for row in rows]}, indent=1))
    if options.write is not None:
        put(options.write, f"{machine()}:\n\n{table(rows)}")


if __name__ == "__main__":
    main()
