"""`pares dev redis` and its like: a real server of one node on this machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from pares.cli.common.options import AsJson
from pares.cli.common.output import say
from pares.cli.common.usage import Family, Plain
from pares.cli.dev.show import COMMANDS, TITLES, Folder, Port, Remove, end, folder_of, show, started

if TYPE_CHECKING:
    from pares.dev.cluster import LocalCluster


class OneServer(NamedTuple):
    """What the commands of one kind of server say and do."""

    kind: str
    """The scheme of its ledgers' URLs."""
    make: Callable[[Path, int | None], LocalCluster]
    """The server in a folder, at a port (None: any), which outlives the command."""
    lets_in: str = "lets everybody in"


def family(server: OneServer) -> typer.Typer:
    """The commands `up`, `down` and `status`."""
    kind = server.kind
    title, command = TITLES[kind], COMMANDS[kind]
    app = typer.Typer(
        cls=Family, no_args_is_help=False, invoke_without_command=True, help=f"A real {title}, without docker."
    )

    @app.callback()
    def default(  # pyright: ignore[reportUnusedFunction]
        context: typer.Context, folder: Folder = None, port: Port = None, json: AsJson = False
    ) -> None:
        if context.invoked_subcommand is None:
            show(kind, folder, json)
        else:
            common = {"folder": folder, "json": json}
            context.default_map = {"up": {**common, "port": port}, "down": common, "status": common}

    @app.command(
        "up",
        cls=Plain,
        help=(
            f"Start {title}, and print the URL of a ledger on it. It runs until `pares dev {command} down`.\n\n"
            f"It listens on 127.0.0.1 only, on the port it had before if that is free, and {server.lets_in}. Data stays in the "
            "folder. Where it is up already it says so."
        ),
    )
    def up(  # pyright: ignore[reportUnusedFunction]
        folder: Folder = None, port: Port = None, json: AsJson = False
    ) -> None:
        from pares.dev import state

        place = folder_of(kind, folder)
        before = state.load(place)
        started(server.make(place, port), before, place, json)

    @app.command(
        "down",
        cls=Plain,
        help=f"End the {title} that `up` has started: that very process and no other. Its data stays, unless told otherwise.",
    )
    def down(  # pyright: ignore[reportUnusedFunction]
        folder: Folder = None, remove: Remove = False, json: AsJson = False
    ) -> None:
        end(kind, folder, remove, json)

    @app.command(
        "status", cls=Plain, help="Show the server: where it listens, which process it is, whether it answers."
    )
    def status(folder: Folder = None, json: AsJson = False) -> None:  # pyright: ignore[reportUnusedFunction]
        show(kind, folder, json)

    return app


def _postgres(place: Path, port: int | None) -> LocalCluster:
    from pares.dev import Postgres

    return Postgres(folder=place, port=port, survive=True)


def _redis(place: Path, port: int | None) -> LocalCluster:
    from pares.dev import Redis

    return Redis(folder=place, ports=None if port is None else [port], survive=True)


def _rabbitmq(place: Path, port: int | None) -> LocalCluster:
    from pares.dev import RabbitMQ

    return RabbitMQ(folder=place, port=port, survive=True)


def _pulsar(place: Path, port: int | None) -> LocalCluster:
    from pares.dev import Pulsar
    from pares.dev.pulsar.jars import JARS

    if not JARS.is_here:
        say(f"fetching Pulsar {JARS.version} from Maven Central (230 MB, some minutes, only this once)")
    return Pulsar(folder=place, port=port, survive=True)


SERVERS = (
    OneServer("postgresql", _postgres),
    OneServer("redis", _redis),
    OneServer("rabbitmq-stream", _rabbitmq, "lets in guest, with that password"),
    OneServer("pulsar", _pulsar),
)
