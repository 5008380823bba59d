"""Which terms a member's callers wait for, on threads and on event loops."""

from __future__ import annotations

from pares.runtime.driver.lifecycle import Life
from pares.runtime.driver.requests import Requests
from pares.runtime.host import Host
from pares.runtime.term import Term
from pares.runtime.work.barriers import Barriers


class Waits:
    """Of one member. `requests`: set by the member, each time that it is driven by another driver."""

    requests: Requests

    def __init__(self, life: Life, barriers: Barriers, host: Host) -> None:
        self._life, self._barriers, self._now = life, barriers, host.now

    def working(self, role: str) -> Term | None:
        """The current term, if its work may begin. The barrier itself, told of this role, waits for nothing but the belief."""
        beliefs = self._life.beliefs
        return beliefs.valid(role) if self._barriers.telling(role) else beliefs.working(role)

    def any_works(self) -> bool:
        return any(self.working(role) for role in list(self._life.beliefs.terms))

    def check_there(self, role: str) -> None:
        """By what this member is driven by now."""
        self.requests.check_there(role)

    def newer(self, role: str, last: int) -> Term | None:
        """The current term, if its token is above `last` and its work may begin."""
        term = self.working(role)
        if term is None or term.token <= last:
            return None
        self.requests.there_was(role)
        return term

    def over(self, role: str, last: int) -> bool:
        """Whether there is a newer term, or none is to be waited for."""
        return self.newer(role, last) is not None or self._life.ended or not self.requests.awaits(role)

    def wait_newer(self, role: str, last: int, timeout: float | None) -> Term | None:
        """Waits on the calling thread. None after `timeout` seconds and when the member was closed; raises if it failed."""
        self.requests.check_eligible(role)
        end = None if timeout is None else self._now() + int(timeout * 1e9)
        while True:
            left = None if end is None else max(0.0, (end - self._now()) / 1e9)
            self._life.beliefs.wait_for(lambda: self.over(role, last), left)
            if self.newer(role, last) is not None or self._life.ended or self.requests.awaits(role):
                break
            self.requests.check_awaited(role)
        if self._life.state == "failed":
            raise self._life.failure()
        return self.newer(role, last)
