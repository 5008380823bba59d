"""What a member should do about seats now: claim, hand over, give up. Decisions as values; nothing here writes or waits.

Each decision may come out differently for two members (they see different members alive), and all are safe: what it says is
done by a record whose effect the log decides (R3). What is at stake here is speed and calm:

* the designated member claims a free seat at once; the others wait a little, so that a deaf designated member stops nobody, and
  a live one meets no crowd (R13);
* a silent holder is challenged a session after its last record was read, or a lease after it was written where that is known
  (R21), never earlier (R3); and only when a look at the log that began after that has found nothing newer;
* **R20** many may have died at once, and among the dead are some of those who would be next. A member of whom something was
  read after the silent holder's next record was due has outlived it: if there are such survivors, placement knows of them only,
  and of this member itself. Claims name the word that they out-wait, so several may claim and one counts: after the designated
  member the others follow a few round trips apart, those first that wrote last. [half of a group dies, and each of the dead is
  waited for in turn]
* of seats that others were to claim, and have not, a member claims no more at a time than its share, and lets a few round trips
  pass before the next ones; members begin at different ones. [a machine stands still, or is too slow, and for all of them the
  others have had their time: each claims everything, and the first one gets it] In a large group it
  claims no more than its share of them, until others have had half a session; then one after each quarter of a session, and in
  the end more. [half of a hundred die, and the first of the others to look, twice while the rest of them look once, takes what
  they were to claim; in the end a fifth of all that was claimed is handed on]
* the surplus is handed over by its holder, only when the group has been stable for `settle` (R13), and only to a member
  that has shown that it reads (`silence`), and, if its term began with a claim, that has written since. [the successor of a
  leader hands the seat on to one of those that died with it, for its rank]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from pares.core import reasons
from pares.core.claims.chores.duties import EAGER, turn_ns
from pares.core.claims.fitness.forming import is_large
from pares.core.claims.fitness.pace import NEVER
from pares.core.claims.moves import Give, Take
from pares.core.claims.outlook import MIN_STEP_MS, Outlook, step_ns
from pares.core.claims.placing.targets import Target
from pares.core.claims.tenure import Phase, Tenure
from pares.core.lease import MS
from pares.core.wire.fold import may_take
from pares.core.wire.records import Seat
from pares.core.wire.states import MemberState
from pares.core.wire.world import World

FEW: Final = 4
"""So many seats more than its share a member of a large group claims one at a time."""
MOST_SPARE: Final = 16
"""Seats that others were to claim, of which a member claims so many at once, or its share of all seats if that is more."""


class Moves(Outlook):
    """What one member decides, of what it sees."""

    # Claims ----------------------------------------------------------------------------------------------------------

    def takes(self, world: World, now: int) -> list[Take]:
        """The seats to claim now."""
        me = world.members[self.me]
        most = self._at_most(world, now)
        if most == 0:
            return []
        self._room = self._fair(world) - len(self._tenures.by_seat) if self._free or self._silent else 0
        found = self._takes_free(world, me, now, most) if self._free else []
        silent = [world.members[id] for id in world.held if id in self._silent] if self._silent else []
        # In a large group: those that have outlived all of them. [where hundreds are late, all seats are placed for each]
        for holders in [silent] if silent and len(world.members) > EAGER else [[holder] for holder in silent]:
            found += self._takes_silent(world, me, holders, now)
        found += self._part_of_spare(world, now)
        # A claim by silence needs a look at the log that began when the silence had run out (R21): here it is asked for.
        if self._watches.next_silent < NEVER:
            self.wakes.append(max(now, self._watches.next_silent))
        self.expectant = True
        found = _one_a_role(found)[:most]
        self._appetite.took(len(found))
        return found

    def _at_most(self, world: World, now: int) -> int:
        """How many seats this member may claim now (R18)."""
        if not is_large(world):
            return len(world.seats)
        most = self._left(world, now)
        if most >= len(world.seats):
            return most
        if not (self._free or self._silent or self._spare):
            return max(1, most)  # of nothing: no time is named. [each of them wakes once a session for ever]
        more_at = max(now + 1, self._appetite.more_at)
        if most == 0:
            self.wakes.append(more_at)
            return 0
        if not self.due(self._look_again_at, now):
            return 0
        # What is left of it is for the next look: of many that have died not all are silent at one time. One that is late
        # claims at once what it may: one record that wakes all, and not several.
        self._look_again_at = more_at if self.hurried(world, now) else min(more_at, now + self._session)
        self.wakes.append(self._look_again_at)
        return most

    def _fair(self, world: World) -> int:
        """What this member holds at the most before others have had their time. In a large group whose members are alike that
        is its share, as if all that hold something and have not been waited out were alive. [half of a hundred have died, and
        the others are so busy that each takes more for dead, and itself for next; a fifth of what is claimed moves on in the
        end]"""
        if len(world.members) <= EAGER or not self._targets.has_some(world, self.alive):
            return len(world.seats)
        late = (id for id, seats in world.held.items() if seats and id not in self._silent and id not in self.alive)
        return -(-len(world.seats) // max(1, len(self.crew) + sum(1 for _ in late)))

    def _takes_free(self, world: World, me: MemberState, now: int, most: int) -> list[Take]:
        free = self._free
        if not self.due(self._forming.until(world, len(self.alive), free, now), now):
            free = [seat for seat in free if world.seats[seat].token]
        if not free:
            return []
        target = self.target(world, now)
        found: list[Take] = []
        if len(world.members) > EAGER:
            free = self._ripe(world, free, target, now)
        for seat in free:
            if len(found) >= most:
                break
            designated = self.designated(world, target.get(seat), seat)
            if designated is None:
                self._takeable.pop(seat, None)
                continue
            since = self._takeable.setdefault(seat, self._from(world, seat, now))
            if not may_take(world, me, seat):
                continue
            if designated != self.me and world.seats[seat].avoid == self.me:
                continue  # stepped down from, and somebody else could have it (R13)
            mine = designated == self.me and len(found) < self._room
            if mine or self.due(since + self._wait(world, seat, designated, self.crew, self.step), now):
                (found if mine else self._spare).append(Take(seat, None))
        self._room -= len(found)
        return found

    def _from(self, world: World, seat: Seat, now: int) -> int:
        """Since when this free seat waits for those that are to claim it."""
        return now if world.seats[seat].token else max(now, self._forming.all_at)

    def _ripe(self, world: World, free: list[Seat], target: Target, now: int) -> list[Seat]:
        """Of a large group's free seats those that this member may claim by now: its own, and after a while others'. [whenever
        one of a thousand free seats is claimed, each of a hundred looks long at all that are not for it]"""
        ripe, others, soonest = list[Seat](), list[Seat](), NEVER
        takeable, me, wait = self._takeable, self.me, 2 * self.step
        for seat in free:
            to = target.get(seat)
            if to == me:
                ripe.append(seat)
            elif to is not None:
                since = takeable.setdefault(seat, self._from(world, seat, now))
                if since + wait <= now:
                    others.append(seat)
                elif since < soonest:
                    soonest = since
        if soonest < NEVER:
            self.wakes.append(soonest + wait)
        return ripe + others

    def _takes_silent(self, world: World, me: MemberState, holders: list[MemberState], now: int) -> list[Take]:
        crew = self._survivors(holders)
        target = self._place(world, now, crew, frozenset()) if crew else self.target(world, now)
        crew = crew or self.crew
        found: list[Take] = []
        for holder in holders:
            # Stopwatches that measure one session come apart in proportion to it, however short this member's own one is.
            step = max(self.step, step_ns(holder.session_ms))
            over = (holder.id, holder.offset)
            for seat in sorted(world.held[holder.id]):
                at = self._watches.claimable_at(seat, holder)
                if self._watches.seen_until(now) < at:
                    self.wakes.append(max(now, at))
                    continue
                designated = self.designated(world, target.get(seat), seat)
                if designated is None:
                    if self.due(at + (1 + self.line()) * step, now):
                        found.append(Take(seat, over, free=True))
                elif may_take(world, me, seat):
                    mine = designated == self.me and self._room > 0
                    wait = 0 if mine else self._wait(world, seat, designated, crew, step)
                    if self.due(at + wait, now):
                        self._room -= mine
                        (found if mine else self._spare).append(Take(seat, over))
        return found

    def _part_of_spare(self, world: World, now: int) -> list[Take]:
        """Of the seats that others were to claim and have not, as many as this member may claim now."""
        spare, self._spare = self._spare, []
        most = max(MOST_SPARE, -(-len(world.seats) // max(1, len(self.crew))))
        if len(world.members) <= EAGER:
            if len(spare) <= most and now >= self._spare_at:
                return spare
        elif self._room > 0 or not spare:
            self._full_since, self._spared = None, 0
            most = min(most, self._room)
        else:
            self._full_since = now if self._full_since is None else self._full_since
            if not self.due(self._full_since + self._session // 2, now):
                return []
            most = 1 << min(max(0, self._spared - FEW), 16)
        if not spare or not self.due(self._spare_at, now):
            return []
        gap = self._pace.gap(MIN_STEP_MS * MS, self.step)
        self._spare_at = now + (gap if len(world.members) <= EAGER else max(gap, self._session // 4))
        self._spared += 1
        self.wakes.append(self._spare_at)
        first = self.line() * most % len(spare)
        return (spare[first:] + spare[:first])[:most]

    def _survivors(self, holders: list[MemberState]) -> frozenset[str]:
        """Those of the crew that have outlived these holders, for all that this member knows (R20). If there are any it is one
        of them itself, whatever it wrote last. Stopwatches run apart, so members differ in what they read after the holder's
        next record was due; but each of them lives, and so the first in line of all that they name knows that it is the
        first. [each of two leaves the seat to the other, or frees what it could have taken itself]"""
        found = self._watches.survivors(holders, self.crew)
        return found | {self.me} if found and self.me not in found and self.me in self.crew else found

    def designated(self, world: World, wanted: str | None, seat: Seat) -> str | None:
        """The member that is to claim the seat at once. The one that placement wants there may hold another seat of the role
        still, which is to move later, and can't claim this one: then it is the first in line who can. [a takeover that waits
        for everybody]"""
        if wanted is None or may_take(world, world.members[wanted], seat):
            return wanted
        able = (id for id in self.crew if may_take(world, world.members[id], seat) and world.seats[seat].avoid != id)
        return next(able, wanted)

    def _wait(self, world: World, seat: Seat, designated: str | None, crew: Iterable[str], step: int) -> int:
        """How long to let the designated member of that crew go first, and then those that wrote later than this one."""
        mine, members = world.members[self.me].offset, world.members
        if self._ahead[0] is not crew:
            later = {id for id in crew if members[id].offset > mine}
            self._ahead = (crew, later, Counter(world.able(members[id]) for id in later))
        _, later, alike = self._ahead
        place = sum(count for able, count in alike.items() if able is None or seat[0] in able)
        if designated in later and world.may_hold(members[designated], seat[0]):
            place -= 1
        return 2 * step + place * self._pace.gap(MIN_STEP_MS * MS, step)

    # Giving up -------------------------------------------------------------------------------------------------------

    def gives(self, world: World, now: int, *, closing: str = "") -> list[Give]:
        """The terms to give up by plan now; all of them if `closing` says why."""
        tenures = [t for t in self._tenures.by_seat.values() if t.phase in (Phase.WAITING, Phase.LEADING)]
        settled = self._watches.settled_at(frozenset(self.crew), now)
        if not tenures:
            return []
        target: Target | None = None
        if closing:
            target = self.others(world, now)
        elif not is_large(world) or self._must_move(world, tenures):
            target = self._place(world, now, self._watches.heard(self.alive), frozenset())
        elif self.wanted_by_some(world, now):
            settled = now + self.step  # what nobody holds is balanced by claims, which interrupt nobody
        elif self.due(max(settled + self._turn(), self._balance_again_at), now) and self._at_once(world, now):
            # Nothing moves for balance before that. [each that comes has all of hundreds place hundreds of seats]
            self._balance_again_at = now + self._pace.gap(
                self._session if self.hurried(world, now) else self.step, self._session
            )
            target = self._place(world, now, self._watches.heard(self.alive), frozenset())
        found: list[Give] = []
        moved, most = 0, self._at_once(world, now)
        # While terms are on their way, placement still counts them as this member's: nothing more is moved for balance.
        if len(tenures) < len(self._tenures.by_seat):
            settled = max(settled, now + self.step)
        for tenure in tenures:
            to = None if target is None else target.get(tenure.seat)
            give = self._gives(world, tenure, to, now, settled, closing)
            if give is not None and (give.why != reasons.BALANCE or moved < most):
                moved += give.why == reasons.BALANCE
                found.append(give)
        self._appetite.took(moved)
        return found

    def _turn(self) -> int:
        return turn_ns(self.me, len(self.alive), self._session // MS)

    def _at_once(self, world: World, now: int) -> int:
        """How many seats this member moves for balance before these have arrived. [the first member leads everything when the
        others come, and hands over all but its share: a burst that makes each of a large group lose what it leads]"""
        if not is_large(world):
            return len(world.seats)
        most = max(MOST_SPARE, len(world.seats) // 8)
        return min(most, self._left(world, now)) if self.hurried(world, now) else most

    def _must_move(self, world: World, tenures: Iterable[Tenure]) -> bool:
        """Whether any of these is to go elsewhere, however the group is balanced."""
        if world.members[self.me].draining:
            return True
        seats = (world.seats.get(tenure.seat) for tenure in tenures)
        return any(seat is not None and seat.asked is not None for seat in seats)

    def _gives(self, world: World, tenure: Tenure, to: str | None, now: int, settled: int, closing: str) -> Give | None:
        seat = world.seats[tenure.seat]
        if not world.open(tenure.seat):
            return Give(tenure, reasons.ROLE_REMOVED, release_only=True)
        if world.paused(seat.role):
            return Give(tenure, reasons.PAUSED, release_only=True)
        if closing:
            return Give(tenure, closing, to)
        if world.members[self.me].draining:
            return Give(tenure, reasons.DRAINED, to)
        if to is None or to == self.me:
            return None
        if seat.asked is not None:
            return Give(tenure, reasons.ASKED, to, pin=seat.asked[0] is not None)
        if tenure.claimed and not self._watches.wrote_since(to, tenure.since):
            return None
        if self.due(settled, now):
            return Give(tenure, reasons.BALANCE, to)
        return None

    def heir(self, world: World, tenure: Tenure, now: int) -> str | None:
        """To whom a term is handed over, looked at again when its barrier has returned; None: it is released."""
        if tenure.release_only:
            return None
        if tenure.to is not None and self.takes_it(world, tenure.to, tenure.seat):
            return tenure.to
        to = self.others(world, now).get(tenure.seat)
        return to if to is not None and self.takes_it(world, to, tenure.seat) else None

    def refuses(self, world: World, to: str, seat: Seat) -> str:
        """Why that member, whom a user named, is not to be handed the seat (R6); "" if it may be. Whom a user names need not
        have shown that it reads."""
        member = world.members.get(to)
        if member is None:
            return "is not in the group"
        if to == self.me:
            return "holds it already"
        if member.draining:
            return "is draining"
        if to in world.unready:
            why = world.unready[to]
            return f"is not ready ({why})" if why else "is not ready"
        if not world.may_hold(member, seat[0]):
            return f"is not eligible for {seat[0]!r}"
        if world.holds_in_role(to, seat[0]):
            return f"holds a seat of {seat[0]!r} already"
        if to not in self.alive:
            return "is overdue: nothing has been heard of it for longer than it said, or it says that it could not lead now"
        return (
            "" if self.takes_it(world, to, seat) else f"can't be given it while {seat[0]!r} is paused or being removed"
        )

    def takes_it(self, world: World, to: str, seat: Seat) -> bool:
        """A holder picks only a member that is not overdue (R6), and that the fold would let have it."""
        member = world.members.get(to)
        return member is not None and to != self.me and to in self.alive and may_take(world, member, seat)


def _one_a_role(takes: list[Take]) -> list[Take]:
    """At most one claim a role: a second seat of one role would be refused anyway (R3)."""
    seen: set[str] = set()
    found: list[Take] = []
    for take in takes:
        if take.free or take.seat[0] not in seen:
            found.append(take)
            if not take.free:
                seen.add(take.seat[0])
    return found
