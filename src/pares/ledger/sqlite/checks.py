"""What `pares doctor` says of a SQLite ledger's files. SQLite gives `-wal` and `-shm` the mode of the database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pares.ledger.local.rights import who_may_write

_BESIDE: Final = ("", "-wal", "-shm", "-bell", "-locks")


def checks(path: str) -> Iterator[tuple[str, str]]:
    """(level, text) of everything there is to say of the ledger at `path`. Opens nothing: SQLite's locks go when any
    descriptor of the file is closed."""
    return who_may_write(path, [f"{path}{suffix}" for suffix in _BESIDE])
