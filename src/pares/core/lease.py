"""How long a holder may believe, and how long a challenger must wait (R3, R4).

Let k be the holder's last counted record before a successful claim. The holder believes until

    s + L,    L = session * (1 - drift) / (1 + drift) - margin

where s is when it first handed k over for sending, by its own stopwatch. The challenger claims only after a session has run
on *its* stopwatch since it read k. It read k after k was sent; L on a clock that is slow by `drift` takes at most
L / (1 - drift) of true time, a session on a clock that is fast by `drift` at least session / (1 + drift); so the belief ends
before the claim is sent. No clock was compared with another, only rates are assumed to be within `drift` of true time.

**On one stopwatch (R21).** Where holder and challenger share a stopwatch (one host, one boot, one time namespace), the ledger
stamps each append with it. The stamp of k is read within the append, so it is never before s. The challenger waits, on that
same stopwatch, until the stamp plus L without its margin: no rate comes in, as there is one clock, and drift is subtracted
only because the holder subtracts it, too. A belief rests on s of a record that was read back and that counted, and k is the
last of these before the claim; numbers and times of sending grow together, so no other belief lasts longer than s + L. So
the belief has ended before the claim is sent, however late k was read. A record that the holder sent after k stands
before the claim, which then fails by its compare, or behind it, and then the holder reads the claim first: as without
stamps. So reading late costs no safety and, on one host, no time.

**By arrivals (R21).** Where a ledger notes when k had come to the challenger's process, the session may run from then in place
of from the reading: k had come after it was sent, and that is all that the argument above asks of the reading. The holder's
stopwatch is another one, so the whole session is waited for, as without.

What breaks without it: a stamp that is taken before s, or believed though it is another clock's, ends the wait before the
belief; counting from when k was *read* adds the whole delay of the log to the belief; a retry that renews s
does the same for an append that had landed all along; a record that only its sender takes for accepted prolongs a belief
that no challenger knows about.
"""

from __future__ import annotations

from typing import Final

MS: Final = 1_000_000
"""Nanoseconds in a millisecond."""
MAX_MARGIN: Final = 2 * MS


def margin_ns(session_ms: int) -> int:
    """What a belief ends earlier than it need, for the time between reading the clock and acting on it."""
    return min(MAX_MARGIN, session_ms * MS // 20)


def shared_ns(session_ms: int, drift: float) -> int:
    """How long a challenger that shares its stopwatch waits for a silent holder, from the stamp of its last record on: its
    whole lease, whatever the margin (R21)."""
    return int(session_ms * MS * (1 - drift) / (1 + drift)) + 1


def lease_ns(session_ms: int, drift: float, overlap_ms: int = 0) -> int:
    """L: how long one may believe after handing over a record that counted (R4); `overlap` prolongs it (non-exclusive)."""
    return int(session_ms * MS * (1 - drift) / (1 + drift)) - margin_ns(session_ms) + overlap_ms * MS


def challenge_ns(session_ms: int, holder_drift: float, own_drift: float) -> int:
    """How long a challenger's stopwatch must run for a silent holder (R3).

    The holder's lease allows for clocks as bad as its own `drift`; a challenger that grants itself more waits longer.
    """
    return int(session_ms * MS * max(1.0, (1 + own_drift) / (1 + holder_drift))) + 1


class Sent:
    """The records that this incarnation handed over, until a later one has been read back.

    Number, content and time are fixed before the first append, and never change (R4).
    """

    __slots__ = ("_past", "_records", "counted", "n")

    def __init__(self) -> None:
        self.n = 0
        """The last number used."""
        self._past = 0
        """Records up to this number are of a log that is no more: they may stand in the one after it, or not."""
        self._records: dict[int, tuple[int, bytes]] = {}
        self.counted: int | None = None
        """When the newest record that was read back, and counted, was handed over; None before the first."""

    def next_number(self) -> int:
        self.n += 1
        return self.n

    def hand_over(self, n: int, payload: bytes, now: int) -> None:
        """`payload` is about to be appended for the first time."""
        self._records[n] = (now, payload)

    def read_back(self, n: int, payload: bytes) -> bool:
        """The record `n` of this id has been read, and counted. False: this incarnation never wrote it (R8)."""
        if n <= self._past:
            return True
        sent = self._records.get(n)
        if sent is None or sent[1] != payload:
            return False
        self.counted = sent[0]
        for old in [k for k in self._records if k < n]:
            del self._records[old]
        return True

    def forget_after(self, n: int) -> None:
        """The records after `n` are not in the log and never will be."""
        for later in [k for k in self._records if k > n]:
            del self._records[later]

    def forget_log(self) -> None:
        """It is another log from here on, or the same one without its tail: what was handed over before is proof of nothing."""
        self._past, self.counted = self.n, None
        self._records.clear()
