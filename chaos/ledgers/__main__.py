"""`python -m chaos.ledgers`: members on each ledger, faults of its server and of the members, and what came of the promises.

Each ledger has two acts. In the first, whatever happens, the server keeps what it has acknowledged: no promise may be broken.
In the second, where that can be brought about, it loses some of it: which promises go with it is shown, named, and held against
what docs/choosing.md says of that ledger.

Exit codes: 0 all promises kept; 1 the run could not be made or finished on some ledger; 2 wrong usage; 3 a promise was broken,
nobody came to lead again, or a member ended by itself.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final

from rich.console import Console

from chaos.ledgers import report
from chaos.ledgers.faults import KINDS, LOSSES
from chaos.ledgers.places import ledgers
from chaos.ledgers.run import Found, Plan, run
from chaos.mutant import SHOWN, script
from chaos.progress import Tell, progress
from chaos.scene import scratch
from pares.core.errors import ParesError

FAULTS: Final = 100
SESSION: Final = 1.0
LONGER: Final = {"kinesis": 5.0}
"""Seconds: the members' session, and on services that are read now and then."""
MORE: Final = {"postgres": 200}
"""Faults on each, and on those that most will use."""


def _options(words: list[str] | None) -> argparse.Namespace:
    known = ledgers()
    kinds = "\n".join(f"  {kind.name:22} {kind.what}" for kind in KINDS.values())
    kinds += "".join(f"\n  {name:22} {what}" for name, what in LOSSES.items())
    parser = argparse.ArgumentParser(
        prog="python -m chaos.ledgers",
        description=__doc__,
        epilog=f"kinds of faults, of which each ledger has those that can be made there:\n{kinds}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--ledger",
        action="append",
        default=[],
        choices=known,
        metavar="NAME",
        help=f"only this one; repeatable: {', '.join(known)}",
    )
    parser.add_argument("--faults", type=int, metavar="N", help=f"on each ({FAULTS}; on PostgreSQL {MORE['postgres']})")
    parser.add_argument(
        "--losses",
        type=int,
        default=10,
        metavar="N",
        help="how often a server loses what it acknowledged, where it can (10)",
    )
    parser.add_argument(
        "--seed", type=int, metavar="S", help="draws what is drawn; printed; by default another one each time"
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        choices=[*KINDS, *LOSSES],
        metavar="KIND",
        help="only this kind; repeatable",
    )
    parser.add_argument(
        "--session",
        type=float,
        metavar="SECONDS",
        help=f"the members' session ({SESSION}; on Kinesis {LONGER['kinesis']})",
    )
    parser.add_argument(
        "--lasts", type=float, metavar="SESSIONS", help="how long each fault lasts (as drawn, by its kind: 0 to 3.5)"
    )
    parser.add_argument("--members", type=int, default=3, metavar="N", help="how many members (3)")
    parser.add_argument("--json", action="store_true", help="the report as JSON")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="keep logs, beliefs and sinks in this folder")
    parser.add_argument("--no-audit", action="store_true", help="without the audit of each log at the end")
    parser.add_argument(
        "--mutant", choices=SHOWN, help="break this rule on purpose in all members: the run has to fail"
    )
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the tables between the marks of this file")
    options = parser.parse_args(words)
    if (options.faults is not None and options.faults < 1) or options.losses < 0:
        parser.error("--faults is 1 or more, --losses 0 or more")
    if not 2 <= options.members <= 9 or not 0.1 <= (SESSION if options.session is None else options.session) <= 60:
        parser.error("--members is 2 to 9, --session 0.1 to 60")
    if options.lasts is not None and not 0 <= options.lasts <= 100:
        parser.error("--lasts is 0 to 100")
    if options.write is not None and (not options.write.is_file() or report.BEGIN not in options.write.read_text()):
        parser.error(f"--write: {options.write} has no line {report.BEGIN}")
    return options


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _plan(options: argparse.Namespace, ledger: str, seed: int) -> Plan:
    return Plan(
        faults=options.faults or MORE.get(ledger, FAULTS),
        losses=options.losses,
        seed=seed,
        session=options.session or LONGER.get(ledger, SESSION),
        members=options.members,
        only=tuple(options.only),
        script=tuple(script(options.mutant)),
        audit=not options.no_audit,
        lasts=options.lasts,
    )


def _one(ledger: str, plan: Plan, folder: Path, tell: Tell) -> Found:
    """Whatever becomes of one ledger, the others are tried."""
    found = Found(ledger, plan.faults, session=plan.session)
    folder.mkdir()
    try:
        tell(f"{ledger}: the server starts", None)
        with ledgers()[ledger](folder) as ground:
            run(ground, found, plan, folder, tell)
    except (ParesError, OSError) as error:
        found.aborted = str(error) or repr(error)
    except KeyboardInterrupt:
        found.aborted = "interrupted"
    return found


def exit_code(found: Sequence[Found]) -> int:
    """The gravest of all."""
    codes = {each.exit_code for each in found}
    return 3 if 3 in codes else 1 if 1 in codes or not found else 0


def main(words: list[str] | None = None) -> int:
    options = _options(words)
    signal.signal(signal.SIGTERM, _interrupt)
    seed = random.SystemRandom().randrange(10**9) if options.seed is None else options.seed
    names: list[str] = options.ledger or [*ledgers()]
    plans = {name: _plan(options, name, seed) for name in names}
    said = Console(stderr=True)
    said.print(f"seed {seed}", highlight=False)
    found: list[Found] = []
    aborted = ""
    began = time.monotonic()
    try:
        with (
            scratch(options.out) as folder,
            progress(said, sum(plan.faults for plan in plans.values()), "the first server starts") as tell,
        ):
            for name, plan in plans.items():
                found.append(_one(name, plan, folder / name, tell))
                if not said.is_terminal:
                    said.print(
                        f"{name}: {len(found[-1].outcomes)} faults, {len(found[-1].broken)} broken", highlight=False
                    )
                if found[-1].aborted == "interrupted":
                    break
    except ParesError as error:
        aborted = str(error)
    seconds = time.monotonic() - began
    sessions = ", ".join(f"{each:g} s" for each in sorted({plan.session for plan in plans.values()}))
    head = f"seed {seed}, session {sessions}, {options.members} members on each ledger, {seconds / 60:.0f} minutes"
    told: dict[str, Any] = {"seed": seed, "members": options.members, "aborted": aborted}
    if options.json:
        print(json.dumps({**report.to_json(found, **told), "exit_code": exit_code(found)}, indent=1))
    else:
        report.show(found, head, Console(width=None if sys.stdout.isatty() else 180))
        if aborted:
            print(f"ABORTED: {aborted}")
    if options.write is not None:
        report.write(found, head, options.write)
    return exit_code(found)


if __name__ == "__main__":
    sys.exit(main())
