"""A consumer's side of the claims protocol: `Claims`, with positions (docs/design.md, C2 to C5, C9, C11, C12).

It adds three words to what the protocol says. `Begins` goes with each `Lead`: where the term begins. It is taken from the world
when the record that made the term has been read, and from there on only the holder's own records move it. `Taken` says that a
`take` of this member was read back and had its effect, and `Untaken` that it never will. The runtime gives nothing out at most
once before the one, and hands nothing over before either.
`Owns` says which ranges a slot has: with each `Lead`, and when a range that this member asked for was read back.

Marks and takes travel with what the member writes anyway: all takes of a round in one append, marks with beats. What is done
above a position goes before the beat with the mark, and before the record that gives the term up, in the same append: so the
next holder knows of it when it knows that it holds the seat.
"""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec.structs import replace

from pares.core import events as ev
from pares.core.claims.config import Config
from pares.core.claims.outbox import Outbox
from pares.core.claims.protocol import Claims
from pares.core.claims.silence import Stopwatches
from pares.core.claims.tenure import Phase, Tenure, Tenures
from pares.core.claims.tick import Living
from pares.core.consume.names import Partition
from pares.core.consume.ranging import end_of
from pares.core.consume.shares import Shares
from pares.core.wire import records
from pares.core.wire.ahead import above, clipped, fields_of, resumed
from pares.core.wire.changes import Change, SeatChanged
from pares.core.wire.divided.keys import begins
from pares.core.wire.divided.ranges import MAX_OPEN
from pares.core.wire.reader import Reader
from pares.core.wire.records import Seat
from pares.core.wire.states import NOTHING_AHEAD


class Consuming(Living):
    """The part of `Consume` that acts."""

    deciding = Shares
    moves: Shares  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, config: Config, reader: Reader, outbox: Outbox, tenures: Tenures, watches: Stopwatches) -> None:
        super().__init__(config, reader, outbox, tenures, watches)
        self.moves.willing = frozenset(role.name for role in config.roles)
        self.taking: dict[ev.Took, int] = {}
        """Takes that are not known to have had their effect, in order, and by which of this member's records each of them was
        last written. Of one seat there may be several: they follow one another."""
        self.ahead: dict[Seat, ev.Marked] = {}
        """What is done above positions, as far as the world does not show it; the one that was not written for longest
        first."""
        self.wanting: dict[Seat, ev.Wants] = {}
        """Ranges that are asked for, and that the world does not show."""

    def request(self, event: ev.Event) -> None:
        if type(event) is ev.Willing:
            self.moves.willing = frozenset(event.roles)
            return
        if type(event) is ev.Marked and event.ahead is not None:
            self.ahead[event.seat] = replace(event, ahead=clipped(event.ahead))
        super().request(event)

    def _serve_one(self, request: ev.Event, now: int, effects: list[ev.Effect]) -> None:
        if isinstance(request, ev.Took):
            self._take(request, now, effects)
        elif isinstance(request, ev.Wants):
            self._want(request, now, effects)
        elif isinstance(request, ev.Flush):
            self._write_marks(now, 0)
        elif isinstance(request, ev.Unhealthy):
            self._pass_on(request, now, effects)
        else:
            super()._serve_one(request, now, effects)

    def _write_marks(self, now: int, least: int = 1) -> None:
        written = [self._write_ahead(seat, now) for seat in list(self.ahead)]
        super()._write_marks(now, 0 if any(written) else least)

    def _write_ahead(self, seat: Seat, now: int) -> bool:
        """C9. What the world shows already, or can't be of use any more, is forgotten here; so is it where a member of the
        group would not count such a record (R11), which costs no more than repetition. Whether it was written."""
        said, world = self.ahead[seat], self.reader.world
        state = world.seats.get(seat)
        held = state is not None and state.holder == self.me and state.token == said.token
        if state is None or not held or said.ahead is None or min(world.reads, self.outbox.writes) < 2:
            del self.ahead[seat]
            return False
        position = max(said.mark, state.mark, state.taken)
        if above(said.ahead, position) == above(world.ahead.get(seat, NOTHING_AHEAD), position):
            del self.ahead[seat]
        elif self.outbox.room():
            self._write(records.Ahead, now, seat=seat, token=said.token, **fields_of(said.ahead, said.mark))
            return True
        return False

    def _give_up(self, now: int, *, again: bool = True) -> None:
        for tenure in self.tenures.ready_to_give():
            said = self.ahead.get(tenure.seat)
            if said is not None and said.token == tenure.token and (again or not tenure.tried):
                self._write_ahead(tenure.seat, now)
        super()._give_up(now, again=again)

    def led(self, seat: Seat, token: int) -> Tenure | None:
        """The term of that token, while it is believed in."""
        tenure = self.tenures.by_seat.get(seat)
        return tenure if tenure is not None and tenure.token == token and tenure.phase is Phase.LEADING else None

    def _take(self, request: ev.Took, now: int, effects: list[ev.Effect]) -> None:
        """C4: written under the term's token, and again with the same bounds if its outcome is not known. Not when the log
        shows by now that it landed. [one that is told twice is given out twice] Nor when the term is about to end."""
        landed = request.seat in self.reader.world.seats and self.reader.world.seats[request.seat].taken > request.first
        if self.led(request.seat, request.token) is not None and not landed:
            fields: dict[str, Any] = {"first": request.first, "last": request.last}
            self._write(records.Take, now, seat=request.seat, token=request.token, **fields)
            self.taking[request] = self.outbox.sent.n
        elif not landed and request not in self.taking:
            effects.append(ev.Untaken(request.seat, request.token, request.last + 1))

    def can_count(self, took: ev.Took) -> bool:
        """Whether that take, written before, may have its effect yet: none of this member's later records has counted (R2), or
        it will be written again."""
        me = self.reader.world.members.get(self.me)
        passed = me is not None and me.n >= self.taking[took]
        return not passed or self.led(took.seat, took.token) is not None

    def _want(self, request: ev.Wants, now: int, effects: list[ev.Effect]) -> None:
        """C11: written under the term's token, and again if its outcome is not known, unless the world shows that it landed.
        Where the world has many of its ranges as not done, it is told of the position before. [a fast worker uses up more of
        them between two beats than the log lets it have, and waits]"""
        world = self.reader.world
        if self.led(request.seat, request.token) is None or end_of(world.ranges.get(request.seat, ())) != request.after:
            return
        if min(world.reads, self.outbox.writes) < 2:
            effects.append(
                ev.Report("old-format", "no range can be claimed while a member of release 0.1 is in the group")
            )
            return
        if len(world.ranges.get(request.seat, ())) >= MAX_OPEN // 2:
            self._write_marks(now, 0)
        self.wanting[request.seat] = request
        fields: dict[str, Any] = {
            "after": request.after,
            "count": request.count,
            "over": request.over,
            "to": request.to,
        }
        self._write(records.Range, now, seat=request.seat, token=request.token, **fields)

    def _pass_on(self, request: ev.Unhealthy, now: int, effects: list[ev.Effect]) -> None:
        """C7: to another consumer, with all of its topic where whole topics are shared out. Alone, it goes on."""
        world, tenure = self.reader.world, self.led(request.seat, request.token)
        if tenure is None:
            return
        others = self.moves.others(world, now)
        if others.get(request.seat) is None:
            effects.append(
                ev.Report("alone", f"{request.seat[0]!r} {request.why}, and no other consumer could take it")
            )
            return
        whole, partition = self.moves.terms(world, self.me).whole, Partition.of(request.seat[0])
        for other in list(self.tenures.by_seat.values()):
            theirs = Partition.of(other.seat[0])
            together = whole and partition is not None and theirs is not None and theirs.source == partition.source
            if other is tenure or together:
                effects += self.tenures.stop(other, request.why, now, to=others.get(other.seat), down=True)
                self.moves.cools(other.seat, now)


class Consume(Claims):
    """One incarnation of a consumer."""

    acting: ClassVar[type[Living]] = Consuming
    living: Consuming  # pyright: ignore[reportIncompatibleVariableOverride]

    def step(self, event: ev.Event, now: int) -> list[ev.Effect]:
        found: list[ev.Effect] = []
        changes: list[Change] = []
        for effect in super().step(event, now):
            found.append(effect)
            if type(effect) is ev.Lead:
                found += (self._begins(effect), self._owns(effect.seat, effect.token))
            elif type(effect) is ev.Moved:
                changes = effect.changes
                self._forget_first(changes)
        if type(event) is ev.Read:
            found += self._taken(changes)
            found += self._granted()
        return found

    def _begins(self, lead: ev.Lead) -> ev.Begins:
        """C2: nobody but this member moves mark or taken of the seat any more, for as long as it holds it by this token."""
        known = self.reader.world.ahead.get(lead.seat, NOTHING_AHEAD)
        position, elsewhere = begins(self.reader.world, lead.seat)
        position, known = resumed(known, position)
        first = position == 0 and not elsewhere and lead.seat in self.living.moves.first
        return ev.Begins(lead.seat, lead.token, position, first, known, elsewhere)

    def _owns(self, seat: Seat, token: int) -> ev.Owns:
        """C11: all that the slot has, whoever it was given to; none for a seat that is no slot."""
        world = self.reader.world
        return ev.Owns(seat, token, world.ranges.get(seat, ()))

    def _granted(self) -> list[ev.Effect]:
        """Ranges that this member has asked for, and that the world shows."""
        found: list[ev.Effect] = []
        for seat, wants in list(self.living.wanting.items()):
            if self.living.led(seat, wants.token) is None:
                del self.living.wanting[seat]
            elif end_of(self.reader.world.ranges.get(seat, ())) != wants.after:
                del self.living.wanting[seat]
                found.append(self._owns(seat, wants.token))
        return found

    def _forget_first(self, changes: list[Change]) -> None:
        """Somebody else has held it, so it is not the first time any more."""
        for change in changes:
            if type(change) is SeatChanged and (change.holder not in (None, self.me) or change.before is not None):
                self.living.moves.first.discard(change.seat)

    def _taken(self, changes: list[Change]) -> list[ev.Effect]:
        """C4: takes of this member's that had their effect. Under this token nobody else takes, and what it takes is in order:
        so what is taken, up to the end of the one that is looked for, was taken by it. What landed before the term ended is
        this member's as well, though the world that was read with it knows of later terms only. [a member that reads again
        after an outage, and has lost the seat meanwhile: what it took would be lost, though it lives]"""
        if not self.living.taking:
            return []
        found: list[ev.Effect] = []
        ended = {
            (change.seat, change.before_token): change.offset
            for change in changes
            if type(change) is SeatChanged and change.before == self.me
        }
        upto: dict[tuple[Seat, int], int] = {}
        for took in list(self.living.taking):
            term = (took.seat, took.token)
            state = self.reader.world.seats.get(took.seat)
            lasts = state is not None and state.holder == self.me and state.token == took.token
            if term not in upto:
                upto[term] = state.taken if lasts and state is not None else self._landed(term, ended.get(term, 0))
            had_effect = upto[term] > took.last
            if lasts and not had_effect and self.living.can_count(took):
                continue
            del self.living.taking[took]
            found.append((ev.Taken if had_effect else ev.Untaken)(took.seat, took.token, took.last + 1))
        return found

    def _landed(self, term: tuple[Seat, int], before: int) -> int:
        """Up to where takes of that term counted, by what was read now, before that offset, where it ended."""
        upto = 0
        for offset, _, payload in self.reader.mine:
            record = records.decode(payload) if offset < before else None
            if isinstance(record, records.Take) and (record.seat, record.token) == term:
                upto = max(upto, record.last + 1)
        return upto
