"""A worker in a process of its own: consumes one topic in one of the ways of `bench.consume.plan`.

    python -m bench.consume.worker PLAN

Lines out: as `bench.consume.work` says. Lines in, beside the questions of `bench.part`: `join`: it may join its group, where
it is to wait for that; `go`: records may be asked for; `leave`: it leaves its group as a program that ends does. The end of
the input ends it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

import msgspec

from bench.consume.plan import GROUPS, Plan
from bench.consume.work import Work
from bench.part import play


def _way_of(plan: Plan) -> Callable[[Plan, Work], None]:
    """What a worker has no need of it does not import: older clients have no share groups."""
    if plan.way in GROUPS:
        from bench.consume.by_group import consume
    elif plan.way == "share":
        from bench.consume.by_share import consume
    else:
        from bench.consume.by_pares import consume
    return consume


def main() -> None:
    plan = msgspec.json.decode(sys.argv[1], type=Plan)
    work = Work(plan)
    worker = threading.Thread(target=_way_of(plan), args=(plan, work))
    worker.start()

    def leave() -> None:
        work.over.set()
        work.join.set()
        work.go.set()

    play({}, {"join": work.join.set, "go": work.go.set, "leave": leave})
    leave()
    worker.join()


if __name__ == "__main__":
    main()
