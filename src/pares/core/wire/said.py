"""What entries say, many at once: readers decode a portion before they look at any of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, final

from pares.core.wire import records

EntryLike = tuple[int, int, bytes]


@final
class Illegible:
    """What stands for a record that can't be read. `reason` is one of a few fixed words."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


Said: TypeAlias = records.AnyRecord | records.Unknown | Illegible


def said(entries: Sequence[EntryLike]) -> Sequence[Said]:
    """Of each entry its record."""
    quickly, most = records.decode_fast, records.MAX_RECORD
    try:
        return [quickly(payload) if len(payload) <= most else records.decode(payload) for _, _, payload in entries]
    except Exception:  # of one of them, for which each is looked at with more care
        return [_said(payload) for _, _, payload in entries]


def _said(payload: bytes) -> Said:
    try:
        return records.decode(payload)
    except records.BadRecord as bad:
        return Illegible(bad.reason)
