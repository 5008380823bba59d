"""Django: a management command that any number of hosts may run, and one of them works.

class Command(LeaderCommand):
    group, role = "shop", "letters"

    def lead(self, term, **options):
        send_letters(token=term.token)
        term.wait_lost(1.0)
"""

from __future__ import annotations

import os
from typing import Any

from pares.core.errors import CapabilityError, ParesError
from pares.runtime import Member, Term, leave_on_signals

try:
    from django.conf import settings
    from django.core.management.base import BaseCommand, CommandError, CommandParser
except ImportError as error:
    raise CapabilityError(f"Django is not installed ({error}): pip install django") from error


class LeaderCommand(BaseCommand):
    """To be derived from, with a `lead` of its own. The ledger is `--ledger`, the setting PARES_LEDGER, or the environment's.

    Promised: `lead` is called only in a term, again and again, and SIGTERM and SIGINT hand over before the process ends. An
    exception of `lead` ends the command, which hands over too. Not promised: that nobody else leads while `lead` still runs
    on after its term, when the process was frozen, say: for that, `term.token` and `pares.fence.SqlFence`, which takes
    Django's own connection. Raises `CommandError` for settings that are missing or wrong.
    """

    group: str = ""
    role: str = ""
    session: float = 1.0
    """Seconds; the default of `--session`."""

    def lead(self, term: Term, **options: Any) -> None:
        """One piece of work, to end when `term` is no longer true. With nothing to do, wait: `term.wait_lost(1.0)`."""
        raise NotImplementedError(f"{type(self).__name__} has no method lead(term, **options)")

    def make_member(self, **options: Any) -> Member:
        """The member; for one with other settings than these."""
        ledger = options["ledger"] or getattr(settings, "PARES_LEDGER", "") or os.environ.get("PARES_LEDGER")
        if not (ledger and self.group and self.role):
            raise CommandError(
                f"{type(self).__module__}: give it a group ({self.group!r}) and a role ({self.role!r}), and a ledger "
                f"({ledger!r}) by --ledger, the setting PARES_LEDGER or the environment"
            )
        try:
            return Member(ledger, group=self.group, roles=[self.role], session=options["session"], name=options["name"])
        except ParesError as error:
            raise CommandError(str(error)) from error

    def add_arguments(self, parser: CommandParser) -> None:
        """A command with options of its own calls this too."""
        parser.add_argument("--ledger", metavar="URL", help="the log that all hosts share")
        parser.add_argument("--session", type=float, default=self.session, metavar="SECONDS", help="of silence")
        parser.add_argument("--name", help="of this member; else host and process")

    def handle(self, *args: Any, **options: Any) -> None:
        with self.make_member(**options) as member:
            leave_on_signals()
            for term in member.terms(self.role):
                while term:
                    self.lead(term, **options)
