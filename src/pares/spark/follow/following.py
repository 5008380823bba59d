"""A follower: reads what is new, has it judged, tells what was found, and keeps what it knows.

One round is `step`; `run` goes round until it is stopped. Nothing here waits for a receiver.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from pares.core.errors import LedgerUnavailable
from pares.spark.follow.checkpoint import Checkpoint, Line, State, net, undelivered
from pares.spark.follow.feeds import LogFeed, Portion
from pares.spark.follow.judge import RAISED, SETTLED, Alarm, Judge
from pares.spark.follow.outlets import CONSOLE, Courier, Message

if TYPE_CHECKING:
    from threading import Event

POLL_S: Final = 0.1
"""How long to wait where nothing is new."""
SAVE_S: Final = 10.0
"""How often the state is written, at the most; and it takes no more than a fiftieth of the time."""
SHARE: Final = 50
CHECK_S: Final = 5.0
"""How often it is asked whether the log is still the same."""
OUT_OF_REACH_S: Final = 10.0
"""The longest wait between two tries to read a ledger that can't be reached."""
ENDING_S: Final = 3.0
"""How long receivers are given at the end for what still waits."""
CERTAIN: Final = "certain"


class Tally(NamedTuple):
    """What a follower has done since it began."""

    records: int
    raised: int
    settled: int
    certain: int
    """Violations that are certain and were not taken back; with a checkpoint, also those of the runs before."""
    waiting: int
    """Alarms that have not arrived at their receivers."""
    terms: int
    members: int
    unjudged: int
    """Words about terms that were no longer known."""


class Follower:
    """Follows a log. `show` gets each alarm for people at once; `say` what is to be said beside it; `about` is what a
    checkpoint has to be about. `keep` is called after each round in which there was something new."""

    def __init__(
        self,
        feed: LogFeed,
        judge: Judge,
        about: str,
        *,
        checkpoint: Checkpoint | None = None,
        couriers: Sequence[Courier] = (),
        show: Callable[[Alarm], None] | None = None,
        say: Callable[[str], None] = lambda _: None,
        ledger: str = "",
    ) -> None:
        self.judge = judge
        self._feed, self._about, self._ledger = feed, about, ledger
        self._checkpoint, self._couriers = checkpoint, couriers
        self._show, self._say = show, say
        self._number = self._records = self._raised = self._settled = self._certain = 0
        self._short: set[str] = set()
        """Receivers for which something stands in the journal that is not in their queues."""
        self._arrived: dict[str, set[int]] = {}
        self._save_at = time.monotonic()  # the first portion's is written at once
        self._check_at = time.monotonic() + CHECK_S
        if checkpoint is not None:
            self._resume(checkpoint)

    def run(self, stop: Event) -> None:
        """Goes round until `stop` is set. Raises what reading raises, but waits for a ledger that is out of reach."""
        wait = POLL_S
        while not stop.is_set():
            try:
                new = self.step()
            except LedgerUnavailable as error:
                if wait <= POLL_S:
                    self._say(f"the ledger can't be read ({error}); tried again until it can")
                wait = min(2 * max(wait, POLL_S), OUT_OF_REACH_S)
                stop.wait(wait)
                continue
            if wait > POLL_S:
                self._say("the ledger can be read again")
            wait = POLL_S
            if not new:
                stop.wait(POLL_S)

    def step(self) -> int:
        """One round; how many entries were new."""
        now = time.monotonic()
        if now >= self._check_at:
            self._feed.check()
            self._check_at = now + CHECK_S
        portions = self._take(self._feed.read())
        self._tell(self.judge.alarms(time.monotonic()))
        self._news()
        if time.monotonic() >= self._save_at:
            self.save()
        return sum(portion.entries for portion in portions)

    def save(self) -> None:
        """Writes the state now."""
        if self._checkpoint is not None and self._feed.positions:
            self._write(self._checkpoint)

    def tally(self) -> Tally:
        """What was done so far."""
        waiting = sum(courier.counts().waiting for courier in self._couriers)
        told = (self._records, self._raised, self._settled, self._certain)
        return Tally(*told, waiting, **self.judge.kept())

    def close(self) -> int:
        """Ends it: what waits for receivers is delivered if they take it soon, and the state is written. How many alarms have
        not arrived."""
        end = time.monotonic() + ENDING_S
        left = 0
        for courier in self._couriers:
            left += courier.close(max(0.0, end - time.monotonic()))
        self._news()
        self.save()
        return left + sum(courier.counts().overflowed for courier in self._couriers if self._checkpoint is None)

    # What is new -----------------------------------------------------------------------------------------------------------

    def _take(self, portions: list[Portion]) -> list[Portion]:
        for portion in portions:
            self.judge.feed(portion.shares)
            self.judge.at_end(portion.partition, portion.ends)
            self._records += portion.entries
        return portions

    def _tell(self, alarms: Sequence[Alarm]) -> None:
        if not alarms:
            return
        names = [courier.name for courier in self._couriers] + ([CONSOLE] if self._show is not None else [])
        at = {str(number): position for number, position in self._feed.positions.items()}
        lines: list[Line] = []
        for alarm in alarms:
            self._number += 1
            self._count(alarm)
            lines.append(Line(alarm=alarm, number=self._number, at=at, to=names))
        self._note(lines)
        self._send(lines)

    def _count(self, alarm: Alarm) -> None:
        if alarm.what == RAISED:
            self._raised += 1
        else:
            self._settled += 1
        self._certain += _more_certain(alarm)

    def _send(self, lines: Sequence[Line]) -> None:
        for line in lines:
            assert line.alarm is not None
            if self._show is not None and CONSOLE in line.to:
                self._show(line.alarm)
                self._note([Line(arrived=line.number, to=[CONSOLE])], sync=False)
            message = self._message(line.alarm, line.number)
            for courier in self._couriers:
                if courier.name in line.to and not courier.put(message):
                    self._short.add(courier.name)

    def _message(self, alarm: Alarm, number: int) -> Message:
        told: dict[str, Any] = {"number": number, "ledger": self._ledger, **msgspec.to_builtins(alarm)}
        return Message(number, f"{alarm.id}.{number}", msgspec.json.encode(told))

    def _news(self) -> None:
        """What couriers have done and have to say."""
        lines: list[Line] = []
        for courier in self._couriers:
            lines += [Line(arrived=message.number, to=[courier.name]) for message in courier.done()]
            for word in courier.words():
                self._say(word)
        self._note(lines)
        for courier in self._couriers:
            if courier.name in self._short and self._checkpoint is not None and courier.counts().waiting == 0:
                self._refill(self._checkpoint, courier)

    def _refill(self, checkpoint: Checkpoint, courier: Courier) -> None:
        """What found the queue full stands in the journal."""
        self._note([Line(arrived=message.number, to=[courier.name]) for message in courier.done()])
        self._short.discard(courier.name)
        for line in undelivered(checkpoint.lines()):
            if line.alarm is None or courier.name not in line.to:
                continue
            if not courier.put(self._message(line.alarm, line.number)):
                self._short.add(courier.name)
                return

    def _note(self, lines: list[Line], *, sync: bool = True) -> None:
        if self._checkpoint is not None:
            self._checkpoint.note(lines, sync=sync)

    # What is kept ------------------------------------------------------------------------------------------------------------

    def _write(self, checkpoint: Checkpoint) -> None:
        began = time.monotonic()
        feed = self._feed
        known = (dict(feed.positions), feed.states(), self.judge)
        state = State(self._about, feed.identity, *known, self._number, self._certain)
        given_up = checkpoint.save(state)
        if given_up:
            self._say(f"{given_up} alarms that never arrived are given up: too many wait for their receivers")
        took = time.monotonic() - began
        self._save_at = time.monotonic() + max(SAVE_S, SHARE * took)

    def _resume(self, checkpoint: Checkpoint) -> None:
        """Goes on where the last run ended: reads in silence what it had read, and tells what it had not."""
        state = checkpoint.load(self._about)
        lines = checkpoint.lines()
        if state is not None:
            self._feed.resume(state.identity, state.positions, state.folds)
            self.judge, self._number, self._certain = state.judge, state.number, state.certain
        for line in lines:
            if line.alarm is not None and not line.carried:
                self._certain += _more_certain(line.alarm)
        self._number = max([self._number, *(line.number for line in lines)])
        until: dict[int, int] = {}
        for line in lines:
            until |= {int(number): position for number, position in line.at.items()}
        silent: list[Alarm] = []
        while until and self._take(self._feed.read(until)):
            silent += self.judge.alarms(time.monotonic())
        self.judge.wake()
        silent += self.judge.alarms(time.monotonic())
        self._send(undelivered(lines))
        self._tell(_differing(silent, net(lines)))


def _more_certain(alarm: Alarm) -> int:
    return (alarm.verdict == CERTAIN) - (alarm.before == CERTAIN)


def _differing(silent: Sequence[Alarm], told: dict[str, tuple[Alarm, Alarm]]) -> list[Alarm]:
    """What is to be told where `silent` is what would have been, and `told` is what was."""
    would = net([Line(alarm=alarm) for alarm in silent])
    found: list[Alarm] = []
    for id_ in {**would, **told}:
        first, last = would.get(id_, (None, None))
        begun, said = told.get(id_, (None, None))
        source = begun or first
        assert source is not None
        before = source.before or "none"
        now = last.verdict if last is not None else before
        known = said.verdict if said is not None else before
        if now != known:
            shown = last if last is not None else said
            assert shown is not None
            what = RAISED if known == "none" else SETTLED
            found.append(
                msgspec.structs.replace(shown, what=what, verdict=now, before=None if known == "none" else known)
            )
    return found
