"""What ALLCALL promises about who leads. No checker knows how the protocol works; the bounds are those of `knobs.Bounds`."""

from __future__ import annotations

from typing import Final

from pares.core.allcall.messages import token as token_of
from pares.core.events import Follow, Lead
from pares.core.reasons import LEASE_RAN_OUT, OUTBID
from pares.core.wire.records import Seat
from pares.sim.allcall.knobs import Bounds
from pares.sim.allcall.net import LONG_AGO, Message
from pares.sim.allcall.process import AllCallProcess
from pares.sim.allcall.scene import AllCallChecker, AllCallScene
from pares.sim.engine import MS
from pares.sim.trace import seat_name

FRESH: Final = 0.15
"""Leases: a call that is no older counts for everybody, whatever the clocks say within their limits."""


class OneSide(AllCallChecker):
    """Of members that hear each other, and have for a beat and a delay, one leads."""

    promise = "one leader among those who hear each other"

    def __init__(self, scene: AllCallScene, bounds: Bounds, seats: list[Seat]) -> None:
        super().__init__(scene)
        self.bounds, self.seats = bounds, seats
        self.met: dict[tuple[Seat, str, str], int] = {}

    def looked(self) -> None:
        now, net = self.scene.engine.now, self.scene.net
        met: dict[tuple[Seat, str, str], int] = {}
        for seat in self.seats:
            believers = self.scene.believers(seat)
            for number, one in enumerate(believers):
                for other in believers[number + 1 :]:
                    key = (seat, one.id, other.id)
                    met[key] = self.met.get(key, now)
                    since = max(met[key], one.well_since, other.well_since)
                    since = max(since, net.hindered(one.name, other.name), net.hindered(other.name, one.name))
                    if now > since + self.bounds.heal:
                        raise self.broken(
                            f"{one.id} and {other.id} have both led {seat_name(seat)} for {(now - since) / 1e6:.1f} ms "
                            f"since they hear each other"
                        )
        self.met = met


class OneGoesOn(AllCallChecker):
    """Of those who lead when a split heals one goes on: all order their claims alike."""

    promise = "claims are ordered alike"

    def __init__(self, scene: AllCallScene) -> None:
        super().__init__(scene)
        self.until: dict[Seat, int] = {}

    def watch(self, seat: Seat, length: int) -> None:
        """Nothing but a heal happens to the role for so long."""
        self.until[seat] = self.scene.engine.now + length

    def followed(self, process: AllCallProcess, effect: Follow) -> None:
        if self.scene.engine.now >= self.until.get(effect.seat, 0):
            return
        if effect.why == OUTBID:
            return
        if not effect.fenced:
            del self.until[effect.seat]  # a term ends by plan, and for a moment there is none
        elif not [p for p in self.scene.believers(effect.seat) if p is not process]:
            raise self.broken(f"{process.id} stopped to lead {effect.seat[0]} as the last one ({effect.why})")


class Emergence(AllCallChecker):
    """When nothing has happened for long enough, whoever could follow somebody has somebody to follow whom it hears of, but
    for the moment of a handover: on each side of a split, and a member on its own leads itself if it was told to."""

    promise = "a leader emerges on every side"

    def __init__(self, scene: AllCallScene, bounds: Bounds) -> None:
        super().__init__(scene)
        self.bounds = bounds
        self.without: dict[tuple[str, str], int] = {}

    def looked(self) -> None:
        scene, net = self.scene, self.scene.net
        without, self.without = self.without, {}
        quiet_since = max(scene.disturbed_at, net.unsettled_until if net.weather.late or net.weather.doubled else 0)
        if net.weather.loss or net.weather.late or scene.engine.now < quiet_since + self.bounds.quiet:
            return
        for process in scene.processes.values():
            for role in process.roles if process.acts else ():
                if any(p is process or net.passes(p.name, process.name) for p in scene.believers((role, 0))):
                    continue
                reach = self._whom_it_hears_of(process, role)
                if any(p.believes((role, 0)) for p in reach) or not any(self._able(each, role) for each in reach):
                    continue
                key = (process.id, role)
                self.without[key] = without.get(key, scene.engine.now)
                if scene.engine.now > self.without[key] + self.bounds.stop:
                    raise self.broken(
                        f"{process.id} hears of nobody who leads {role}, {self.bounds.quiet / 1e6:.0f} ms after the last "
                        f"thing that happened"
                    )

    def _whom_it_hears_of(self, process: AllCallProcess, role: str) -> list[AllCallProcess]:
        """Itself, and whose calls reach it, directly or passed on."""
        found, new = [process], [process]
        others = [p for p in self.scene.processes.values() if p.acts and role in p.roles]
        while new:
            target = new.pop()
            for other in others:
                if other not in found and self.scene.net.passes(other.name, target.name):
                    found.append(other)
                    new.append(other)
        return found

    def _able(self, process: AllCallProcess, role: str) -> bool:
        """It may lead: its calls come back, or it hears nobody and leads on its own."""
        if role not in process.roles or not process.ready:
            return False
        if self.scene.net.passes(process.name, process.name):
            return True
        others = (p.name for p in self.scene.processes.values() if p.acts and p is not process)
        alone = not any(self.scene.net.passes(other, process.name) for other in others)
        return alone and process.settings["when_isolated"] == "lead"


class Claims(AllCallChecker):
    """Claims are their holders' words, last a lease at most, and nobody claims over one that it has heard and that lives, also
    while its holder's barrier runs."""

    promise = "claims are honoured"

    def __init__(self, scene: AllCallScene, bounds: Bounds, lease: int) -> None:
        super().__init__(scene)
        self.bounds, self.lease = bounds, lease
        self.made: dict[tuple[str, str, int, int], tuple[int, int]] = {}
        self.newest: dict[tuple[str, str], tuple[int, int]] = {}
        self.ends: dict[tuple[str, str], int] = {}
        self.known: dict[tuple[str, str, str], tuple[int, int]] = {}
        """By hearer, holder and role: the newest claim that it has heard from its holder."""
        self.numbers: dict[tuple[str, str], int] = {}

    def published(self, process: AllCallProcess, message: Message) -> None:
        for claim in message.call.c:
            key = (claim.role, claim.holder, claim.term, claim.seq)
            what = (claim.rank, claim.expires)
            if claim.holder == process.id:
                self.made.setdefault(key, what)
                if claim.ttl:
                    self.newest[process.id, claim.role] = (claim.term, claim.seq)
                    self.ends[process.id, claim.role] = message.at + claim.ttl * MS
            if self.made.get(key) != what:
                raise self.broken(f"{process.id} tells a claim of {claim.holder} to {claim.role} that it has not made")

    def heard(self, process: AllCallProcess, message: Message) -> None:
        call = message.call
        news = call.n > self.numbers.get((process.id, call.m), 0)
        if not news or self.scene.engine.now > message.at + FRESH * self.lease:
            return
        self.numbers[process.id, call.m] = call.n
        for claim in call.c:
            if claim.holder == call.m and claim.ttl:
                self.known[process.id, call.m, claim.role] = (claim.term, claim.seq)

    def led(self, process: AllCallProcess, effect: Lead) -> None:
        self._ends_in_time(process, effect)
        role = effect.seat[0]
        if effect.why == OUTBID:
            return  # it led before, and goes on
        now = self.scene.engine.now
        waiting = [p for p in self.scene.processes.values() if p.acts and effect.seat in p.barriers]
        waiting = [p for p in waiting if now < self.ends[p.id, role] - self.bounds.step]
        for other in [*self.scene.believers(effect.seat), *waiting]:
            known = self.known.get((process.id, other.id, role))
            if other is not process and not self.bounds.clocks and known and known == self.newest[other.id, role]:
                raise self.broken(f"{process.id} leads {role} while the claim of {other.id} lives, which it has heard")

    def renewed(self, process: AllCallProcess, effect: Lead) -> None:
        self._ends_in_time(process, effect)

    def _ends_in_time(self, process: AllCallProcess, effect: Lead) -> None:
        if effect.until > process.now + self.lease:
            raise self.broken(f"{process.id} may believe in {effect.seat[0]} for longer than a lease")


class Terms(AllCallChecker):
    """A term is one member's, has a token above all that its holder has heard of, also later, and does not come back."""

    promise = "terms have tokens of their own"

    def __init__(self, scene: AllCallScene, bounds: Bounds, lease: int) -> None:
        super().__init__(scene)
        self.bounds, self.lease = bounds, lease
        self.holders: dict[tuple[Seat, int], str] = {}
        self.highest: dict[tuple[str, str], int] = {}

    def heard(self, process: AllCallProcess, message: Message) -> None:
        if self.bounds.clocks or self.scene.engine.now > message.at + FRESH * self.lease:
            return
        for claim in message.call.c:
            key = (process.id, claim.role)
            self.highest[key] = max(self.highest.get(key, 0), claim.term)

    def looked(self) -> None:
        for process in self.scene.processes.values():
            for seat, (token, _) in process.beliefs.items() if process.acts else ():
                highest = self.highest.get((process.id, seat[0]), 0)
                if token >> 22 < highest:
                    raise self.broken(f"{process.id} leads {seat[0]} on by {token}, and has heard of term {highest}")

    def led(self, process: AllCallProcess, effect: Lead) -> None:
        seat, token = effect.seat, effect.token
        if (seat, token) in self.holders:
            raise self.broken(f"{process.id} leads {seat[0]} by {token}, which was {self.holders[seat, token]}'s")
        self.holders[seat, token] = process.id
        highest = self.highest.get((process.id, seat[0]), 0)
        if highest and token < token_of(highest + 1, process.id):
            raise self.broken(f"{process.id} leads {seat[0]} by {token}, and has heard of term {highest}")
        self.highest[process.id, seat[0]] = max(highest, token >> 22)

    def renewed(self, process: AllCallProcess, effect: Lead) -> None:
        token, until = process.beliefs[effect.seat]
        if token != effect.token:
            raise self.broken(f"{process.id} leads {effect.seat[0]} by {effect.token} before {token} is over")
        # A step may be carried out late, but it was made before the belief was over.
        if until < effect.until - self.lease:
            raise self.broken(f"{process.id} leads {effect.seat[0]} again by {token}, which was over")


class Silence(AllCallChecker):
    """A member that may have forgotten something calls nobody and leads nothing for a lease and the skew, unless it hears who
    leads."""

    promise = "newcomers keep silent"

    def __init__(self, scene: AllCallScene, lease: int, skew: int) -> None:
        super().__init__(scene)
        self.wait = lease + skew
        self.known: set[tuple[str, str]] = set()
        self.awake: set[str] = set()
        self.began_at: dict[str, int] = {}

    def began(self, process: AllCallProcess) -> None:
        self.began_at[process.id] = process.now

    def heard(self, process: AllCallProcess, message: Message) -> None:
        for claim in message.call.c:
            if claim.ttl:
                self.known.add((process.id, claim.role))
                self.awake.add(process.id)

    def _young(self, process: AllCallProcess) -> bool:
        return process.now < self.began_at[process.id] + self.wait

    def published(self, process: AllCallProcess, message: Message) -> None:
        call = message.call
        if call.k == "ping" and call.p != "gone" and self._young(process) and process.id not in self.awake:
            raise self.broken(f"{process.id} calls all before it can know what it forgot")

    def led(self, process: AllCallProcess, effect: Lead) -> None:
        if self._young(process) and (process.id, effect.seat[0]) not in self.known:
            raise self.broken(f"{process.id} leads {effect.seat[0]} before it can know who does")


class Alone(AllCallChecker):
    """Whose own calls don't come back steps down, if it was told to; and does not lead for longer than a lease beside others
    whom it hears."""

    promise = "who is not heard does not lead"

    def __init__(self, scene: AllCallScene, bounds: Bounds, lease: int) -> None:
        super().__init__(scene)
        self.bounds, self.lease = bounds, lease
        self.back: dict[str, int] = {}
        """When one of its calls came back, or it had reason to wait for one anew."""
        self.others: dict[str, int] = {}
        self.among: dict[str, int] = {}
        """From when on it has heard others all the time."""

    def began(self, process: AllCallProcess) -> None:
        now = self.scene.engine.now
        self.back[process.id] = self.others[process.id] = self.among[process.id] = now

    def thawed(self, process: AllCallProcess) -> None:
        self.began(process)

    def heard(self, process: AllCallProcess, message: Message) -> None:
        now = self.scene.engine.now
        if message.sender == process.name:
            self.back[process.id] = now
        elif now <= message.at + FRESH * self.lease:
            if now > self.others[process.id] + self.bounds.window // 2:
                self.among[process.id] = now
            self.others[process.id] = now

    def looked(self) -> None:
        now, bounds = self.scene.engine.now, self.bounds
        for process in self.scene.processes.values():
            if not process.acts or bounds.clocks or not any(process.believes(seat) for seat in process.beliefs):
                continue
            back = self.back[process.id]
            wait = bounds.window + bounds.beat + bounds.step
            if process.settings["when_isolated"] == "step_down" and now > back + wait:
                raise self.broken(
                    f"{process.id} leads, and its calls have not come back for {(now - back) / 1e6:.1f} ms"
                )
            among = now < self.others[process.id] + bounds.window // 2
            if among and now > max(back, self.among[process.id]) + wait + bounds.lease + bounds.window:
                raise self.broken(f"{process.id} leads among others who don't hear it, and its term does not end")


class Planned(AllCallChecker):
    """A member that has nothing in its way, and hears itself, ends its terms by plan: for a better ranked one, by a wish of its
    user's, by closing. Its lease does not run out, neither while it leads nor while the barrier runs that it then waits for."""

    promise = "what ends by plan is no fence"

    def __init__(self, scene: AllCallScene, bounds: Bounds) -> None:
        super().__init__(scene)
        self.wait = bounds.lease + bounds.window + 2 * bounds.beat + 2 * bounds.delay
        """So long ago is the last trouble that could have kept it from prolonging what ends now."""

    def followed(self, process: AllCallProcess, effect: Follow) -> None:
        if effect.why != LEASE_RAN_OUT or not process.well(self.wait):
            return
        if self.scene.engine.now > self.scene.net.hindered(process.name, process.name) + self.wait:
            raise self.broken(
                f"{process.id} is fenced from {effect.seat[0]} ({effect.why}), and nothing was in its way"
            )


class NoGap(AllCallChecker):
    """In the calm a term that ends while its holder lives is followed by another within a beat and two delays."""

    promise = "no gap"

    def __init__(self, scene: AllCallScene, bounds: Bounds) -> None:
        super().__init__(scene)
        self.bounds = bounds
        self.calm = False
        self.killed_at = LONG_AGO
        self.newest: dict[Seat, int] = {}
        """When the last term of each role ended."""

    def killed(self, process: AllCallProcess) -> None:
        self.killed_at = self.scene.engine.now

    def followed(self, process: AllCallProcess, effect: Follow) -> None:
        self.newest[effect.seat] = self.scene.engine.now
        if self.calm and effect.why != OUTBID:
            self.scene.engine.after(self.bounds.stop, self._look, effect, self.scene.engine.now)

    def _look(self, effect: Follow, since: int) -> None:
        able = any(p.well(self.bounds.quiet) and effect.seat[0] in p.roles for p in self.scene.processes.values())
        alone = self.killed_at < since and self.newest[effect.seat] == since
        if self.calm and alone and able and not self.scene.believers(effect.seat):
            raise self.broken(
                f"nobody leads {effect.seat[0]} {self.bounds.stop / 1e6:.1f} ms after a term ended ({effect.why})"
            )
