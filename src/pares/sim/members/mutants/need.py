"""Mutants of reading by need: what wakes whom, what a stamp says, and the look before a claim (R21)."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from pares.core.claims import silence
from pares.core.claims.outbox import Outbox
from pares.core.claims.outlook import Outlook
from pares.core.claims.silence import Stopwatches, Watched
from pares.core.events import Append
from pares.core.lease import MS
from pares.core.wire.states import MemberState
from pares.ledger import Entry
from pares.runtime.driver import doorbell, logs
from pares.sim.log import Stamp
from pares.sim.members.mutants.troubles import CALMLY, FROZEN, QUIET
from pares.sim.mutant import Mutant, Patch
from pares.sim.world.logs.ledger import SimLedger


def _no_look_before_a_claim() -> list[Patch]:
    """What was known before a silence ran out is taken for what is known after it."""
    return [(Stopwatches, "seen_until", lambda self, now: now)]


def _stamped_too_early() -> list[Patch]:
    """An append is stamped with the time at which its round began, before its records were handed over."""

    def early(self: SimLedger) -> int:
        process: Any = self._process  # pyright: ignore[reportPrivateUsage]
        return process.stopwatch.read(process.world.task().waited_at)

    return [(SimLedger, "_stamp", early)]


def _any_stamp_will_do() -> list[Patch]:
    """A stamp is believed whatever stopwatch it was read from: of another boot, or of another time namespace."""

    def trusting(self: SimLedger, stamp: Stamp | None) -> int | None:
        return None if stamp is None else stamp[1]

    return [(SimLedger, "_shared", trusting)]


def _come_before_it_was_sent() -> list[Patch]:
    """A record is noted with the time of a quarter of a second before it came."""
    came = SimLedger._came  # pyright: ignore[reportPrivateUsage]

    def early(self: SimLedger, partition: int, entry: Entry) -> int | None:
        at = came(self, partition, entry)
        return None if at is None else at - 250 * MS

    return [(SimLedger, "_came", early)]


def _arrival_for_a_stamp() -> list[Patch]:
    """What has come is out-waited for a lease alone."""
    out_waited = Stopwatches._out_waited  # pyright: ignore[reportPrivateUsage]

    heard = Watched.heard

    def shorter(self: Stopwatches, holder: MemberState, had_at: int, stamp: int | None) -> int:
        return out_waited(self, holder, had_at, had_at if stamp is None else stamp)

    def like_a_stamp(self: Watched, member: MemberState, now: int, stamp: int | None, came: int | None) -> None:
        heard(self, member, now, stamp, came)
        self.silent_at = self.at + self.shared

    return [(Stopwatches, "_out_waited", shorter), (Watched, "heard", like_a_stamp)]


def _arrivals_unread() -> list[Patch]:
    """Arrivals are thrown away; and so it is not known either that looks are needed."""
    heard = Watched.heard

    def late(self: Watched, member: MemberState, now: int, stamp: int | None, came: int | None) -> None:
        heard(self, member, now, stamp, None)
        self.dated = True

    return [(Watched, "heard", late)]


def _waits_less_than_the_lease() -> list[Patch]:
    """Half of the lease after the stamp of its last record a holder is challenged."""
    whole = silence.shared_ns
    return [(silence, "shared_ns", lambda session_ms, drift: whole(session_ms, drift) // 2)]


def _all_are(urgent: bool) -> list[Patch]:
    flush = Outbox.flush

    def flushed(self: Outbox, now: int) -> Append | None:
        append = flush(self, now)
        return None if append is None else msgspec.structs.replace(append, urgent=urgent)

    return [(Outbox, "flush", flushed)]


def _nothing_is_urgent() -> list[Patch]:
    """Releases and transfers wake nobody."""
    return _all_are(False)


def _everything_is_urgent() -> list[Patch]:
    """Beats wake everybody."""
    return _all_are(True)


SHARED: Final[dict[str, Any]] = {"stamps": True, "machines": 1, "members": 3}
NOTED: Final[dict[str, Any]] = {"stamps": False, "arrivals": True, "members": 3}
PROMPT: Final[dict[str, Any]] = {
    **QUIET,
    **SHARED,
    "bells": True,
    "seats": 1,
    "session_ms": 1000,
    "starving": 0.0,
    "storm": 2.0,
    "weather": {
        **CALMLY,
        **dict.fromkeys(("send", "ack", "read"), (MS // 10, MS // 2)),
        "lag": 0,
        "late_by": (0, 0),
        "slow_by": (0, 0),
        "timeout": 500 * MS,
    },
}
"""Everything takes a moment, so that it shows what had to be waited for."""


def _part_for_the_whole() -> list[Patch]:
    """What a read has not brought is taken for not there, though the ledger promises no whole reads."""
    fetcher = logs.fetcher

    def trusting(ledger: Any) -> Any:
        fetch = fetcher(ledger)
        return lambda *place: (*fetch(*place)[:2], True)

    return [(logs, "fetcher", trusting)]


def _reads_for_beats_only() -> list[Patch]:
    """Members of a large group read when their own beats are due, and standbys' seldom are. (A look for a bell that has failed
    would do for those that the core asks for.)"""
    patience = doorbell.Polling.patience

    def trusting(self: doorbell.Polling, session_ms: int, *, unread: bool = False) -> float:
        return 60.0 if self.trusted and not unread else patience(self, session_ms, unread=unread)

    return [(Outlook, "reads_at", lambda self: []), (doorbell.Polling, "patience", trusting)]


NEED: Final = (
    Mutant(
        "no-look-before-a-claim",
        "R21",
        "a claim is not preceded by a look that began after the silence",
        _no_look_before_a_claim,
        {**SHARED, "faults": {"deaf": 1.0}, "acts": {}, "pace": 1.5},
    ),
    Mutant(
        "stamped-too-early",
        "R21",
        "an append is stamped before its records are handed over",
        _stamped_too_early,
        {**FROZEN, **SHARED},
    ),
    Mutant(
        "any-stamp-will-do",
        "R21",
        "a stamp of another boot or time namespace is believed",
        _any_stamp_will_do,
        {**QUIET, **SHARED, "machines": 2},
    ),
    Mutant(
        "waits-less-than-the-lease",
        "R21",
        "a holder is challenged before the lease after its stamp is over",
        _waits_less_than_the_lease,
        {**FROZEN, **SHARED},
    ),
    Mutant(
        "come-before-it-was-sent",
        "R21",
        "a record is noted as if it had come before its append began",
        _come_before_it_was_sent,
        {**FROZEN, **NOTED},
    ),
    Mutant(
        "arrival-for-a-stamp",
        "R21",
        "an arrival is out-waited like a stamp, though holder and challenger have stopwatches of their own",
        _arrival_for_a_stamp,
        {**FROZEN, **NOTED, "drift": 0.1},
    ),
    Mutant(
        "arrivals-unread",
        "R21",
        "silence counts from the reading, though no beat wakes a reader",
        _arrivals_unread,
        {
            **PROMPT,
            **NOTED,
            "proof": False,
            "sessions": (1000,) * 3,
            "roles": 1,
            "calm": 40.0,
            "faults": {"crash": 1.0},
        },
    ),
    Mutant(
        "nothing-is-urgent",
        "R21",
        "an urgent record wakes nobody",
        _nothing_is_urgent,
        {**PROMPT, "sessions": (1000,) * 3, "roles": 3, "calm": 16.0},
    ),
    Mutant(
        "everything-is-urgent",
        "R21",
        "beats wake everybody",
        _everything_is_urgent,
        {**PROMPT, "members": 6, "roles": 6, "sessions": (1000,) * 6, "calm": 20.0},
    ),
    Mutant(
        "part-for-whole",
        "R21",
        "a read that brought something is taken for one that came to the end",
        _part_for_the_whole,
        {"weather": {"part": 1.0}, "stamps": False, "faults": {"crash": 1.0}, "members": 6, "drift": 0.0, "pace": 1.0},
    ),
    Mutant(
        "reads-for-beats-only",
        "R21",
        "a standby of a large group hears of holders' beats only when its own is due",
        _reads_for_beats_only,
        {
            **PROMPT,
            "stamps": False,
            "proof": False,
            "scale": {"eager": 1},
            "sessions": (1000,) * 3,
            "roles": 1,
            "calm": 40.0,
        },
    ),
)
