"""What is to run once, and not in each of N workers: a job of APScheduler, every tenth of a second.

Each worker has a scheduler with the same jobs in memory; no job store is shared. The job runs where its member leads, and is
nothing elsewhere.
"""

from __future__ import annotations

import os
import time

import pares

LEDGER = os.environ.get("PARES_LEDGER", "sqlite:///web.db")
TICKS = os.environ.get("WEB_TICKS", "ticks.txt")
GROUP = "web"
ROLE = "scheduler"
SESSION = float(os.environ.get("WEB_SESSION", "1.0"))
EVERY = 0.1


def tick(term: pares.Term | pares.aio.Term | None) -> None:
    """The job's work: a line of a file says who did it, when, and in which term."""
    if term:
        write(term.token)


def write(token: int) -> None:
    # A command of `pares run` may be ended and started again within a term: its worker is the one that runs it.
    worker = os.environ.get("WEB_WORKER") or os.getpid()
    with open(TICKS, "ab", buffering=0) as file:
        file.write(f"{worker} {time.time():.6f} {token}\n".encode())


def schedule(member: pares.Member) -> None:
    """Starts this worker's scheduler: to be called once in each worker, after it was forked."""
    from apscheduler.schedulers.background import BackgroundScheduler

    from pares.frameworks.apscheduler import Jobs

    scheduler = BackgroundScheduler()
    jobs = Jobs(scheduler, member, ROLE)
    jobs.add_job(lambda: tick(member.term(ROLE)), "interval", seconds=EVERY, max_instances=1, coalesce=True)
    scheduler.start()
