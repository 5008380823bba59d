"""Why a group that runs ALLCALL can't be steered from outside: it has no log to ask in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pares.core.errors import CapabilityError
from pares.ledger import Bus, Ledger, last_published, partition_of
from pares.runtime.detect import known
from pares.runtime.driver.kit import Steers
from pares.runtime.host import Host

LISTEN: Final = 2.5
"""Seconds: two beats and a half of ALLCALL's usual heartbeat."""


def steer(ledger: Ledger, group: str, name: str | None, host: Host, again: Callable[[str], Steers]) -> None:
    """See `driver.kit.Steerer`. Raises `CapabilityError` if the log has nothing of `group`, and the ledger's bus carries, or
    carried once, ALLCALL's calls of that name. A ledger that is a bus itself keeps nothing: it is listened to for `LISTEN`
    seconds."""
    partition = partition_of(ledger.url)
    if known(ledger, group, partition):
        return
    if isinstance(ledger, Bus):
        heard = host.flag()
        stop = ledger.listen(group, lambda _: heard.set())
        heard.wait(LISTEN)
        stop()
        said = "members of it were heard just now" if heard.is_set() else ""
    else:
        last = last_published(ledger, group)
        said = "" if last is None else f"a member of it called {max(0.0, host.wall_us() / 1e6 - last / 1000):.0f} s ago"
    if said:
        raise CapabilityError(
            f"group {group!r} runs 'allcall' on {ledger.url} ({said}): it has no log to ask in, so nobody can steer it."
            " Call drain(), step_down() or hand_over() of its members, or close them. A group that runs another protocol needs "
            "another name"
        )
