"""ALLCALL: a leader on every side of a split, by broadcast alone, and one leader again at once after it heals (seed 001).

Each member calls all others once a beat, and says which claims it knows. So every member knows which members are there, and
which of them should lead: the one with the lowest rank. That member, and none on its behalf, claims the role for a lease, and
prolongs its claim before it ends, as long as its own calls come back to it. *One* leader is not promised: while messages don't
pass there may be one on each side, each with tokens of its own.

H1   Only the holder claims (`election`), and it says its claim before it believes: `Publish` comes before `Lead`. [a member
     that stands still in between would lead by a claim that no other member knows]
H2   A member claims only while it knows no live claim.
H5   The holder renews its claim near the end, if its own call came back lately and no better ranked member is there. A member
     that could not lead, because its calls don't come back, says so, and is not waited for. [the group would wait for ever for
     its best ranked member that is deaf, but calls]
H6   If a better ranked member is there, the holder gives the role up, in a message, at its last beat that leaves half a beat of
     its lease: so the barrier runs, and there is no gap of a lease.
H8   A holder that hears of a better live claim stops at once, before anything else.
H11  Each incarnation has an id of its own: the claim of an earlier incarnation is a foreign claim, and stands until it ends.
H12  A member that may have forgotten something is silent first (`timing`, also for H14).
H15  A member whose own calls don't come back can't tell whether it is heard. With `when_isolated="step_down"` it gives up its
     roles; with "lead" it leads if it hears no peer either.
H16  A call that was sent longer than a lease ago, or that comes out of order, is dropped and counted (`freshness`).
H17  Every step begins by looking whether the lease is over; `Lead` says until when it may be believed without a step. A member
     that stood still for longer than a beat and a half listens for a beat before it claims anything, or takes a peer for lost.
     What follows from silence is judged as of when it last had nothing left to read; for a quarter of a beat after it was late,
     as of before. [one that stands still in that beat takes those for lost whose calls are unread, or not handed over yet]

    effects = protocol.step(event, now)

`now` is nanoseconds on a stopwatch that runs while the machine sleeps. There is no clock, thread or socket in here.
"""

from __future__ import annotations

from typing import Final

from pares.core import events as ev
from pares.core import reasons
from pares.core.allcall.config import Settings, check
from pares.core.allcall.election import Election, Known
from pares.core.allcall.messages import MAX_TERM, TERM_ORIGIN_S, VERSION, Bad, Call, Claim, Phase, decode, encode, token
from pares.core.allcall.others import Others
from pares.core.allcall.peers import Company, Peer
from pares.core.allcall.timing import Turns
from pares.core.lease import MS

MAX_AHEAD: Final = 2**26
"""How far a term that is heard may be above the lowest term to begin with now: two years of seconds. A higher one is bad."""


class AllCall:
    """One member."""

    def __init__(self, settings: Settings, now: int, wall_us: int) -> None:
        check(settings)
        self._settings = settings
        self._beat, self._lease = settings.heartbeat_ms * MS, settings.lease_ms * MS
        self._wall_ahead = wall_us * 1000 - now
        self._stepped, self._due = now, now + self._beat
        self._heard = now
        """What came before this has been read: until then others' silence is known (H17)."""
        self._late: tuple[int, int] | None = None
        """Since when it has not run, and until when what came meanwhile may be on its way still."""
        self._company = Company(settings)
        self._turns = Turns(settings, now)
        self._elections = {
            role: Election(role, settings.id, settings.rank, settings.order, settings.skew_ms * MS)
            for role in settings.roles
        }
        self._watched = Others(settings, now)
        self._declined: set[str] = set()
        """Roles that this member stepped down from, until another member has led them. They are declined only while a peer
        could lead them; that is asked anew each time, as a peer that comes while a barrier runs can lead after it."""
        self._handing: dict[str, tuple[str, int]] = {}
        """Roles that are to be handed over as soon as a peer is there that could lead them: why, and until when to look."""
        self._farewells: dict[str, tuple[Claim, int]] = {}
        """The release of each role that was given up, and until when it is repeated: a message may be lost, or overtaken."""
        self._unsaid = False
        """Whether a release has not been sent yet."""
        self._barriers: dict[str, int] = {}
        """For each role that is being given up: until when its barrier may run."""
        self._away = False
        """Whether this member is not ready: then it leads nothing, and says so."""
        self._closing = self._closed = False
        self.stale = 0
        self.bad = 0

    # What others may ask ---------------------------------------------------------------------------------------------

    def claim(self, role: str, now: int) -> Known | None:
        """The claim to the role that counts, as far as this member has heard. It may be a role that this member can't lead."""
        election = self._elections.get(role) or self._watched.get(role)
        return None if election is None else election.best(now)

    def led(self, now: int) -> list[str]:
        """The roles to which there is a live claim, as far as this member has heard."""
        everything = [*self._elections.items(), *self._watched.items()]
        return [role for role, election in everything if election.best(now) is not None]

    def leader(self, role: str, now: int) -> str | None:
        """The holder of the claim to the role that counts, as far as this member has heard."""
        best = self.claim(role, now)
        return None if best is None else best.holder

    def last_sign(self, role: str) -> int | None:
        """For a role that this member leads: when the leader before it was last heard, if that one went silent; else None."""
        return self._elections[role].last_sign

    def peers(self) -> dict[str, Peer]:
        """The others that were heard lately."""
        return dict(self._company.peers)

    @property
    def live(self) -> bool:
        """Whether it has begun to call (H12)."""
        return self._turns.begun

    @property
    def giving(self) -> bool:
        """Whether a role that it is giving up waits for a barrier."""
        return bool(self._barriers)

    def holds(self, role: str, now: int) -> bool:
        election = self._elections.get(role)
        return election is not None and election.mine is not None and now < election.mine.deadline

    # The step --------------------------------------------------------------------------------------------------------

    def step(self, event: ev.Event, now: int) -> list[ev.Effect]:
        effects: list[ev.Effect] = []
        if self._closed:
            return effects
        self._end_leases(now, effects)
        self._notice_standstill(now)
        match event:
            case ev.Tick():
                self._wall_ahead = event.wall_us * 1000 - now
                heard = now if event.heard is None else event.heard
                self._heard = heard if self._late is None else min(heard, self._late[0])
            case ev.Received():
                self._wall_ahead = event.wall_us * 1000 - now
                self._hear(event.payload, now, effects)
            case ev.StepDown():
                for role in self._elections if event.role is None else (event.role,):
                    self._decline(role, event.why or reasons.STEPPED_DOWN, now, effects)
            case ev.HandOver():
                self._hand_over(event, now, effects)
            case ev.Reconnected():
                self._listen_first(now)
            case ev.Ready():
                self._away = not event.ready
                self._give_up_all(reasons.NOT_READY if self._away else None, now, effects)
            case ev.WorkOver():
                self._returned(event.seat[0], event.token, now)
            case ev.Lapsed():
                mine = self._elections[event.seat[0]].mine
                if mine is not None and token(mine.term, mine.holder) == event.token:
                    self._give_up(event.seat[0], reasons.LEASE_RAN_OUT, now, effects, fenced=True)
            case ev.Close():
                self._closing = True
                self._give_up_all(reasons.CLOSED, now, effects)
            case _:
                pass  # events about logs and partitions, and requests that need a log
        if self._closing and not self._barriers:
            self._publish("ping", "gone", now, effects)
            self._closed = True
            effects.append(ev.Closed())
            return effects
        effects += self._company.forget_the_silent(self._heard)
        for role, election in self._elections.items():
            self._yield_to_better(role, election, now, effects)
            self._outbid(role, election, now, effects)
            self._leave_if_alone(role, now, effects)
        self._hand_on(now, effects)
        self._call(now, effects)
        for role, election in self._elections.items():
            self._claim(role, election, now, effects)
            self._tell(role, election, now, effects)
        for role, election in self._watched.items():
            self._tell(role, election, now, effects)
        self._due = self._wake(now)
        effects.append(ev.Wake(self._due))
        return effects

    def _end_leases(self, now: int, effects: list[ev.Effect]) -> None:
        """Ends the terms whose lease or barrier limit has passed; before anything else (H17), and also while a barrier runs."""
        for role, election in self._elections.items():
            own = election.mine or election.giving
            if own is not None and now >= own.deadline:
                self._give_up(role, reasons.LEASE_RAN_OUT, now, effects, fenced=True)
            elif now >= self._barriers.get(role, now + 1):
                self._give_up(role, reasons.BARRIER_TIMED_OUT, now, effects, fenced=True)

    def _notice_standstill(self, now: int) -> None:
        """After a standstill it listens first: it heard no peer meanwhile, though they may all be there (H17)."""
        if now > self._stepped + 3 * self._beat // 2:
            self._listen_first(now)
        if now > self._due + self._beat // 4:
            self._late = self._stepped, now + self._beat // 4
        elif self._late is not None and now >= self._late[1]:
            self._late = None
        self._stepped = now

    def _listen_first(self, now: int) -> None:
        """It calls, and for a beat it claims nothing and takes no peer for lost: all have that beat to be heard in."""
        self._turns.listen_first(now)
        self._company.give_a_beat(now)

    # Hearing ---------------------------------------------------------------------------------------------------------

    def _hear(self, payload: bytes, now: int, effects: list[ev.Effect]) -> None:
        call = decode(payload)
        if isinstance(call, Bad):
            self.bad += 1
            return
        if call.g != self._settings.group:
            return
        if call.m == self._settings.id:
            effects += self._company.come_back(call)
            return
        if not self._company.news(call, now, self._wall_ms(now)):
            self.stale += 1
            return
        for claim in call.c:
            election = self._elections.get(claim.role)
            if claim.term > self._floor(now) + MAX_AHEAD:
                self.bad += 1  # this member's next term would be above it, and too large for a record
            elif election is None:
                self._watched.hear(claim, now)
            else:
                if election.hear(claim, now) and claim.ttl:
                    self._turns.heard_of(claim.role, now)
                    self._declined.discard(claim.role)
                if claim.holder == call.m:
                    election.heard_from(call.m, now)
        effects += self._company.welcome(call, now, self._wall_ms(now))
        if call.k == "ping" and call.p != "gone":
            self._turns.asked(now)

    # Leading ---------------------------------------------------------------------------------------------------------

    def _yield_to_better(self, role: str, election: Election, now: int, effects: list[ev.Effect]) -> None:
        """Of two leaders the one with the worse claim stops at once (H8)."""
        best = election.best(now)
        own = election.mine or election.giving
        if own is not None and best is not None and best is not own:
            self._give_up(role, f"{reasons.SUPERSEDED} by {best.holder}", now, effects, fenced=True)

    def _outbid(self, role: str, election: Election, now: int, effects: list[ev.Effect]) -> None:
        """A leader that stays after a heal takes a token above every token it has heard (H18)."""
        old, new = election.mine, election.outbid()
        if old is not None and new is not None:
            effects.append(ev.Follow((role, 0), token(old.term, old.holder), reasons.OUTBID, True, now))
            self._publish("ping", "ping", now, effects)
            effects.append(ev.Lead((role, 0), token(new.term, new.holder), new.deadline, reasons.OUTBID))

    def _leave_if_alone(self, role: str, now: int, effects: list[ev.Effect]) -> None:
        if self._settings.when_isolated == "step_down" and self.holds(role, now) and not self._company.loops(now):
            self._give_up(role, reasons.ISOLATED, now, effects, fenced=True)

    def _claim(self, role: str, election: Election, now: int, effects: list[ev.Effect]) -> None:
        """Begins a term, if no member leads and no better ranked one is there (H1, H2)."""
        if self._away or self._closing or election.mine is not None:
            return
        if self._declines(role) or not self._turns.may_elect(role, now):
            return
        if not self._turns.calls_since(self._beat, self._heard):
            return  # not before every peer had a beat's time to answer
        if election.best(self._heard) is not None or self._company.better(role) is not None or not self._can_lead(now):
            return
        self._declined.discard(role)
        silent = election.gone_silent()
        mine = election.claim(now, self._wall_ms(now), self._lease, self._floor(now))
        self._farewells.pop(role, None)
        self._publish("ping", "ping", now, effects)
        why = f"silent, from {silent}" if silent else "free"
        effects.append(ev.Lead((role, 0), token(mine.term, mine.holder), mine.deadline, why))

    def _can_lead(self, now: int) -> bool:
        """Whether others can hear it; or it hears none, and is to lead alone (H15)."""
        if self._company.loops(now):
            return True
        return self._company.alone(self._heard) and self._settings.when_isolated == "lead"

    def _renew(self, role: str, election: Election, now: int, effects: list[ev.Effect]) -> ev.Lead | None:
        """At a beat: prolongs the term, gives it up for a better ranked peer, or lets it end (H5, H6)."""
        own, mine = election.mine or election.giving, election.mine
        if own is None or own.deadline - now > max(3 * self._beat, self._lease // 3):
            return None
        if mine is None:
            self._prolong(election, now)
            return None
        better = self._company.better(role)
        if better is None and self._can_lead(now):
            renewed = election.renew(now, self._wall_ms(now), self._lease)
            return ev.Lead((role, 0), token(renewed.term, renewed.holder), renewed.deadline, "renewed")
        if better is not None and mine.deadline <= now + 3 * self._beat // 2:
            # Half a beat is left over: a lease of whole beats ends at a beat, and a member that wakes late would miss the end.
            self._give_up(role, f"{reasons.OUTRANKED} by {better}", now, effects, fenced=False)
        return None

    def _prolong(self, election: Election, now: int) -> None:
        """Renews the claim of a role that is being given up: no other member may claim it before the barrier has returned."""
        if self._company.loops(now):
            election.renew(now, self._wall_ms(now), self._lease)

    def _decline(self, role: str, why: str, now: int, effects: list[ev.Effect]) -> None:
        if self.holds(role, now):
            self._give_up(role, why, now, effects, fenced=False)
        self._declined.add(role)
        if not self._turns.silent(now):
            self._publish("ping", self._turns.phase(now), now, effects)

    def _hand_over(self, event: ev.HandOver, now: int, effects: list[ev.Effect]) -> None:
        """Hands the role over to the peers. Members that have just come may not have been heard yet, so it calls; and it leads
        on until one of them could lead: a newcomer may lead once it has heard this member's claim (H12). [if the role is given
        up while the only peer still listens, it comes back at once]"""
        if self.holds(event.role, now):
            self._handing[event.role] = (event.why or reasons.HANDED_OVER, now + self._company.window)
            if not self._company.could_lead(event.role):
                self._publish("ping", self._turns.phase(now), now, effects)

    def _hand_on(self, now: int, effects: list[ev.Effect]) -> None:
        for role, (why, until) in list(self._handing.items()):
            if not self.holds(role, now):
                del self._handing[role]
            elif self._company.could_lead(role):
                del self._handing[role]
                self._decline(role, why, now, effects)
            elif now >= until:
                del self._handing[role]
                text = f"{role!r} stays with {self._settings.id}: nobody else could take it"
                effects.append(ev.Report("not-handed-over", text))

    def _declines(self, role: str) -> bool:
        """Whether this member stepped down from the role, and a peer is there to lead it."""
        return role in self._declined and self._company.could_lead(role)

    def _give_up_all(self, why: str | None, now: int, effects: list[ev.Effect]) -> None:
        for role, election in self._elections.items() if why is not None else ():
            if election.mine is not None:
                self._give_up(role, why or "", now, effects, fenced=False)
        if self.live and (not self._closing or self._barriers):
            self._publish("ping", self._turns.phase(now), now, effects)

    def _give_up(self, role: str, why: str, now: int, effects: list[ev.Effect], *, fenced: bool) -> None:
        """Ends a belief. If that is planned (not `fenced`), the claim stands until the barrier has returned."""
        election = self._elections[role]
        own = election.mine or election.giving
        if own is None:
            return
        seat, name = (role, 0), token(own.term, own.holder)
        effects.append(ev.Follow(seat, name, why, fenced, now))
        if not fenced:
            effects.append(ev.Barrier(seat, name, why))
        if not fenced and self._settings.barrier_ms:
            election.stop_believing()
            self._barriers[role] = now + self._settings.barrier_ms * MS
            if own.deadline - now <= 2 * self._beat:  # it might end before the next beat prolongs it
                self._prolong(election, now)
        else:
            self._release(role, now)

    def _returned(self, role: str, name: int, now: int) -> None:
        """A barrier has returned: of the term that is being given up, or of an earlier one, which changes nothing."""
        own = self._elections[role].giving
        if own is not None and token(own.term, own.holder) == name:
            self._release(role, now)

    def _release(self, role: str, now: int) -> None:
        self._barriers.pop(role, None)
        self._farewells[role] = (self._elections[role].give_up(), now + self._company.window)
        self._unsaid = True

    def _tell(self, role: str, election: Election, now: int, effects: list[ev.Effect]) -> None:
        best = election.best(now)
        led = (None, 0) if best is None else (best.holder, best.term)
        if led != election.told:
            election.told = led
            effects.append(ev.LeaderChanged(role, led[0], 0 if best is None else token(best.term, best.holder)))

    # Calling ---------------------------------------------------------------------------------------------------------

    def _call(self, now: int, effects: list[ev.Effect]) -> None:
        """Sends a beat or an answer, if one is due; the release of a role at once."""
        if self._turns.to_call(now):
            renewed = [self._renew(role, election, now, effects) for role, election in self._elections.items()]
            self._publish("ping", "ping", now, effects)
            effects += [lead for lead in renewed if lead is not None]
        elif self._turns.to_answer(now):
            self._publish("reply", self._turns.phase(now), now, effects)
        elif self._unsaid:
            self._publish("ping", self._turns.phase(now), now, effects)

    def _publish(self, kind: str, phase: Phase, now: int, effects: list[ev.Effect]) -> None:
        said = self._wall_ms(now)
        n = self._company.number(now, said)
        self._turns.said(now, answer=kind == "reply")
        self._farewells = {role: said for role, said in self._farewells.items() if now < said[1]}
        roles = [role for role in self._elections if self._offers(role, now)]
        claims = [best.passed_on(role, now) for role, best in self._known(now) if best.deadline > now]
        call = Call(
            VERSION,
            "ping" if kind == "ping" else "reply",
            self._settings.group,
            self._settings.id,
            n,
            said,
            self._settings.rank,
            phase,
            roles,
            claims + [claim for claim, _ in self._farewells.values()],
            self._settings.host,
            [self._settings.heartbeat_ms, self._settings.lease_ms, self._settings.skew_ms],
            self._settings.order,
        )
        self._unsaid = False
        effects.append(ev.Publish(encode(call)))

    def _offers(self, role: str, now: int) -> bool:
        """Whether this member could lead the role, so that others may wait for it to claim. After its first call it counts as
        able for a window, in which that call may come back (H5)."""
        if self._away or self._closing:
            return False
        begins = not self._turns.calls_since(self._company.window, now)
        return not self._declines(role) and self._turns.may_elect(role, now) and (begins or self._can_lead(now))

    def _known(self, now: int) -> list[tuple[str, Known]]:
        found = [(role, election.best(now)) for role, election in self._elections.items()]
        return [(role, best) for role, best in found if best is not None]

    def _floor(self, now: int) -> int:
        """The lowest term to begin with (H18), so that a group whose members were all restarted goes on above its old terms."""
        return min(MAX_TERM // 2, max(1, self._wall_ms(now) // 1000 - TERM_ORIGIN_S))

    def _wall_ms(self, now: int) -> int:
        return max(0, (now + self._wall_ahead) // MS)

    def _wake(self, now: int) -> int:
        """The next moment at which something may have to be done."""
        moments = self._turns.moments() + self._company.moments() + [until for _, until in self._handing.values()]
        for election in self._elections.values():
            ends = election.ends_at(self._heard)
            if ends is not None:
                moments.append(ends)
            own = election.mine or election.giving
            if own is not None:
                moments.append(own.deadline)
        moments += self._barriers.values()
        after, most = (self._heard, now + self._beat) if self._late is None else (now, self._late[1])
        return min(moment for moment in [*moments, most] if moment > after)
