"""What most commands ask for: which ledger, which group, and whether to answer in JSON."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Final

import typer

DEFAULT_GROUP: Final = "default"

Ledger = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        metavar="URL",
        envvar="PARES_LEDGER",
        help="Where the log is, such as sqlite:///work.db. Default: a SQLite file in your state folder.",
        show_default=False,
    ),
]
Group = Annotated[
    str,
    typer.Option("--group", metavar="GROUP", envvar="PARES_GROUP", help="The group of members that share roles."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Answer in JSON, on standard output.")]


def default_ledger() -> str:
    """A SQLite file in the user's state folder, by its URL."""
    from platformdirs import user_state_path

    return f"sqlite:///{user_state_path('pares', appauthor=False) / 'pares.db'}"


def ledger_url(url: str | None, *, create: bool) -> str:
    """The URL to open. With `create`, the folder of the default ledger is made.

    A command that only looks must not bring into being what it looks at: an empty answer about a ledger that a
    mistyped path has just created is worse than an error.
    """
    from pares.core.errors import ConfigError

    if url is None:
        url = default_ledger()
        if create:
            sqlite_file(url).parent.mkdir(parents=True, exist_ok=True)  # type: ignore[union-attr]
    path = sqlite_file(url)
    if not create and path is not None and not path.exists():
        raise ConfigError(
            f"there is no ledger at {path}; name the right one with --ledger or PARES_LEDGER, "
            "or start a member on it first"
        )
    return url


def sqlite_file(url: str) -> Path | None:
    """The file behind a `sqlite:` URL, None for other ledgers."""
    if not url.startswith("sqlite:///"):
        return None
    return Path(os.path.expanduser(url[len("sqlite:///") :].partition("?")[0]))
