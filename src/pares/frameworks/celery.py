"""Celery: a member in each prefork worker, and the token of who beats in every message.

Beat itself must run once, and needs no code for that: `pares run --role beat -- celery -A proj beat`, on as many hosts as
you like.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from typing import Any, Final, Unpack

from pares.core.errors import CapabilityError
from pares.ledger import Bus, Ledger
from pares.runtime import Member
from pares.runtime.config.arguments import MemberSettings
from pares.runtime.member import check_arguments

try:
    from celery.signals import before_task_publish, worker_process_init, worker_process_shutdown
except ImportError as error:
    raise CapabilityError(f"Celery is not installed ({error}): pip install celery") from error

HEADER: Final = "pares_token"
"""Under this name a message carries the token."""
UID: Final = "pares.frameworks.celery.send_token"


class MemberInWorkers:
    """A member in each process of a prefork pool: made after the fork, closed when the process is told to end.

    To be made once, where the application is, with the arguments of `pares.Member`; nothing is opened before a worker starts.
    (A member that is made before the fork is dead in all workers: `ForkedError`.) Not promised: anything for pools that do
    not fork, whose signals Celery does not send; make a `pares.Member` there. What `pares.Member` raises, Celery logs, and
    `member` stays None.
    """

    def __init__(self, ledger: str | Ledger | Bus, *, group: str, **settings: Unpack[MemberSettings]) -> None:
        check_arguments(ledger, group=group, **settings)
        self._make = functools.partial(Member, ledger, group=group, **settings)
        self.member: Member | None = None
        """Of this process; None where there is none: in the parent, or in a process that only sends tasks."""
        worker_process_init.connect(self._begin, weak=False)
        worker_process_shutdown.connect(self._end, weak=False)

    def _begin(self, **_: object) -> None:
        self.member = self._make()

    def _end(self, **_: object) -> None:
        if self.member is not None:
            self.member.close()


def send_token() -> bool:
    """From now on each message that this process sends carries the token under which `pares run` started it, in the header
    `pares_token`: to be called where the application is. Does nothing elsewhere, as in a worker. Whether it carries one."""
    token = os.environ.get("PARES_TOKEN", "")
    if not token.isdecimal():
        return False

    def put(headers: dict[str, Any], **_: object) -> None:
        headers[HEADER] = int(token)

    before_task_publish.connect(put, weak=False, dispatch_uid=UID)
    return True


def token_of(task: Any) -> int | None:
    """In a bound task (`bind=True`): the token of who sent it, for a fence; None if it was sent without. Retries keep it."""
    headers: Mapping[str, Any] = task.request.headers or {}
    token = headers.get(HEADER)
    return token if isinstance(token, int) else None
