"""`pares dev kafka`: a real Kafka on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from pares.cli.common.options import AsJson
from pares.cli.common.output import console, say
from pares.cli.common.usage import Family, Plain
from pares.cli.dev.show import Folder, Nodes, Port, Remove, end, folder_of, ports, show, started

if TYPE_CHECKING:
    from pares.dev.kafka.jars import Progress

kafka = typer.Typer(
    cls=Family, no_args_is_help=False, invoke_without_command=True, help="A real Kafka, without docker."
)


@kafka.callback()
def default(
    context: typer.Context, nodes: Nodes = None, folder: Folder = None, port: Port = None, json: AsJson = False
) -> None:
    """A real Kafka on loopback, from Maven Central's jars. Without a command: status."""
    if context.invoked_subcommand is None:
        status(folder, json)
    else:
        common = {"folder": folder, "json": json}
        context.default_map = {"up": {**common, "nodes": nodes, "port": port}, "down": common, "status": common}


@kafka.command(cls=Plain)
def up(nodes: Nodes = None, folder: Folder = None, port: Port = None, json: AsJson = False) -> None:
    """Start Kafka, and print the URL of a ledger on it. It runs until `pares dev kafka down`.

    The first time 44 MB are downloaded; later it takes seconds. It listens on 127.0.0.1 only, on the ports it had before if
    they are free. Data stays in the folder. Where it is up already it says so, and starts nodes that are missing.
    """
    from pares.dev import Kafka, state

    place = folder_of("kafka", folder)
    before = state.load(place)
    nodes = nodes or (len(before.nodes) if before is not None else 1)
    with _progress() as progress:
        server = Kafka(nodes, folder=place, ports=ports(port, nodes), survive=True, progress=progress)
        started(server, before, place, json)


@kafka.command(cls=Plain)
def down(folder: Folder = None, remove: Remove = False, json: AsJson = False) -> None:
    """End the Kafka that `up` has started: those very processes and no others. Its data stays, unless told otherwise."""
    end("kafka", folder, remove, json)


@kafka.command(cls=Plain)
def status(folder: Folder = None, json: AsJson = False) -> None:
    """Show the nodes: where they listen, which processes they are, whether they answer."""
    show("kafka", folder, json)


@contextmanager
def _progress() -> Iterator[Progress]:
    """A bar for the first download, where somebody looks on; else one line that says what is taking so long."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    from pares.dev.kafka.jars import VERSION

    text = f"fetching Kafka {VERSION} from Maven Central (44 MB, only this once)"
    screen = console(error=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=screen, disable=not screen.is_terminal, transient=True) as bar:
        tasks: list[Any] = []

        def report(done: int, total: int) -> None:
            if not tasks:
                tasks.append(bar.add_task(text, total=total))
                if not screen.is_terminal:
                    say(text)
            bar.update(tasks[0], completed=done, description="trying it out" if done == total else text)

        yield report
