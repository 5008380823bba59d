"""What a driver is made of, as protocols: the *binding* of one protocol to its ledger, and the *source* of what it reads.

A binding holds the state machine of its protocol (`core`) and all that is particular to the protocol. The driver asks every
binding in the same order (see `loop`), and does what all have in common: waiting, reading, appending, the clock, the order in
which things end. Only values cross this seam.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from pares.core.events import Append, Event, Publish, Restart
from pares.runtime.driver.answers import Answer
from pares.runtime.host import Bells, Task


class Drives(Protocol):
    """What a member asks of its driver."""

    unreachable: str | None
    """Why the ledger is out of reach; None while it is in reach."""
    failure: BaseException | None
    each_round: Callable[[], None] | None
    """Called on the driver's task, after each of its rounds."""
    thread: Task
    """The driver's task; there from `start` on."""

    @property
    def unwritten(self) -> str | None:
        """Why this member's records don't arrive, though the ledger may be readable: the user may lack the right to write."""
        ...

    @property
    def joined(self) -> bool:
        """Whether its group has let it in (or it stays away on purpose)."""
        ...

    @property
    def read_at(self) -> int:
        """When the ledger was last read, or heard."""
        ...

    @property
    def read_back_at(self) -> int | None:
        """When the newest of its own records that was read back, and counted, was handed over; None before the first."""
        ...

    @property
    def problems(self) -> tuple[str, ...]:
        """What a person should know for as long as it lasts."""
        ...

    def start(self) -> None: ...

    def run(self) -> None:
        """Drives the member until it is over, on the task that calls: that is the driver's task from now on."""
        ...

    def request(self, event: Event, answer: Answer | None = None) -> None:
        """Hands `event` to the protocol. `answer` is called once: with True when what follows from the event stands in the log
        and was read, with False when the driver ended before that."""
        ...

    def read_first(self, answer: Answer) -> None:
        """`answer` is called with True when all that stood in the log before this call was read, or the ledger is out of reach;
        with False when the driver has ended."""
        ...

    def abandon(self) -> None:
        """Ends without leaving the group: the ledger is out of reach, or the caller has no more time."""
        ...

    def close_in_child(self) -> None: ...


class Source(Protocol):
    """Where a protocol gets what other members say: logs, or a bus."""

    @property
    def read_at(self) -> int: ...

    @property
    def proves_reach(self) -> bool:
        """Whether reading this to its end shows that the ledger is in reach."""
        ...

    def new(self) -> Iterator[tuple[Any, int | None]]:
        """Events for what is new, each with the time to judge it by (None: the time when it is handed over). Raises what the
        ledger raises."""
        ...

    def lost(self) -> None:
        """The ledger was out of reach: it may be another one afterwards."""
        ...

    def begin_anew(self) -> None:
        """From now on another incarnation reads."""
        ...


class Binding(Protocol):
    """One protocol on one ledger. Methods that have a body here are defaults."""

    bells: Bells
    source: Source

    @property
    def me(self) -> str:
        """The id of the present incarnation."""
        ...

    @property
    def session_ms(self) -> int:
        """The member's session in milliseconds: the driver's own times are in proportion to it."""
        return 1000

    @property
    def joined(self) -> bool:
        return True

    @property
    def unwritten(self) -> str | None:
        return None

    @property
    def read_back_at(self) -> int | None:
        return None

    @property
    def problems(self) -> tuple[str, ...]:
        return ()

    @property
    def settled(self) -> bool:
        """Whether everything that was asked for stands in the log and was read."""
        ...

    @property
    def at_rest(self) -> bool:
        """Whether the core needs no tick before the time that it has asked for, though the last tick wrote records that were
        read since."""
        return False

    @property
    def reads_later(self) -> bool:
        """Whether all that the core would write now depends on nothing that was not read yet. It is read back at once, with all
        that stands before it, so to read first would be for nothing."""
        return False

    @property
    def unread(self) -> bool:
        """Whether an acknowledged record was not read back yet: no bell rings for a beat (R21)."""
        return False

    @property
    def rest_ns(self) -> int:
        """Nanoseconds to rest after a round, so that the next one reads more of what others write."""
        return 0

    # From the user's tasks -------------------------------------------------------------------------------------------

    def ask(self, event: Event) -> object | None:
        """The event that the driver is to hand to the protocol for this request; None if the request is done already."""
        ...

    def read_first(self, answer: Answer) -> Answer:
        """What the driver is to call in the place of `answer` when it has read."""
        return answer

    def abandon(self) -> None:
        """Ends all waiting: the caller has no more time."""

    # On the driver's task, in the order of a round -------------------------------------------------------------------

    def begin(self) -> None:
        """Called once, when the driver begins."""

    def patience(self, now: int) -> float | None:
        """Seconds after which to call `look`, though nothing has rung; None: no need."""
        return None

    def look(self, *, thoroughly: bool) -> Sequence[Any]:
        """Events for what it notices, such as the loss of this member's lock or another member's death. Called with
        `thoroughly` before an append, which is not made if there are any."""
        return ()

    def hears(self, event: Any) -> Sequence[Any]:
        """The events that the protocol is to get for one from the inbox."""
        return [event]

    def step(self, event: Any, now: int) -> Sequence[Any]: ...

    def carry(self, effect: Any) -> None:
        """Carries out an effect that the driver does not carry out itself."""
        ...

    def batches(self, puts: list[Append]) -> Iterable[list[Append]]:
        """Divides the appends into batches, each of which is made as a whole or not at all."""
        return [[put] for put in puts]

    def append(self, puts: list[Append]) -> Sequence[int]:
        """Makes one batch. Returns the offset of the last record of each append. Raises what the ledger raises."""
        raise RuntimeError("this protocol has no log")

    def publish(self, message: Publish) -> None:
        raise RuntimeError("this protocol sends no messages")

    def after_round(self) -> None:
        """Called when a round is over: the time for tidying."""

    # Beginning anew, and the end ---------------------------------------------------------------------------------------

    def restart(self, effect: Restart, events: deque[Any]) -> None:
        """Replaces the present incarnation by a new one. `events`: those that wait for the new one, to be changed in place."""
        raise RuntimeError("this protocol has one incarnation")

    def last_words(self, why: str) -> Sequence[Any]:
        """Events by which the protocol gives up what it believes."""
        ...

    def close(self, *, left: bool) -> None: ...
