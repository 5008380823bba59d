"""`pares dev`: real servers on this machine, for trying and testing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pares.cli.options import AsJson
from pares.cli.output import console, print_json, say

if TYPE_CHECKING:
    from pares.dev.jars import Progress
    from pares.dev.state import Cluster

dev = typer.Typer(no_args_is_help=True, help="Start and end real servers on this machine, for trying and testing.")
kafka = typer.Typer(no_args_is_help=False, invoke_without_command=True, help="A real Kafka, without docker.")
dev.add_typer(kafka, name="kafka")

Nodes = Annotated[
    int | None,
    typer.Option(
        "--nodes",
        metavar="N",
        min=1,
        max=9,
        help="How many nodes. Default: as many as before, or 1.",
        show_default=False,
    ),
]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--folder", metavar="DIR", help="Where data is kept. Default: in your state folder.", show_default=False
    ),
]
Port = Annotated[
    int | None,
    typer.Option(
        "--port",
        metavar="P",
        min=1,
        max=65526,
        help="Port of the first node, P + 1 of the next. Default: free ones.",
        show_default=False,
    ),
]


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


@kafka.command()
def up(nodes: Nodes = None, folder: Folder = None, port: Port = None, json: AsJson = False) -> None:
    """Start Kafka, and print the URL of a ledger on it. It runs until `pares dev kafka down`.

    The first time 44 MB are downloaded; later it takes seconds. It listens on 127.0.0.1 only, on the ports it had before if
    they are free. Data stays in the folder. Where it is up already it says so, and starts nodes that are missing.
    """
    from time import monotonic

    from pares.dev import Kafka, state

    place = _place(folder)
    before = state.load(place)
    was_up = before is not None and len(before.alive()) == len(before.nodes)
    nodes = nodes or (len(before.nodes) if before is not None else 1)
    began = monotonic()
    with _progress() as progress:
        server = Kafka(
            nodes,
            folder=place,
            ports=None if port is None else [port + at for at in range(nodes)],
            survive=True,
            progress=progress,
        )
        server.start()
    took = monotonic() - began
    if json:
        found = state.load(place)
        assert found is not None
        print_json({**_document(place, found), "was_up": was_up})
        return
    how = "was up already" if was_up else f"is up after {took:.1f} s"
    say(f"Kafka {before.kafka if was_up and before else _version()} {how}: {_count(nodes)}, data in {place}")
    print(server.url, flush=True)


@kafka.command()
def down(
    folder: Folder = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove its data too.")] = False,
    json: AsJson = False,
) -> None:
    """End the Kafka that `up` has started: those very processes and no others. Its data stays, unless told otherwise."""
    from pares.dev import state
    from pares.dev.kafka import STOP_SECONDS

    place = _place(folder)
    ended: list[int] = []
    killed: list[int] = []
    found = state.load(place)
    if found is not None:
        with state.alone(place):
            found = state.load(place) or found
            alive = list(found.alive().values())
            killed = [process.pid for process in state.end(alive, STOP_SECONDS)]
            ended = [process.pid for process in alive]
            found.running = found.alive()
            state.save(place, found)
            if remove:
                state.remove(place, found)
    if json:
        removed = remove and found is not None
        print_json({"folder": str(place), "ended": ended, "killed": killed, "removed": removed})
        return
    if found is None:
        say(f"there is no Kafka in {place}")
    else:
        what = f"ended {_count(len(ended))}" if ended else "no node was running"
        say(f"{what}; its data {'is removed' if remove else f'stays in {place}'}")


@kafka.command()
def status(folder: Folder = None, json: AsJson = False) -> None:
    """Show the nodes: where they listen, which processes they are, whether they answer."""
    from rich.table import Table

    from pares.dev import state

    place = _place(folder)
    found = state.load(place)
    if json:
        print_json(_document(place, found))
        return
    if found is None:
        say(f"there is no Kafka in {place}; start one: pares dev kafka up")
        return
    document = _document(place, found)
    table = Table("node", "address", "process", "state", "log", box=None, pad_edge=False)
    for node in document["nodes"]:
        table.add_row(str(node["node"]), node["address"], str(node["pid"] or ""), node["state"], node["log"])
    console().print(table)
    if document["up"]:
        print(document["url"])


def _place(folder: Path | None) -> Path:
    from platformdirs import user_state_path

    return (folder or user_state_path("pares", appauthor=False) / "dev" / "kafka").absolute()


def _document(place: Path, found: Cluster | None) -> dict[str, Any]:
    """What is known of a cluster. `up`: every node answers."""
    from pares.core.errors import LedgerUnavailable
    from pares.dev import state
    from pares.dev.broker import LOG
    from pares.dev.probe import look
    from pares.dev.settings import Security

    if found is None:
        return {"folder": str(place), "kafka": None, "url": None, "bootstrap": None, "up": False, "nodes": []}
    alive = found.alive()
    nodes: list[dict[str, Any]] = []
    for node in found.nodes:
        identity = alive.get(node.id)
        condition = "down"
        if identity is not None:
            try:
                look(node, Security(), timeout=2.0)
                condition = "serving"
            except LedgerUnavailable:
                condition = "silent"
        row = {"node": node.id, "address": node.address, "pid": identity and identity.pid, "state": condition}
        nodes.append({**row, "log": str(state.node_folder(place, node.id) / LOG)})
    return {
        "folder": str(place),
        "kafka": found.kafka,
        "url": found.url,
        "bootstrap": found.bootstrap,
        "up": all(node["state"] == "serving" for node in nodes),
        "nodes": nodes,
    }


def _count(nodes: int) -> str:
    return f"{nodes} {'node' if nodes == 1 else 'nodes'}"


def _version() -> str:
    from pares.dev.jars import VERSION

    return VERSION


@contextmanager
def _progress() -> Iterator[Progress]:
    """A bar for the first download, where somebody looks on; else one line that says what is taking so long."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    from pares.dev.jars import VERSION

    text = f"fetching Kafka {VERSION} from Maven Central (44 MB, only this once)"
    screen = console(error=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=screen, disable=not screen.is_terminal, transient=True) as bar:
        tasks: list[Any] = []

        def show(done: int, total: int) -> None:
            if not tasks:
                tasks.append(bar.add_task(text, total=total))
                if not screen.is_terminal:
                    say(text)
            bar.update(tasks[0], completed=done, description="trying it out" if done == total else text)

        yield show
