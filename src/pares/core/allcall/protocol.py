"""ALLCALL: a leader on every side of a split, by broadcast alone, and one leader again at once after it heals (seed 001).

Everybody calls all once a beat, and says which claims it knows. Everybody hears everybody, so everybody knows who is there and
who should lead: the lowest rank. That one, and nobody for it, claims the role for a lease, and prolongs its claim before it
ends, as long as its own calls come back to it. Nothing is promised about *one* leader: while messages don't pass there may be
one on each side, each with tokens of its own.

H1   Only the holder claims (`election`), and what it claims is said before it is believed: `Publish` comes before
     `Lead`. [whoever stands still in between would lead by a claim that nobody knows]
H2   A claim is made only while no live claim is known.
H5   Its holder renews when little of it is left, if its own call came back lately and nobody better ranked is there. A member
     that could not lead, because its calls don't come back, says so, and nobody waits for it. [deaf, but calling: the group
     would wait for its best ranked one for ever]
H6   If somebody better is there, it gives the role up at its last beat that is half a beat before the end or more, and says
     so: no gap of a lease, and the barrier runs.
H8   A holder that hears of a better live claim stops at once, before anything else.
H11  Ids are incarnations': what an earlier life claimed is somebody else's claim, and stands until it ends.
H12  A member that may have forgotten something is silent first (`timing`, also for H14).
H15  A member whose own calls don't come back is alone: it leads itself, or steps down, as it was told.
H16  What was sent longer than a lease ago, or out of order, is dropped and counted (`freshness`).
H17  Every step begins by looking whether the lease is over; `Lead` says until when it may be believed without a step. A member
     that stood still for longer than a beat and a half listens for a beat before it claims anything, or takes anybody for lost.

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
"""Terms that somebody may be ahead of the wall clock, or of this one's: two years of seconds."""


class AllCall:
    """One member."""

    def __init__(self, settings: Settings, now: int, wall_us: int) -> None:
        check(settings)
        self._settings = settings
        self._beat, self._lease = settings.heartbeat_ms * MS, settings.lease_ms * MS
        self._wall_ahead = wall_us * 1000 - now
        self._stepped = now
        self._company = Company(settings)
        self._turns = Turns(settings, now)
        self._elections = {
            role: Election(role, settings.id, settings.rank, settings.order, settings.skew_ms * MS)
            for role in settings.roles
        }
        self._watched = Others(settings, now)
        self._declined: set[str] = set()
        """Roles that were stepped down from, until somebody else has led them. It binds as long as somebody else is there who
        could: asked when it matters, for who comes in while a barrier runs can lead after it."""
        self._handing: dict[str, tuple[str, int]] = {}
        """Roles that are to be handed over as soon as somebody is there who could lead them: why, and until when to look."""
        self._farewells: dict[str, tuple[Claim, int]] = {}
        """What was given up, and until when it is said: more than once, for a message may be lost, or overtaken by the next."""
        self._unsaid = False
        self._barriers: dict[str, int] = {}
        """Of each role that is being given up: until when its barrier may run."""
        self._away = False
        """Not ready: it leads nothing, and says so."""
        self._closing = self._closed = False
        self.stale = 0
        self.bad = 0

    # What others may ask ---------------------------------------------------------------------------------------------

    def claim(self, role: str, now: int) -> Known | None:
        """The claim to the role that counts, as far as this member has heard; whoever may lead it."""
        election = self._elections.get(role) or self._watched.get(role)
        return None if election is None else election.best(now)

    def led(self, now: int) -> list[str]:
        """The roles to which there is a live claim, as far as this member has heard."""
        everything = [*self._elections.items(), *self._watched.items()]
        return [role for role, election in everything if election.best(now) is not None]

    def leader(self, role: str, now: int) -> str | None:
        """Whose claim to the role counts, as far as this member has heard."""
        best = self.claim(role, now)
        return None if best is None else best.holder

    def last_sign(self, role: str) -> int | None:
        """Of a role that this member leads: when the leader before was last heard, if that went in silence."""
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
        """Whether something that it has given up waits for a barrier."""
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
                pass  # of logs, of partitions, and wishes that need a log
        if self._closing and not self._barriers:
            self._publish("ping", "gone", now, effects)
            self._closed = True
            effects.append(ev.Closed())
            return effects
        effects += self._company.forget_the_silent(now)
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
        effects.append(ev.Wake(self._wake(now)))
        return effects

    def _end_leases(self, now: int, effects: list[ev.Effect]) -> None:
        """Whatever else: a lease that is over is over (H17), also for who waits for a barrier."""
        for role, election in self._elections.items():
            own = election.mine or election.giving
            if own is not None and now >= own.deadline:
                self._give_up(role, reasons.LEASE_RAN_OUT, now, effects, fenced=True)
            elif now >= self._barriers.get(role, now + 1):
                self._give_up(role, reasons.BARRIER_TIMED_OUT, now, effects, fenced=True)

    def _notice_standstill(self, now: int) -> None:
        """Nobody was heard meanwhile, and that says nothing about who is there."""
        if now > self._stepped + 3 * self._beat // 2:
            self._listen_first(now)
        self._stepped = now

    def _listen_first(self, now: int) -> None:
        """It calls, and for a beat it claims nothing, and takes nobody for lost: all get that beat to be heard in."""
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
                self.bad += 1  # or the next term would be none that can be said
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
        """Two lead: the worse one stops at once (H8)."""
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
        """Begin a term, if nobody leads and nobody better is there (H1, H2)."""
        if self._away or self._closing or election.mine is not None:
            return
        if self._declines(role) or not self._turns.may_elect(role, now):
            return
        if not self._turns.calls_since(self._beat, now):
            return  # not before everybody had a beat's time to answer
        if election.best(now) is not None or self._company.better(role) is not None or not self._can_lead(now):
            return
        self._declined.discard(role)
        silent = election.gone_silent()
        mine = election.claim(now, self._wall_ms(now), self._lease, self._floor(now))
        self._farewells.pop(role, None)
        self._publish("ping", "ping", now, effects)
        why = f"silent, from {silent}" if silent else "free"
        effects.append(ev.Lead((role, 0), token(mine.term, mine.holder), mine.deadline, why))

    def _can_lead(self, now: int) -> bool:
        """Others can hear it, or there are none (H15)."""
        if self._company.loops(now):
            return True
        return self._company.alone(now) and self._settings.when_isolated == "lead"

    def _renew(self, role: str, election: Election, now: int, effects: list[ev.Effect]) -> ev.Lead | None:
        """At a beat: prolong the term, or give it up for somebody better, or let it end (H5, H6)."""
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
            # Not just the last beat: a lease of so many beats ends at one, and who wakes up a moment late comes after its end.
            self._give_up(role, f"{reasons.OUTRANKED} by {better}", now, effects, fenced=False)
        return None

    def _prolong(self, election: Election, now: int) -> None:
        """What is being given up stays in others' way until the barrier has returned."""
        if self._company.loops(now):
            election.renew(now, self._wall_ms(now), self._lease)

    def _decline(self, role: str, why: str, now: int, effects: list[ev.Effect]) -> None:
        if self.holds(role, now):
            self._give_up(role, why, now, effects, fenced=False)
        self._declined.add(role)
        if not self._turns.silent(now):
            self._publish("ping", self._turns.phase(now), now, effects)

    def _hand_over(self, event: ev.HandOver, now: int, effects: list[ev.Effect]) -> None:
        """To all peers. Of members that have just come nothing may have been heard yet, so it asks; and it leads on
        until one of them could: its claim, heard, is what lets a newcomer lead (H12). [given up while the only other one still
        listens, the role comes back at once]"""
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
        """Whether it was stepped down from, and somebody else is there to lead it."""
        return role in self._declined and self._company.could_lead(role)

    def _give_up_all(self, why: str | None, now: int, effects: list[ev.Effect]) -> None:
        for role, election in self._elections.items() if why is not None else ():
            if election.mine is not None:
                self._give_up(role, why or "", now, effects, fenced=False)
        if self.live and (not self._closing or self._barriers):
            self._publish("ping", self._turns.phase(now), now, effects)

    def _give_up(self, role: str, why: str, now: int, effects: list[ev.Effect], *, fenced: bool) -> None:
        """Believe no more. By plan, the claim stays until the barrier has returned."""
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
        """Of this term, or of one that is over long since."""
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
        """A beat, if one is due; an answer, if one is; what was given up, at once."""
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
        """Whether others may wait for this member to lead it: it could. Its first calls have time to come back (H5)."""
        if self._away or self._closing:
            return False
        begins = not self._turns.calls_since(self._company.window, now)
        return not self._declines(role) and self._turns.may_elect(role, now) and (begins or self._can_lead(now))

    def _known(self, now: int) -> list[tuple[str, Known]]:
        found = [(role, election.best(now)) for role, election in self._elections.items()]
        return [(role, best) for role, best in found if best is not None]

    def _floor(self, now: int) -> int:
        """Below what no term begins (H18): a group that has forgotten everything goes on above what it had."""
        return min(MAX_TERM // 2, max(1, self._wall_ms(now) // 1000 - TERM_ORIGIN_S))

    def _wall_ms(self, now: int) -> int:
        return max(0, (now + self._wall_ahead) // MS)

    def _wake(self, now: int) -> int:
        """The next moment at which something may have to be done."""
        moments = self._turns.moments() + self._company.moments() + [until for _, until in self._handing.values()]
        for election in self._elections.values():
            ends = election.ends_at(now)
            if ends is not None:
                moments.append(ends)
            own = election.mine or election.giving
            if own is not None:
                moments.append(own.deadline)
        moments += self._barriers.values()
        return min(moment for moment in [*moments, now + self._beat] if moment > now)
