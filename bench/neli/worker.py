"""A member that runs NELI or Fast NELI in a process of its own, for the benchmarks.

    python -m bench.neli.worker URL NAME SETTINGS

SETTINGS: as JSON, the kind of its protocol's settings, these, and options for the ledger. Lines out: `ready - NS` (somebody
leads, and it knows who), `lead ROLE NS TOKEN`, `closing ROLE NS`, and the answers in `bench.part`. Lines in: `close`, which it
does as its last act, and the questions there.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time

import pares
from bench.part import play, tell
from pares.runtime.clock import stopwatch

ROLE = "r"


def main() -> None:
    url, name, settings = sys.argv[1:4]
    told = json.loads(settings)
    own = getattr(pares, told["kind"])(**told["own"])
    group = f"bench-{name.partition('-')[0]}"
    member = pares.Member(url, group=group, roles=[ROLE], name=name, protocol=own, options=told["options"])

    def lead() -> None:
        for term in member.terms(ROLE):
            tell("lead", ROLE, stopwatch(), term.token)
            term.wait_lost()

    def ready() -> None:
        while member.state == "joining" or not member.leaders(ROLE):
            time.sleep(0.01)
        tell("ready", "-", stopwatch())

    def close() -> None:
        tell("closing", ROLE, stopwatch())
        member.close()
        os._exit(0)

    threading.Thread(target=lead, daemon=True).start()
    threading.Thread(target=ready, daemon=True).start()
    play({"holds()": lambda: member.holds(ROLE)}, {"close": close})
    member.close()


if __name__ == "__main__":
    main()
