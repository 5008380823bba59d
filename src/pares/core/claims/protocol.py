"""The claims protocol, a member's side of it: ``effects = protocol.step(event, now)`` (docs/guarantees.md).

The order of things in every step is part of the protocol:

1. The lease is looked at first: what has run out is fenced before anything else can happen (R4).
2. A `Read` is folded, and beliefs follow the fold: what the log took away is over, what it gave is believed when the lease is
   good. Nothing is written in answer to a read: `now` was read after the fetch, and an append needs one read before it.
3. A `Tick` decides and writes. One append is under way at a time. A member that has not read back an append of its own decides
   nothing new; and if that lasts for a lease, it is deaf: it releases what it held and falls silent until it has caught up.
   [deaf, but beating: would block everybody for ever]

A record of unknown outcome is never repeated. What it was to achieve is looked at again, and if still due it is written as a
new record: a beat with a new number, a release with the same token (R4, R5).

This file has the way in and out: reading, joining, answers, being over. What a member of the group does is in `tick`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, ClassVar, Final, get_args

from pares.core import events as ev
from pares.core.claims.chores.duties import spread_ns
from pares.core.claims.config import Config, RoleSpec
from pares.core.claims.outbox import Outbox
from pares.core.claims.silence import Stopwatches
from pares.core.claims.tenure import Phase, Tenures
from pares.core.claims.tick import Living
from pares.core.coexistence import Others, refusal
from pares.core.lease import MS, challenge_ns, lease_ns
from pares.core.reasons import CLOSED, LEFT
from pares.core.wire import neli_records, records
from pares.core.wire.changes import Change, MemberJoined
from pares.core.wire.reader import Reader, State
from pares.core.wire.world import World

__all__ = ["Claims", "Config", "RoleSpec", "Stage"]

JOIN_TRIES: Final = 5


class Stage(Enum):
    NEW = "new"
    READING = "reading"
    JOINING = "joining"
    LIVE = "live"
    OVER = "over"


class Claims:
    """One incarnation of a member. Feed it events, carry out its effects, in order."""

    acting: ClassVar[type[Living]] = Living
    """The part of it that acts at a tick."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.me = config.id
        self.stage = Stage.NEW
        lease = lease_ns(config.session_ms, config.drift, config.overlap_ms)
        self.reader = Reader(config.group, config.id, config.reads)
        self.outbox = Outbox(config.group, config.id, config.session_ms, lease, config.writes)
        self.tenures = Tenures(config.id, lease, config.barrier_ms * MS)
        self.watches = Stopwatches(config.id, config.drift, config.settle_ms * MS)
        self.living = self.acting(config, self.reader, self.outbox, self.tenures, self.watches)
        self._watched: World | None = None
        """The world that the stopwatches know."""
        self._try_join()
        self._join_stands = False
        """The join that is looked for stands in the log: if it was read and did not count, it was refused."""
        self._refusals = self._came_at = 0
        self._drift_base = 0
        self._drift_seen = (-2, 0)
        self._others = Others()
        """Members of the group that run NELI, of what stands before this member's join."""
        self._told = False
        self._adrift_at: int | None = None
        """Since when it looks for a way into the log."""

    @property
    def position(self) -> int:
        """Where to read next."""
        return self.reader.position

    @property
    def until(self) -> int:
        """Up to when beliefs last."""
        return self.tenures.until

    @property
    def slow_until(self) -> int | None:
        """None while this member's round trips let it lead; else when it will ask to be given seats again, at the earliest
        (R18)."""
        return self.living.pace.slow_until

    @property
    def alive(self) -> int:
        """How many members are alive, for all that this one knew at its last tick."""
        return len(self.living.moves.alive)

    @property
    def largest_token(self) -> int:
        """No token that this process has seen, in this incarnation or before, is greater (R9)."""
        return max(self.config.seen, self.reader.largest, self.reader.world.base + self.reader.world.last)

    @property
    def at_rest(self) -> bool:
        """Whether what was written last was a beat that was due, which has been read back: nothing follows from that until the
        time that the last tick has asked for."""
        return self.living.routine and self.outbox.quiet and self.outbox.in_flight is None and not self.living.busy

    @property
    def settled(self) -> bool:
        """Whether everything asked for so far has been written and read back."""
        return self.stage is Stage.OVER or (
            self.stage is Stage.LIVE
            and not self.living.busy
            and self.outbox.in_flight is None
            and self.outbox.quiet
            and self.outbox.idle
        )

    def step(self, event: ev.Event, now: int) -> list[ev.Effect]:
        """What follows from `event` at `now` (ns on the stopwatch), as effects to be carried out in order."""
        if self.stage is Stage.OVER:
            return []
        effects = self.tenures.expire(now)
        if effects and any(type(effect) is ev.Follow for effect in effects):
            self.living.ran_out(now)
        HANDLERS[type(event)](self, event, now, effects)
        if self.living.routine and type(event) is not ev.Tick:
            expected = type(event) is ev.Acked or (
                type(event) is ev.Read and len(event.entries) == len(self.reader.mine)
            )
            self.living.routine = expected and all(type(effect) is ev.Extend for effect in effects)
        return effects

    # Reading ---------------------------------------------------------------------------------------------------------

    def _attached(self, event: ev.Attached, now: int, effects: list[ev.Effect]) -> None:
        self.reader.attach(event.start, event.end)
        self._others = Others()
        self.stage = Stage.READING

    def _read(self, event: ev.Read, now: int, effects: list[ev.Effect]) -> None:
        reader = self.reader
        past = not reader.entered
        end, changes = reader.end, reader.feed(event.entries)
        for offset, n, payload in reader.mine:
            self._meet(end, offset, now, effects)
            if not self.outbox.sent.read_back(n, payload):
                text = (
                    f"record {n} of {self.me} was not written by this process: it was forked or cloned; start it anew"
                )
                self._over(ev.Stop("cloned", text), "cloned", now, effects)
                return
        if reader.mine and self.outbox.sent.counted is not None:
            self.living.came_back(self.outbox.sent.counted, now)
        self._meet(end, reader.position, now, effects)
        if reader.stranded:
            self._over(
                ev.Restart("the log was begun anew by somebody who knew nothing of it"), "stranded", now, effects
            )
            return
        self.outbox.read_up_to(reader.position, own=bool(reader.mine))
        if event.entries or reader.world is not self._watched:
            self._watched = reader.world
            self.living.read(event, changes, now, past=past)
        if not event.entries:
            self.watches.looked_at = event.began
        if reader.state is State.ADRIFT and reader.last_seen != self._drift_seen[0]:
            self._drift_seen = (reader.last_seen, now)
        if changes:
            effects.append(ev.Moved(changes))
            self._warn_of_namesakes(changes, effects)
        if self.stage is Stage.LIVE and self.me not in reader.world.members:
            self._gone(now, effects)
        elif reader.state is State.FOLDING:
            effects += self.tenures.update(reader.world, self.outbox.sent, changes, now)
            self.tenures.still_here(reader.position)

    def _meet(self, end: int, before: int, now: int, effects: list[ev.Effect]) -> None:
        """What members of NELI or Fast NELI wrote under this group's name, up to before that offset (`coexistence`)."""
        unknown = self.reader.unknown
        while unknown and unknown[0][0] < before:
            offset, payload = unknown.pop(0)
            try:
                record = neli_records.decode(payload)
            except records.BadRecord:
                continue
            me = self.reader.world.members.get(self.me)
            if isinstance(record, neli_records.Foreign):
                continue
            if me is None or offset < me.joined:
                self._others.induction(record, now, new=offset >= end)
            elif not isinstance(record, neli_records.Yield):
                self._beside(record, now, effects)

    def _beside(self, record: neli_records.InductionRecord, now: int, effects: list[ev.Effect]) -> None:
        """It was written after this member's join. Its sender stops when it reads that; unless it has waited, before its
        announcement, until nobody could believe any more that it had read of."""
        text = (
            f"in this group {record.m} runs NELI or Fast NELI, and this member 'claims': give each a group of its own"
        )
        if not self._told:
            self._told = True
            effects.append(ev.Report("other-protocol", text))
        counted = self.outbox.sent.counted
        late = counted is None or now >= self.tenures.lease_until(counted)
        if late and isinstance(record, neli_records.Announce) and self.config.eligible != ():
            self._take_back(ev.Restart(text))

    def _take_back(self, end: ev.Effect) -> None:
        """This member never leads again, and says so."""
        self.stage = Stage.LIVE
        self.tenures.left = True
        if not self.living.closing:
            self.living.ending = end

    def _warn_of_namesakes(self, changes: list[Change], effects: list[ev.Effect]) -> None:
        for change in changes:
            if type(change) is not MemberJoined or self.stage is not Stage.LIVE:
                continue
            if change.name == self.config.name and change.member != self.me:
                text = f"{change.member} joined under the name of this member ({self.me}); give each process its own"
                effects.append(ev.Report("duplicate-name", text))

    def _jumped(self, event: ev.Jumped, now: int, effects: list[ev.Effect]) -> None:
        self._over(ev.Restart(event.why), event.why, now, effects)

    def _gone(self, now: int, effects: list[ev.Effect]) -> None:
        """By its own leave, or because the others took it for dead, forgot it, or began the log anew."""
        end = self.living.ending if self.tenures.left else ev.Restart("the group no longer knows this member")
        self._over(end, "no longer in the group", now, effects)

    def _over(self, end: ev.Effect, why: str, now: int, effects: list[ev.Effect]) -> None:
        """This incarnation is over: beliefs first, then the word to the runtime."""
        self.stage = Stage.OVER
        effects += self.tenures.drop_all(why, now)
        effects.append(end)

    # Answers and requests ------------------------------------------------------------------------------------------------

    def _acked(self, event: ev.Acked, now: int, effects: list[ev.Effect]) -> None:
        if not self.outbox.acked(event.ticket, event.offset, self.position):
            return
        self.living.pace.appended(now - self.outbox.last_at)
        self.tenures.acked(event.ticket, event.offset)
        self.living.acked()
        self._join_stands = self.stage is Stage.JOINING
        self.tenures.still_here(self.position)
        if self.tenures.left:
            self._over(self.living.ending, LEFT, now, effects)

    def _failed(self, event: ev.Failed, now: int, effects: list[ev.Effect]) -> None:
        if self.outbox.failed(event.ticket, now, event.unknown):
            self.tenures.failed(event.ticket)
            self.living.failed(now)
            self._drift_base = 0
            self._join_stands = False

    def _lapsed(self, event: ev.Lapsed, now: int, effects: list[ev.Effect]) -> None:
        over = self.tenures.lapsed(event.seat, event.token, now)
        if over:
            self.living.ran_out(now)
        effects += over

    def _work_over(self, event: ev.WorkOver, now: int, effects: list[ev.Effect]) -> None:
        self.tenures.barrier_returned(event.seat, event.token)

    def _request(self, event: ev.Event, now: int, effects: list[ev.Effect]) -> None:
        self.living.request(event)

    # Acting ----------------------------------------------------------------------------------------------------------

    def _tick(self, event: ev.Tick, now: int, effects: list[ev.Effect]) -> None:
        self.living.pace.woke(now)
        effects += self.tenures.overdue_barriers(now)
        wakes = [t.barrier_until for t in self.tenures.by_seat.values() if t.phase is Phase.STOPPING]
        if self.tenures.by_seat and now < self.until:
            wakes.append(self.until)
        if self.outbox.in_flight is None:
            if now < self.outbox.retry_at:
                wakes.append(self.outbox.retry_at)
            else:
                self._act(event.wall_us, now, effects, wakes)
        if wakes and self.stage is not Stage.OVER:
            effects.append(ev.Wake(self.living.pace.wakes_at(min(wakes))))

    def _act(self, wall_us: int, now: int, effects: list[ev.Effect], wakes: list[int]) -> None:
        if self.stage is Stage.READING:
            self._begin(wall_us, now, effects, wakes)
        if self.stage is Stage.JOINING:
            self._check_join(now, effects)
        if self.stage is Stage.LIVE:
            self.living.act(wall_us, now, effects, wakes)
        append = self.outbox.flush(now)
        if append is not None:
            effects.append(append)

    def _begin(self, wall_us: int, now: int, effects: list[ev.Effect], wakes: list[int]) -> None:
        reader = self.reader
        if self.living.closing:
            self._over(ev.Closed(), CLOSED, now, effects)
        elif reader.up_to_date and self._other_runs(now, effects, wakes):
            return
        elif reader.state is State.ADRIFT:
            self._drift(wall_us, now, effects, wakes)
        elif not reader.entered or not self.outbox.quiet:
            return
        elif reader.too_new:
            self._over(ev.Stop("newer-format", reader.upgrade), "newer format", now, effects)
        elif reader.world.base == 0:
            self._genesis(reader.world.last, wall_us, now, effects)
        elif not reader.world.members and self.config.seen > reader.world.base + reader.world.last:
            # Nobody is in this world, and its tokens are below those that this process has seen: a late copy of an old genesis.
            self._genesis(reader.world.last, wall_us, now, effects)
        elif self.me in reader.world.members:
            self.stage = Stage.JOINING  # the join that asked for a snapshot has counted
        elif not (self.living.readiness.able or self.living.readiness.can_say(reader.world)):
            return
        elif self._is_its_turn(now, wakes):
            self.stage = Stage.JOINING
            self._join(reader.world.base, now)

    def _is_its_turn(self, now: int, wakes: list[int]) -> bool:
        """Whether it may join now: where hundreds start at once each waits a little, the later it comes the longer."""
        self._came_at = self._came_at or now
        others = 0 if self.config.eligible == () else len(self.reader.world.members)
        at = self._came_at + spread_ns(self.me, others, self.config.session_ms)
        wakes += [at] if now < at else []
        return now >= at

    def _other_runs(self, now: int, effects: list[ev.Effect], wakes: list[int]) -> bool:
        """Whether somebody runs NELI in this group, or may, for all that is known yet: then this member has no place in it."""
        other = self._others.present(now, self.config.drift)
        if other is None or self.config.eligible == ():
            return False
        joined = self.me in self.reader.world.members
        if not joined and not other.lives:
            wakes.append(other.until(self.config.drift))
            return True
        end = ev.Stop("refused", refusal(self.config.group, str(other), "'claims'"))
        if joined:
            self._take_back(end)
        else:
            self._over(end, "refused", now, effects)
        return True

    def _genesis(self, over: int, wall_us: int, now: int, effects: list[ev.Effect]) -> None:
        """Base: the wall clock, or more if a larger token may have been given (R9)."""
        reader = self.reader
        base = max(wall_us, self.largest_token + 1)
        if base >= records.MAX_BASE:
            text = f"a record in the log names a base of {base - 1}, and no log can begin above that: trim it, or use a new log"
            self._over(ev.Stop("refused", text), "refused", now, effects)
            return
        fields: dict[str, Any] = {"base": base, "over": None if over < 0 else over}
        self.outbox.write(reader.world, records.Genesis, now, v=1, b=base, **fields)

    def _try_join(self) -> None:
        """Raises `ConfigError` if the join of this member does not fit into a record: better known now than at a tick."""
        records.encode(records.Join(v=1, g=self.config.group, m=self.me, n=1, b=0, s=0, **self.config.said()))

    def _join(self, base: int, now: int, *, adrift: bool = False) -> None:
        """In version 1, as a genesis, where version 2 is not in force or this member does not know: readers of either version
        can read it. What such a join can't say, that this member is not ready, follows in the same append (R19)."""
        world, able = self.reader.world, self.living.readiness.able
        self.outbox.due_ms = self.config.session_ms // 2
        told = not able and world.in_force and not adrift
        fields: dict[str, Any] = {"v": 2, "ready": False} if told else {"v": 1}
        self.outbox.write(world, records.Join, now, b=base, adrift=adrift, **fields, **self.config.said())
        if not able and not told:
            self.outbox.write(world, records.Ready, now, b=base, ready=False, why=self.living.readiness.why_not)

    def _check_join(self, now: int, effects: list[ev.Effect]) -> None:
        world = self.reader.world
        if self.me in world.members:
            if self._other_runs(now, effects, []):
                return
            self.stage = Stage.LIVE
            self.living.begin(now)
            effects.append(ev.Live())
        elif self.me in world.gone:  # it had joined, and was forgotten before it read of that
            self._gone(now, effects)
        elif self.outbox.quiet and self.outbox.idle and self.reader.entered:
            self.stage = Stage.READING
            self._refusals += self._join_stands
            if self._refusals >= JOIN_TRIES:
                full = len(world.members) >= records.MAX_MEMBERS
                why = f"it has {len(world.members)} members, no more fit" if full else "its members read another format"
                text = f"group {self.config.group!r} does not let {self.me} in: {why}"
                self._over(ev.Stop("refused", text), "refused", now, effects)

    def _drift(self, wall_us: int, now: int, effects: list[ev.Effect], wakes: list[int]) -> None:
        """No way into this log: ask those who know it for a snapshot; if nobody lives, begin it anew (R12)."""
        reader = self.reader
        self._adrift_at = now if self._adrift_at is None else self._adrift_at
        if not reader.up_to_date or not self.outbox.quiet:
            return
        if not self.living.readiness.able:
            return  # what the others read is not known: it could not tell them (R19)
        if reader.newest_base and reader.newest_base != self._drift_base:
            self._drift_base = reader.newest_base
            self._join(reader.newest_base, now, adrift=True)
            return
        longest = max(reader.longest_ms, self.config.session_ms)
        wait = challenge_ns(longest, 0.0, self.config.drift)
        at = self._drift_seen[1] + wait
        if reader.unreadable and now >= self._adrift_at + 2 * wait:
            # Every member that could has answered by now; what is there is a snapshot for later versions only.
            self._over(ev.Stop("newer-format", reader.upgrade), "newer format", now, effects)
        elif now >= at:
            self._genesis(reader.last_seen, wall_us, now, effects)
        else:
            wakes.append(at)


Handler = Callable[[Claims, Any, int, list[ev.Effect]], None]

HANDLERS: Final[dict[type, Handler]] = {
    ev.Attached: Claims._attached,  # pyright: ignore[reportPrivateUsage]
    ev.Read: Claims._read,  # pyright: ignore[reportPrivateUsage]
    ev.Tick: Claims._tick,  # pyright: ignore[reportPrivateUsage]
    ev.Acked: Claims._acked,  # pyright: ignore[reportPrivateUsage]
    ev.Failed: Claims._failed,  # pyright: ignore[reportPrivateUsage]
    ev.Jumped: Claims._jumped,  # pyright: ignore[reportPrivateUsage]
    ev.Lapsed: Claims._lapsed,  # pyright: ignore[reportPrivateUsage]
    ev.WorkOver: Claims._work_over,  # pyright: ignore[reportPrivateUsage]
} | dict.fromkeys(
    (
        ev.Died,
        ev.HandOver,
        ev.StepDown,
        ev.Declare,
        ev.Ask,
        ev.PauseFor,
        ev.ResumeNow,
        ev.RewindTo,
        ev.Marked,
        *get_args(ev.FromConsumers),
        ev.Flush,
        ev.Ready,
        ev.Close,
    ),
    Claims._request,  # pyright: ignore[reportPrivateUsage]
)
