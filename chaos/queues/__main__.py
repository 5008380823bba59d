"""`python -m chaos.queues`: contends for leadership by queues, and says what was exclusive and what was not.

Rules. `word`: by what the service says. `beats`: as Fast NELI, by one's own beats that come back, counted from when they were
sent. `lease`: by a message that is held, and a deadline of one's own. Each is struck by a kill and by a freeze of the leader.

Exit codes: 0 every rule did as docs/neli.md says; 1 the run could not be made; 2 wrong usage; 3 one did not.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table

from chaos.queues import by_amqp, by_sqs
from chaos.queues.run import FAULTS, Trial, amqp_facts, amqp_queue, sqs_facts, sqs_queue, trial
from chaos.queues.servers import elasticmq, rabbitmq
from pares.core.errors import ParesError

QUEUES: Final = ("amqp", "sqs")
EXCLUSIVE: Final = frozenset({"amqp-exclusive-beats", "amqp-active-beats", "sqs-held-lease", "sqs-beats"})
"""Rules by which two must never believe at once."""
Facts = list[tuple[str, str, str]]


def on_amqp(rounds: int, rules: list[str], faults: list[str], facts: Facts) -> Iterator[Trial]:
    with rabbitmq() as where:
        facts += [("amqp", what, found) for what, found in amqp_facts(where)]
        for rule in (rule for rule in by_amqp.RULES if not rules or rule in rules):
            for fault in faults * rounds:
                with amqp_queue(where, active=rule in by_amqp.ACTIVE):
                    yield trial(rule, fault, where)


def on_sqs(rounds: int, rules: list[str], faults: list[str], facts: Facts) -> Iterator[Trial]:
    with elasticmq() as endpoint:
        facts += [("sqs", what, found) for what, found in sqs_facts(endpoint)]
        for rule in (rule for rule in by_sqs.RULES if not rules or rule in rules):
            for fault in faults * rounds:
                yield trial(rule, fault, sqs_queue(endpoint)[1])


def _options(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m chaos.queues", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queue", action="append", choices=QUEUES, default=[], help="only this one; repeatable")
    known = [*by_amqp.RULES, *by_sqs.RULES]
    parser.add_argument("--rule", action="append", choices=known, default=[], help="only this rule; repeatable")
    parser.add_argument("--fault", action="append", choices=FAULTS, default=[], help="only this fault; repeatable")
    parser.add_argument("--rounds", type=int, default=1, metavar="N", help="each so often (1)")
    parser.add_argument("--json", action="store_true", help="what was found as JSON")
    options = parser.parse_args(words)
    if options.rounds < 1:
        parser.error("--rounds is 1 or more")
    return options


def _show(console: Console, trials: list[Trial], facts: Facts) -> None:
    table = Table(box=box.SIMPLE)
    for head in ("rule", "fault", "takeover s", "overlaps", "longest s", "moves", "led"):
        table.add_column(head)
    for each in trials:
        takeover = "" if each.takeover is None else f"{each.takeover:.2f}"
        row = (each.rule, each.fault, takeover, str(each.overlaps), f"{each.longest:.2f}", str(each.moves))
        table.add_row(*row, f"{each.led:.0%}" if each.fault == "none" else "")
    console.print(table)
    for queue, what, found in facts:
        console.print(f"{queue}: {what}: {found}", soft_wrap=True, highlight=False)


def main(words: list[str] | None = None) -> int:
    options = _options(words)
    console = Console(stderr=options.json)
    trials: list[Trial] = []
    facts: Facts = []
    faults: list[str] = options.fault or [*FAULTS]
    try:
        for name, play in (("amqp", on_amqp), ("sqs", on_sqs)):
            if not options.queue or name in options.queue:
                for each in play(options.rounds, options.rule, faults, facts):
                    trials.append(each)
                    console.print(f"{each.rule}, {each.fault}: {each.overlaps} overlaps", highlight=False)
    except ParesError as error:
        console.print(str(error), soft_wrap=True, highlight=False)
        return 1
    if options.json:
        print(json.dumps({"trials": [asdict(each) for each in trials], "facts": facts}))
    else:
        _show(console, trials, facts)
    return 3 if any(each.rule in EXCLUSIVE and each.overlaps for each in trials) else 0


if __name__ == "__main__":
    sys.exit(main())
