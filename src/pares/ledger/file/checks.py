"""What `pares doctor` says of a file ledger: who else on this host may write it, what else lies there, and whether each segment
leads to the next."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Final

from pares.core.errors import ParesError
from pares.ledger.file.folder import LEDGER, TOPIC
from pares.ledger.file.names import Names
from pares.ledger.file.segment import JUMP, Altered, Segment, base_of
from pares.ledger.local.rights import GOOD, NOTE, PROBLEM, who_may_write

_OWN: Final = re.compile(
    r"ledger|topic|log|topics|bell|locks|lost\+found|partitions-\d+|\d+|\d{20}\.start|\d{20}-[0-9a-f]{8}\.made|\..*"
)
_SAMPLE: Final = 3


def checks(root: str) -> Iterator[tuple[str, str]]:
    """(level, text) of everything there is to say of the ledger in this folder. Writes nothing."""
    logs = [f"{root}/log", *(folder for folder, _, names in os.walk(f"{root}/topics") if TOPIC in names)]
    partitions = [
        f"{log}/{name}" for log in logs if os.path.isdir(log) for name in sorted(os.listdir(log)) if name.isdigit()
    ]
    files = [f"{root}/{LEDGER}", f"{root}/bell", f"{root}/locks", *logs]
    for folder in partitions:
        files += [f"{folder}/{name}" for name in sorted(os.listdir(folder)) if base_of(name)]
    yield from who_may_write(root, [root, *files])
    strangers = [
        f"{folder}/{name}"
        for folder in (root, *logs, *partitions)
        if os.path.isdir(folder)
        for name in sorted(os.listdir(folder))
        if not _OWN.fullmatch(name) and not base_of(name)
    ]
    if strangers:
        more = f" and {len(strangers) - _SAMPLE} more" if len(strangers) > _SAMPLE else ""
        yield NOTE, f"{', '.join(strangers[:_SAMPLE])}{more}: no part of the ledger, which leaves them as they are"
    whole = True
    for folder in partitions:
        for level, text in _segments(folder):
            whole = False
            yield level, text
    if whole:
        yield GOOD, f"each segment in {root} leads to the next, and none was altered"


def _segments(folder: str) -> Iterator[tuple[str, str]]:
    """What is wrong with the segments of a partition."""
    named = sorted((found[0], name) for name in os.listdir(folder) if (found := base_of(name)) is not None)
    torn = 0
    gone = Names(folder)
    gone.look()
    if (base := gone.gone()) is not None:
        yield PROBLEM, f"the newest segment of {folder}, from offset {base} on, was deleted: what stood in it is lost"
    for at, (base, name) in enumerate(named):
        follows = named[at + 1][0] if at + 1 < len(named) else None
        try:
            segment = Segment(folder, name, os.O_RDONLY)
        except OSError as error:
            if not isinstance(error, FileNotFoundError):  # else it was trimmed meanwhile
                yield PROBLEM, f"{folder}/{name} can't be read: {error.strerror}"
            continue
        try:
            segment.scan(os.stat(segment.path).st_size)
            torn += segment.torn
        except (OSError, Altered, ParesError) as error:
            yield PROBLEM, f"{folder}/{name} can't be read: {error or 'it changes while it is read'}"
            continue
        finally:
            segment.rest()
        if segment.broken and follows != base + JUMP:
            yield PROBLEM, f"{segment.path} was altered ({segment.broken}): nothing from there on counts"
        elif follows is not None and segment.next != follows and not segment.broken:
            yield (
                PROBLEM,
                f"{segment.path} does not lead to the segment that follows it, at offset {follows} (its records end at "
                f"{segment.end}): it was cut or altered, or one between them is gone; nothing below {follows} can be read",
            )
    if torn:
        yield (
            NOTE,
            f"{torn} torn lines in {folder}: appends for which there was no room; they count for nothing and harm nothing",
        )
