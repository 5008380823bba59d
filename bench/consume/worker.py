"""A worker in a process of its own: consumes one topic in one of the ways of `bench.consume.plan`.

    python -m bench.consume.worker PLAN

Lines out: as `bench.consume.work` says. Lines in, beside the questions of `bench.part`: `go`: records may be asked for;
`leave`: it leaves its group as a program that ends does. The end of the input ends it.
"""

from __future__ import annotations

import sys
import threading

import msgspec

from bench.consume import by_group, by_pares, by_share
from bench.consume.plan import GROUPS, Plan
from bench.consume.work import Work
from bench.part import play


def main() -> None:
    plan = msgspec.json.decode(sys.argv[1], type=Plan)
    work = Work(plan)
    consume = by_group.consume if plan.way in GROUPS else by_share.consume if plan.way == "share" else by_pares.consume
    worker = threading.Thread(target=consume, args=(plan, work))
    worker.start()

    def leave() -> None:
        work.over.set()
        work.go.set()

    play({}, {"go": work.go.set, "leave": leave})
    leave()
    worker.join()


if __name__ == "__main__":
    main()
