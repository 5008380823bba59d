"""ALLCALL over a bus.

Messages come on the bus' own task, and wait for the driver's. A call that can't be sent is not kept (H16): the next beat says
the same, if it is still true. A publish that is stuck costs only speed: every check of a belief looks at the stopwatch, and
needs no task.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final

from pares.core import events as ev
from pares.core.allcall.config import Settings
from pares.core.allcall.protocol import AllCall
from pares.core.errors import CapabilityError, ClosedError, ForkedError
from pares.core.reasons import DRAINED
from pares.core.wire.changes import MemberJoined, MemberLeft
from pares.ledger import Bus, Reconnecting
from pares.runtime.driver.binding import Binding
from pares.runtime.driver.inbox import Inbox
from pares.runtime.driver.lifecycle import Life
from pares.runtime.host import Bells, Host

MOST: Final = 65_536
"""The most messages that wait for the driver; more are lost, as on any bus."""
AT_ONCE: Final = 1000
"""The most messages that are taken in one round."""
MAX_REPORTS: Final = 1000


def name_of(member: str) -> str:
    """The name in a member id (`name~incarnation`)."""
    return member.rpartition("~")[0] or member


class Calls:
    """The messages that were heard: see `driver.binding.Source`."""

    proves_reach = False

    def __init__(self, bells: Bells, host: Host) -> None:
        self._bells = bells
        self._host = host
        self.waiting: deque[bytes] = deque()
        self.lost_count = 0
        """How many messages were lost because this member was too slow."""
        self.read_at = self.heard = host.now()
        """`heard`: what came before this was taken."""

    def hear(self, payload: bytes) -> None:
        """On the bus' task."""
        if len(self.waiting) < MOST:
            self.waiting.append(payload)
            self._bells.ring()
        else:
            self.lost_count += 1

    def new(self) -> Iterator[tuple[Any, int | None]]:
        began, count = self._host.now(), len(self.waiting)
        for _ in range(min(count, AT_ONCE)):
            payload = self.waiting.popleft()
            self.read_at = self._host.now()
            yield ev.Received(payload, self._host.wall_us()), None
        if count <= AT_ONCE:
            self.heard = began

    def lost(self) -> None:
        """Nothing follows: a bus keeps nothing, so there is no log that could have been replaced."""

    def begin_anew(self) -> None:
        """Never called: a member of ALLCALL has one incarnation."""


class AllCallBinding(Binding):
    """See `driver.binding.Binding`."""

    def __init__(self, bus: Bus, settings: Settings, inbox: Inbox, life: Life, host: Host, *, away: bool) -> None:
        self.settings = settings
        self._bus = bus
        self._life = life
        self._host = host
        self._drained = False
        """Whether the user has drained this member, as the driver has heard; nothing takes it back."""
        self._told_live = False
        self._reported: set[str] = set()
        self._reconnecting = bus if isinstance(bus, Reconnecting) else None
        self._epoch = self._bus_epoch()
        self.since: dict[str, float] = {}
        """By role: the wall-clock seconds at which this member heard of its present leader."""
        self.core = AllCall(settings, host.now(), host.wall_us())
        if away:
            inbox.put(ev.Ready(False))
        self.bells = host.bells(None)
        self.source = self.calls = Calls(self.bells, host)
        try:
            # A group's name is its subject.
            self._stop_listening = bus.listen(settings.group, self.calls.hear)
        except BaseException:
            self.bells.close()
            raise

    @property
    def me(self) -> str:
        return self.settings.id

    def now(self) -> int:
        return self._host.now()

    @property
    def settled(self) -> bool:
        return not self.calls.waiting and not self.core.giving

    # From the user's tasks -------------------------------------------------------------------------------------------

    def ask(self, event: ev.Event) -> ev.Event | None:
        """Raises `CapabilityError` for what ALLCALL does not have."""
        if isinstance(event, ev.Declare):
            raise CapabilityError(
                "add_role and remove_role are not in protocol 'allcall': a member may lead the roles that it is made with; "
                "close it and make another, or use protocol='claims'"
            )
        return event if isinstance(event, ev.HandOver | ev.Ask | ev.Ready | ev.StepDown | ev.Close) else None

    # On the driver's task ----------------------------------------------------------------------------------------------

    def patience(self, now: int) -> float | None:
        return 0.0 if self.calls.waiting else None

    def look(self, *, thoroughly: bool) -> Sequence[ev.Event]:
        """Whether messages may have been missed, by the bus' own count of its connections."""
        if not self.core.live:
            self.calls.read_at = self._host.now()  # a member that has not called yet may rightly hear nothing
        epoch = self._bus_epoch()
        if not epoch or epoch == self._epoch:
            return ()
        self._epoch = epoch
        return [ev.Reconnected()]

    def _bus_epoch(self) -> int:
        """The number of the bus' connection; 0 while there is none, or if the bus does not count connections."""
        return 0 if self._reconnecting is None else self._reconnecting.epoch

    def hears(self, event: Any) -> Sequence[ev.Event]:
        """A request of the user, as events that the protocol knows."""
        match event:
            case ev.WorkOver() | ev.Lapsed() | ev.StepDown() | ev.Close():
                return [event]
            case ev.HandOver(role) if self._life.beliefs.valid(role) is not None:
                return [event]
            case ev.Ask():
                self._drained = True
                return [ev.StepDown(None, DRAINED), ev.Ready(False)]
            case ev.Ready() if not self._drained:
                return [event]
            case _:
                return []

    def step(self, event: ev.Event, now: int) -> Sequence[Any]:
        if isinstance(event, ev.Tick):
            event = ev.Tick(event.wall_us, self.calls.heard)
        effects = self.core.step(event, now)
        if self.core.live and not self._told_live:
            self._told_live = True
            return [ev.Live(), *effects]  # before the others: a member that leads is live
        return effects

    def carry(self, effect: Any) -> None:
        match effect:
            case ev.Lead(seat, _, until, "renewed"):
                self._life.carry(ev.Extend(until, (seat,)))
            case ev.Lead(seat, _, _, why):
                self._life.measures.gains(seat, why.partition(",")[0])
                self._life.measures.heard_before(seat, self.core.last_sign(seat[0]))
                self._life.carry(effect)
            case ev.LeaderChanged(role, holder):
                self._led(role, holder)
            case ev.PeerJoined(member):
                peer = self.core.peers().get(member)
                host = "" if peer is None else peer.host
                self._life.carry(ev.Moved([MemberJoined(0, member, name_of(member), host)]))
            case ev.PeerLost(member, why):
                self._life.carry(ev.Moved([MemberLeft(0, member, name_of(member), why)]))
            case ev.Report(kind, text):
                self._report(kind, text)
            case _:
                self._life.carry(effect)

    def _led(self, role: str, holder: str | None) -> None:
        if holder is None:
            self.since.pop(role, None)
        else:
            self.since[role] = self._host.wall_us() / 1e6
        self._life.beliefs.notify()

    def _report(self, kind: str, text: str) -> None:
        """Reports each text once: the cause is heard again with every call."""
        if text not in self._reported and len(self._reported) < MAX_REPORTS:
            self._reported.add(text)
            self._life.carry(ev.Report(kind, text))

    def publish(self, message: ev.Publish) -> None:
        self._bus.publish(self.settings.group, message.payload)

    # The end -------------------------------------------------------------------------------------------------------------

    def last_words(self, why: str) -> Sequence[ev.Event]:
        """None: the others wait for the lease, whatever this member says now."""
        return ()

    def close(self, *, left: bool) -> None:
        self.bells.close()
        with contextlib.suppress(ClosedError, ForkedError):  # the bus was closed first
            self._stop_listening()
