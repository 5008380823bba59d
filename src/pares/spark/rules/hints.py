"""How Spark is to go about the views that see every record of a log: it does not know how many rows come out of what.

A hint changes nothing of what a view says. It stands in a view as `/*+ {name} */`, and without a word for it is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_PLACE: Final = re.compile(r"/\*\+ \{(\w+)\} \*/ ")
_FEW: Final = 100_000
"""Rows that each task may be given all of."""
_AT_ONCE: Final = 250_000
"""Records that a task sorts, more or less. [all of them by as many tasks as a short log is sorted by: they do not fit into
memory, and most of the time goes into that]"""
_COMINGS: Final = ("join", "leave", "obituary", "forget")


def hinted(sql: str, **hints: str) -> str:
    """The view with these hints, and no others."""

    def hint(place: re.Match[str]) -> str:
        found = hints.get(place[1], "")
        return f"/*+ {found} */ " if found else ""

    return _PLACE.sub(hint, sql)


def if_few(rows: int, alias: str) -> str:
    return f"BROADCAST({alias})" if rows <= _FEW else ""


def for_records(many: Mapping[str, int]) -> dict[str, str]:
    """The hints of `counting` and `numbers`; `many`: how many records there are of each kind."""
    records = sum(many.values())
    comings, beats = sum(many.get(what, 0) for what in _COMINGS), many.get("beat", 0)
    tasks = max(2, records // _AT_ONCE)
    # Worlds are always few. Joined by their key, all records would go to one task.
    joined = "BROADCAST(b, c, w)" if comings <= _FEW else "BROADCAST(b)"
    return {
        "placed": f"{joined}, REPARTITION({tasks}, joined, g)",
        "wanted": if_few(records - beats + many.get("claim", 0), "w"),
        "sorted": f"REPARTITION({tasks}, g, member, base)",
    }
