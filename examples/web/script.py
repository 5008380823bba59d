"""A plain script, with neither server nor asyncio, in each of the processes that `deployment` keeps running."""

from __future__ import annotations

import pares
from examples.web import jobs


def main() -> None:
    pares.leave_on_signals()
    with pares.Member(jobs.LEDGER, group=jobs.GROUP, roles=[jobs.ROLE], session=jobs.SESSION) as member:
        for term in member.terms(jobs.ROLE):
            while term:
                jobs.tick(term)
                term.wait_lost(jobs.EVERY)


if __name__ == "__main__":
    main()
