"""What happens while `pares run` runs: terms come and go, the command with them; signals, `--on-lost`, and what is said."""

from __future__ import annotations

import contextlib
import json as json_module
import logging
import signal
import sys
import time
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Final

from pares.cli.common.output import FAILED, USAGE, say
from pares.core.errors import ConfigError, ParesError

if TYPE_CHECKING:
    from pares.runtime import Event, Member, Term
    from pares.supervise.child import Outcome, Supervisor
    from pares.supervise.hook import Hook

LOOK_SECONDS: Final = 0.1
"""Seconds between two looks for signals, while the wrapper waits to lead."""
NEVER_LED: Final = 75
"""The exit code after `--wait`: sysexits.h's EX_TEMPFAIL, which few commands end with."""
END: Final = (signal.SIGTERM, signal.SIGINT)
"""Signals that end the wrapper. HUP and QUIT do so, too, while no command runs."""


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


class Wrapper:
    """The thread that waits to lead and runs the command, and what other threads tell it."""

    def __init__(
        self, supervisor: Supervisor, *, group: str, hook: Hook | None, once: bool, json: bool, wait: float | None
    ) -> None:
        self.supervisor, self.group, self.hook = supervisor, group, hook
        self.once, self.json, self.wait = once, json, wait
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
            if self.hook is not None:
                self.hook.wait()
            outcome = self._run(term)
            if self.ending is None and (outcome.why in ("ended", "watchdog") or self.once):
                return outcome.code if outcome.why == "ended" else FAILED
        return 128 + self.ending

    def _give_up(self, member: Member, role: str) -> int:
        holder = member.leader(role)
        who = "nobody leads it" if holder is None else f"{holder.name} does"
        self.say(
            "not leading",
            text=f"not leading {role} after {self.wait:g} s ({who}): the command was not run",
            role=role,
            leader=holder and holder.name,
        )
        return NEVER_LED

    def _run(self, term: Term) -> Outcome:
        believed = _Believed(term)
        if not believed.deadline_ns:
            from pares.supervise.child import Outcome

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
        if self.hook is not None:
            why = {"PARES_GROUP": self.group, "PARES_WHY": outcome.why, "PARES_REASON": term.why or text}
            self.hook.begin(term.role, term.seat, term.token, why)
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
        from pares.supervise.child import FORWARDED

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
        if again and self.hook is not None:
            self.hook.stop()
        if number in END or (token is None and number in (signal.SIGHUP, signal.SIGQUIT)):
            self.ending = self.ending or number
            if token is not None:
                self.supervisor.stop(token, number=number, at_once=again)
        else:
            self.supervisor.forward(number)

    # What is said ----------------------------------------------------------------------------------------------------

    def say(self, event: str, *, text: str, **more: object) -> None:
        """One line on standard error: for people, or the same as JSON."""
        if self.json:
            line(event, **more)
        else:
            say(f"pares: {text}")

    def _tell(self, event: str, term: Term, *, text: str, **more: object) -> None:
        self.say(event, text=text, role=term.role, seat=term.seat, token=term.token, **more)


def line(event: str, **more: object) -> None:
    """One line of JSON on standard error; in one piece, since the command may write there too."""
    what = {"event": event, "at_ms": round(time.time() * 1000), **more}
    sys.stderr.write(json_module.dumps(what) + "\n")
    sys.stderr.flush()


class _LogLines(logging.Handler):
    """What is logged, as lines of JSON."""

    def emit(self, record: logging.LogRecord) -> None:
        more = {"exception": repr(record.exc_info[1])} if record.exc_info and record.exc_info[1] else {}
        line("log", level=record.levelname, logger=record.name, message=record.getMessage(), **more)


@contextlib.contextmanager
def lines_only() -> Iterator[None]:
    """With --json whatever else this process has to say is JSON too: what any library logs, warnings, and errors of threads. A
    reader has one kind of line to expect, and tells them apart by `event`."""
    import threading

    handler, root, hook = _LogLines(), logging.getLogger(), threading.excepthook

    def thread_failed(failed: threading.ExceptHookArgs) -> None:
        name = "?" if failed.thread is None else failed.thread.name
        line(
            "log",
            level="CRITICAL",
            logger="threading",
            message=f"thread {name} failed",
            exception=repr(failed.exc_value),
        )

    root.addHandler(handler)
    logging.captureWarnings(True)
    threading.excepthook = thread_failed
    try:
        yield
    finally:
        threading.excepthook = hook
        logging.captureWarnings(False)
        root.removeHandler(handler)


@contextlib.contextmanager
def told(json: bool) -> Iterator[None]:
    """With --json errors are lines of JSON, as everything else is."""
    if not json:
        yield
        return
    with lines_only():
        try:
            yield
        except ParesError as error:
            line("error", message=" ".join(str(error).split()))
            raise SystemExit(USAGE if isinstance(error, ConfigError) else FAILED) from None
