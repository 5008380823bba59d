"""`pares run`: a command that runs only while this process leads.

The wrapper is a member with one role. It starts the command when it leads, and the seat goes on only when nothing of the
command is left: a planned handover waits in its barrier until the command has ended, and when the lease is about to run out
the command is ended before (pares.supervise.child). Then the wrapper waits to lead again.
"""

from __future__ import annotations

import contextlib
import shlex
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final

import typer

from pares.cli.common.options import DEFAULT_GROUP, Create, Group, LedgerUrl, beginnable, chosen
from pares.cli.common.running import Wrapper, line, told
from pares.core.errors import ConfigError

if TYPE_CHECKING:
    from pares.runtime import Member
    from pares.supervise.hook import Hook

SETTINGS: Final = {"allow_interspersed_args": False}
"""For the parser: what follows CMD is CMD's, also without a `--` before it."""
CLOSE_SECONDS: Final = 2.0
"""What a planned handover may take beyond `grace`, before the seat is given up without it."""


def run(
    command: Annotated[
        list[str], typer.Argument(metavar="CMD", help="The command and its arguments.", show_default=False)
    ],
    role: Annotated[str, typer.Option("--role", metavar="ROLE", help="The role to contend for.", show_default=False)],
    group: Group = DEFAULT_GROUP,
    protocol: Annotated[
        str,
        typer.Option(
            "--protocol",
            metavar="P",
            help="claims, fast-neli or neli; nele or allcall, where two may run it for a while.",
        ),
    ] = "claims",
    session: Annotated[
        float | None,
        typer.Option(
            "--session",
            metavar="SECONDS",
            help="Silence after which others may take over. Default: 5; 6 where Kafka's consumer group decides.",
            show_default=False,
        ),
    ] = None,
    grace: Annotated[
        float | None,
        typer.Option(
            "--grace",
            metavar="SECONDS",
            help="From TERM to KILL. Default: a fifth of the session, or what fits it.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="This member's name. Default: host, process id and time."),
    ] = None,
    seats: Annotated[
        int,
        typer.Option("--seats", metavar="N", min=1, help="In how many places at once, the first time ROLE is named."),
    ] = 1,
    rank: Annotated[int, typer.Option("--rank", metavar="N", help="The lowest rank that is there leads.")] = 0,
    zone: Annotated[
        str | None,
        typer.Option("--zone", metavar="ZONE", help="Seats of one role go to different zones.", show_default=False),
    ] = None,
    ledger: LedgerUrl = None,
    create: Create = False,
    on_lost: Annotated[
        str | None,
        typer.Option(
            "--on-lost",
            metavar="CMD",
            help="Run this after each term, when nothing of the command is left; 10 s at most. No shell: words are split.",
            show_default=False,
        ),
    ] = None,
    probe_port: Annotated[
        int | None,
        typer.Option(
            "--probe-port",
            metavar="N",
            min=0,
            max=65535,
            help="Answer /livez, /readyz and /leader over HTTP on this port. 0: any that is free.",
            show_default=False,
        ),
    ] = None,
    probe_host: Annotated[
        str,
        typer.Option("--probe-host", metavar="ADDRESS", help="Where probes are answered. Default: for this host only."),
    ] = "127.0.0.1",
    once: Annotated[
        bool, typer.Option("--once", help="End with 1 when leadership is lost, instead of waiting to lead again.")
    ] = False,
    wait: Annotated[
        float | None,
        typer.Option(
            "--wait",
            metavar="SECONDS",
            min=0.1,
            help="End with 75, CMD not run, if it does not lead within so long. Default: wait for ever.",
            show_default=False,
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Say on standard error what happens as JSON lines.")] = False,
) -> None:
    """Run CMD only while this process leads ROLE.

    CMD gets PARES_ROLE, PARES_SEAT, PARES_GROUP and PARES_TOKEN (hand the
    token to a fence). This command ends with CMD's exit code: 128 + n if
    signal n ended it. When leadership goes, CMD's process group gets TERM,
    and KILL after --grace seconds and before anybody else may lead; then this
    command waits to lead again and starts CMD anew, unless --once is given.
    When CMD ends, the next one that waits leads, and runs its own CMD: in one
    place at a time, not once in all. With --wait a rival gives up instead.
    With --protocol claims (the default), fast-neli or neli CMD runs in one
    place at most: at no instant in two. nele would rather have it run in two
    places for a moment than in none; allcall needs no log and runs it on each
    side of a split. Then CMD must bear that, and the fence decides.

    With --on-lost another command is run after each term, beside the handover:
    it gets PARES_WHY (ended: by itself, lost: the lease ran out, stopped, or
    watchdog) and PARES_REASON beside the others. Not when this process is
    killed.

    INT, TERM, HUP, QUIT, USR1, USR2 and WINCH are passed on. INT and TERM end
    this command too, with 130 and 143 (a second one: at once).

    CMD dies with this process, also under kill -9, and in time when this
    process is frozen (SIGSTOP, Ctrl-Z), by a watchdog of its own. So does
    whatever CMD has started, also with a session of its own; but if the
    watchdog is killed as well, a descendant with a session of its own escapes.
    What CMD asks others to do (docker run, ssh, at) is no descendant of it and
    goes on. A command that puts itself into the background counts as ended.
    Linux only.
    """
    from pares.runtime import Member
    from pares.supervise.child import Supervisor
    from pares.supervise.contention import contention
    from pares.supervise.grace import usual_grace

    with told(json):
        _check_program(command[0], "after --")
        after = None if on_lost is None else _words(on_lost)
        asked = contention(protocol, session, seats, chosen(ledger))
        grace = usual_grace(asked.session, asked.name, asked.clock_error) if grace is None else grace
        supervisor = Supervisor(
            command,
            session=asked.session,
            grace=grace,
            protocol=asked.name,
            clock_error=asked.clock_error,
            environment={"PARES_ROLE": role, "PARES_GROUP": group},
        )
        with contextlib.closing(supervisor):
            url, begun = beginnable(ledger, create)
            hook = None if after is None else _hook(after, json)
            wrapper = Wrapper(supervisor, group=group, hook=hook, once=once, json=json, wait=wait)
            with _probes(wrapper, probe_host, probe_port, role) as probed, wrapper.signals():
                member = Member(
                    url,
                    group=group,
                    roles=role,
                    seats=seats,
                    name=name,
                    zone=zone,
                    rank=rank,
                    **asked.settings,
                    barrier=wrapper.on_event,
                    barrier_timeout=grace + CLOSE_SECONDS,
                )
                if begun is not None:
                    text = (
                        f"began a new ledger, {begun}: nobody else is there (if others should be, the path is another)"
                    )
                    wrapper.say("created", text=text, ledger=str(begun))
                with member:
                    probed.append(member)
                    code = wrapper.serve(member, role)
                if hook is not None:
                    hook.wait()
    raise SystemExit(code)


@contextlib.contextmanager
def _probes(wrapper: Wrapper, host: str, port: int | None, role: str) -> Iterator[list[Member]]:
    """Answers probes for the member that is put into the list, if a port is given."""
    found: list[Member] = []
    if port is None:
        yield found
        return
    from pares.supervise.probe_server import ProbeServer

    server = ProbeServer(lambda: found[0] if found else None, port, host=host, role=role)
    if port == 0:
        wrapper.say("probes", text=f"probes are answered on http://{host}:{server.port}", host=host, port=server.port)
    try:
        yield found
    finally:
        server.close()


def _hook(words: list[str], json: bool) -> Hook:
    from pares.cli.common.output import say
    from pares.supervise.hook import Hook

    return Hook(words, lambda text: line("on-lost", message=text) if json else say(f"pares: {text}"))


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigError(f"--on-lost {command!r} can't be split into words: {error}") from None
    if not words:
        raise ConfigError("--on-lost is empty: give a command, or leave it out")
    _check_program(words[0], "in --on-lost")
    return words


def _check_program(program: str, where: str) -> None:
    """Looked for before anything is joined: a member that could never run the command must not become leader."""
    if shutil.which(program) is None:
        raise ConfigError(
            f"there is no command {program!r} that can be executed; give a program in PATH, or its path, {where}"
        )
