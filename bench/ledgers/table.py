"""The table of docs/choosing.md: what was measured in one run, a row for each ledger, beside what each costs and may lose.

`python -m bench --ledgers all --write docs/choosing.md` puts it there. A run of some ledgers leaves the rows of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bench.cases import Row
from bench.compare import median
from bench.figures import tables

COLUMNS: Final = {
    "append": "append",
    "append and read back": "and read back",
    "handover": "handover",
    "crash takeover by silence, session 1 s": "crash, silence, session 1 s",
    "crash takeover by silence, session 0.3 s": "session 0.3 s",
    "crash takeover, death proven": "crash, proven",
    "idle member, 3 members": "idle member",
}
"""What is measured, and the head of its column."""
_NOTHING: Final = "nothing"
_ONE: Final = "for up to a session, that only one believes"
FACTS: Final = {
    "file": ("one host, no server", "a folder on a local disk", _NOTHING),
    "sqlite": ("one host, no server", "a file on a local disk", _NOTHING),
    "postgres": (
        "your data's own database",
        "two connections a member; four small rows in each session",
        f"{_NOTHING} with `synchronous_standby_names`; without, {_ONE}, and that tokens rise",
    ),
    "redis": ("quick, and often there", "two connections a member", f"{_ONE}; tokens rise"),
    "rabbitmq": (
        "often there",
        "a connection a member",
        f"at a crash of the machine, {_ONE}, and that tokens rise; there is no failover",
    ),
    "pulsar": (
        "often there",
        "a connection a member",
        f"{_NOTHING} with an ack quorum of two bookies and more",
    ),
    "nats": (
        "three small servers",
        "a connection a member",
        f"{_NOTHING} with three replicas, `sync_interval: always`",
    ),
    "kafka": ("three brokers", "some connections a member", f"{_NOTHING} with `min.insync.replicas=2`"),
    "kinesis": ("no server of your own", "a shard; reads, five a second in all", "not known: measured on an emulator"),
}
"""What it gives, what it costs, and the promises that a failover may take with it (see the sections of each)."""


def table(rows: Sequence[Row], before: str = "") -> str:
    """Medians, in milliseconds and per cent of a core, and what the figures do not say. Rows of others come behind it.

    `before`: the text that stood in its place. What it says of ledgers without a row here is kept, and called earlier.
    """
    measured: dict[str, dict[str, str]] = {}
    others: list[str] = []
    for row in rows:
        name, _, what = row.what.partition(": ")
        if name not in FACTS and name == "advisory lock":
            others.append(f"- {row.what}: {row.figures}")
            continue
        case, _, told = what.partition(" (session ")
        of = measured.setdefault(name, {})
        head = COLUMNS.get(case.removesuffix(", session 1 s") if case.startswith("idle") else case, case)
        of[head] = _short(row) + (f" (session {told.rstrip(')')})" if told else "")
    stood = {row.get("ledger", ""): row for found in tables(before) for row in found}
    earlier = {name: stood[name] for name in FACTS if name in stood and name not in measured}
    others = others or [line for line in before.splitlines() if line.startswith("- advisory lock: ")]
    if earlier:
        others.append(f"- of earlier runs: {', '.join(earlier)}")
    heads = ["ledger", "gives", *COLUMNS.values(), "costs", "a failover may take"]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for name in FACTS:
        if name not in {**earlier, **measured}:
            continue
        gives, costs, lost = FACTS[name]
        figures = measured.get(name) or earlier[name]
        cells = [name, gives, *(figures.get(head, "") for head in COLUMNS.values()), costs, lost]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, *([""] if others else []), *others])


def _short(row: Row) -> str:
    found = median(row.figures)
    if found is None:
        return row.figures
    value, unit = found
    if unit.startswith("%"):
        return f"{value:g} %"
    return f"{value:g} {unit}" + ("" if row.met is not False else " (**missed**)")
