"""The watchdog of `pares run`: a small process of its own that starts the command, and ends it in time.

The command may run only while its wrapper leads. But the wrapper may be killed, or frozen for an hour, and then it
can't end anything. So the command is the child of this process, which does three things and nothing else:

- When the wrapper is gone (its end of the socket is closed, or it is no longer our parent), the command is killed.
- When the deadline comes, the command is ended: TERM `grace` before, KILL `margin` before. The deadline is a number in
  memory shared with the wrapper: a renewal is one store there, and a wrapper that is frozen simply stops storing.
- When the command ends, whatever it started and left behind is killed, and only then is its end reported.

If this process is killed, the kernel kills the command (parent-death signal), and the wrapper, which sees its socket
close, kills the rest. It inherits the wrapper's lock (R7) and keeps it until nothing of the command is left, so that a
proof of death covers the command and its children, also those that have closed every descriptor they were born with.

"Whatever it started": the process group, and every descendant, since this process adopts those whose parents have died
(subreaper). A process that the command only asks to do something, such as a daemon, is no descendant and lives on.

It is run by path, without `site` and without pares, so that it starts in milliseconds and stays small:
    python -I -S watchdog.py SOCKET DEADLINE GRACE MARGIN WRAPPER -- CMD ...
SOCKET and DEADLINE are descriptors, GRACE and MARGIN nanoseconds, WRAPPER a process id.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import select
import signal
import sys
import time

LOOK_NS = 50_000_000
"""How often the deadline and the wrapper are looked at. Timers stand still while the machine sleeps, so none is long."""
WAITING_NS = 1_000_000_000
"""How often the wrapper is looked at before there is a command."""
SIZE = 16
"""Bytes of shared memory: the deadline, twice. Two that differ are a store that was interrupted: the lower one holds."""
HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def now_ns() -> int:
    """The stopwatch, which runs while the machine sleeps."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def adopt_orphans(adopt: bool = True) -> None:
    """From now on descendants whose parents die become children of this process."""
    prctl(_PR_SET_CHILD_SUBREAPER, int(adopt))


def _nothing(*_: object) -> None:
    """A handler: with one, the signal wakes the loop."""


def signal_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
        if number == signal.SIGTERM:
            os.killpg(group, signal.SIGCONT)  # one that is stopped would not notice
    except (ProcessLookupError, PermissionError):
        pass  # all gone, or all of them somebody else's by now


class Deadline:
    """The number in shared memory up to which the command may run, in nanoseconds of `now_ns`; 0 = not at all."""

    def __init__(self, descriptor: int) -> None:
        self._memory = mmap.mmap(descriptor, SIZE)
        self._slots = memoryview(self._memory).cast("q")

    def store(self, deadline: int) -> None:
        self._slots[0] = deadline
        self._slots[1] = deadline

    def load(self) -> int:
        return min(self._slots[0], self._slots[1])

    def close(self) -> None:
        self._slots.release()
        self._memory.close()


class Watchdog:
    """One command, from its start to the end of the last process that it left."""

    def __init__(self, socket: int, deadline: Deadline, grace: int, margin: int, wrapper: int) -> None:
        self.socket, self.deadline, self.grace, self.margin, self.wrapper = socket, deadline, grace, margin, wrapper
        self.command = 0
        self.kill_at = 0
        """When a command that was told to end is killed; 0 = it was not told."""
        self.termed = self.killed = self.expired = self.alone = False
        self.buffer = b""
        self.asked: list[list[str]] = []
        # A death wakes the loop through this pipe.
        self.woken, wake = os.pipe()
        os.set_blocking(self.woken, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _nothing)
        self.inherited = {number: signal.getsignal(number) for number in HANDLED}
        for number in HANDLED:
            signal.signal(number, signal.SIG_IGN)

    def say(self, *words: object) -> None:
        try:
            os.write(self.socket, (" ".join(map(str, words)) + "\n").encode())
        except OSError:
            self.alone = True

    def wait(self, timeout_ns: int) -> None:
        """Until the wrapper asks something (`asked`) or is gone (`alone`), a child ends, or the time is up."""
        poll = select.poll()
        poll.register(self.woken, select.POLLIN)
        if not self.alone:
            poll.register(self.socket, select.POLLIN)
        ready = dict(poll.poll(max(0, timeout_ns) / 1e6))
        if self.woken in ready:
            os.read(self.woken, 4096)
        if os.getppid() != self.wrapper:
            self.alone = True
        if self.socket not in ready:
            return
        try:
            received = os.read(self.socket, 4096)
        except OSError:
            received = b""
        if not received:
            self.alone = True
        *lines, self.buffer = (self.buffer + received).split(b"\n")
        self.asked += [line.decode().split() for line in lines]

    def run(self, argv: list[str]) -> None:
        """Waits for the word to start, starts, watches, reports."""
        while not self.alone and not self.command:
            self.wait(WAITING_NS)
            while self.asked and not self.command:
                request = self.asked.pop(0)
                if request[0] == "start":
                    self.start(argv, token=request[1], seat=request[2])
        if self.command:
            self.watch()
            self.finish()

    def start(self, argv: list[str], token: str, seat: str) -> None:
        if now_ns() >= self.deadline.load() - self.margin - self.grace:
            return self.say("late")
        os.environ["PARES_TOKEN"], os.environ["PARES_SEAT"] = token, seat
        failed, failure = os.pipe()
        me = os.getpid()
        self.command = os.fork()
        if self.command == 0:
            self.become(argv, me, failure)
        try:
            os.setpgid(
                self.command, self.command
            )  # here and in the child: by the first of the two, and before anybody acts
        except OSError:
            pass  # it has begun to run by now, and had done it itself
        os.close(failure)
        error = os.read(failed, 64)
        os.close(failed)
        if error:
            os.waitpid(self.command, 0)
            self.command = 0
            return self.say("error", error.decode())
        self.say("started", self.command)
        return None

    def become(self, argv: list[str], parent: int, failure: int) -> None:
        """In the child: turns into the command. Never returns."""
        try:
            os.setpgid(0, 0)
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)
            signal.set_wakeup_fd(-1)
            for number, handler in self.inherited.items():
                signal.signal(number, signal.SIG_IGN if handler is signal.SIG_IGN else signal.SIG_DFL)
            for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)
            os.execvp(argv[0], argv)
        except OSError as error:
            os.write(failure, str(error.errno).encode())
        finally:
            os._exit(127)

    def watch(self) -> None:
        """Until the command has ended. It stays a zombie, so that its number, and its group's, mean nobody else."""
        while not self.has_ended():
            self.wait(min(LOOK_NS, self.act(now_ns())))
            for request in self.asked:
                if request[0] == "signal":
                    signal_group(self.command, int(request[1]))
                elif request[0] == "stop":
                    signal_group(self.command, int(request[1]))
                    self.stop(now_ns() + int(request[2]))
            self.asked.clear()

    def act(self, now: int) -> int:
        """Does what is due; nanoseconds until something else is."""
        deadline = self.deadline.load()
        kill_at = deadline - self.margin
        if kill_at <= now:
            self.expired = True
        if self.kill_at:
            kill_at = min(kill_at, self.kill_at)
        if self.alone or kill_at <= now:
            if not self.killed:
                self.killed = True
                self.say("killing")
                signal_group(self.command, signal.SIGKILL)
            return LOOK_NS
        term_at = deadline - self.margin - self.grace
        if term_at <= now and not self.termed:
            self.expired = True
            self.stop(kill_at)  # that is final, even if the deadline should rise again
            signal_group(self.command, signal.SIGTERM)
        return kill_at - now if self.termed else min(term_at, kill_at) - now

    def stop(self, kill_at: int) -> None:
        """The command was told to end; it is killed at `kill_at` at the latest."""
        self.termed = True
        self.kill_at = min(self.kill_at or kill_at, kill_at)

    def has_ended(self) -> bool:
        """Whether the command has; buries, by the way, those that were adopted and have ended."""
        while (found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if found.si_pid == self.command:
                return True
            os.waitpid(found.si_pid, 0)
        return False

    def finish(self) -> None:
        """Kills what the command left, waits until nothing of it is there any more, and reports."""
        self.act(now_ns())  # if it ended because the wrapper killed it, late
        signal_group(self.command, signal.SIGKILL)
        while others := [pid for pid in self.children() if pid != self.command]:
            for pid in others:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
                os.waitpid(pid, os.WNOHANG)
            self.wait(LOOK_NS // 10)
        _, status = os.waitpid(self.command, 0)
        self.say("exit", status, "lost" if self.expired else "ended")

    def children(self) -> list[int]:
        try:
            with open("/proc/thread-self/children", "rb") as children:
                return [int(pid) for pid in children.read().split()]
        except OSError:
            return []


def main() -> None:
    socket, memory, grace, margin, wrapper = map(int, sys.argv[1:6])
    for descriptor in (socket, memory):
        os.set_inheritable(descriptor, False)
    adopt_orphans()
    watchdog = Watchdog(socket, Deadline(memory), grace, margin, wrapper)
    watchdog.say("ready")
    watchdog.run(sys.argv[7:])


if __name__ == "__main__":
    main()
