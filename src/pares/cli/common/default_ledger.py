"""The ledger of commands that are given none: in the user's state folder.

It is a file ledger, `ledger`. Release 0.1 had a SQLite file there, `pares.db`. Where that file was used it stays in use: a
second ledger beside it would be a second world, with leaders of its own. Where both were used, the user has to say which is
meant.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final
from urllib.parse import quote

from pares.core.errors import ConfigError

log: Final = logging.getLogger("pares.cli")


def default_ledger() -> str:
    """Its URL. Raises `ConfigError` if there are two that were used, and what opening the older one raises."""
    from platformdirs import user_state_path

    state = user_state_path("pares", appauthor=False)
    folder, file = f"file://{quote(str(state / 'ledger'))}", f"sqlite:///{quote(str(state / 'pares.db'))}"
    if not _used(file, state / "pares.db"):
        return folder
    if _used(folder, state / "ledger"):
        raise ConfigError(
            f"there are two default ledgers: {state / 'pares.db'} of an earlier release, and {state / 'ledger'}; find out who "
            "works on which, end them, and move one of the two away, or name one by --ledger or PARES_LEDGER"
        )
    log.warning(
        "the default ledger is still the SQLite file %s that an earlier release began; to change to a file ledger, end all "
        "members on it and move it away",
        state / "pares.db",
    )
    return file


def _used(url: str, path: Path) -> bool:
    """Whether there is a ledger in which something was ever written. Makes none."""
    from pares.ledger import open as open_ledger

    if not path.exists():
        return False
    ledger = open_ledger(url, readonly=True)
    try:
        return any(ledger.end(number) for number in range(ledger.partitions))
    finally:
        ledger.close()
