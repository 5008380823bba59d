"""When a member speaks, and from when on it may claim.

H12  For the first `lease + skew` a member does not call and claims nothing, as it may have forgotten a live claim. It answers
     calls, and says that it may not be elected; where no member calls, it says so once a beat all the same, for observers. A
     live claim that it hears ends the silence, and the bar for that role.
H14  An answer goes to all, and a member answers at most once in half a beat: so messages grow with the square of the number of
     members, and not with the cube.
H17  Before a member claims anything, all others have had a beat's time to answer its call; so also after it stood still.
"""

from __future__ import annotations

from pares.core.allcall.config import Settings
from pares.core.allcall.messages import Phase
from pares.core.lease import MS


class Turns:
    """One member's silence, its beats and its answers."""

    def __init__(self, settings: Settings, now: int) -> None:
        self.begun = False
        """Whether it has called."""
        self._beat = settings.heartbeat_ms * MS
        self._first_gap = settings.start_offset_ms * MS or self._beat
        init = settings.lease_ms + settings.skew_ms if settings.init_ms is None else settings.init_ms
        self._silent_until = self._barred_until = now + init * MS
        self._next_ping = self._silent_until
        self._first_ping: int | None = None
        """When it began to call; None before that, and while it has to listen anew."""
        self._answer_at: int | None = None
        self._answered = now - self._beat
        self._unbarred: set[str] = set()
        """Roles of which a live claim was heard (H12)."""

    # Whether it may --------------------------------------------------------------------------------------------------

    def silent(self, now: int) -> bool:
        return now < self._silent_until

    def phase(self, now: int) -> Phase:
        """What it says of itself."""
        return "init" if self._first_ping is None or self.silent(now) else "ping"

    def may_elect(self, role: str, now: int) -> bool:
        """Whether it may be elected for the role: not while it may have forgotten a claim to it (H12)."""
        return role in self._unbarred or now >= self._barred_until

    def calls_since(self, so_long: int, now: int) -> bool:
        """Whether its first call was at least `so_long` (ns) ago."""
        return self._first_ping is not None and now >= self._first_ping + so_long

    # What happens ----------------------------------------------------------------------------------------------------

    def heard_of(self, role: str, now: int) -> None:
        """A live claim was heard: it tells what may have been forgotten about that role, so the silence ends (H12)."""
        self._unbarred.add(role)
        if self.silent(now):
            self._silent_until = self._next_ping = now

    def asked(self, now: int) -> None:
        """Another member has called: an answer is due."""
        if self._answer_at is None:
            self._answer_at = max(now, self._answered + self._beat // 2)

    def listen_first(self, now: int) -> None:
        """Has the member call next, and claim nothing for a beat after that."""
        if self._first_ping is not None:
            self._first_ping, self._next_ping = None, now

    # Its turns -------------------------------------------------------------------------------------------------------

    def to_call(self, now: int) -> bool:
        """Whether a beat is due; the next one is due a beat later."""
        if self.silent(now) or now < self._next_ping:
            return False
        if self._first_ping is None:
            self._first_ping, self._next_ping = now, now + self._first_gap
        else:
            self._next_ping = max(self._next_ping + self._beat, now + self._beat // 2)
        self.begun = True
        return True

    def to_answer(self, now: int) -> bool:
        if self._answer_at is not None and now >= self._answer_at:
            return True
        return self.silent(now) and now >= self._answered + self._beat

    def said(self, now: int, *, answer: bool) -> None:
        """A message was sent. A call also answers."""
        if answer or self._answer_at is not None:
            self._answer_at, self._answered = None, now

    def moments(self) -> list[int]:
        """The next times at which it is to speak, or may claim what it may not now."""
        moments = [self._barred_until]
        if self._first_ping is None:
            moments.append(max(self._next_ping, self._silent_until))
        else:
            moments += [self._next_ping, self._first_ping + self._beat]
        return moments if self._answer_at is None else [*moments, self._answer_at]
