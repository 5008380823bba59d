"""What a driver is made of, as protocols: the *binding* of one protocol to its ledger, and the *source* of what it reads.

A binding holds the state machine of its protocol (`core`) and all that is particular to it. The driver asks it in the same
order whatever protocol it is (see `loop`), and carries out what all have in common: waiting, reading, appending, the clock, the
order in which things end. What crosses this seam are values.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from pares.core.events import Append, Event, Publish, Restart
from pares.runtime.driver.answers import Answer
from pares.runtime.host import Bells, Task


class Drives(Protocol):
    """What a member asks of whatever drives it."""

    unreachable: str | None
    """Why the ledger is out of reach; None while it is in reach."""
    failure: BaseException | None
    each_round: Callable[[], None] | None
    """Called on the driver's task, after each of its rounds."""
    thread: Task
    """Its own; there from `start` on."""

    @property
    def unwritten(self) -> str | None:
        """Why what this member writes does not arrive: it may be that this user can read the ledger, and not write it."""
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
        """Drives, on the task that calls, which is its own from now on; until it is over."""
        ...

    def request(self, event: Event, answer: Answer | None = None) -> None:
        """Hands `event` to the protocol. `answer` is called once what follows from it stands in the log and was read, or the
        driver has ended before."""
        ...

    def read_first(self, answer: Answer) -> None:
        """`answer` is called when everything was read that stood in the log before this call, or the ledger is out of reach;
        with False when the driver has ended."""
        ...

    def abandon(self) -> None:
        """Ends without leaving the group: the ledger is out of reach, or the caller has no more time."""
        ...

    def close_in_child(self) -> None: ...


class Source(Protocol):
    """Where a protocol hears of the others."""

    @property
    def read_at(self) -> int: ...

    @property
    def proves_reach(self) -> bool:
        """Whether the ledger is in reach when this has been read to its end."""
        ...

    def new(self) -> Iterator[tuple[Any, int | None]]:
        """What is new: events, each with the time that was read for it (None: it is read when the event is handed over).
        Raises what the ledger raises."""
        ...

    def lost(self) -> None:
        """The ledger was out of reach: what is there afterwards may be another one."""
        ...

    def begin_anew(self) -> None:
        """Another incarnation reads from now on."""
        ...


class Binding(Protocol):
    """One protocol on one ledger. What has a body here is so unless a binding says otherwise."""

    bells: Bells
    source: Source

    @property
    def me(self) -> str:
        """The id of the present incarnation."""
        ...

    @property
    def session_ms(self) -> int:
        """What its member's session is, in milliseconds: the driver's own times are in proportion to it."""
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
        """Whether nothing follows from what the last tick wrote, and was read since, until the time that it has asked for."""
        return False

    @property
    def unread(self) -> bool:
        """Whether something that was acknowledged has not been read back yet: no bell rings for a beat (R21)."""
        return False

    @property
    def rest_ns(self) -> int:
        """For how long after a round to let others write, so that one round reads it all."""
        return 0

    # From the user's tasks -------------------------------------------------------------------------------------------

    def ask(self, event: Event) -> object | None:
        """What the driver is to hear of this request; None if all of it is done by now."""
        ...

    def read_first(self, answer: Answer) -> Answer:
        """Whom the driver is to tell when it has read, in the place of `answer`."""
        return answer

    def abandon(self) -> None:
        """There is no more time: nothing is waited for any more."""

    # On the driver's task, in the order of a round -------------------------------------------------------------------

    def begin(self) -> None:
        """The driver begins."""

    def patience(self, now: int) -> float | None:
        """Seconds after which to look, though nothing has rung; None: there is nothing to look for."""
        return None

    def look(self, *, thoroughly: bool) -> Sequence[Any]:
        """Events by which it may not go on as it is, or has noticed something. With `thoroughly` before an append, which is not
        made if there are any."""
        return ()

    def hears(self, event: Any) -> Sequence[Any]:
        """What the protocol is to hear of something from the inbox."""
        return [event]

    def step(self, event: Any, now: int) -> Sequence[Any]: ...

    def carry(self, effect: Any) -> None:
        """Whatever effect is not the driver's."""
        ...

    def batches(self, puts: list[Append]) -> Iterable[list[Append]]:
        """Of these appends, those that are made together: all or none."""
        return [[put] for put in puts]

    def append(self, puts: list[Append]) -> Sequence[int]:
        """One batch. The offset of the last record of each. Raises what the ledger raises."""
        raise RuntimeError("this protocol has no log")

    def publish(self, message: Publish) -> None:
        raise RuntimeError("this protocol sends no messages")

    def after_round(self) -> None:
        """There is time to tidy."""

    # Beginning anew, and the end ---------------------------------------------------------------------------------------

    def restart(self, effect: Restart, events: deque[Any]) -> None:
        """A new incarnation takes the place of the present one. `events`: what it is to hear, to be changed in place."""
        raise RuntimeError("this protocol has one incarnation")

    def last_words(self, why: str) -> Sequence[Any]:
        """Events by which the protocol gives up what it believes."""
        ...

    def close(self, *, left: bool) -> None: ...
