"""`pares run`: a command that runs only while this process leads.

The wrapper is a member with one role. It starts the command when it leads, and the seat goes on only when nothing of the
command is left: a planned handover waits in its barrier until the command has ended, and when the lease is about to run out
the command is ended before (pares.runtime.child). Then the wrapper waits to lead again.
"""

from __future__ import annotations

import contextlib
import json as json_module
import logging
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Final

import typer

from pares.cli.options import DEFAULT_GROUP, Group, LedgerUrl, chosen
from pares.cli.output import FAILED, say
from pares.core.errors import ConfigError

if TYPE_CHECKING:
    from pares.runtime import Event, Member, Term
    from pares.runtime.child import Outcome, Supervisor

SETTINGS: Final = {"allow_interspersed_args": False}
"""For the parser: what follows CMD is CMD's, also without a `--` before it."""
LOOK_SECONDS: Final = 0.1
"""How often a wrapper that waits to lead looks for signals."""
CLOSE_SECONDS: Final = 2.0
"""What a planned handover may take beyond `grace`, before the seat is given up without it."""
NEVER_LED: Final = 75
"""The exit code after `--wait`: sysexits.h's EX_TEMPFAIL, which few commands end with."""
END: Final = (signal.SIGTERM, signal.SIGINT)
"""End the wrapper. So do HUP and QUIT while there is no command that they could be meant for."""


def run(
    command: Annotated[
        list[str], typer.Argument(metavar="CMD", help="The command and its arguments.", show_default=False)
    ],
    role: Annotated[str, typer.Option("--role", metavar="ROLE", help="The role to contend for.", show_default=False)],
    group: Group = DEFAULT_GROUP,
    session: Annotated[
        float, typer.Option("--session", metavar="SECONDS", help="Silence after which others may take over.")
    ] = 5.0,
    grace: Annotated[
        float | None,
        typer.Option(
            "--grace",
            metavar="SECONDS",
            help="From TERM to KILL. Default: a fifth of the session.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="This member's name. Default: host, process id and time."),
    ] = None,
    ledger: LedgerUrl = None,
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
    from pares.runtime.child import Supervisor

    _check_program(command[0])
    grace = session / 5 if grace is None else grace
    environment = {"PARES_ROLE": role, "PARES_GROUP": group}
    supervisor = Supervisor(command, session=session, grace=grace, environment=environment)
    wrapper = _Wrapper(supervisor, once=once, json=json, wait=wait)
    if json:
        logging.getLogger("pares").addHandler(_LogLines())
    with contextlib.closing(supervisor), wrapper.signals():
        member = Member(
            chosen(ledger),
            group=group,
            roles=role,
            name=name,
            session=session,
            barrier=wrapper.on_event,
            barrier_timeout=grace + CLOSE_SECONDS,
        )
        with member:
            code = wrapper.serve(member, role)
    raise SystemExit(code)


class _Believed:
    """A term as its command may rely on it: to the deadline last believed in, even after the belief was given up by plan.

    Giving up ends the belief at once, but nobody else can lead before that deadline, nor before the barrier has returned;
    so the command has its grace. Whatever ends a term otherwise comes as a `Fenced`, and kills.
    """

    def __init__(self, term: Term) -> None:
        self.role, self.seat, self.token = term.role, term.seat, term.token
        self._term = term
        self._until = 0

    @property
    def deadline_ns(self) -> int:
        self._until = self._term.deadline_ns or self._until
        return self._until


class _Wrapper:
    """The thread that waits to lead and runs the command, and what reaches it from others."""

    def __init__(self, supervisor: Supervisor, *, once: bool, json: bool, wait: float | None) -> None:
        self.supervisor, self.once, self.json, self.wait = supervisor, once, json, wait
        self.ending: int | None = None
        """The signal that ended this wrapper."""
        self.token: int | None = None
        """Of the term in which the command runs now."""

    def serve(self, member: Member, role: str) -> int:
        """Runs the command, term after term; the exit code."""
        end = None if self.wait is None else time.monotonic() + self.wait
        while self.ending is None:
            self._prepare(member)
            term = member.wait(role, LOOK_SECONDS)
            if term is None or not self._prepare(member, term):
                if end is not None and time.monotonic() > end:
                    return self._give_up(member, role)
                continue
            end = None
            outcome = self._run(term)
            if self.ending is None and (outcome.why in ("ended", "watchdog") or self.once):
                return outcome.code if outcome.why == "ended" else FAILED
        return 128 + self.ending

    def _give_up(self, member: Member, role: str) -> int:
        holder = member.leader(role)
        who = "nobody leads it" if holder is None else f"{holder.name} does"
        if self.json:
            _line("not leading", role=role, leader=holder and holder.name)
        else:
            say(f"pares: not leading {role} after {self.wait:g} s ({who}): the command was not run")
        return NEVER_LED

    def _run(self, term: Term) -> Outcome:
        believed = _Believed(term)
        if not believed.deadline_ns:
            from pares.runtime.child import Outcome

            return Outcome(FAILED, "lost")
        ran: list[bool] = []

        def started() -> None:
            ran.append(True)
            self._tell("leading", term, text=f"leading {term.role} (token {term.token}): the command runs")

        self.token = term.token
        try:
            if self.ending is not None:
                self.supervisor.stop(term.token)
            outcome = self.supervisor.run(believed, started)
        finally:
            self.token = None
        if not ran and outcome.why != "watchdog":
            return outcome
        text = {
            "ended": f"the command ended with {outcome.code}",
            "lost": f"the lease of {term.role} ran out, so the command was ended in time: {term.why or 'no news'}",
            "stopped": f"the command was ended: {term.why or 'a signal asked for it'}",
            "watchdog": "the command's watchdog was killed or stood still, so the command was killed",
        }[outcome.why]
        self._tell(outcome.why, term, code=outcome.code, why=term.why, text=text)
        return outcome

    def _prepare(self, member: Member, term: Term | None = None) -> bool:
        """Has a watchdog ready that keeps the lock of this incarnation (R7); with `term`: whether it is that of the term."""
        lock = member.lock
        if lock is not None and term is not None and lock.member != term.member:
            return False
        try:
            self.supervisor.prepare([] if lock is None or lock.descriptor < 0 else [lock.descriptor])
        except OSError:  # the member has just begun anew, with another lock
            return False
        return True

    # From other threads, and from signal handlers --------------------------------------------------------------------

    def on_event(self, event: Event) -> None:
        """The barrier: the seat goes on when nothing of the command is left."""
        from pares.runtime import Fenced, Revoked

        if isinstance(event, Fenced):
            self.supervisor.stop(event.token, at_once=True)
        elif isinstance(event, Revoked):
            self.supervisor.stop(event.token)
            self.supervisor.wait_gone(event.token)

    @contextlib.contextmanager
    def signals(self) -> Iterator[None]:
        """Hears the signals that are passed on. One that this process was started to ignore (nohup) stays ignored."""
        from pares.runtime.child import FORWARDED

        before = {number: signal.getsignal(number) for number in FORWARDED}
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, self._got)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _got(self, number: int, _: FrameType | None) -> None:
        token, again = self.token, self.ending is not None
        if number in END or (token is None and number in (signal.SIGHUP, signal.SIGQUIT)):
            self.ending = self.ending or number
            if token is not None:
                self.supervisor.stop(token, number=number, at_once=again)
        else:
            self.supervisor.forward(number)

    def _tell(self, event: str, term: Term, *, text: str, **more: object) -> None:
        if not self.json:
            return say(f"pares: {text}")
        return _line(event, role=term.role, seat=term.seat, token=term.token, **more)


def _line(event: str, **more: object) -> None:
    """One line of JSON on standard error; in one piece, since the command may write there too."""
    line = {"event": event, "at_ms": round(time.time() * 1000), **more}
    sys.stderr.write(json_module.dumps(line) + "\n")
    sys.stderr.flush()


class _LogLines(logging.Handler):
    """With --json what pares logs are lines of the same form: a reader has one kind of line to expect."""

    def emit(self, record: logging.LogRecord) -> None:
        _line("log", level=record.levelname, logger=record.name, message=record.getMessage())


def _check_program(program: str) -> None:
    """Looked for before anything is joined: who could never run the command must not become leader."""
    if shutil.which(program) is None:
        raise ConfigError(
            f"there is no command {program!r} that can be executed; give a program in PATH, or its path, after --"
        )
