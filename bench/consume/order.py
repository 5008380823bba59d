"""Whether records of a key were worked on in order: from what each worker wrote down of each record, in a file of its own."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

ROW: Final = struct.Struct(">QQQQ")
"""Number of the key, number of the record in its key, and when its handler began and ended by the hosts' stopwatch."""


class Handled(NamedTuple):
    key: int
    number: int
    began: int
    ended: int


class Order(NamedTuple):
    """`distinct`: records that were handled at all; `repeated`: times that one was, beyond the first; `overtaken`: records
    whose handler began before that of an earlier record of the key had ended; `together`: records whose handler began while
    another one of the key ran."""

    distinct: int
    repeated: int
    overtaken: int
    together: int


def read(files: Iterable[Path]) -> list[Handled]:
    found: list[Handled] = []
    for file in files:
        found += [Handled(*row) for row in ROW.iter_unpack(file.read_bytes())]
    return found


def judged(rows: Iterable[Handled]) -> Order:
    """A record counts from the first time that it was handled: what is handled again is a repetition, which is not
    against the order. The first record of a key that was handled is where its order begins."""
    keys: dict[int, list[Handled]] = defaultdict(list)
    for row in rows:
        keys[row.key].append(row)
    distinct = repeated = overtaken = together = 0
    for handled in keys.values():
        first: dict[int, Handled] = {}
        for row in sorted(handled, key=lambda row: row.began):
            if row.number in first:
                repeated += 1
            else:
                first[row.number] = row
        distinct += len(first)
        ordered = [first[number] for number in sorted(first)]
        # When all records of the key up to this one have ended.
        ended = 0
        for row in ordered:
            overtaken += row.began < ended
            ended = max(ended, row.ended)
        latest = 0
        for row in sorted(first.values(), key=lambda row: row.began):
            together += row.began < latest
            latest = max(latest, row.ended)
    return Order(distinct, repeated, overtaken, together)
