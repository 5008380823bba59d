"""What the commands of `pares dev` have in common: the folder, its nodes, and their end."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from pares.cli.common.output import console, print_json, say

if TYPE_CHECKING:
    from pares.dev.cluster import LocalCluster
    from pares.dev.place import Place
    from pares.dev.state import Cluster

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
Remove = Annotated[bool, typer.Option("--remove", help="Remove its data too.")]

TITLES = {
    "kafka": "Kafka",
    "nats": "NATS",
    "postgresql": "PostgreSQL",
    "redis": "Redis",
    "rabbitmq-stream": "RabbitMQ",
    "pulsar": "Pulsar",
}
COMMANDS = {
    "kafka": "kafka",
    "nats": "nats",
    "postgresql": "postgres",
    "redis": "redis",
    "rabbitmq-stream": "rabbitmq",
    "pulsar": "pulsar",
}
"""`pares dev COMMAND`, by the scheme of its ledgers."""


def folder_of(kind: str, folder: Path | None) -> Path:
    from platformdirs import user_state_path

    return (folder or user_state_path("pares", appauthor=False) / "dev" / COMMANDS[kind]).absolute()


def ports(port: int | None, nodes: int) -> list[int] | None:
    return None if port is None else [port + at for at in range(nodes)]


def started(server: LocalCluster, before: Cluster | None, place: Path, json: bool) -> None:
    """Start it, and say so."""
    from time import monotonic

    from pares.dev import state

    was_up = before is not None and len(before.alive()) == len(before.nodes)
    began = monotonic()
    server.start()
    took = monotonic() - began
    found = state.load(place)
    assert found is not None
    if json:
        print_json({**document(server.kind, place, found), "was_up": was_up})
        return
    how = "was up already" if was_up else f"is up after {took:.1f} s"
    say(f"{server.title} {found.version} {how}: {_count(len(found.nodes))}, data in {place}")
    print(found.looked_after_url, flush=True)


def end(kind: str, folder: Path | None, remove: bool, json: bool) -> None:
    """End the nodes that `up` has started."""
    from pares.dev import state
    from pares.dev.cluster import STOP_SECONDS

    place = folder_of(kind, folder)
    ended: list[int] = []
    killed: list[int] = []
    found = _found(kind, place)
    if found is not None:
        with state.alone(place):
            found = state.load(place) or found
            alive = list(found.alive().values())
            killed = [process.pid for process in state.end(alive, STOP_SECONDS, _NODES[kind].stop_by)]
            ended = [process.pid for process in alive]
            for node in found.nodes:
                _NODES[kind].tidy(node)
            found.running = found.alive()
            state.save(place, found)
            if remove:
                state.remove(place, found)
    if json:
        removed = remove and found is not None
        print_json({"folder": str(place), "ended": ended, "killed": killed, "removed": removed})
        return
    if found is None:
        say(f"there is no {TITLES[kind]} in {place}")
    else:
        what = f"ended {_count(len(ended))}" if ended else "no node was running"
        say(f"{what}; its data {'is removed' if remove else f'stays in {place}'}")


def show(kind: str, folder: Path | None, json: bool) -> None:
    """Show the nodes."""
    from rich.table import Table

    place = folder_of(kind, folder)
    found = _found(kind, place)
    if json:
        print_json(document(kind, place, found))
        return
    if found is None:
        say(f"there is no {TITLES[kind]} in {place}; start one: pares dev {COMMANDS[kind]} up")
        return
    told = document(kind, place, found)
    table = Table("node", "address", "process", "state", "log", box=None, pad_edge=False)
    for node in told["nodes"]:
        table.add_row(str(node["node"]), node["address"], str(node["pid"] or ""), node["state"], node["log"])
    console().print(table)
    if told["up"]:
        print(told["url"])


def document(kind: str, place: Path, found: Cluster | None) -> dict[str, Any]:
    """What is known of a cluster. `up`: every node answers."""
    from pares.dev import state

    if found is None:
        return {"folder": str(place), kind: None, "url": None, "bootstrap": None, "up": False, "nodes": []}
    alive = found.alive()
    nodes: list[dict[str, Any]] = []
    for node in found.nodes:
        identity = alive.get(node.id)
        condition = "down" if identity is None else "serving" if _serves(kind, node) else "silent"
        row = {"node": node.id, "address": node.address, "pid": identity and identity.pid, "state": condition}
        nodes.append({**row, "log": str(state.node_folder(place, node.id) / _NODES[kind].log())})
    return {
        "folder": str(place),
        kind: found.version,
        "url": found.looked_after_url,
        "bootstrap": found.bootstrap,
        "up": all(node["state"] == "serving" for node in nodes),
        "nodes": nodes,
    }


def _found(kind: str, place: Path) -> Cluster | None:
    """What is in the folder. Raises `ConfigError` if that is a cluster of another kind."""
    from pares.core.errors import ConfigError
    from pares.dev import state

    found = state.load(place)
    if found is not None and found.kind != kind:
        raise ConfigError(
            f"{place} holds a cluster for {found.kind}:// ledgers: use pares dev {COMMANDS.get(found.kind, found.kind)}"
        )
    return found


def _serves(kind: str, node: Place) -> bool:
    from pares.core.errors import LedgerUnavailable

    try:
        _NODES[kind].ask(node)
    except LedgerUnavailable:
        return False
    return True


def _ask_kafka(node: Place) -> None:
    from pares.dev.kafka import probe
    from pares.dev.kafka.settings import Security

    probe.look(node, Security(), timeout=2.0)


def _log_of_kafka() -> str:
    from pares.dev.kafka import broker

    return broker.LOG


def _ask_nats(node: Place) -> None:
    from pares.dev.nats import server

    server.ask(node, "/healthz", 2.0)


def _log_of_nats() -> str:
    from pares.dev.nats import server

    return server.LOG


def _ask_postgres(node: Place) -> None:
    from pares.core.errors import LedgerUnavailable
    from pares.dev import postgres

    if not postgres.serves(node.host, node.port):
        raise LedgerUnavailable(f"{node.address} lets nobody in")


def _log_of_postgres() -> str:
    from pares.dev import postgres

    return postgres.LOG


def _ask_redis(node: Place) -> None:
    from pares.core.errors import LedgerUnavailable
    from pares.dev import redis

    if not redis.serves(node.host, node.port):
        raise LedgerUnavailable(f"{node.address} does not answer")


def _log_of_redis() -> str:
    from pares.dev import redis

    return redis.LOG


def _ask_rabbitmq(node: Place) -> None:
    from pares.core.errors import LedgerUnavailable
    from pares.dev import rabbitmq

    if not rabbitmq.serves(node.host, node.port):
        raise LedgerUnavailable(f"{node.address} does not answer")


def _log_of_rabbitmq() -> str:
    from pares.dev import rabbitmq

    return rabbitmq.LOG


def _tidy_rabbitmq(node: Place) -> None:
    from pares.dev import rabbitmq

    rabbitmq.ask_epmd_to_end(node.peer_port)


def _ask_pulsar(node: Place) -> None:
    from pares.core.errors import LedgerUnavailable
    from pares.dev.pulsar import server

    if not server.serves(node.host, node.peer_port):
        raise LedgerUnavailable(f"{node.address} does not answer")


def _log_of_pulsar() -> str:
    from pares.dev.pulsar import server

    return server.LOG


def _nothing(node: Place) -> None:
    pass


class _Node(NamedTuple):
    """What a node of one kind of cluster is asked."""

    ask: Callable[[Place], None]
    """Raises `LedgerUnavailable` unless it serves."""
    log: Callable[[], str]
    """The name of its log, in its folder."""
    stop_by: signal.Signals = signal.SIGTERM
    """What ends it in good order."""
    tidy: Callable[[Place], None] = _nothing
    """Ends what it leaves behind."""


_NODES: Final = {
    "kafka": _Node(_ask_kafka, _log_of_kafka),
    "nats": _Node(_ask_nats, _log_of_nats),
    "postgresql": _Node(_ask_postgres, _log_of_postgres, signal.SIGINT),
    "redis": _Node(_ask_redis, _log_of_redis),
    "rabbitmq-stream": _Node(_ask_rabbitmq, _log_of_rabbitmq, tidy=_tidy_rabbitmq),
    "pulsar": _Node(_ask_pulsar, _log_of_pulsar),
}


def _count(nodes: int) -> str:
    return f"{nodes} {'node' if nodes == 1 else 'nodes'}"
