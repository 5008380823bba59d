"""gunicorn's side of it: a member in each worker, made after the fork, whatever was loaded before it.

A member that is made when the application is imported would be the master's under --preload, and dead in every worker
(`ForkedError`). `post_worker_init` comes after the fork, and after gunicorn's own signal handlers, so `leave_on_signals` goes
before these: a worker that is told to go hands over first, and then finishes its requests.
"""

from __future__ import annotations

from typing import Any

import pares
from examples.web import jobs

workers = 3
bind = "127.0.0.1:0"
graceful_timeout = 5


def post_worker_init(worker: Any) -> None:
    member = pares.Member(jobs.LEDGER, group=jobs.GROUP, roles=[jobs.ROLE], session=jobs.SESSION)
    pares.leave_on_signals()
    jobs.schedule(member)
