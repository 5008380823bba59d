"""manage.py send_letters: writes a letter again and again, while it leads; started on several hosts, one of them does.

`SqlFence` takes Django's own connection, inside `transaction.atomic()`: whoever was frozen for longer than its session is
refused there with `Stale`, and its letter is rolled back.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from django.db import connection, transaction

import pares
from pares.fence import SqlFence, Stale


class Command(BaseCommand):
    help = "Writes letters while it leads; run it on as many hosts as you like."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--session", type=float, default=1.0, help="seconds")

    def handle(self, *args: Any, **options: Any) -> None:
        fence = SqlFence(group="shop")
        with pares.Member(settings.PARES_LEDGER, group="shop", roles=["letters"], session=options["session"]) as me:
            pares.leave_on_signals()
            for term in me.terms("letters"):
                self.stdout.write(f"leads {term.token}")
                while term:
                    try:
                        with transaction.atomic():  # pyright: ignore[reportGeneralTypeIssues] - Django has no types
                            fence.check(connection, term)
                            with connection.cursor() as cursor:
                                cursor.execute("INSERT INTO letters (token) VALUES (%s)", [term.token])
                    except Stale as stale:
                        self.stdout.write(f"stale {stale.token} {stale.seen}")
                        break
                    self.stdout.write("wrote")
                    term.wait_lost(0.02)
