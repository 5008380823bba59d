"""`python -m chaos`: brings a scene up, makes the faults, says what came of them.

Exit codes: 0 all promises kept; 1 the run could not be made or finished; 2 wrong usage; 3 a promise was broken, leadership came
back late, or a member ended by itself.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from rich.console import Console

from chaos import induced
from chaos.faults import KINDS
from chaos.mutant import SHOWN, script
from chaos.progress import progress
from chaos.run import PATIENCE, Result, audit, possible, run
from chaos.scene import GROUP, Scene, find_faketime, scratch
from chaos.verdict import report
from chaos.verdict.judge import ALLOWANCE, PROTOCOLS
from pares.core.errors import ParesError


def _options(words: list[str] | None) -> argparse.Namespace:
    kinds = "\n".join(f"  {kind.name:16} {kind.what}" for kind in KINDS.values())
    parser = argparse.ArgumentParser(
        prog="python -m chaos",
        description="Faults on three real brokers and some members, each in a network of its own. Needs root's rights.",
        epilog=f"kinds of faults:\n{kinds}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--faults", type=int, default=200, metavar="N", help="how many (200)")
    parser.add_argument(
        "--seed", type=int, metavar="S", help="draws what is drawn; printed; by default another one each time"
    )
    parser.add_argument(
        "--only", action="append", default=[], choices=KINDS, metavar="KIND", help="only this kind; repeatable"
    )
    parser.add_argument("--protocol", choices=PROTOCOLS, default="claims", help="what the members run (claims)")
    parser.add_argument(
        "--session",
        type=float,
        metavar="SECONDS",
        help="the members' session, or their Kafka group's (1.0; NELI's 2.0)",
    )
    parser.add_argument(
        "--aftermath",
        type=float,
        metavar="SECONDS",
        help="how long to wait, once all are led again, for what the fault may still do, before the next (a session)",
    )
    parser.add_argument(
        "--allowance",
        type=float,
        default=ALLOWANCE,
        metavar="SECONDS",
        help=f"how much later than the protocol has it leadership may be back: more for a slow machine ({ALLOWANCE})",
    )
    parser.add_argument("--members", type=int, default=3, metavar="N", help="how many members (3)")
    parser.add_argument("--json", action="store_true", help="the report as JSON")
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="keep logs, beliefs, the sink and report.json in this folder"
    )
    parser.add_argument(
        "--faketime", type=Path, metavar="FILE", help="libfaketimeMT.so.1, if it is not where Debian puts it"
    )
    parser.add_argument("--no-audit", action="store_true", help="without the audit by Spark at the end")
    parser.add_argument(
        "--mutant", choices=SHOWN, help="break this rule on purpose in all members: the run has to fail"
    )
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the table between the marks of this file")
    options = parser.parse_args(words)
    if options.session is None:
        options.session = 1.0 if options.protocol == "claims" else 2.0
    if options.aftermath is None:
        options.aftermath = options.session
    if not 0 <= options.aftermath <= 600:
        parser.error("--aftermath is 0 to 600")
    if not 0 <= options.allowance <= PATIENCE:
        parser.error(f"--allowance is 0 to {PATIENCE:g}: nobody waits longer for leadership")
    if options.mutant is not None and options.protocol != "claims":
        parser.error("--mutant is for --protocol claims")
    if options.faults < 1 or not 1 <= options.members <= 9 or not 0.1 <= options.session <= 60:
        parser.error("--faults is 1 or more, --members 1 to 9, --session 0.1 to 60")
    mark = report.begin(options.protocol)
    if options.write is not None and (not options.write.is_file() or mark not in options.write.read_text()):
        parser.error(f"--write: {options.write} has no line {mark}")
    if options.faketime is not None and not options.faketime.is_file():
        parser.error(f"--faketime: {options.faketime} is no file")
    return options


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _run(options: argparse.Namespace, result: Result, folder: Path, console: Console) -> None:
    faketime = options.faketime or find_faketime()
    kinds, result.not_made = possible(faketime, options.only, options.protocol)
    program = (
        script(options.mutant) if options.protocol == "claims" else induced.script("pares", GROUP, options.protocol)
    )
    if not kinds:
        result.aborted = "none of the faults can be made here"
        return
    try:
        with (
            progress(console, options.faults, "three brokers start") as tell,
            Scene(folder, options.session, options.members, result.seed, faketime, program, options.protocol) as scene,
        ):
            result.notes = scene.notes
            run(scene, result, kinds, tell)
            if not options.no_audit:
                audit(scene, result, tell)
    except ParesError as error:
        result.aborted = str(error)
    except KeyboardInterrupt:
        result.aborted = "interrupted"


def main(words: list[str] | None = None) -> int:
    options = _options(words)
    signal.signal(signal.SIGTERM, _interrupt)
    seed = random.SystemRandom().randrange(10**9) if options.seed is None else options.seed
    result = Result(
        seed,
        options.session,
        options.faults,
        protocol=options.protocol,
        aftermath=options.aftermath,
        allowance=options.allowance,
    )
    said = Console(stderr=True)
    said.print(f"seed {seed}", highlight=False)
    began = time.monotonic()
    try:
        with scratch(options.out) as folder:
            _run(options, result, folder, said)
            result.seconds = time.monotonic() - began
            report.write(result, folder)
    except ParesError as error:
        result.aborted = str(error)
    if options.json:
        print(json.dumps(report.to_json(result), indent=1))
    else:
        report.show(result, Console(width=None if sys.stdout.isatty() else 160))
    if options.write is not None:
        report.put(result, options.write)
    return result.exit_code


if __name__ == "__main__":
    sys.exit(main())
