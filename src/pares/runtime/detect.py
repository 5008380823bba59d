"""Which protocol a group runs, by its own records: observers and administrators are not told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pares.core.errors import CapabilityError
from pares.core.wire.neli_records import Foreign, decode
from pares.core.wire.records import BadRecord
from pares.ledger import Bus, Entry, Ledger, Log, last_published, partition_of
from pares.ledger.batches import batches
from pares.runtime.host import Host

WINDOW: Final = 2000
"""Entries that are looked at together."""
LISTEN: Final = 2.5
"""Seconds: two beats and a half of ALLCALL's usual heartbeat."""


def runs_induced(log: Log, group: str, partition: int = 0) -> bool:
    """Whether the newest record of `group` in this partition is one of NELI's or Fast NELI's. Looked for from the end
    backwards, so that in a busy group the answer is there at once; False for a group that the log has nothing of."""
    start, end = log.start(partition), log.end(partition)
    while end > start:
        low = max(start, end - WINDOW)
        found = _newest_in(log, group, partition, low, end)
        if found is not None:
            return found
        end = low
    return False


def check_no_allcall(ledger: Ledger, group: str, host: Host) -> None:
    """Raises `CapabilityError` if the log has nothing of `group`, and the ledger's bus carries, or carried once, ALLCALL's
    calls of that name. A ledger that is a bus itself keeps nothing: it is listened to for `LISTEN` seconds."""
    partition = partition_of(ledger.url)
    if known(ledger, group, partition):
        return
    if isinstance(ledger, Bus):
        heard = host.flag()
        stop = ledger.listen(group, lambda _: heard.set())
        heard.wait(LISTEN)
        stop()
        said = "members of it were heard just now" if heard.is_set() else ""
    else:
        last = last_published(ledger, group)
        said = "" if last is None else f"a member of it called {max(0.0, host.wall_us() / 1e6 - last / 1000):.0f} s ago"
    if said:
        raise CapabilityError(
            f"group {group!r} runs 'allcall' on {ledger.url} ({said}): it has no log to ask in, so nobody can steer it."
            " Call drain(), step_down() or hand_over() of its members, or close them. A group that runs another protocol needs "
            "another name"
        )


def known(log: Log, group: str, partition: int = 0) -> bool:
    """Whether this partition has a record of `group`."""
    end = log.end(partition)
    while (start := log.start(partition)) < end:
        low = max(start, end - WINDOW)
        if any(newest(entries, group) is not None for entries in batches(log, partition, low, end, WINDOW)):
            return True
        end = low
    return False


def _newest_in(log: Log, group: str, partition: int, low: int, end: int) -> bool | None:
    """The same of the entries from `low` to before `end`; None if none of them is the group's."""
    found: bool | None = None
    for entries in batches(log, partition, low, end, WINDOW):
        looked = newest(entries, group)
        found = found if looked is None else looked
    return found


def newest(entries: Sequence[Entry], group: str) -> bool | None:
    """The same of these entries."""
    for entry in reversed(entries):
        try:
            record = decode(entry.payload)
        except BadRecord:
            continue
        if record.g == group:
            return not isinstance(record, Foreign)
    return None
