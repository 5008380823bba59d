"""`pares witness`: one a host; what it sees die, others take over at once (R22)."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from pares.cli.common.options import DEFAULT_GROUP, LedgerUrl, existing
from pares.cli.common.output import FAILED, say
from pares.cli.common.running import line, told
from pares.cli.common.signals import hearing_the_end

if TYPE_CHECKING:
    from pares.runtime.claims.witness import WitnessHealth

LOOK: Final = 2.0
"""Seconds between two looks at how it is. Nothing waits for them: deaths are told when they are seen."""


def witness(
    group: Annotated[
        list[str] | None,
        typer.Option(
            "--group", metavar="GROUP", help=f"Whose members it watches; may be given again. Default: {DEFAULT_GROUP}."
        ),
    ] = None,
    lock_folder: Annotated[
        Path | None,
        typer.Option(
            "--lock-folder",
            metavar="DIR",
            envvar="PARES_LOCK_FOLDER",
            help="Where the members of this host keep their locks. Default: the members' own default.",
            show_default=False,
        ),
    ] = None,
    ledger: LedgerUrl = None,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="Its name in the log. Default: host, process id and time."),
    ] = None,
    session: Annotated[
        float, typer.Option("--session", metavar="SECONDS", help="How often it writes that it is there.")
    ] = 5.0,
    json: Annotated[bool, typer.Option("--json", help="Say on standard error what happens as JSON lines.")] = False,
) -> None:
    """Watch the members of this host, and write into the log when one dies.

    Members of other hosts take over at once what a killed process led, and
    need not wait for its session. A process that is frozen is not dead, and
    a host that is gone takes its witness with it: then silence decides, as
    ever. One a host is enough; more do no harm, and none is needed.

    Run it as the user that the members run as, with the same lock folder: in
    a container of its own the folder has to be a volume that they share. TERM
    and INT end it. It tells systemd (Type=notify) when it is in its groups.
    """
    from pares.runtime import Witness

    ended = threading.Event()
    with told(json), hearing_the_end(lambda _: ended.set()):
        groups = group or [os.environ.get("PARES_GROUP") or DEFAULT_GROUP]
        lines = _Lines(groups, json)
        with Witness(
            existing(ledger),
            group=groups,
            lock_folder=lock_folder,
            name=name,
            session=session,
            on_death=lines.death,
            connect="background",
        ) as made:
            while not ended.wait(LOOK if lines.began else LOOK / 20):
                health = made.health()
                lines.look(health)
                failed = [each for each in health.groups.values() if each.state == "failed"]
                if failed:
                    lines.say("failed", text=failed[0].why, why=failed[0].why)
                    raise SystemExit(FAILED)
            _notify("STOPPING=1")
            lines.say("ended", text="ended", deaths=made.health().deaths)


class _Lines:
    """What it says: when it is ready or not any more, whom it watches when that has changed, and deaths."""

    def __init__(self, groups: list[str], json: bool) -> None:
        self._groups, self._json = groups, json
        self._watched: tuple[tuple[str, ...], tuple[str, ...]] | None = None
        self._why = ""
        self.began = False

    def say(self, event: str, *, text: str, **more: object) -> None:
        if self._json:
            line(event, **more)
        else:
            say(f"pares: {text}")

    def death(self, group: str, member: str) -> None:
        self.say("dead", text=f"{member} of group {group} is dead", group=group, member=member)

    def look(self, health: WitnessHealth) -> None:
        if health.ready and not self.began:
            self.began = True
            _notify("READY=1")
            self.say("ready", text=f"a witness of {', '.join(self._groups)}", groups=self._groups)
        if health.why != self._why and (health.why or self.began):
            self.say("trouble" if health.why else "well", text=health.why or "all is well again", why=health.why)
            self._why = health.why
        seen = (health.watched, health.unseen)
        if health.ready and seen != self._watched:
            self._watched = seen
            blind = (
                f"; not {len(health.unseen)} whose locks it can't find or open: run it as their user, with their lock folder"
                if health.unseen
                else ""
            )
            text = f"watches {len(health.watched)} members of this host{blind}"
            self.say("watching", text=text, watched=health.watched, unseen=health.unseen)


def _notify(state: str) -> None:
    """Tells systemd, if it has started this process and asks to be told."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address[:1] not in ("/", "@"):
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as end:
        end.connect("\0" + address[1:] if address[0] == "@" else address)
        end.sendall(state.encode())
