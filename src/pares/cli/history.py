"""`pares history`: every change of hands that the log still tells of, with its reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pares.cli.common.options import DEFAULT_GROUP, AsJson, Group, LedgerUrl, told
from pares.cli.common.output import console, print_json

if TYPE_CHECKING:
    from pares.view import Story


def history(
    ledger: LedgerUrl = None,
    group: Group = DEFAULT_GROUP,
    role: Annotated[str | None, typer.Option("--role", metavar="ROLE", help="Only this role.")] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="How many of the newest to show.")] = 50,
    json: AsJson = False,
) -> None:
    """Show every move and its reason, newest last.

    Shows what the log decided, by the order of its records. Times are those at which the records came into the log;
    `pares audit` compares them with what members believed.
    """
    from pares.cli.watch import moves_table
    from pares.view.state import move_row

    with told(ledger, group) as story:
        known_role(story, role)
        rows = [move_row(move) for move in story.history() if role is None or move.role == role]
        if json:
            print_json({"group": group, "ledger": story.url, "moves": rows[-limit:], "left_off": len(rows[:-limit])})
            return
        out = console()
        if len(rows) > limit:
            out.print(f"[dim]{len(rows) - limit} earlier moves are left off (--limit)[/]")
        out.print(moves_table(rows[-limit:]))


def known_role(story: Story, role: str | None) -> None:
    """Raises `ConfigError` for a role that the group neither has nor ever had, as far as its log tells."""
    from pares.core.errors import ConfigError

    if role is None or role in story.world.roles or any(move.role == role for move in story.moves):
        return
    there = ", ".join(sorted(story.world.roles)) or "none"
    raise ConfigError(f"group {story.group!r} has no role {role!r}; its roles are: {there}")
