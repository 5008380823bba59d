"""`pares roles`: the roles of a group; adding and removing them while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, get_args

import typer

from pares.cli.common.options import DEFAULT_GROUP, AsJson, Group, LedgerUrl, Timeout, told
from pares.cli.common.output import console, print_json
from pares.cli.common.usage import Family, Plain

if TYPE_CHECKING:
    from pares.view import Story

roles = typer.Typer(cls=Family, no_args_is_help=False, invoke_without_command=True, help="List, add and remove roles.")
Name = Annotated[str, typer.Argument(metavar="ROLE", help="The role's name.", show_default=False)]


@roles.callback()
def default(
    context: typer.Context, ledger: LedgerUrl = None, group: Group = DEFAULT_GROUP, json: AsJson = False
) -> None:
    """List, add and remove the roles of a group. Without a command: list."""
    if context.invoked_subcommand is None:
        show(ledger, group, json)
    else:
        # What stands before the command holds for it, unless it says otherwise itself.
        given = {"ledger": ledger, "group": group, "json": json}
        context.default_map = dict.fromkeys(("list", "add", "remove"), given)


@roles.command("list", cls=Plain)
def show(ledger: LedgerUrl = None, group: Group = DEFAULT_GROUP, json: AsJson = False) -> None:
    """List the roles: seats, weight, who leads."""
    import time

    from pares.cli.watch import roles_table
    from pares.view.state import roles as rows_of

    with told(ledger, group) as story:
        rows = rows_of(story, time.time_ns() // 1_000_000)
        if json:
            print_json({"group": group, "ledger": story.url, "known": not story.adrift, "roles": rows})
        else:
            console().print(roles_table(rows))


@roles.command(cls=Plain)
def add(
    role: Name,
    seats: Annotated[
        int, typer.Option("--seats", metavar="N", min=1, max=100, help="By how many members at once.")
    ] = 1,
    weight: Annotated[
        float, typer.Option("--weight", metavar="W", min=0.001, help="How much it counts in balancing.")
    ] = 1.0,
    spread: Annotated[
        str, typer.Option("--spread", metavar="BY", help="Keep its seats apart by: host, zone or none.")
    ] = "host",
    ledger: LedgerUrl = None,
    group: Group = DEFAULT_GROUP,
    timeout: Timeout = 10.0,
    json: AsJson = False,
) -> None:
    """Add a role, or change the seats, weight and spread of one that is there."""
    from pares.cli.common.steer import need_known, report, steering, wait
    from pares.core.errors import ConfigError
    from pares.core.wire.records import check_name
    from pares.runtime.config.settings import Spread

    def check(story: Story) -> None:
        need_known(story)
        check_name("ROLE", role)
        if kept is None:
            raise ConfigError(f"--spread {spread!r} is none of host, zone and none")

    kept: Spread | None = next((one for one in get_args(Spread) if one == spread), None)
    with steering(ledger, group, check) as (story, admin):
        admin.add_role(role, seats=seats, weight=weight, spread=kept or "host")

        def done() -> bool:
            found = story.world.roles.get(role)
            return found is not None and not found.removed and (found.seats, found.weight) == (seats, weight)

        text = f"role {role} is there, with {seats} {'seat' if seats == 1 else 'seats'}"
        answer = {"role": role, "seats": seats, "weight": weight, "spread": spread}
        report(wait(story, done, timeout), text, f"{role} is not there", answer, json=json, timeout=timeout)


@roles.command(cls=Plain)
def remove(
    role: Name, ledger: LedgerUrl = None, group: Group = DEFAULT_GROUP, timeout: Timeout = 30.0, json: AsJson = False
) -> None:
    """Remove a role: it takes no new leader, and is gone when its holder has run its barrier and released it."""
    from pares.cli.common.steer import need_known, need_role, report, steering, wait

    def check(story: Story) -> None:
        need_known(story)
        need_role(story, role)

    with steering(ledger, group, check) as (story, admin):
        admin.remove_role(role)
        done = wait(story, lambda: role not in story.world.roles, timeout)
        report(done, f"role {role} is removed", f"{role} is still held", {"role": role}, json=json, timeout=timeout)
