"""Requests of a member's user: checked before they go to the driver, and waited for where the log has to show the result."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from pares.core.errors import ClosedError, ConfigError, LedgerUnavailable, ParesError
from pares.core.events import Close, Event
from pares.core.reasons import CLOSED
from pares.runtime.driver.binding import Drives
from pares.runtime.driver.lifecycle import Life
from pares.runtime.driver.view import View
from pares.runtime.host import Empty, Host, Mailbox

TIMEOUT: Final = 10.0
"""Seconds within which the ledger must have taken a request."""


class UnknownRole(ConfigError):
    """The group has no such role, as far as the log was read."""


class Requests:
    """The requests of one member. Each check raises what the member's methods raise, or returns nothing."""

    def __init__(
        self, group: str, life: Life, loop: Drives, view: View, eligible: tuple[str, ...] | None, host: Host
    ) -> None:
        self._host = host
        self._group = group
        self._life = life
        self._loop = loop
        self._view = view
        self.eligible = eligible
        """The roles that this member may lead; None: any."""
        self._awaited = set[str]()
        """Roles that callers may wait for even if the group no longer has them: a role that was removed may come again."""

    def check_process(self) -> None:
        """Raises in a forked child."""
        if self._life.forked:
            raise self._life.failure()

    def check_usable(self) -> None:
        if self._life.state == "failed":
            raise self._life.failure()
        if self._life.state == "closed":
            raise ClosedError(f"{self._life.who} was closed; make a new one")

    def check_eligible(self, role: str) -> None:
        """Raises unless this member may lead `role`."""
        self.check_process()
        if self.eligible is not None and role not in self.eligible:
            mine = ", ".join(map(repr, self.eligible[:5])) or "none"
            raise ConfigError(
                f"this member never leads {role!r}: it is eligible for {mine}; name it in roles= or eligible="
            )

    def check_known(self, role: str) -> None:
        """Raises unless the group has such a role."""
        if not self._view.known(role):
            self.check_process()
            there = ", ".join(sorted(self._view.roles())[:10]) or "none"
            raise UnknownRole(
                f"group {self._group!r} has no role {role!r}; it has: {there}; name it in a member's roles=, or add_role() it"
            )

    def check_there(self, role: str) -> None:
        """Raises if the group does not have the role, never had it and is not about to get it, as far as this member has read.
        Reads nothing, so it may be called often. With the ledger out of reach it raises nothing."""
        # `unwritten` too: where another group shares the partitions out, that group may be the first to be out of reach.
        if not self.awaits(role) and self._loop.unreachable is None and self._loop.unwritten is None:
            self.check_known(role)

    def awaits(self, role: str) -> bool:
        """Whether it makes sense to wait for `role`, as far as this member has read. Before it has read its group's log it may
        make sense for any role."""
        if role not in self._awaited and self._life.state == "live":
            if not self._view.expects(role):
                return False
            self._awaited.add(role)
        return True

    def there_was(self, role: str) -> None:
        """Notes that this member has led the role, so that the role can be waited for."""
        self._awaited.add(role)

    def check_awaited(self, role: str) -> None:
        """Called before a wait for `role`. Reads the log first, as the role may just have been added. Raises `ConfigError` if
        the group has no such role then; with the ledger out of reach that is not known, and the caller may wait."""
        if self._host.task() is not self._loop.thread:
            self._read_first()
        if self.awaits(role):
            return
        if self._loop.unreachable is None:
            self.check_known(role)
        self._awaited.add(role)

    def _read_first(self) -> None:
        """Waits until all that stands in the log by now was read, for `TIMEOUT` at most."""
        answers: Mailbox[bool] = self._host.mailbox()
        self._loop.read_first(answers.put)
        with suppress(Empty):
            answers.get(timeout=TIMEOUT)

    def resolve(self, member: str) -> str:
        """The id of a member given by id or name (of several incarnations the newest). If it is not known, reads the log first:
        the member may have joined just now."""
        try:
            return self._view.resolve(member, self._group)
        except ConfigError:
            if self._host.task() is self._loop.thread:
                raise
        self._read_first()
        try:
            return self._view.resolve(member, self._group)
        except ConfigError as error:
            if self._loop.unreachable is None:
                raise
            raise LedgerUnavailable(f"{error}, as far as could be read: {self._loop.unreachable}") from None

    def perform(self, request: Event, timeout: float = TIMEOUT) -> None:
        """Makes a request, and waits until what it writes stands in the log and has been read."""
        self.check_usable()
        if self._host.task() is self._loop.thread:
            raise ParesError("this call would wait for the thread that it is made on: make it from another one")
        answers: Mailbox[bool] = self._host.mailbox()
        self._loop.request(request, answers.put)
        try:
            done = answers.get(timeout=timeout)
        except Empty:
            why = self._loop.unreachable or self._loop.unwritten or f"the member is still {self._life.state}"
            raise LedgerUnavailable(
                f"not done within {timeout:g} s ({why}); it may still happen", unknown=True
            ) from None
        if not done:
            if self._life.state == "failed":
                raise self._life.failure()
            raise ClosedError(f"{self._life.who} was closed before this was done; it may still happen")

    def leave(self, timeout: float, session: float) -> None:
        """Has the driver leave the group, and waits for it. After `timeout` seconds it ends without having left."""
        thread = self._loop.thread
        if self._life.begin_closing():
            self._loop.request(Close())
        if self._host.task() is not thread:
            self._life.barriers.finish_mine()
            thread.join(timeout)
            if thread.is_alive():
                self._loop.abandon()
                self._life.beliefs.stop(CLOSED)
                thread.join(session + 1.0)
