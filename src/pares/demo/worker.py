"""One member of the demo, a process of its own: `python -m pares.demo.worker`.

The body of `publish` is what a user of pares writes: wait for leadership, look at the term, do one piece of work in its
name. Between the look and the write lies a call to the exchange. Whatever happens to the process in there (and the
conductor freezes it just there) no check before it can know; the fence at the table does.

The process never outlives its conductor: its standard input ends with it, and on Linux the kernel is asked for a SIGKILL
as well, which reaches also a process that stands frozen.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, Self, cast

from pares.core.errors import LedgerUnavailable, Stale
from pares.demo.in_flight import Hands, file_of
from pares.demo.law import law_of
from pares.demo.quotes import TICK_MS, Quotes, now_ms
from pares.ledger import Ledger
from pares.ledger import open as open_ledger
from pares.runtime.member import Member
from pares.runtime.term import Term

EXCHANGE_SECONDS = 0.03
"""How long the exchange takes to answer with a price."""


BY_CABLE = (
    "append",
    "append_many",
    "append_each",
    "read",
    "read_stamped",
    "read_whole",
    "has",
    "changed",
    "start",
    "end",
    "identity",
    "checks",
    "trim",
)
"""What has to reach the ledger."""


def _passed_on(name: str) -> property:
    return property(lambda unplugged: unplugged.pass_on(name))


class Unplugged:
    """A ledger whose cable can be pulled: it fails as one does that is out of reach, until the time given is over."""

    close: Any

    def __new__(cls, ledger: Any, locks: Path) -> Self:
        """Of a class that has what the ledger has: what a ledger can do is asked of classes."""
        there = {name: _passed_on(name) for name in dir(ledger) if not name.startswith("_")}
        own = {name: what for name, what in there.items() if name != "place" and not hasattr(cls, name)}
        kind: Any = type(cls.__name__, (cls,), own)
        return cast("Self", object.__new__(kind))

    def __init__(self, ledger: Any, locks: Path) -> None:
        self._ledger = ledger
        self.place = ledger.place or locks
        """Where members put what proves their death."""
        self._until = 0.0

    def pull(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds

    def pass_on(self, name: str) -> Any:
        """This attribute of the ledger, by the cable if it leads there."""
        found = getattr(self._ledger, name)
        if name not in BY_CABLE:
            return found

        def by_cable(*args: Any, **kwargs: Any) -> Any:
            if time.monotonic() < self._until:
                raise LedgerUnavailable("the demo has cut this member off from its ledger; nothing was written")
            return found(*args, **kwargs)

        return by_cable


def locks_in(folder: Path) -> Path:
    """Where the members of a ledger that has no folder have their locks: in the demo's, so that nothing is left elsewhere."""
    return folder / "locks"


class Publisher:
    """Publishes the ticks of the instruments that this member leads."""

    def __init__(self, quotes: Quotes, hands: Hands, name: str, epoch_ms: int) -> None:
        self.quotes, self.hands, self.name, self.epoch_ms = quotes, hands, name, epoch_ms
        self.lock = threading.Lock()

    def run(self, member: Member, role: str) -> None:
        """One thread an instrument: terms as they come, ticks while each lasts."""
        for term in member.terms(role):
            self.publish(term)

    def publish(self, term: Term) -> None:
        tick: int | None = -1
        try:
            with self.lock:
                last = self.quotes.begin(term)
            while term:
                tick = self.next_tick(term, last)
                if tick is None:
                    return
                with self.hands.hold(term.role):
                    time.sleep(EXCHANGE_SECONDS)
                with self.lock:
                    self.quotes.publish(term, tick, self.name)
                last = tick
        except Stale as stale:
            with self.lock:
                self.quotes.refuse(term.role, tick or -1, self.name, stale)

    def next_tick(self, term: Term, last: int) -> int | None:
        """The tick that is on now or, if that one is out already, the next. None if the term ends before it comes."""
        tick = (now_ms() - self.epoch_ms) // TICK_MS
        if tick <= last:
            tick = last + 1
            wait = (self.epoch_ms + tick * TICK_MS - now_ms()) / 1000
            if wait > 0 and term.wait_lost(wait):
                return None
        return tick


def die_with_parent(parent: int) -> None:
    """Asks the kernel for a SIGKILL when the conductor dies; only Linux can."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m pares.demo.worker", description="One member of the demo.")
    parser.add_argument("--ledger", required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--roles", required=True, help="instruments, with commas between")
    parser.add_argument("--quotes", required=True, type=Path)
    parser.add_argument("--epoch-ms", required=True, type=int)
    parser.add_argument("--protocol", default="claims")
    parser.add_argument("--overlap", action="store_true")
    parser.add_argument("--rank", default=0, type=int)
    parser.add_argument("--settle", required=True, type=float)
    parser.add_argument("--seed", default=0, type=int)
    parser.add_argument("--parent", required=True, type=int)
    return parser.parse_args()


def main() -> None:
    # The terminal sends Ctrl-C to the whole foreground group; the conductor ends its members itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    options = arguments()
    die_with_parent(options.parent)
    roles = options.roles.split(",")
    ledger = Unplugged(open_ledger(options.ledger), locks_in(options.quotes.parent))
    law = law_of(options.protocol, overlap=options.overlap)
    quotes = Quotes(options.quotes, fenced=not law.two, seed=options.seed)
    hands = Hands(file_of(options.quotes.parent, options.name), roles)
    publisher = Publisher(quotes, hands, options.name, options.epoch_ms)
    member = Member(
        cast(Ledger, ledger),
        group=options.group,
        roles=roles,
        name=options.name,
        barrier_timeout=5.0,
        **law.settings,
        **({"rank": options.rank} if law.calls else {"settle": options.settle} if law.placed else {}),
    )
    with member:
        for role in roles:
            threading.Thread(target=publisher.run, args=(member, role), name=f"publish {role}", daemon=True).start()
        for line in sys.stdin:
            word, _, value = line.strip().partition(" ")
            if word == "cut":
                ledger.pull(float(value))
            elif word == "drain":
                member.drain()
            elif word == "close":
                break
    ledger.close()


if __name__ == "__main__":
    main()
