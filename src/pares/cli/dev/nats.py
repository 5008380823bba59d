"""`pares dev nats`: a real NATS on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from pares.cli.common.options import AsJson
from pares.cli.common.usage import Family, Plain
from pares.cli.dev.show import Folder, Nodes, Port, Remove, end, folder_of, ports, show, started

nats = typer.Typer(cls=Family, no_args_is_help=False, invoke_without_command=True, help="A real NATS, without docker.")

JetStream = Annotated[
    bool | None,
    typer.Option(
        "--jetstream/--no-jetstream",
        help="Whether it keeps a log, or only passes messages on. Default: as before, or with.",
        show_default=False,
    ),
]


@nats.callback()
def default(
    context: typer.Context,
    nodes: Nodes = None,
    jetstream: JetStream = None,
    folder: Folder = None,
    port: Port = None,
    json: AsJson = False,
) -> None:
    """A real nats-server on loopback, from PyPI's wheel. Without a command: status."""
    if context.invoked_subcommand is None:
        status(folder, json)
    else:
        common = {"folder": folder, "json": json}
        up_too = {**common, "nodes": nodes, "port": port, "jetstream": jetstream}
        context.default_map = {"up": up_too, "down": common, "status": common}


@nats.command(cls=Plain)
def up(
    nodes: Nodes = None,
    jetstream: JetStream = None,
    folder: Folder = None,
    port: Port = None,
    json: AsJson = False,
) -> None:
    """Start NATS, and print the URL of a ledger on it. It runs until `pares dev nats down`.

    It listens on 127.0.0.1 only, on the ports it had before if they are free. Data stays in the folder. Where it is up already
    it says so, and starts nodes that are missing.
    """
    from pares.core.errors import ConfigError
    from pares.dev import Nats, state

    place = folder_of("nats", folder)
    before = state.load(place)
    nodes = nodes or (len(before.nodes) if before is not None else 1)
    had = before is None or bool(before.log)
    keeps = had if jetstream is None else jetstream
    if before is not None and keeps != had and before.alive():
        raise ConfigError(
            f"the NATS in {place} runs {'with' if had else 'without'} JetStream: end it first (pares dev nats down)"
        )
    server = Nats(nodes, jetstream=keeps, folder=place, ports=ports(port, nodes), survive=True)
    started(server, before, place, json)


@nats.command(cls=Plain)
def down(folder: Folder = None, remove: Remove = False, json: AsJson = False) -> None:
    """End the NATS that `up` has started: those very processes and no others. Its data stays, unless told otherwise."""
    end("nats", folder, remove, json)


@nats.command(cls=Plain)
def status(folder: Folder = None, json: AsJson = False) -> None:
    """Show the servers: where they listen, which processes they are, whether they answer."""
    show("nats", folder, json)
