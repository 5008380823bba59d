"""A real PostgreSQL on loopback: a place to write to, for examples and tests of fences. It is no ledger.

The programs are those on PATH, else the newest that Debian's package has put below /usr/lib/postgresql, else the ones that the
wheel `pgserver` brings. Settings differ from a stock server's in little:

| setting | here | stock | why |
|---|---|---|---|
| `fsync` | off | on | the data is thrown away at the end; what a killed process has committed stays all the same |
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
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pares.core.errors import CapabilityError, ConfigError
from pares.dev import ports
from pares.dev.process import Started, start

HOST: Final = "127.0.0.1"
USER: Final = "pares"
"""A superuser, who needs no password."""
DATABASE: Final = "postgres"
PATIENCE: Final = 60.0
_LOOK: Final = 0.01
_LAST_WORDS: Final = 2000
_NEEDED: Final = ("initdb", "postgres")
_PLACES: Final = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin")


class Postgres:
    """A PostgreSQL server of this program's own.

        with Postgres() as server:
            connection = psycopg.connect(server.url)

    Promised: a real server on loopback, on a port nobody used; when `start` returns, it takes connections; when `close`
    returns, it is gone, and its data with it; and when this program dies without closing, it is killed (on Linux). It takes
    about a second. Not promised: anything about production. PostgreSQL refuses to run as root: started by root it runs as the
    user `postgres`, or as `nobody` where there is none.

    `settings`: of the server, as in its configuration file, such as `{"log_statement": "all"}`. Raises `CapabilityError` when
    there is no PostgreSQL, or it does not come up.
    """

    def __init__(self, settings: Mapping[str, str | int | float] | None = None) -> None:
        self.settings: Final = dict(settings or {})
        if bad := [name for name in self.settings if not name.replace("_", "").replace(".", "").isalnum()]:
            raise ConfigError(f"{bad[0]!r} is no setting of PostgreSQL")
        self.port = 0
        self._folder: Path | None = None
        self._process: Started | None = None
        self._owner = os.getpid()

    @property
    def url(self) -> str:
        """What libpq takes: `postgresql://USER@HOST:PORT/DATABASE`."""
        return f"postgresql://{USER}@{HOST}:{self.port}/{DATABASE}"

    @property
    def sqlalchemy_url(self) -> str:
        return self.url.replace("postgresql://", "postgresql+psycopg://", 1)

    def start(self) -> Self:
        folder = bin_folder()
        user = _other_user()
        self._folder = place = Path(tempfile.mkdtemp(prefix="pares-postgres-"))
        try:
            if user is not None:
                os.chown(place, *user)
            self._make(folder, place, user)
            self.port = ports.free([HOST])[0]
            chosen = {
                "fsync": "off",
                "listen_addresses": HOST,
                "port": self.port,
                "unix_socket_directories": "",
                **self.settings,
            }
            command = [str(folder / "postgres"), "-D", str(place / "data")]
            command += [word for name, value in chosen.items() for word in ("-c", f"{name}={value}")]
            self._process = start(command, log=place / "server.log", folder=place, survive=False, user=user)
            self._wait()
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """May be called twice. Connections are cut. A forked child closes nothing."""
        if self._owner != os.getpid():
            return
        if self._process is not None:
            self._process.identity.signal(signal.SIGQUIT)
            if not self._process.wait(PATIENCE / 4):
                self._process.identity.signal(signal.SIGKILL)
                self._process.wait(PATIENCE)
            self._process = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _make(self, folder: Path, place: Path, user: tuple[int, int] | None) -> None:
        command = [folder / "initdb", "-D", place / "data", "-U", USER, "-A", "trust", "-E", "UTF8", "--no-sync"]
        command += ["--locale=C", "--no-instructions"]
        options = {} if user is None else {"user": user[0], "group": user[1], "extra_groups": []}
        try:
            done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
        except PermissionError as error:
            raise CapabilityError(
                f"{folder / 'initdb'} may not be run by the user that the server runs as ({error}): use a server that is "
                "installed where everybody may read, or don't do this as root"
            ) from None
        if done.returncode != 0:
            raise CapabilityError(
                f"{folder / 'initdb'} could not make a database in {place}: {done.stderr.strip() or done.stdout.strip()}"
            )

    def _wait(self) -> None:
        assert self._process is not None
        assert self._folder is not None
        end = time.monotonic() + PATIENCE
        while not _serves(self.port):
            code = self._process.ended()
            if code is not None or time.monotonic() > end:
                how = f"ended with {code}" if code is not None else f"does not answer after {PATIENCE:g} s"
                words = (self._folder / "server.log").read_text(errors="replace")[-_LAST_WORDS:]
                raise CapabilityError(f"PostgreSQL at {HOST}:{self.port} {how}. Its last words:\n{words}")
            time.sleep(_LOOK)


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


def _other_user() -> tuple[int, int] | None:
    """Ids of whom the server runs as and of its group, if it may not be the present user."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return entry.pw_uid, entry.pw_gid
    raise CapabilityError("PostgreSQL refuses to run as root, and there is no user `postgres` or `nobody` to run it as")


def _serves(port: int) -> bool:
    """Whether it lets somebody in: the first message of a session, and the first letter of the answer."""
    words = b"".join(text.encode() + b"\0" for text in ("user", USER, "database", DATABASE)) + b"\0"
    hello = struct.pack(">ii", 8 + len(words), 196608) + words  # protocol 3.0
    try:
        with socket.create_connection((HOST, port), timeout=2.0) as wire:
            wire.sendall(hello)
            return wire.recv(1) == b"R"  # an answer about authentication; "E" while it is starting up
    except OSError:
        return False
