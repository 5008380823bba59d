"""manage.py send_letters: writes a letter again and again, while it leads; started on several hosts, one of them does.

`SqlFence` takes Django's own connection, inside `transaction.atomic()`: a process that was frozen for longer than its session
is refused there with `Stale`, and its letter is rolled back.
"""

from __future__ import annotations

from typing import Any

from django.db import connection, transaction

import pares
from pares.fence import SqlFence, Stale
from pares.frameworks.django import LeaderCommand


class Command(LeaderCommand):
    help = "Writes letters while it leads; run it on as many hosts as you like."
    group, role = "shop", "letters"
    fence = SqlFence(group="shop")

    def lead(self, term: pares.Term, **options: Any) -> None:
        try:
            with transaction.atomic():  # pyright: ignore[reportGeneralTypeIssues] - Django has no types
                self.fence.check(connection, term)
                with connection.cursor() as cursor:
                    cursor.execute("INSERT INTO letters (token) VALUES (%s)", [term.token])
        except Stale as stale:
            self.stdout.write(f"stale {stale.token} {stale.seen}")
            term.wait_lost()
        else:
            self.stdout.write("wrote")
            term.wait_lost(0.02)
