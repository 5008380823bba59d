"""A real PostgreSQL on loopback: for a ledger, for what is written behind a fence, or for both.

The programs are those on PATH, else the newest that Debian's package has put below /usr/lib/postgresql, else the ones that the
wheel `pgserver` brings. Settings differ from a stock server's in little:

| setting | here | stock | why |
|---|---|---|---|
| `fsync` | off without a folder | on | that data is thrown away; what a killed process has committed stays all the same |
| `unix_socket_directories` | none | /tmp | one way in is enough |
| authentication | trust | scram | it listens on loopback only, and holds nothing |
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import struct
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pares.core.errors import CapabilityError, ConfigError
from pares.dev.cluster import STOP_SECONDS, LocalCluster
from pares.dev.node import Node
from pares.dev.process import Identity, identify, parents

USER: Final = "pares"
"""A superuser, who needs no password."""
DATABASE: Final = "postgres"
LOG: Final = "server.log"
_NEEDED: Final = ("initdb", "postgres")
_PLACES: Final = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin")


class Postgres(LocalCluster):
    """A PostgreSQL server of this program's own.

        with Postgres() as server:
            ledger = pares.open(server.url)
            connection = psycopg.connect(server.url)

    Promised: a real server on loopback, on a port nobody used; when `start` returns, it takes connections; when `close`
    returns, it is gone, and its data with it unless a folder is named; and when this program dies without closing, it is
    killed (on Linux). It takes about a second. `kill(1)`, `stop(1)`, `freeze(1)`, `thaw(1)` and `restart(1)` do that to the
    server with all its processes. Not promised: anything about production. PostgreSQL refuses to run as root: started by root
    it runs as the user `postgres`, or as `nobody` where there is none.

    `settings`: of the server, as in its configuration file, such as `{"log_statement": "all"}`. Without a `folder`, for data
    that is thrown away, `fsync` is off unless they say otherwise.
    `folder`: where data is kept; the same folder gives the same server again, at the same port if that is free.
    `port`: where it listens; else a free one is drawn.
    `survive`: the server outlives this program, and one that runs in `folder` is taken over: what `pares dev postgres up` does.

    Raises `CapabilityError` when there is no PostgreSQL, or it does not come up.
    """

    kind = "postgresql"
    command = "postgres"
    title = "PostgreSQL"
    _ports_each = 2  # one is the server's, the other nobody's
    _log = LOG
    _errors = ("FATAL", "PANIC")
    _look = 0.01
    _stop_by = signal.SIGINT  # what is asked to end by SIGTERM waits until its clients have gone
    _login = USER

    def __init__(
        self,
        settings: Mapping[str, str | int | float] | None = None,
        *,
        folder: Path | str | None = None,
        port: int | None = None,
        survive: bool = False,
    ) -> None:
        ports = None if port is None else [port]
        super().__init__(1, folder=folder, host="127.0.0.1", ports=ports, prefix=None, survive=survive, log=DATABASE)
        self.settings: Final = dict(settings or {})
        if bad := [name for name in self.settings if not name.replace("_", "").replace(".", "").isalnum()]:
            raise ConfigError(f"{bad[0]!r} is no setting of PostgreSQL")
        self._programs = Path()
        self._user: tuple[int, int] | None = None

    @property
    def port(self) -> int:
        return self._up().nodes[0].port

    @property
    def sqlalchemy_url(self) -> str:
        return self.url.replace("postgresql://", "postgresql+psycopg://", 1)

    def table_url(self, table: str) -> str:
        """A ledger in another table."""
        return f"{self.url}?table={table}"

    # Faults: the server is a process, and its children, each with a session of its own --------------------------------------

    def kill(self, node: int = 1) -> None:
        """SIGKILL to the server and its processes, as by a loss of power, but that the disk has all that was written."""
        children = self._children(node)
        super().kill(node)
        for child in children:
            child.signal(signal.SIGKILL)
            child.wait(STOP_SECONDS)

    def freeze(self, node: int = 1) -> None:
        """SIGSTOP to the server and its processes: connections stay, nothing answers."""
        super().freeze(node)
        for child in self._children(node):
            child.signal(signal.SIGSTOP)

    def thaw(self, node: int = 1) -> None:
        """SIGCONT to them."""
        for child in self._children(node):
            child.signal(signal.SIGCONT)
        super().thaw(node)

    def _kill_all(self) -> None:
        children = [child for node in self.nodes if node.pid is not None for child in self._children(node.id)]
        super()._kill_all()
        for child in children:
            child.signal(signal.SIGKILL)
            child.wait(STOP_SECONDS)

    def _children(self, node: int) -> list[Identity]:
        pid = self._node(node).pid
        if pid is None:
            return []
        return [identify(child) for child, parent in parents() if parent == pid]

    # What a kind of server has to say ----------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        self._programs = bin_folder()
        self._user = _other_user()

    def _version(self) -> str:
        said = subprocess.run([self._programs / "postgres", "--version"], capture_output=True, text=True, check=False)
        return next((word for word in said.stdout.split() if word[:1].isdigit()), "")

    def _runs_as(self) -> tuple[int, int] | None:
        return self._user

    def _command(self, node: Node) -> list[str]:
        data = node.folder / "data"
        if self._user is not None:
            for folder in (self.folder, node.folder) if self._temporary else (node.folder,):
                assert folder is not None
                os.chown(folder, *self._user)
        if not (data / "PG_VERSION").exists():
            self._make(node.folder, data)
        chosen: dict[str, str | int | float] = {
            **({"fsync": "off"} if self._temporary else {}),
            "listen_addresses": node.host,
            "port": node.port,
            "unix_socket_directories": "",
            **self.settings,
        }
        command = [str(self._programs / "postgres"), "-D", str(data)]
        return command + [word for name, value in chosen.items() for word in ("-c", f"{name}={value}")]

    def _make(self, place: Path, data: Path) -> None:
        command: Sequence[str | Path] = [
            *(self._programs / "initdb", "-D", data, "-U", USER, "-A", "trust", "-E", "UTF8", "--no-sync"),
            *("--locale=C", "--no-instructions"),
        ]
        options: dict[str, Any] = {}
        if self._user is not None:
            if (barred := _barred(place, *self._user)) is not None:
                name = pwd.getpwuid(self._user[0]).pw_name
                raise CapabilityError(
                    f"PostgreSQL refuses to run as root, and the user {name}, as which it runs, may not enter {barred}: name a "
                    "folder that everybody may enter, such as --folder /var/lib/pares-dev, or don't do this as root"
                )
            options = {"user": self._user[0], "group": self._user[1], "extra_groups": []}
        try:
            done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False, **options)
        except PermissionError as error:
            raise CapabilityError(
                f"{self._programs / 'initdb'} may not be run by the user that the server runs as ({error}): use a server "
                "that is installed where everybody may read, and a folder that everybody may enter, or don't do this as root"
            ) from None
        if done.returncode != 0:
            raise CapabilityError(
                f"{self._programs / 'initdb'} could not make a database in {place}: "
                f"{done.stderr.strip() or done.stdout.strip()}"
            )

    def _missing(self, node: Node, wanted: set[int], left: float) -> str | None:
        return None if serves(node.host, node.port) else "it lets nobody in"


def bin_folder() -> Path:
    """Where the server's programs are. Raises `CapabilityError` if there are none."""
    if found := shutil.which("postgres"):
        return Path(found).resolve().parent
    places = [place for pattern in _PLACES for place in Path("/").glob(pattern.lstrip("/"))]
    places.sort(key=lambda place: [int(part) for part in place.parent.name.split("-")[-1].split(".") if part.isdigit()])
    spec = importlib.util.find_spec("pgserver")  # not imported: only its place is asked for
    wheels = [Path(place) / "pginstall" / "bin" for place in (spec.submodule_search_locations or [])] if spec else []
    for place in [*reversed(places), *wheels]:
        if all((place / name).exists() for name in _NEEDED):
            return place
    raise CapabilityError(
        "no PostgreSQL server was found on PATH, where packages put it, or in the wheel of pgserver: "
        "apt install postgresql (Debian, Ubuntu), or pip install 'pares[postgres-server]'"
    )


def _barred(place: Path, user: int, group: int) -> Path | None:
    """The first folder on the way to this one that such a user may not enter."""
    for folder in (*reversed(place.resolve().parents), place.resolve()):
        said = folder.stat()
        bit = 0o100 if said.st_uid == user else 0o010 if said.st_gid == group else 0o001
        if not said.st_mode & bit:
            return folder
    return None


def _other_user() -> tuple[int, int] | None:
    """Ids of whom the server runs as and of its group, if it may not be the present user."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return entry.pw_uid, entry.pw_gid
    raise CapabilityError("PostgreSQL refuses to run as root, and there is no user `postgres` or `nobody` to run it as")


def serves(host: str, port: int, timeout: float = 2.0) -> bool:
    """Whether it lets somebody in: the first message of a session, and the first letter of the answer."""
    words = b"".join(text.encode() + b"\0" for text in ("user", USER, "database", DATABASE)) + b"\0"
    hello = struct.pack(">ii", 8 + len(words), 196608) + words  # protocol 3.0
    try:
        with socket.create_connection((host, port), timeout=timeout) as wire:
            wire.sendall(hello)
            return wire.recv(1) == b"R"  # an answer about authentication; "E" while it is starting up
    except OSError:
        return False
