"""python -m examples.web SERVER: ends the worker that leads, again and again, and says for how long nobody led."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from statistics import quantiles

from examples.web.run import SERVERS, run


def main() -> int:
    """0: the job never ran in two workers at once; 1: it did."""
    parser = argparse.ArgumentParser(prog="python -m examples.web", description=__doc__)
    parser.add_argument("servers", nargs="*", metavar="SERVER", help=f"of {', '.join(SERVERS)} (else all of them)")
    parser.add_argument("--deploys", type=int, default=20, help="how often the worker that leads is ended")
    parser.add_argument("--session", type=float, default=1.0, help="seconds")
    given = parser.parse_args()
    if unknown := set(given.servers) - SERVERS.keys():
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    clean = True
    for kind in given.servers or SERVERS:
        with tempfile.TemporaryDirectory(prefix="pares-web-") as folder:
            outcome = run(kind, Path(folder), given.deploys, given.session)
        clean = clean and outcome.clean
        cuts = quantiles([1000 * gap for gap in outcome.gaps], n=100, method="inclusive")
        worst = 1000 * max(outcome.gaps)
        print(f"{kind}: {len(outcome.gaps)} terms ended by plan, {len(outcome.others)} otherwise")
        print(f"  after the former nobody led for: p50 {cuts[49]:.0f} ms, p95 {cuts[94]:.0f} ms, most {worst:.0f} ms")
        print(
            f"  the job ran {len(outcome.ticks)} times in {len(outcome.workers)} workers, "
            f"{'never' if outcome.clean else 'ALSO'} in two at once"
        )
    return int(not clean)


if __name__ == "__main__":
    sys.exit(main())
