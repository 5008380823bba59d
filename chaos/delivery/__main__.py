"""`python -m chaos.delivery`: works on topics under faults, in each way, and says what was lost and what was repeated.

Exit codes: 0 all promises kept; 1 the run could not be made or finished; 2 wrong usage; 3 a promise was broken.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import get_args

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from chaos.delivery import report
from chaos.delivery.faults import OF_WORKERS
from chaos.delivery.grounds import ON_BROKERS, Files, OnKafka
from chaos.delivery.judge import Verdict
from chaos.delivery.plan import MUTANTS, PLAIN, WAYS, Mutant, Plan, Way
from chaos.delivery.run import Tell, run
from chaos.scene import scratch
from pares.core.errors import ParesError

LINE = 10.0
"""Seconds after which a run that no terminal shows says that it goes on."""


def _options(words: list[str] | None) -> argparse.Namespace:
    usual = Plan()
    mutants = "\n".join(f"  {name:14} {what} ({way})" for name, (way, what) in MUTANTS.items())
    parser = argparse.ArgumentParser(
        prog="python -m chaos.delivery",
        description=__doc__,
        epilog=f"mutants:\n{mutants}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--ledger",
        choices=("kafka", "file"),
        default="kafka",
        help="three brokers in networks of their own (needs root's rights), or a folder (kafka)",
    )
    parser.add_argument(
        "--rounds", type=int, default=1, metavar="N", help="all of it so often, each with another seed (1)"
    )
    parser.add_argument("--only", action="append", choices=WAYS, default=[], help="only this way; repeatable")
    parser.add_argument(
        "--seconds", type=float, default=usual.seconds, metavar="S", help=f"of faults, of each way ({usual.seconds:g})"
    )
    parser.add_argument("--faults", type=int, default=usual.faults, metavar="N", help=f"in these ({usual.faults})")
    parser.add_argument("--workers", type=int, default=usual.workers, metavar="N", help=f"({usual.workers})")
    parser.add_argument("--partitions", type=int, default=usual.partitions, metavar="N", help=f"({usual.partitions})")
    parser.add_argument("--rate", type=int, default=usual.rate, metavar="N", help=f"records a second ({usual.rate})")
    parser.add_argument(
        "--session", type=float, default=usual.session, metavar="S", help=f"of all groups ({usual.session:g})"
    )
    parser.add_argument(
        "--trip",
        type=float,
        default=usual.trip,
        metavar="S",
        help=f"how long {usual.batch} records take ({usual.trip:g})",
    )
    parser.add_argument(
        "--kind", action="append", choices=(*OF_WORKERS, *ON_BROKERS), default=[], help="only this fault; repeatable"
    )
    parser.add_argument("--seed", type=int, default=usual.seed, metavar="S", help=f"({usual.seed})")
    parser.add_argument(
        "--mutant", choices=get_args(Mutant), help="workers that break a promise on purpose: the run has to fail"
    )
    parser.add_argument("--json", action="store_true", help="the report as JSON")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="keep journals and logs in this folder")
    options = parser.parse_args(words)
    if options.rounds < 1 or options.faults < 0 or options.rate < 1 or not 0.1 <= options.session <= 60:
        parser.error("--rounds and --rate are 1 or more, --faults 0 or more, --session 0.1 to 60")
    if not 2 <= options.workers <= 16 or not 1 <= options.partitions <= 64 or not 0 < options.seconds <= 86400:
        parser.error("--workers is 2 to 16, --partitions 1 to 64, --seconds more than 0")
    if not 0 <= options.trip <= 10:
        parser.error("--trip is 0 to 10")
    if options.ledger == "file" and (PLAIN in options.only or not set(options.kind) <= set(OF_WORKERS)):
        parser.error(f"--only {PLAIN!r}, and faults but {', '.join(OF_WORKERS)}, are for --ledger kafka")
    return options


@contextlib.contextmanager
def _progress(console: Console) -> Iterator[Tell]:
    """A bar on a terminal, else a line now and then."""
    if not console.is_terminal:
        said = ["begins"]
        over = threading.Event()

        def lines() -> None:
            while not over.wait(LINE):
                console.print(said[0], soft_wrap=True, highlight=False)

        thread = threading.Thread(target=lines, daemon=True)
        thread.start()
        try:
            yield lambda what, part: said.__setitem__(0, f"{part:4.0%} {what}")
        finally:
            over.set()
            thread.join()
        return
    with Progress(TextColumn("{task.description}"), BarColumn(30), TimeElapsedColumn(), console=console) as bar:
        task = bar.add_task("begins", total=1.0)
        yield lambda what, part: bar.update(task, description=what, completed=part)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _round(options: argparse.Namespace, seed: int, folder: Path, tell: Tell) -> list[Verdict]:
    ways: tuple[Way, ...] = tuple(options.only) or WAYS
    if options.ledger == "file":
        ways = tuple(way for way in ways if way != PLAIN)
    plan = Plan(
        ways=ways,
        workers=options.workers,
        partitions=options.partitions,
        seconds=options.seconds,
        faults=options.faults,
        rate=options.rate,
        session=options.session,
        trip=options.trip,
        kinds=tuple(options.kind),
        seed=seed,
        mutant=options.mutant,
    )
    if options.ledger == "file":
        with Files(folder) as files:
            return run(files, plan, tell)
    with OnKafka(folder, options.workers, seed) as brokers:
        return run(brokers, plan, tell)


def main(words: list[str] | None = None) -> int:
    options = _options(words)
    signal.signal(signal.SIGTERM, _interrupt)
    found: list[Verdict] = []
    aborted = None
    try:
        with scratch(options.out) as folder, _progress(Console(stderr=True)) as tell:
            for number in range(options.rounds):

                def told(what: str, part: float, number: int = number) -> None:
                    tell(f"round {number + 1} of {options.rounds}, {what}", (number + part) / options.rounds)

                place = folder / f"round-{number + 1}"
                place.mkdir()
                found += _round(options, options.seed + number, place, told)
    except ParesError as error:
        aborted = str(error)
    except KeyboardInterrupt:
        aborted = "interrupted"
    if options.json:
        told_of = {"ledger": options.ledger, "seed": options.seed, "rounds": options.rounds, "mutant": options.mutant}
        print(json.dumps(report.to_json(found, aborted, **told_of), indent=1))
    else:
        report.show(found, aborted, Console(width=None if sys.stdout.isatty() else 140))
    if any(verdict.broken for verdict in found):
        return 3
    return 1 if aborted is not None or not found else 0


if __name__ == "__main__":
    sys.exit(main())
