"""`python -m bench.peers`: pares beside what one would pick instead. See docs/bench-peers.md for how to read the figures."""

from __future__ import annotations

import argparse
import os
import sqlite3
import sys
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bench.figures import machine, put
from bench.peers import servers
from bench.peers.contenders import CONTENDERS
from bench.peers.measure import Result, measure, rounds_of
from bench.peers.page import beliefs, spread, table
from bench.peers.picture import picture
from bench.peers.store import load, save
from pares.core.errors import CapabilityError, ParesError
from pares.dev.kafka import jars

TITLE = "Leadership after a crash and after a planned handover"


def versions() -> str:
    """What was measured, as far as it is here."""
    found = [f"Kafka {jars.VERSION}", f"SQLite {sqlite3.sqlite_version}"]
    for what, ask in (("ZooKeeper", servers.zookeeper_version), ("Redis", servers.redis_version)):
        try:
            found.append(f"{what} {ask()}")
        except CapabilityError:
            continue
    for package in ("kazoo", "redis", "confluent-kafka"):
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)


def figures(results: Sequence[Result], missing: Sequence[tuple[str, str]], where: str, image: str) -> str:
    return f"![{TITLE}]({image})\n\n{where}\n\n{table(results, missing)}"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers", description="Measures pares beside its peers, on this machine."
    )
    parser.add_argument("--only", action="append", choices=list(CONTENDERS), help="only this one; may be given again")
    parser.add_argument("--quick", action="store_true", help="one round of everything: to see that it runs")
    parser.add_argument("--save", type=Path, metavar="FILE", help="keep what was measured, as JSON")
    parser.add_argument("--load", type=Path, metavar="FILE", help="measure nothing; take what was kept")
    parser.add_argument(
        "--write",
        type=Path,
        metavar="FILE",
        help="put the table between the marks of this file, and a picture (.svg) beside it",
    )
    options = parser.parse_args()
    if options.load is not None:
        where, results, missing = load(options.load)
    else:
        busy = f"load average {os.getloadavg()[0]:.1f} when it began"
        where = f"{machine()}; {versions()}; {busy}."
        if options.quick:
            where += " **One round of everything, to see that it runs: these are no figures.**"
        results, missing = [], []
        began = time.monotonic()
        for _ in run(options.only or list(CONTENDERS), options.quick, results, missing):
            if options.save is not None:
                save(options.save, where, results, missing)
        where += f" The run took {(time.monotonic() - began) / 60:.0f} minutes."
        if options.save is not None:
            save(options.save, where, results, missing)
    if options.write is not None:
        image = options.write.with_suffix(".svg")
        put(options.write, figures(results, missing, where, image.name))
        image.write_text(picture(results, TITLE))
    if missing:
        sys.exit(1)


def run(keys: Sequence[str], quick: bool, results: list[Result], missing: list[tuple[str, str]]) -> Iterator[None]:
    """Measures one after the other, and adds to `results`, or to `missing` with the reason: others still are measured. Yields
    after each."""
    for key in keys:
        contender = CONTENDERS[key]
        print(f"{key}: {contender.settings}", flush=True)
        try:
            result = measure(contender, rounds_of(contender, quick), lambda said: print(f"    {said}", flush=True))
        except (ParesError, OSError) as error:  # among them: it fell over, it did not answer in time
            print(f"  not measured: {error}", flush=True)
            missing.append((f"{contender.name}, {contender.session:g} s", str(error)))
        else:
            results.append(result)
            print(f"  crash {spread(result.crash)}, planned {spread(result.handover)}", flush=True)
            for form, said in result.yes.items():
                print(f"  thawed, {form}: {beliefs(said)}", flush=True)
        yield


if __name__ == "__main__":
    main()
