"""`pares log`: the records of a log as they stand in it, of all groups."""

from __future__ import annotations

import base64
import json as json_module
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from pares.cli.common.options import AsJson, LedgerUrl, opened
from pares.cli.common.output import clock, print_json, say

if TYPE_CHECKING:
    from pares.ledger import Entry, Ledger

_BATCH: Final = 1000
_WAIT: Final = 1.0


def log(
    where: Annotated[
        str | None,
        typer.Argument(
            metavar="[URL|FOLDER]",
            help="The ledger, or a file ledger's folder. Default: as --ledger says.",
            show_default=False,
        ),
    ] = None,
    ledger: LedgerUrl = None,
    partition: Annotated[
        int | None,
        typer.Option("--partition", metavar="N", min=0, help="Read this partition, not the one that the URL names."),
    ] = None,
    since: Annotated[
        int | None,
        typer.Option("--from", metavar="OFFSET", min=0, help="Begin at this offset, not with the newest."),
    ] = None,
    last: Annotated[int, typer.Option("--last", metavar="N", min=0, help="How many of the newest.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Then show new records as they come.")] = False,
    json: AsJson = False,
) -> None:
    """Show the records of a log, newest last.

    One line a record: its offset, when it came into the log, and what it says. With --json one object a line. --follow goes on
    until Ctrl-C.
    """
    from pares.ledger import partition_of

    with opened(url_of(where) or ledger) as source:
        number = partition_of(source.url) if partition is None else partition
        at = _start(source, number, since, last)
        try:
            for entry in _entries(source, number, at, follow=follow):
                if json:
                    print_json(_row(entry), line=True)
                else:
                    text = entry.payload.decode("utf-8", "backslashreplace")
                    print(f"{entry.offset:>8}  {clock(entry.timestamp_ms)}  {_visible(text)}", flush=follow)
        except KeyboardInterrupt:
            return


def url_of(where: str | None) -> str | None:
    """The ledger's URL for `where`, which may also be the path of a file ledger's folder."""
    if where is None or ":" in where:
        return where
    from urllib.parse import quote

    return f"file:{quote(where)}"


def _start(source: Ledger, partition: int, since: int | None, last: int) -> int:
    """The offset to begin at. In a log with holes it leaves at least so many records to read."""
    start, end = source.start(partition), source.end(partition)
    if since is not None:
        return min(max(since, start), end)
    reach = last
    while last:
        low = max(start, end - reach)
        offsets = deque((entry.offset for entry in _entries(source, partition, low, follow=False)), maxlen=last)
        if len(offsets) == last or low == start:
            return offsets[0] if offsets else end
        reach *= 16
    return end


def _entries(source: Ledger, partition: int, at: int, *, follow: bool) -> Iterator[Entry]:
    from pares.core.errors import LedgerGap, LedgerRewound

    while True:
        try:
            entries = source.read(at, partition, _BATCH, timeout=_WAIT if follow else 0.0)
        except LedgerGap as error:
            say(str(error))
            at = source.start(partition)
            continue
        except LedgerRewound as error:
            say(str(error))
            return
        if not entries and not follow:
            return
        for entry in entries:
            yield entry
            at = entry.offset + 1


def _row(entry: Entry) -> dict[str, Any]:
    """`payload` if it is JSON, else `text`, else `base64`."""
    row: dict[str, Any] = {"offset": entry.offset, "at_ms": entry.timestamp_ms}
    try:
        text = entry.payload.decode()
    except UnicodeDecodeError:
        return {**row, "base64": base64.b64encode(entry.payload).decode()}
    try:
        return {**row, "payload": json_module.loads(text)}
    except ValueError:
        return {**row, "text": text}


def _visible(text: str) -> str:
    """The text on one line, with control characters escaped, so that a terminal does not obey them."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
