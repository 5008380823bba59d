"""NELI, NELE and Fast NELI on the partitions of a log; a second task keeps the member's place in the group (`assignment`)."""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from pares.core import events as ev
from pares.core.errors import ClosedError, LedgerGap, LedgerRewound, LedgerUnavailable
from pares.core.neli.classic import Neli
from pares.core.neli.config import Config
from pares.core.neli.fast import Fast
from pares.core.neli.induced import SILENT, Induced
from pares.core.neli.phases import BELIEVING, STANDING
from pares.core.neli.protocols import MODES
from pares.core.reasons import STEPPED_DOWN
from pares.ledger import Entry, Ledger, ManyAtOnce
from pares.ledger.retention import Trimming
from pares.runtime.driver.answers import Answer
from pares.runtime.driver.binding import Binding
from pares.runtime.driver.inbox import Inbox
from pares.runtime.driver.lifecycle import Life
from pares.runtime.driver.logs import CHUNK, Logs, Times, appender, urgently
from pares.runtime.host import Host
from pares.runtime.neli.assignment import GRACE, Assignment, Callbacks, Join
from pares.runtime.neli.claims_group import ClaimsMembership
from pares.runtime.neli.idle import group_members, uneven
from pares.runtime.neli.settings import check_barrier

log: Final = logging.getLogger("pares.member")

Make = Callable[[float, int], tuple[str, Config]]
"""The protocol and the settings of an incarnation, for the group's bound in seconds and the largest token seen."""
SECOND: Final = 1_000_000_000
SHARES_EVERY: Final = 3
"""Between two looks at whether members or partitions are idle pass so many of the group's sessions (of a second at least)."""
ROUNDS: Final = 20
"""At most so many rounds between two of its own beats are spent on reading what others write. The more members there are, the
slower they beat, and the longer a member rests after a round."""


class NeliBinding(Binding):
    """See `driver.binding.Binding`. Making it asks to join the group."""

    def __init__(
        self,
        ledger: Ledger,
        make: Make,
        join: Join,
        inbox: Inbox,
        life: Life,
        host: Host,
        *,
        away: bool,
        native: bool = False,
    ) -> None:
        self.ledger = ledger
        self._host = host
        self._life = life
        self._make = make
        self._join = join
        self._inbox = inbox
        self._unready = away
        """Whether the user's `ready=` check last said no. Written by the readiness check alone."""
        self._drained = False
        """Set by users, on any task; nothing takes it back."""
        self._closing = False
        self.native = native
        """Whether the ledger's own service gives out the partitions, so that members can't move or pause them."""
        self._trimming = Trimming(ledger, host.now, host.wall_us)
        self._shares_at = 0
        self._looked_at_shares = False
        self._told_of_shares: set[str] = set()
        self._append_each = ledger.append_each if isinstance(ledger, ManyAtOnce) else None
        """Appends to several partitions in one call, where the ledger can: that costs as much as one append."""
        self._append = appender(ledger)
        self.bells = host.bells(ledger, range(ledger.partitions))
        try:
            self._begin(0, ())
        except BaseException:
            self.bells.close()
            raise
        self.source = Logs(ledger, self, host.now, self.core.config.session_ms)
        self.linger = 0.0 if self.core.config.exclusive else self.core.config.threshold_ms / 1000

    def _begin(self, seen: int, roles: tuple[str, ...], after: Assignment | None = None) -> None:
        """A new incarnation, which shares out as many partitions as the ledger has now. `roles`: the group's roles as the
        earlier incarnation knew them; they may belong to other partitions now."""
        hear, limit = self._inbox.put, self._life.barrier_limit + GRACE
        self._callbacks = callbacks = Callbacks(hear, limit, self._host)
        left, changed = (lambda: self._left(callbacks)), (lambda: self.bells.ring())
        wanted = lambda: not (self._unready or self._drained)  # noqa: E731
        self.assignment = Assignment(self._join, callbacks, self._life.who, wanted, left, changed, self._host, after)
        self._live: ev.Live | None = None
        """Set when the logs have been read, and carried out once the group has let this member in, too."""
        self._told: set[str] = set()
        """The reasons that the user was told why this member is not in its group."""
        try:
            protocol, config = self._make(self.assignment.bound, seen)
            if config.exclusive:
                check_barrier(self._life.barrier_limit, GRACE, self.assignment.callback_limit)
            rules = Fast if MODES[protocol].by_own_beats else Neli
            self.core = Induced(rules(replace(config, roles=roles) if seen or roles else config))
        except BaseException:
            self.assignment.give_up()
            raise
        self.partitions = range(config.partitions)

    def _left(self, callbacks: Callbacks) -> None:
        """This member has left the group for good; nothing follows if `callbacks` are an earlier incarnation's."""
        if callbacks is self._callbacks:
            self._inbox.put(ev.Close())

    # What a view and health ask --------------------------------------------------------------------------------------

    @property
    def me(self) -> str:
        return self.core.me

    def now(self) -> int:
        return self._host.now()

    @property
    def unwritten(self) -> str | None:
        """Why the group that shares the partitions out does not answer."""
        return self.assignment.unreachable

    @property
    def session_ms(self) -> int:
        return self.core.config.session_ms

    @property
    def joined(self) -> bool:
        return self.assignment.joined

    @property
    def read_back_at(self) -> int | None:
        """The time of the partition where it is longest ago; with Fast NELI, among those that this member beats in."""
        everywhere = self.core.rules.everywhere
        sent = [part.outbox.sent.counted for part in self.core.parts if everywhere or part.phase in STANDING]
        return min((at for at in sent if at is not None), default=None)

    @property
    def settled(self) -> bool:
        return self.core.settled

    @property
    def unread(self) -> bool:
        return any(not part.quiet for part in self.core.parts)

    @property
    def rest_ns(self) -> int:
        return self.core.rules.share.interval_ns // ROUNDS

    # From the user's tasks -------------------------------------------------------------------------------------------

    def ask(self, event: ev.Event) -> ev.Event | None:
        """Carries out what concerns the group that shares partitions out; what is left is an event for the protocol."""
        if isinstance(event, ev.Close):
            self._closing = True
            self.assignment.leave()
        elif isinstance(event, ev.StepDown):
            if self.native or event.role is None:
                self.assignment.stay_away(2 * self.assignment.bound)
            else:
                # It is handed over, so that it stays away: if it were given up, the next balancing would bring it back.
                self._steer().hand_over(self._number(event.role), None, event.why or STEPPED_DOWN)
        elif isinstance(event, ev.HandOver):
            to = None if event.to is None else event.to.rpartition("~")[0] or event.to
            self._steer().hand_over(self._number(event.role), to, event.why)
        elif isinstance(event, ev.PauseFor):
            self._steer().pause(None if event.scope is None else self._number(event.scope), event.ms / 1000)
        elif isinstance(event, ev.ResumeNow):
            self._steer().resume(None if event.scope is None else self._number(event.scope))
        elif isinstance(event, ev.Ready):
            self._unready = not event.ready
            self.assignment.look()
        elif isinstance(event, ev.Ask):
            self._drained = True
            self.assignment.look()
        elif isinstance(event, ev.Declare):
            return ev.ChangeRoles(drop=(event.name,)) if event.removed else ev.ChangeRoles(add=(event.name,))
        return None

    def _steer(self) -> ClaimsMembership:
        """The place in the claims group, for moves and pauses. Raises `LedgerUnavailable` while this member is out of it."""
        membership = self.assignment.membership
        if not isinstance(membership, ClaimsMembership):
            raise LedgerUnavailable(f"{self.core.me} is out of its group, and has nothing to move or to pause there")
        return membership

    def _number(self, role: str) -> int:
        """The partition of this role's seat that this member leads, or of its first one."""
        config = self.core.config
        parts = [self.core.roles.partition(role, seat) for seat in range(config.seats)]
        return next((n for n in parts if self.core.parts[n].phase in BELIEVING), parts[0])

    def read_first(self, answer: Answer) -> Answer:
        """After the partitions' logs, the log of the group that shares them out is read too: it says which members there
        are."""

        def then(done: bool) -> None:
            membership = self.assignment.membership
            if done and isinstance(membership, ClaimsMembership):
                membership.read_first(answer)
            else:
                answer(done)

        return then

    def abandon(self) -> None:
        self.assignment.stop()

    # On the driver's task ----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        self.assignment.start()

    def step(self, event: ev.Event, now: int) -> Sequence[Any]:
        self._look_at_group()
        if not isinstance(event, ev.Read):
            return self.core.step(event, now)
        sent = self.core.parts[event.partition].outbox.sent
        before, effects = sent.counted, self.core.step(event, now)
        if sent.counted is not None and sent.counted != before:
            self._life.measures.read_backs.note((self._host.now() - sent.counted) / SECOND)
        return effects

    def _look_at_group(self) -> None:
        if self.assignment.joined:
            self._told.clear()
            live, self._live = self._live, None
            if live is not None:
                self._life.carry(live)
        else:
            why = self.assignment.trouble
            if why is not None and why not in self._told:
                self._told.add(why)
                self._life.carry(ev.Report("not-in-its-group", why))

    def carry(self, effect: Any) -> None:
        if isinstance(effect, ev.Live):
            self._live = effect
        elif isinstance(effect, ev.Yielded):
            self._callbacks.yielded(effect.partition)
        else:
            if isinstance(effect, ev.Lead) and effect.why == SILENT:
                self._life.measures.gains(effect.seat, SILENT)
                self._life.measures.heard_before(effect.seat, self.core.last_sign(effect.seat))
            self._life.carry(effect)

    def batches(self, puts: list[ev.Append]) -> Iterable[list[ev.Append]]:
        return super().batches(puts) if self._append_each is None else [puts]

    def append(self, puts: list[ev.Append]) -> Sequence[int]:
        """Makes every append urgent, beats and beacons too: these protocols count silence from reading them (N8, N10)."""
        if len(puts) > 1 and self._append_each is not None:
            return self._append_each([(put.partition, put.payloads[0]) for put in puts])
        return [self._append(put, put.partition) for put in urgently(puts)]

    def after_round(self) -> None:
        self._trim()
        self._look_at_shares()

    def _look_at_shares(self) -> None:
        """Reports members or partitions without work. The first look only sets the time of the next: members need time to
        come."""
        now = self._host.now()
        if not self.core.live or self.core.closing or now < self._shares_at or not self.joined:
            return
        self._shares_at = now + SHARES_EVERY * int(max(1.0, self.assignment.bound) * SECOND)
        if not self._looked_at_shares:
            self._looked_at_shares = True
            return
        members = len(group_members(self.core, self.assignment.membership, now))
        config = self.core.config
        for kind, text in uneven(config.partitions, config.seats, len(self.core.roles.names), members):
            if kind not in self._told_of_shares:
                self._told_of_shares.add(kind)
                self._life.carry(ev.Report(kind, f"group {config.group!r}: {text}"))

    def _trim(self) -> None:
        """Trims the logs of this member's partitions by the ledger's retention; later beats say all that readers need."""
        if not self._trimming.due():
            return
        for part in self.core.parts:
            if part.phase in BELIEVING:
                with contextlib.suppress(LedgerUnavailable, LedgerRewound, LedgerGap, ClosedError):
                    self._trimming.trim(part.track.position, part.number)

    # What `logs` asks --------------------------------------------------------------------------------------------------

    @property
    def whole_will_do(self) -> bool:
        return False  # what is silent is silent since the fetch after that (N8)

    def attached(self, partition: int) -> bool:
        return self.core.parts[partition].attached

    def position(self, partition: int) -> int:
        return self.core.position(partition)

    def anchor(self, partition: int) -> tuple[int, bytes] | None:
        return self.core.parts[partition].track.anchor

    def enters(self, partition: int, start: int, end: int) -> ev.Event:
        return ev.Attached(start, end, partition)

    def heeds_silence(self, partition: int, now: int) -> bool:
        return self.core.heeds_silence(partition, now)

    def reads(
        self, partition: int, entries: list[Entry], read_at: int, began: int, times: Times
    ) -> tuple[ev.Event, int | None]:
        shown = self._host.wall_us()
        now = self._host.now()
        # The time between the looks at the two clocks is taken off the belief, for a stopwatch that may be slow.
        shown += int((now - read_at) / (1 - self.core.config.drift)) // 1000 + 1
        return ev.Read(list(entries), partition, shown), now

    def through(self, partition: int, entries: list[Entry]) -> bool:
        return not entries or (len(entries) < CHUNK and self.core.parts[partition].track.entered)

    def jumps(self, partition: int, why: str) -> ev.Event:
        return ev.Jumped(why, partition)

    # Beginning anew, and the end -----------------------------------------------------------------------------------------

    def restart(self, effect: ev.Restart, events: deque[Any]) -> None:
        self._callbacks.end()
        self.assignment.leave()
        asked = [events.popleft() for _ in range(len(events))]
        wanted, unwanted = self.core.roles.wanted(there=True), self.core.roles.wanted(there=False)
        roles = (*self.core.roles.names, *sorted(wanted - set(self.core.roles.names)))
        self._begin(self.core.writer.largest, roles, after=self.assignment)
        # Of the events that wait, only the user's own wishes hold for the new incarnation. They go before what comes from now
        # on.
        wishes = [
            ev.ChangeRoles(drop=tuple(sorted(unwanted))),
            *(event for event in asked if isinstance(event, ev.ChangeRoles)),
        ]
        events.extendleft(reversed([wish for wish in wishes if wish != ev.ChangeRoles()]))
        if self._closing:
            self.assignment.leave()
        self.assignment.start()

    def last_words(self, why: str) -> Sequence[ev.Event]:
        return [ev.Jumped(why, number) for number in range(len(self.core.parts))]

    def close(self, *, left: bool) -> None:
        self.assignment.stop()
        if not left:
            self.assignment.leave()
        self.bells.close()
