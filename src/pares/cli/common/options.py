"""What most commands ask for: which ledger, which group, and whether to answer in JSON.

Only typer is imported at the top of the modules of this package: `pares --help` must not wait for a database driver.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from pares.core.errors import CapabilityError, ConfigError

if TYPE_CHECKING:
    from pares.ledger import Ledger
    from pares.view import Story

DEFAULT_GROUP: Final = "default"

LedgerUrl = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        metavar="URL",
        envvar="PARES_LEDGER",
        help="Where the log is, such as file:work. Default: a folder of files in your state folder.",
        show_default=False,
    ),
]
Group = Annotated[
    str,
    typer.Option("--group", metavar="GROUP", envvar="PARES_GROUP", help="The group of members that share roles."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Answer in JSON, on standard output.")]


Timeout = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", min=0, help="How long to wait to see it done; 0: not at all.")
]


def chosen(url: str | None) -> str:
    """The URL of the ledger that a command works on: the one given, or the default one.

    Raises `ConfigError` for what is no URL, and for a ledger that ends with this process: a `pares run` on one would lead
    beside all others, each alone with its own.
    """
    from pares.cli.common.default_ledger import default_ledger
    from pares.ledger.registry import scheme_of

    if url is None and os.environ.get("PARES_LEDGER") == "":
        # As after `export PARES_LEDGER=$(...)` of something that failed. Each host would lead alone, on a file of its own.
        raise ConfigError("PARES_LEDGER is set, but empty: give it a ledger's URL, or unset it to use the default one")
    url = default_ledger() if url is None else url
    if scheme_of(url).scope == "process":
        raise ConfigError(f"{url} lives inside one process, and a command is a process of its own: use file:FOLDER")
    return url


def ledger_file(url: str) -> Path | None:
    """The file or folder that a ledger is; None for other ledgers. Raises `ConfigError` for what is no URL."""
    from pares.ledger.registry import path_of

    path = path_of(url)
    return None if path is None else Path(path)


def existing(url: str | None) -> str:
    """The URL of the ledger that a command works on; it must be there.

    No command of these makes a ledger: an empty answer about one that a mistyped path has just brought into being is
    worse than an error.
    """
    url = chosen(url)
    path = ledger_file(url)
    if path is not None and not path.exists():
        raise ConfigError(
            f"there is no ledger at {path.absolute()}: name the right one by --ledger or PARES_LEDGER, or start a member "
            "on it first"
        )
    return url


Create = Annotated[
    bool,
    typer.Option(
        "--create", help="Make the ledger's folder, too. Without it a path whose folder is missing is an error."
    ),
]


def beginnable(url: str | None, create: bool) -> tuple[str, Path | None]:
    """The URL of the ledger that a command works on, which may begin one; and the file, if it is to be begun.

    Raises `ConfigError` when the folder of that file is missing, unless `create` says to make it: a mistyped path would be a
    second world, in which this process leads alone. The state folder, of the default ledger, is made in any case.
    """
    named, url = url is not None, chosen(url)
    path = ledger_file(url)
    if path is None:
        return url, None
    folder = path.absolute().parent
    if not folder.is_dir():
        if named and not create:
            raise ConfigError(
                f"there is no folder {folder} for the ledger {path.absolute()}: check the path given by --ledger or "
                "PARES_LEDGER; if a new ledger is to begin there, say --create"
            )
        folder.mkdir(parents=True, exist_ok=True)
    return url, None if path.exists() else path.absolute()


def check_folder(option: str, folder: Path) -> None:
    """Raises `ConfigError` unless files can be made in `folder`, which is made when it is missing: said before the work, not
    after it."""
    path = folder.absolute()
    found = next(place for place in (path, *path.parents) if place.exists())
    if not found.is_dir():
        raise ConfigError(f"{option}: {found} is no folder, so nothing can be written into it: name another")
    if not os.access(found, os.W_OK | os.X_OK):
        raise ConfigError(f"{option}: the folder {found} can't be written: check its permissions, or name another")


@contextmanager
def opened(url: str | None, *, write: bool = False) -> Iterator[Ledger]:
    """The ledger of this URL, closed when the command is done. Commands that only look need no right to write."""
    from pares.ledger import open as open_ledger
    from pares.ledger.registry import scheme_of

    url = existing(url)
    if not scheme_of(url).look_only:
        ledger = open_ledger(url)
    else:
        ledger = open_ledger(url, readonly=True)
        if write:
            # Opened to write at once, a mistyped name would be made.
            ledger.close()
            ledger = open_ledger(url)
    try:
        yield ledger
    finally:
        ledger.close()


@contextmanager
def told(url: str | None, group: str, *, write: bool = False) -> Iterator[Story]:
    """The story of a group, up to where its log ends now.

    Raises `ConfigError` for a group that the log has nothing of, and `CapabilityError` for one that writes what this
    version can't read: what it took for the group's state might be wrong (R11).
    """
    from pares.core.wire.records import check_name
    from pares.ledger import partition_of
    from pares.view import story_of, url_of

    check_name("--group", group)
    with opened(url, write=write) as ledger:
        story = story_of(ledger, group, partition=partition_of(ledger.url))
        story.catch_up()
        if story.unheard and not story.adrift:
            others = ", ".join(sorted(story.groups)) or "none"
            raise ConfigError(
                f"the log at {url_of(ledger)} has nothing of a group {group!r}; groups in it: {others} (choose by --group; a "
                "group that runs ALLCALL writes nothing: `watch` and `doctor` listen to it with --protocol allcall)"
            )
        check_readable(story)
        yield story


def check_readable(story: Story) -> None:
    """Raises `CapabilityError` for a group that writes a format version that this release can't read (R11)."""
    if story.reader.too_new:
        raise CapabilityError(story.reader.upgrade)
