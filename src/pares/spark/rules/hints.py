"""How Spark is to go about the views that see every record of a log: it does not know how many rows come out of what.

A hint changes nothing of what a view says. It stands in a view as `/*+ {name} */`, and without a word for it is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_PLACE: Final = re.compile(r"/\*\+ \{(\w+)\} \*/ ")
FEW: Final = 100_000
"""Rows that each task may be given all of."""
_AT_ONCE: Final = 250_000
"""Records that a task sorts, more or less. [all of them by as many tasks as a short log is sorted by: they do not fit into
memory, and most of the time goes into that]"""


def hinted(sql: str, **hints: str) -> str:
    """The view with these hints, and no others."""

    def hint(place: re.Match[str]) -> str:
        found = hints.get(place[1], "")
        return f"/*+ {found} */ " if found else ""

    return _PLACE.sub(hint, sql)


def if_few(rows: int, alias: str) -> str:
    return f"BROADCAST({alias})" if rows <= FEW else ""


def hints_for(sizes: Mapping[str, int]) -> dict[str, str]:
    """The hints of all views and rules. `sizes`: what `rules.by_sql` counts."""

    def spread(records: int, series: int, alias: str, keys: str) -> str:
        tasks = f"REPARTITION({max(2, records // _AT_ONCE)}, {keys})"
        return f"{few}, {tasks}" if (few := if_few(series, alias)) else tasks

    return {
        # Joined by their key, all records of a group would go to one task.
        "placed": spread(sizes["unsteady"], sizes["unsteady series"], "k", "joined, g"),
        "wanted": if_few(sizes["words"] + sizes["named"], "w"),
        "sorted": spread(sizes["uneven"], sizes["uneven series"], "s", "g, member, base"),
        "few_known": if_few(sizes["known"], "k"),
        "few_named": if_few(sizes["named"], "n"),
        "few_dead": if_few(sizes["dead that spoke"], "p"),
        "few_gone": if_few(sizes["left"], "o"),
        "few_uncounted": if_few(sizes["uncounted series"], "s"),
    }
