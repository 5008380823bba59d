"""What `watch` and `doctor` do for groups that run ALLCALL: they listen, while for other groups they read a log."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from pares.cli.common.keys import show_live
from pares.cli.common.options import existing
from pares.cli.common.output import console, grid, print_json, seconds
from pares.core.wire.shown import short_token

if TYPE_CHECKING:
    from rich.console import RenderableType

    from pares.runtime.allcall.observer import AllCallObserver
    from pares.view.checkup import Finding

LISTEN: Final = 3.0
"""Two and a half beats of members with usual settings, and half a second for a connection."""

AnyProtocol = Annotated[
    str | None,
    typer.Option(
        "--protocol",
        metavar="P",
        help="allcall: listen to a group that runs it. Default: so on core NATS (a URL without a stream), which has no log.",
        show_default=False,
    ),
]
Listen = Annotated[
    float,
    typer.Option("--listen", metavar="SECONDS", min=0.05, help="How long to listen first, where there is no log."),
]


def listens(ledger: str | None, protocol: str | None) -> bool:
    """Whether a command is to listen, and not to read a log. Raises `ConfigError` for an unknown protocol."""
    from pares.cli.common.options import chosen
    from pares.core.errors import ConfigError
    from pares.ledger import parse
    from pares.ledger.registry import scheme_of
    from pares.runtime.config.protocols import TRAITS

    asked = None if protocol is None else TRAITS.get(protocol)
    if protocol is not None and (asked is None or asked.partitions):
        raise ConfigError(f"--protocol is {protocol!r}: give claims (what is in a log) or allcall")
    if asked is not None:
        return not asked.on_log
    url = chosen(ledger)
    return scheme_of(url).bus_without_path and not parse(url).path.strip("/")


@contextmanager
def listening(ledger: str | None, group: str, first: float) -> Iterator[tuple[AllCallObserver, str]]:
    """Listens to a group, for `first` seconds before the block begins. Makes nothing, and needs no right to write.

    Raises `ConfigError` if nothing of the group was heard.
    """
    from pares.core.errors import ConfigError
    from pares.ledger import open_bus, parse
    from pares.ledger.registry import scheme_of
    from pares.runtime.allcall.observer import AllCallObserver

    url = existing(ledger)
    on_log = scheme_of(url).look_only and parse(url).path.strip("/") != ""
    bus = open_bus(url, **({"readonly": True} if on_log else {}))
    try:
        observer = AllCallObserver(bus, group)
        try:
            time.sleep(first)
            with observer.lock:
                silent, others = not observer.overheard.messages, sorted(observer.overheard.others)
            if silent:
                there = f"; groups heard: {', '.join(others)}" if others else ""
                raise ConfigError(
                    f"nobody of a group {group!r} was heard on {url} within {first:g} s{there} (choose by --group; listen "
                    "longer by --listen; a group that runs another protocol has a log: name it by --ledger)"
                )
            yield observer, url
        finally:
            observer.close()
    finally:
        bus.close()


def watch_allcall(ledger: str | None, group: str, *, once: bool, interval: float, listen: float, json: bool) -> None:
    """A live table until q or Ctrl-C, or the state once."""
    from pares.view.allcall import heard_state

    with listening(ledger, group, listen) as (observer, url):
        if json or once:
            shown = heard_state(observer, url)
            print_json(shown) if json else console().print(heard_picture(shown))
        else:
            show_live(lambda height: heard_picture(heard_state(observer, url), height=height), interval)


def heard_picture(now: dict[str, Any], *, height: int | None = None) -> RenderableType:
    """The state as tables. With `height`, as many roles as leave room for the rest."""
    from rich.console import Group as Stack
    from rich.text import Text

    rows: list[dict[str, Any]] = now["roles"]
    room = len(rows) if height is None else max(3, height - 10 - len(now["members"]) - len(now["disagreement"]))
    parts: list[RenderableType] = [Text(f"group {now['group']} on {now['ledger']}, ALLCALL", style="bold")]
    parts.append(_roles(rows[:room]))
    if len(rows) > room:
        parts.append(Text(f"and {len(rows) - room} roles more", style="dim"))
    parts.append(_members(now["members"]))
    for split in now["disagreement"]:
        told = "; ".join(f"{', '.join(view['says'])}: {view['leader'] or 'nobody'}" for view in split["views"])
        claims = f" ({split['claims']} live claims)" if split["claims"] > 1 else ""
        parts.append(Text(f"no agreement on {split['role']}{claims}: {told}", style="bold red"))
    if height is not None:
        parts.append(Text("q ends it", style="dim"))
    return Stack(*parts)


def _roles(rows: list[dict[str, Any]]) -> RenderableType:
    from rich.text import Text

    table = grid("role", "leader", "rank:right", "token:right", "lease left:right", "agreed", "may lead:right")
    for row in rows:
        leader = Text("nobody", style="red") if row["leader"] is None else Text(row["leader"])
        for claim in row["other_claims"]:
            leader.append(f" and {claim['leader']}", style="bold red")
        agreed = Text("yes") if row["agreed"] else Text("no", style="bold red")
        rank = "" if row["rank"] is None else str(row["rank"])
        left = seconds(row["lease_left"])
        table.add_row(row["role"], leader, rank, short_token(row["token"]), left, agreed, str(len(row["may_lead"])))
    return table


def _members(rows: list[dict[str, Any]]) -> RenderableType:
    from rich.text import Text

    table = grid("member", "rank:right", "phase", "leads", "says leads", "heard:right", "lease:right", "host")
    for row in rows:
        phase = Text(row["phase"], style="green" if row["phase"] == "ping" else "yellow")
        says = ", ".join(sorted(set(row["views"].values()))) or Text("nobody", style="yellow")
        heard = f"{seconds(row['heard_age'])} ago"
        leads = ", ".join(row["leads"])
        table.add_row(row["member"], str(row["rank"]), phase, leads, says, heard, f"{row['lease']:g} s", row["host"])
    return table


def examine_allcall(ledger: str | None, group: str, listen: float) -> tuple[list[Finding], dict[str, Any]]:
    """What `doctor` has found, and the document for `--json`."""
    from pares.runtime.kits import ways
    from pares.view.checkup import PROBLEM, verdict

    (examine,) = ways("doctor", on_log=False)
    with listening(ledger, group, listen) as (observer, url):
        findings, state = examine(observer, url, listen)
    told = [{"level": f.level, "check": f.check, "text": f.text} for f in findings]
    sound = all(f.level != PROBLEM for f in findings)
    return findings, {"sound": sound, "verdict": verdict(findings), "findings": told, **state}
