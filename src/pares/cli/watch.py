"""`pares watch`: who leads what now, how the members are, and what moved last and why."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from pares.cli.common.allcall import LISTEN, AnyProtocol, Listen, listens, watch_allcall
from pares.cli.common.keys import show_live
from pares.cli.common.options import DEFAULT_GROUP, AsJson, Group, LedgerUrl, check_readable, existing, told
from pares.cli.common.output import clock, console, grid, now_ms, print_json, seconds
from pares.core.wire.shown import short_token

if TYPE_CHECKING:
    from rich.console import RenderableType


QUIT_HINT: Final = "q ends it"


def watch(
    ledger: LedgerUrl = None,
    group: Group = DEFAULT_GROUP,
    once: Annotated[bool, typer.Option("--once", help="Show the present state and end.")] = False,
    interval: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", min=0.05, help="How often to look again.")
    ] = 0.5,
    moves: Annotated[int, typer.Option("--moves", metavar="N", min=0, help="How many of the last moves to show.")] = 10,
    protocol: AnyProtocol = None,
    listen: Listen = LISTEN,
    source: Annotated[
        str | None,
        typer.Option(
            "--source",
            metavar="URL",
            help="Of consumers: where their topics are. Default: the ledger.",
            show_default=False,
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Show who leads what, how the members are, what moved and why.

    A live table until q or Ctrl-C. With --once or --json, and where the output is no terminal, it is shown once. Tokens are
    shown by their last digits; --json has them whole.

    Of consumers: who has which partition, how far its position is as the log
    has it (with each beat), and how many offsets are not done.

    Of a group that runs ALLCALL: members, ranks, leases, and which members disagree, as they are heard.
    """
    if listens(ledger, protocol):
        from pares.core.wire.records import check_name

        check_name("--group", group)
        once = once or not sys.stdout.isatty()
        watch_allcall(ledger, group, once=once, interval=interval, listen=listen, json=json)
        return
    from pares.view import state
    from pares.view.consumption import Ends, consumption

    with told(ledger, group) as story, Ends(source or existing(ledger)) as ends:

        def all_of_it() -> dict[str, Any]:
            at = now_ms()
            return {**state(story, at, moves=moves), "consumption": consumption(story, at, ends)}

        if json or once or not sys.stdout.isatty():
            shown = all_of_it()
            print_json(shown) if json else console().print(picture(shown))
            return

        def now(height: int) -> RenderableType:
            story.catch_up()
            check_readable(story)
            return picture(all_of_it(), height=height)

        show_live(now, interval)


def picture(now: dict[str, Any], *, height: int | None = None) -> RenderableType:
    """The state as tables. With `height`, as many roles as leave room for the rest."""
    from rich.console import Group as Stack
    from rich.text import Text

    parts: list[RenderableType] = [Text(f"group {now['group']} on {now['ledger']}", style="bold")]
    if not now["known"]:
        parts.append(
            Text("The beginning of this log is gone and it holds no snapshot: nobody can know who leads.", style="red")
        )
    work: list[dict[str, Any]] = now.get("consumption", [])
    consumed = {row["role"] for row in work}
    rows: list[dict[str, Any]] = [row for row in now["roles"] if _whole(row["role"]) not in consumed]
    room = max(len(rows), len(work))
    if height is not None:
        room = max(
            3, height - 10 - len(now["partitions"]) - len(now["members"]) - len(now["pauses"]) - len(now["moves"])
        )
    if rows or not work:
        parts.append(roles_table(rows[:room]) if rows else Text("\nthe group has no role\n", style="dim"))
    if len(rows) > room:
        parts.append(Text(f"and {len(rows) - room} seats more", style="dim"))
    if work:
        parts += [consumption_table(work[:room]), Text(in_all(work, room), style="dim")]
    parts.append(members_table(now["members"]) if now["members"] else Text("no member is in the group\n", style="dim"))
    if now["partitions"]:
        parts.append(partitions_table(now["partitions"] if height is None else now["partitions"][:room]))
    for pause in now["pauses"]:
        what = "the whole group" if pause["role"] is None else f"role {pause['role']}"
        left = "" if pause["left"] is None else f", {seconds(pause['left'])} left"
        parts.append(Text(f"paused: {what}{left} (by {pause['by']})", style="yellow"))
    if now["moves"]:
        parts.append(moves_table(now["moves"]))
    if height is not None:
        parts.append(Text(QUIT_HINT, style="dim"))
    return Stack(*parts)


def _whole(role: str) -> str:
    """The role of the partition, where it stands for a part of one: a slot that nobody needs is no row of its own."""
    from pares.core.consume.names import Partition

    partition = Partition.of(role)
    return role if partition is None else partition.whole.role


def roles_table(rows: list[dict[str, Any]]) -> RenderableType:
    """One line for each seat: its leader, the token, and for how long."""
    from rich.text import Text

    table = grid("role", "leader", "host", "token:right", "leads for:right", "")
    for row in rows:
        role = row["role"] if row["seats"] == 1 else f"{row['role']} [{row['seat']}]"
        notes = [word for word in ("paused", "pinned", "removed") if row[word]]
        leader = Text("nobody", style="red") if row["leader"] is None else Text(row["leader"])
        table.add_row(role, leader, row["host"] or "", short_token(row["token"]), seconds(row["age"]), ", ".join(notes))
    return table


def consumption_table(rows: list[dict[str, Any]]) -> RenderableType:
    """One line for each partition of a topic: its consumer, how that is, and how far the work has come."""
    from rich.text import Text

    table = grid("topic", "partition:right", "consumer", "health", "token:right", "position:right", "lag:right")
    styles = {"live": "green", "draining": "yellow", "overdue": "red", "silent": "red", "paused": "yellow"}
    for row in rows:
        slot = row["slot"] is not None
        nobody = Text(
            "several" if row["state"] == "shared" else "nobody", style="" if row["state"] == "shared" else "red"
        )
        consumer = nobody if row["consumer"] is None else Text(row["consumer"])
        number = f"{row['partition']}+{row['slot']}" if slot else str(row["partition"])
        state = Text(row["state"], style=styles.get(row["state"], ""))
        lag = "?" if row["lag"] is None else str(row["lag"])
        table.add_row(Text(row["topic"]), number, consumer, state, short_token(row["token"]), str(row["position"]), lag)
    return table


def in_all(rows: list[dict[str, Any]], room: int) -> str:
    """How much is not done, and how many rows there are more."""
    whole = [row for row in rows if row["slot"] is None]
    lags = [row["lag"] for row in whole]
    said = f"lag {sum(lag or 0 for lag in lags)} in {len(whole)} partitions"
    if None in lags:
        said += f", but for {lags.count(None)} of which nobody says where they end (see --source)"
    return said if len(rows) <= room else f"{said}; and {len(rows) - room} rows more"


def partitions_table(rows: list[dict[str, Any]]) -> RenderableType:
    """One line for each partition: its leader, and its roles."""
    from rich.text import Text

    table = grid("partition:right", "leader", "roles")
    for row in rows:
        leader = Text("nobody", style="red") if row["leader"] is None else Text(row["leader"])
        roles = Text(", ".join(row["roles"])) if row["roles"] else Text("none", style="dim")
        table.add_row(str(row["partition"]), leader, roles)
    return table


def members_table(rows: list[dict[str, Any]]) -> RenderableType:
    """One line for each member: its state, and how long ago it was heard."""
    from rich.text import Text

    styles = {"live": "green", "draining": "yellow", "overdue": "red", "silent": "red"}
    table = grid("member", "health", "seats:right", "last record:right", "session:right", "host", "")
    for row in rows:
        notes = ["administrator"] if row["administrator"] else []
        if row["overlap"]:
            notes.append(f"overlap {row['overlap']:g} s")
        table.add_row(
            row["member"],
            Text(row["health"], style=styles[row["health"]]),
            str(row["seats"]),
            "" if row["last_record_age"] is None else f"{seconds(row['last_record_age'])} ago",
            f"{row['session']:g} s",
            row["host"],
            ", ".join(notes),
        )
    return table


def moves_table(rows: list[dict[str, Any]]) -> RenderableType:
    """One line for each move, newest last."""
    table = grid("at", "role", "from", "to", "token:right", "why")
    for row in rows:
        role = row["role"] if row["seat"] == 0 else f"{row['role']} [{row['seat']}]"
        free = f" (nobody held it for {row['free_ms']} ms)" if row["free_ms"] else ""
        table.add_row(
            clock(row["at_ms"]),
            role,
            row["from"] or "nobody",
            row["to"] or "nobody",
            short_token(row["token"]),
            row["reason"] + free,
        )
    return table
