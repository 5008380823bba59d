"""`pares dev redis`: a real Redis on this machine."""

from __future__ import annotations

import typer

from pares.cli.common.options import AsJson
from pares.cli.common.usage import Family, Plain
from pares.cli.dev.show import Folder, Port, Remove, end, folder_of, ports, show, started

redis = typer.Typer(
    cls=Family, no_args_is_help=False, invoke_without_command=True, help="A real Redis, without docker."
)
_KIND = "redis"


@redis.callback()
def default(context: typer.Context, folder: Folder = None, port: Port = None, json: AsJson = False) -> None:
    """A real Redis on loopback: an installed one, or the one in PyPI's wheel. Without a command: status."""
    if context.invoked_subcommand is None:
        status(folder, json)
    else:
        common = {"folder": folder, "json": json}
        context.default_map = {"up": {**common, "port": port}, "down": common, "status": common}


@redis.command(cls=Plain)
def up(folder: Folder = None, port: Port = None, json: AsJson = False) -> None:
    """Start Redis, and print the URL of a ledger on it. It runs until `pares dev redis down`.

    It listens on 127.0.0.1 only, on the port it had before if that is free, and lets everybody in. Data stays in the folder.
    Where it is up already it says so.
    """
    from pares.dev import Redis, state

    place = folder_of(_KIND, folder)
    before = state.load(place)
    started(Redis(folder=place, ports=ports(port, 1), survive=True), before, place, json)


@redis.command(cls=Plain)
def down(folder: Folder = None, remove: Remove = False, json: AsJson = False) -> None:
    """End the Redis that `up` has started: that very process and no other. Its data stays, unless told otherwise."""
    end(_KIND, folder, remove, json)


@redis.command(cls=Plain)
def status(folder: Folder = None, json: AsJson = False) -> None:
    """Show the server: where it listens, which process it is, whether it answers."""
    show(_KIND, folder, json)
