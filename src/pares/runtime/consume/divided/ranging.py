"""How the feeder works through a slot's ranges (C11): where it may fetch, and when another range is claimed.

Of the slots of a partition that a consumer has, the first one claims ranges; the others are worked off, as they came from
consumers that are gone. So a consumer reads a partition in as few places as it can, and claims as seldom.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from pares.core import events as ev
from pares.core.consume.ranging import Ranges, Sizes
from pares.core.errors import LedgerRewound
from pares.core.wire.divided.ranges import frontier, slots
from pares.core.wire.world import World
from pares.ledger.sources import Fetched
from pares.runtime.consume.kit import Seated
from pares.runtime.consume.settings import Settings
from pares.runtime.consume.tenancy import Tenancy
from pares.runtime.host import Host

LOOK: Final = 50_000_000
"""Nanoseconds between two looks whether the partition has grown up to a range that was claimed ahead of its end."""


class Ranging:
    """Of one consumer; called by its feeder alone. `skip`: passes over offsets of a tenancy that are not its own."""

    def __init__(self, settings: Settings, skip: Callable[[Tenancy, int], None], host: Host) -> None:
        self._settings = settings
        self._skip = skip
        self._host = host
        self._sizes: dict[str, Sizes] = {}
        """By the role of the partition."""
        self._asked: dict[str, int] = {}
        """When a range was asked for, by the role of the slot: one that did not come in a session is asked for again."""
        self._look_at: dict[str, int] = {}
        self.member: Seated

    def owns(self, tenancy: Tenancy | None, owns: ev.Owns) -> None:
        """By the protocol: what the log has given to a slot by now."""
        if tenancy is None or tenancy.ranges is None or tenancy.term.token != owns.token:
            return
        self._asked.pop(tenancy.role, None)
        tenancy.ranges.owns(owns.runs, tenancy.progress.position)

    def upto(self, tenancy: Tenancy, all: Iterable[Tenancy]) -> int | None:
        """Up to where it may fetch from its place; None: nothing now. Moves its place to the next range, if it has come to the
        end of one. Raises what the source raises, and `LedgerRewound` if the partition ends before what was read of it."""
        ranges, progress = tenancy.ranges, tenancy.progress
        assert ranges is not None, "asked for slots only"
        sizes = self._sizes.setdefault(tenancy.partition.whole.role, Sizes(self._settings.session))
        if ranges.few(tenancy.to_give, progress.next, sizes.size) and self._claims(tenancy, all):
            self._ask(tenancy, sizes)
        run = ranges.at(progress.next)
        if run is None:
            return None
        if run[0] > progress.next:
            self._skip(tenancy, run[0])
        if progress.next > tenancy.end and not self._grown(tenancy):
            sizes.idle()
            return None
        if progress.next == tenancy.end:
            sizes.idle()
        return run[1]

    def _grown(self, tenancy: Tenancy) -> bool:
        """Whether the partition reaches to where it is by now."""
        now = self._host.now()
        if now < self._look_at.get(tenancy.role, 0):
            return False
        self._look_at[tenancy.role] = now + LOOK
        before, tenancy.end = tenancy.end, tenancy.source.end(tenancy.partition.number)
        if tenancy.end < before:
            raise LedgerRewound(f"{tenancy.role} ended at {before} and ends at {tenancy.end}")
        return tenancy.progress.next <= tenancy.end

    def are_ahead(self, tenancy: Tenancy) -> bool:
        """Whether a consumer of the whole partition begins behind ranges that were claimed ahead of its end: it waits until
        the partition has grown up to there."""
        world, whole = self.member.world, tenancy.partition.whole.role
        ends = (runs[-1][1] for slot in slots(world, whole) if (runs := world.ranges.get(slot.seat)))
        return tenancy.ranges is None and tenancy.progress.next <= max(ends, default=-1)

    def _claims(self, tenancy: Tenancy, all: Iterable[Tenancy]) -> bool:
        """Whether it is the slot that claims ranges, of those that this consumer has of its partition. None is when
        their terms have ended since this round began."""
        whole = tenancy.partition.whole
        mine = (
            other.partition
            for other in all
            if other.partition.whole == whole and other.ranges is not None and other.term
        )
        return tenancy.partition == min(mine, default=None)

    def _ask(self, tenancy: Tenancy, sizes: Sizes) -> None:
        now, role = self._host.now(), tenancy.role
        asked = self._asked.get(role)
        if asked is not None and now < asked + self._settings.session:
            return
        world = self.member.world
        whole = world.seats.get((tenancy.partition.whole.role, 0))
        if whole is None:
            return
        if whole.holder is not None:
            self.member.problem(
                "mixed", f"{whole.role} is held as a whole by {whole.holder}: no ranges of it can be claimed"
            )
        over, to = frontier(world, whole), 0
        if not tenancy.looked:
            to = self._where(tenancy, whole.role, over)
            if tenancy.broken:
                return
            tenancy.looked = True
        self._asked[role] = now
        assert tenancy.ranges is not None, "asked for slots only"
        count = sizes.claims(now) if asked is None else sizes.size
        self.member.request(ev.Wants((role, 0), tenancy.term.token, tenancy.ranges.end, count, over, max(to, over)))

    def _where(self, tenancy: Tenancy, whole: str, over: int) -> int:
        """Where the next range of the partition begins, if not at `over`, where its ranges end: behind what `start` leaves out,
        and what retention has taken away (C8)."""
        number, settings = tenancy.partition.number, self._settings
        start, fresh = tenancy.source.start(number), over == 0 and tenancy.first
        if fresh and settings.start == "latest":
            return tenancy.source.end(number)
        lost = start > over and not fresh
        if lost and settings.on_gap == "stop":
            tenancy.broken = True
            self.member.problem(
                "gap",
                f"{whole} has lost {over} to {start - 1} before they were claimed, and stands still until it is rewound "
                "(on_gap='stop')",
            )
            return over
        if start > over:
            self.member.problem("gap", f"{whole} has lost {over} to {start - 1} before they were claimed")
        if settings.on_gap != "latest":
            return start
        to, tenancy.to = tenancy.source.end(number) if lost else tenancy.to, 0
        if to > max(start, over):
            says = f"{whole} leaves out {max(start, over)} to {to - 1} (on_gap='latest')"
            self.member.problem("gap", says)
        return max(start, to)

    def gap(self, tenancy: Tenancy, to: int) -> int:
        """Where to go on when retention has taken away what stands there: at `to`, but no further than at the end of the
        range. The next range begins there, too, if it was not claimed yet."""
        assert tenancy.ranges is not None, "asked for slots only"
        tenancy.to = to
        run = tenancy.ranges.at(tenancy.progress.next)
        return to if run is None else min(to, run[1])


def lags_of_slot(world: World, tenancy: Tenancy) -> tuple[int, int]:
    """How many offsets of its partition no slot has claimed yet, and how many of its own are not done. By what the log says,
    and in this order: so what is claimed meanwhile counts in one of them. [a range that its feeder was not told of counts in
    neither, and a partition seems to be worked off]"""
    whole = world.seats.get((tenancy.partition.whole.role, 0))
    free = max(0, tenancy.end - (0 if whole is None else frontier(world, whole)))
    return free, tenancy.lag_of(Ranges(world.ranges.get((tenancy.role, 0), ())))


def clipped(fetched: Fetched, upto: int) -> Fetched:
    """Of what was fetched, that before `upto`."""
    if fetched.next <= upto:
        return fetched
    return Fetched(tuple(record for record in fetched.records if record.offset < upto), upto)
