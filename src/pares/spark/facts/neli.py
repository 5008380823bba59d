"""The facts of a group that runs NELI or Fast NELI: the same rows that `fold` makes for the claims protocol.

What differs is what the log can prove. There a claim makes the holder at its offset; here a tenure is announced, and its owner
says when it leads and when no longer (`core.neli.history`). So a term begins in the log with its announcement (before which its
owner can't have believed), and ends with its `yield`, or with the announcement of the next leader. Beliefs are
exact where their owner told of them, by its clock; where it died or was cut off, `until_ms` bounds them by the broker's.

Each partition of the log is folded by itself: a role and all of its records belong to one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pares.core.neli.history import Came, Chronicle, Happening, Known, Led, Over, Sender, Tenancy, Went
from pares.core.reasons import ROLE_REMOVED
from pares.core.wire.neli_records import decode
from pares.core.wire.records import BadRecord, Seat
from pares.spark.facts.base import Fact
from pares.spark.facts.claims import KEPT_PAYLOAD, EntryLike

CAUSES: Final = {
    "yield": "release",
    "handover": "transfer",
    "superseded": "superseded",
    "anew": "release",
    "silent": "claim",
    "removed": "release",
}
"""How a term ended, in the words of the facts: kinds of records of the claims protocol where they say the same."""
INDUCED: Final = "induced"


class TenureHistory:
    """Turns the entries of one partition into the facts of one group. A function of the entries alone."""

    def __init__(self, group: str, partition: int, start: int = 0) -> None:
        self._chronicle = Chronicle(group, partition, start)
        self._facts: list[Fact] = []

    def feed(self, entries: Iterable[EntryLike]) -> list[Fact]:
        """The facts that follow from `entries`, which come right after those fed before."""
        for entry in entries:
            try:
                decode(entry[2])
            except BadRecord as bad:
                payload = bytes(entry[2][:KEPT_PAYLOAD])
                self._facts.append(Fact("bad", entry[0], entry[1], cause=bad.reason, payload=payload))
            for happening in self._chronicle.feed(entry):
                self._take(happening, entry[0])
        return self._drain()

    def finish(self) -> list[Fact]:
        """What can be said only at the end of the log, as it is now; feeding may go on afterwards."""
        chronicle = self._chronicle
        for happening in chronicle.finish():
            self._take(happening, chronicle.track.position)
        for seat, tenancy in chronicle.open():
            self._facts.append(self._of("held", seat, tenancy, clock_ms=tenancy.said_ms, until_ms=_until(tenancy)))
        for sender in chronicle.senders.values():
            # No offset: those of several partitions can't be compared.
            self._facts.append(Fact("seen", member=sender.id, clock_ms=sender.last_ms))
        if chronicle.first is not None and chronicle.last is not None:
            self._facts.append(Fact("first", *chronicle.first, token=chronicle.floor))
            self._facts.append(Fact("last", *chronicle.last, cause=INDUCED))
        return self._drain()

    def _drain(self) -> list[Fact]:
        facts, self._facts = self._facts, []
        return facts

    def _take(self, happening: Happening, at: int) -> None:
        match happening:
            case Known(sender):
                self._facts.append(_member(sender))
            case Came((role, seat), offset, at_ms):
                self._facts.append(Fact("opened", offset, at_ms, role, seat))
            case Went((role, seat), offset, at_ms):
                self._facts.append(Fact("shut", offset, at_ms, role, seat))
            case Led():
                self._led(happening)
            case Over():
                self._over(happening, at)

    def _led(self, led: Led) -> None:
        tenancy = led.tenancy
        began = "announce" if tenancy.whole else "snapshot"
        self._facts.append(self._of("gained", led.seat, tenancy, tenancy.offset, tenancy.announced_ms, cause=began))
        if led.at_ms is not None:
            self._facts.append(self._of("lead", led.seat, tenancy, led.offset, led.stamp_ms, clock_ms=led.at_ms))

    def _over(self, over: Over, at: int) -> None:
        tenancy, why = over.tenancy, ROLE_REMOVED if over.cause == "removed" else over.why
        if over.ended_ms is not None:
            stop = self._of("stop", over.seat, tenancy, at, over.stamp_ms, clock_ms=over.ended_ms, why=why)
            self._facts.append(stop)
        lost = self._of("lost", over.seat, tenancy, over.offset, over.stamp_ms, cause=CAUSES[over.cause], why=why)
        lost = lost._replace(other=over.by, clock_ms=tenancy.said_ms, until_ms=_until(tenancy))
        self._facts.append(lost._replace(name=tenancy.heir_member or None))

    def _of(
        self,
        kind: str,
        seat: Seat,
        tenancy: Tenancy,
        offset: int | None = None,
        at_ms: int | None = None,
        *,
        clock_ms: int | None = None,
        until_ms: int | None = None,
        cause: str | None = None,
        why: str | None = None,
    ) -> Fact:
        member = tenancy.member
        fact = Fact(kind, offset, at_ms, *seat, tenancy.token, member, member, clock_ms, cause, why)
        return fact._replace(until_ms=until_ms)


def _until(tenancy: Tenancy) -> int:
    """By when its belief was over, if its owner kept to the rules; or when it said for the last time that it led, if not."""
    return max(tenancy.until_ms, tenancy.said_ms)


def _member(sender: Sender) -> Fact:
    fact = Fact("member", sender.first, sender.first_ms, member=sender.id, name=sender.name, host=sender.host)
    # Until it has announced anything, nothing is known of its session.
    session = sender.session_ms or None
    return fact._replace(session_ms=session, drift=sender.drift, overlap_ms=sender.overlap_ms)


def history(group: str, partition: int, entries: Iterable[EntryLike], start: int = 0) -> list[Fact]:
    """All facts of `entries`, which begin at `start`, in plain Python: what Spark runs, without Spark."""
    folding = TenureHistory(group, partition, start)
    return [*folding.feed(entries), *folding.finish()]
