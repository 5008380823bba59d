"""A member of a group: what users of pares hold in their hands."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, ParamSpec, Self, TypeVar, Unpack, get_args

from pares.core.claims.tenure import MAX_WHY
from pares.core.errors import ConfigError
from pares.core.events import Ask, Declare, HandOver, Marked, PauseFor, Ready, ResumeNow, StepDown
from pares.core.wire.records import MAX_PAUSE_MS, MAX_SEATS, check_name
from pares.ledger import Bus, Ledger
from pares.runtime import events as told
from pares.runtime.config.arguments import AnySettings
from pares.runtime.config.numbers import number, one_of, seconds_to_ms, whole
from pares.runtime.config.protocols import TRAITS, Protocol, check_moved, moved_keywords, protocol_of
from pares.runtime.config.settings import CONNECT, SESSION, Connect, Eligible, Roles, Spread, settings
from pares.runtime.driver.inbox import Inbox
from pares.runtime.driver.kit import Engine, Medium, Parts, contends
from pares.runtime.driver.lifecycle import Life
from pares.runtime.driver.requests import Requests
from pares.runtime.health import look
from pares.runtime.here import here
from pares.runtime.host import DeathLock
from pares.runtime.kits import kit_of
from pares.runtime.term import Term
from pares.runtime.views import Health, Holder, Peer, State
from pares.runtime.work.barriers import Barriers, Callback
from pares.runtime.work.closing import Closing
from pares.runtime.work.readiness import Readiness
from pares.runtime.work.tasks import Background, only_while
from pares.runtime.work.waits import Waits

P = ParamSpec("P")
R = TypeVar("R")


class Member(Closing):
    """One process' place in a group.

    Promised (exclusive mode, the default): at no instant do two members of the group believe that they hold the same seat,
    provided that the ledger keeps what it acknowledged in order, and that every clock's *rate* is within `drift` of true time.
    Nothing is assumed of clock readings, delays or pauses. After a crash somebody else leads within
    ``session / (1 - drift)`` plus one append and read-back, or within milliseconds where the death can be proven (same host).
    Not promised: anything between a check and the act that follows it; for that, give `Term.token` to a fence.

    `ledger`: a URL or an opened ledger. `group`: who contends for the same roles. `roles`: names that this member declares and
    is eligible for; `seats`: how many members hold each of them at once. `name`: stable over restarts, one live process each
    (if not given it is made of host, process id and time: another one after each start). `host`, `zone`: seats of one role go
    to different ones. `rank`: lower first. `weight`: its share of the roles. `eligible`: other roles than the declared ones;
    "*" for all.
    `session`: seconds of silence (0.02 to 60) after which others may take what it holds. `overlap`: seconds for which it goes
    on believing after its lease: above 0 a leader that is cut off leaves no gap, and two may lead for that long (non-exclusive
    mode). A process that is dead leaves one all the same: use `seats`.
    `barrier`: called with every event; a `Revoked` holds the handover back until it returns, at most `barrier_timeout` seconds.
    `settle`: seconds for which the group must be stable before work is moved to balance it (None: half a session). `ready`: a
    callable that is asked twice a session; while it says False, raises, or has not answered for a session (a second at least),
    this member leads nothing. `on_lost`: called with each term that has ended. `labels`: shown to others, and decide nothing.
    `options`: for the ledger, when it is given as a URL.

    `connect`: "now", or "background" for a program that is to start also while the ledger is away: the member is there at once,
    `joining`, and keeps trying to open it (`health().unreachable` says why not yet); whatever waits for a term waits. What
    can't be had without a ledger (`hand_over`, `pause`, ...) raises `LedgerUnavailable` until then. What
    can never work fails the member when that is found out, and is raised by whatever waits.

    `lock_folder`: where the members of this host keep the locks that prove a death (None: beside the ledger, or in the user's
    state folder); a local folder that all of them can write to. `witness`: starts a process beside this one that tells other
    hosts of the end of whatever member of its folder, unless one runs here already; it ends when none is left (`Witness`).

    `protocol`: a name, or the settings of one (`pares.Nele`, `pares.Neli`, `pares.FastNeli`, `pares.AllCall`), which have what
    only that protocol has. "claims", the default, has none. "fast-neli", "neli" and "nele" (docs/neli.md) share out the
    ledger's partitions (by Kafka's consumer group, elsewhere by claims), and each role is led by the owner of its partition:
    by one at most, but for "nele", where two lead while a role moves. "allcall" (docs/allcall.md) needs no log, only a bus:
    core NATS (``nats://HOST:PORT``), or any ledger. It is *not* exclusive: while messages don't pass there is a leader on each
    side, and tokens are in order on one side only; when they pass again one remains at once.

    Raises `ConfigError` for a value that can't work, `CapabilityError` for what the ledger can't carry, `LedgerUnavailable`
    when the ledger can't be opened. More: docs/guarantees.md and docs/choosing.md.
    """

    _kit_of = staticmethod(kit_of)

    @moved_keywords
    def __init__(
        self,
        ledger: str | Ledger | Bus,
        *,
        group: str,
        roles: Roles = (),
        seats: int = 1,
        name: str | None = None,
        host: str | None = None,
        zone: str | None = None,
        labels: Mapping[str, str] | None = None,
        rank: int = 0,
        weight: float = 1,
        eligible: Eligible = None,
        session: float = SESSION,
        overlap: float = 0.0,
        protocol: Protocol = "claims",
        barrier: Callback | None = None,
        barrier_timeout: float = 30.0,
        settle: float | None = None,
        drift: float = 0.1,
        ready: Callable[[], bool] | None = None,
        on_lost: Callable[[Term], object] | None = None,
        lock_folder: str | os.PathLike[str] | None = None,
        witness: bool = False,
        connect: Connect = "now",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        given: dict[str, Any] = {"group": group, "roles": roles, "seats": seats, "name": name, "host": host}
        given |= {"zone": zone, "labels": labels, "rank": rank, "weight": weight, "eligible": eligible}
        given |= {"session": session, "overlap": overlap, "drift": drift, "lock_folder": lock_folder}
        given |= {"barrier_timeout": barrier_timeout, "settle": settle}
        for what, call in (("barrier", barrier), ("on_lost", on_lost), ("ready", ready)):
            if call is not None and not callable(call):
                raise ConfigError(f"{what} is {call!r}: give a callable, or None")
        kind, own = protocol_of(protocol)
        traits, kit = TRAITS[kind], self._kit_of(kind)
        self._host = here()
        self._now = self._host.now
        checked = settings(self._host, **given, retention=None, any_rank=traits.any_rank)
        checked["ready"] = ready is None
        if connect not in CONNECT:
            raise ConfigError(f"connect is {connect!r}: give 'now' or 'background'")
        self.group = group
        self.name: str = checked["name"]
        self._barrier_timeout = barrier_timeout
        who = f"member {self.name!r} of group {group!r}"
        self._inbox = Inbox()
        self._barriers = Barriers(who, barrier, self._inbox.work_over, self._host)
        told: dict[str, Any] = {"lapsed": self._inbox.put, "give_up": self._give_up}
        self._life = Life(who, self._barriers, on_lost, self._host, barrier_limit=barrier_timeout, **told)
        self._until = self._life.beliefs.until
        self._waits = Waits(self._life, self._barriers, self._host)
        self._ready = ready
        parts = Parts(own, checked, given, self._inbox, self._life, self._host, contends(Member))
        given |= {"witness": witness, "options": options}
        asked = given | {"declared": len(checked["roles"])}

        def opens() -> Medium:
            kit.check(given)
            return kit.open(ledger, options or {}, asked, self._host)

        def build(medium: Medium) -> Engine:
            try:
                return kit.assemble(parts, medium.ledger)
            except BaseException:
                medium.close()
                raise

        if connect == "background":
            from pares.runtime.driver.connecting import connecting

            kit.check(given)
            eligible_for = None if traits.partitions else checked["eligible"]
            asked_for = (self.name, eligible_for, checked["session_ms"] / 1000)
            self._adopt(None, connecting(self._life, *asked_for, opens, build, self._adopt, self._host))
        else:
            medium = opens()
            self._adopt(medium, build(medium))
        # In this order: `close` waits for the task. A fork waits for both, so that each child knows what it inherits.
        with self._host.without_forks():
            self._loop.start()
            self._host.begin(self)

    def _adopt(self, medium: Medium | None, engine: Engine) -> None:
        """From now on this member is driven by `engine`."""
        self._medium = medium
        self._loop, self._view, may_lead, self.session = engine
        self._requests = Requests(self.group, self._life, self._loop, self._view, may_lead, self._host)
        self._waits.requests = self._requests
        if self._ready is not None:
            request, run = self._loop.request, self._barriers.run
            check = Readiness(self._ready, self.session, run, lambda now: request(Ready(now)), self._host)
            self._loop.each_round = lambda: check.ask() if self._life.state in ("live", "joining") else None

    @classmethod
    def from_env(cls, ledger: str | Ledger | Bus | None = None, **settings: Unpack[AnySettings]) -> Self:
        """A member with settings from the environment: PARES_LEDGER, PARES_GROUP, PARES_ROLES, PARES_SESSION, PARES_PROTOCOL,
        one for each keyword that can be written as a word (docs/guide.md lists them). Arguments win.

        Raises `ConfigError` for a variable whose value can't be, by its name and value, and when neither the arguments nor the
        environment say which ledger (there is no default, as commands have one) or which group; what `Member` raises else.
        """
        from pares.runtime.config.environment import Environment

        return Environment(ledger, settings, here().env).make(cls)

    # The check -------------------------------------------------------------------------------------------------------

    def holds(self, role: str) -> bool:
        """Whether this member holds a seat of `role` now: the bare belief, also while the barrier still has `Acquired`. No
        lock, no I/O; False after a fork, a close, or for a role that it has never heard of. What is true of `Term` is true
        here: nothing is promised for the time after the check."""
        now = self._now  # called by a local name: called as a method of this object it costs a tenth more
        return now() < self._until.get(role, 0) or (role in self._until and self._life.beliefs.believes(role))

    def term(self, role: str) -> Term | None:
        """The current term of `role`, or None: as `holds`, the bare belief."""
        self._requests.check_eligible(role)
        return self._life.beliefs.valid(role)

    def wait(self, role: str, timeout: float | None = None) -> Term | None:
        """Waits until this member leads `role` and its barrier has returned from `Acquired`; None after `timeout` seconds
        (None: no limit), or when it is closed. Events from then on do not tell of the beginning of this term any more.

        Raises `ConfigError` for a role that this member never leads; with "neli", "nele" and "fast-neli", whose members lead
        whatever role the group has, for one that nobody has declared or added, as soon as the logs have been read."""
        return self._waits.wait_newer(role, -1, timeout)

    def terms(self, role: str, timeout: float | None = None) -> Generator[Term, None, None]:
        """The terms of `role`, one for each tenure, as they come: each when the barrier has returned from its `Acquired`. Ends
        when the member is closed, or when none has come for `timeout` seconds. What runs between two steps is a body of the
        term: a planned handover waits for it to see that the term is over, up to `barrier_timeout`. Raises as `wait`."""
        last = -1
        while (term := self._waits.wait_newer(role, last, timeout)) is not None:
            body = self._barriers.begin(term.key)
            try:
                yield term
            finally:
                self._barriers.finish(body)
            last = term.token

    def pulse(self, timeout: float | None = None) -> bool:
        """Waits until this member leads any role at all and its barrier has returned from `Acquired`; whether it does."""
        self._requests.check_usable()
        works = self._waits.any_works
        self._life.beliefs.wait_for(lambda: works() or self._life.ended, timeout)
        return works()

    # The group -------------------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """`name~incarnation`; another one after each restart of this member within its process."""
        return self._view.id

    @property
    def lock(self) -> DeathLock | None:
        """The lock on the present incarnation's life (R7): who inherits its descriptor is covered by the proof of death. None
        where a death can't be proven."""
        return self._view.lock

    @property
    def state(self) -> State:
        """joining, live, closing, closed or failed."""
        return self._life.state

    def members(self) -> list[Peer]:
        """The members of the group, as far as this member has read; administrators and observers aside. Some may be overdue, or
        dead and not yet known to be."""
        self._requests.check_process()
        return self._view.members()

    def leader(self, role: str) -> Holder | None:
        """The holder of `role` (of several seats the first that is held), as far as this member has read: None if nobody does.
        Not promised: that the holder still believes; to know that of oneself, ask `holds`."""
        found = self.leaders(role)
        return found[0] if found else None

    def leaders(self, role: str) -> list[Holder]:
        """The holders of the seats of `role`, in the order of the seats."""
        self._requests.check_process()
        return self._view.leaders(role)

    def roles(self) -> dict[str, int]:
        """The group's roles and how many seats each has."""
        self._requests.check_process()
        return self._view.roles()

    def partition(self, role: str, seat: int = 0) -> int:
        """The partition that `role` belongs to, by which it is led ("neli", "nele" and "fast-neli"; `CapabilityError` with
        others). The log decides it for names that the group has declared, and it stays so: whole numbers are taken modulo the
        number of partitions, names are numbered as the log first has them. For a name that nobody has declared, as far as
        this member has read: where its hash says, which its declaration may change."""
        self._requests.check_process()
        return self._view.partition(role, seat)

    def add_role(self, name: str, seats: int = 1, weight: float = 1, spread: Spread = "host") -> None:
        """Adds a role for the whole group, or changes it. Held by members that are eligible for it ("*" is, for every role)."""
        check_name("a role's name", name)
        one_of("spread", spread, get_args(Spread))
        weight = number("weight", weight, 0.001, 1_000_000)
        self._view.check_role(whole("seats", seats, 1, MAX_SEATS), weight, spread)
        self._requests.perform(Declare(name, whole("seats", seats, 1, MAX_SEATS), weight, spread))

    def remove_role(self, name: str) -> None:
        """Removes a role: it takes no claims any more, its holders run their barriers and release, then it is gone."""
        self._requests.check_known(name)
        self._requests.perform(Declare(name, removed=True))

    # Planned moves ---------------------------------------------------------------------------------------------------

    def hand_over(self, role: str, to: str | None = None, why: str = "") -> None:
        """Hands the seat of `role` that this member holds to the member `to` (name or id), or to whom placement names.

        It stays there until that member leaves. Returns at once: the barrier runs first. For a name that it does not know, it
        first reads what stands in the log by now; raises `ConfigError` when nobody of that name is in the group then. Does
        nothing if this member doesn't hold the role. A member that is overdue, draining, not ready or not eligible is handed
        nothing: the role stays here, and a problem `not-handed-over` names the reason. That is looked at again when the barrier
        has returned; if `to` can't take the role by then, placement names another one.
        """
        self._requests.check_eligible(role)
        self._requests.check_usable()
        self._view.check("hand_over")
        text = str(why)[:MAX_WHY].encode("utf-8", "replace").decode()  # as it can be written down
        self._loop.request(HandOver(role, None if to is None else self._requests.resolve(to), text))

    def step_down(self, role: str | None = None) -> None:
        """Gives `role` (None: everything) to somebody else; it does not fall back before somebody else has held it, unless
        nobody else that is eligible lives."""
        if role is not None:
            self._requests.check_eligible(role)
        self._requests.check_usable()
        self._loop.request(StepDown(role))

    def drain(self) -> None:
        """Hands everything over and takes nothing more, for the rest of this member's life. Returns when that is asked for in
        the log; barriers and handovers follow. Raises `LedgerUnavailable` if the ledger does not answer in time."""
        self._requests.perform(Ask(drain=self.id))

    def pause(self, role: str | None = None, *, seconds: float) -> None:
        """Nobody holds `role` (None: any role of the group) for `seconds`, or until `resume`. Returns when that stands in the
        log; holders run their barriers and release. Raises `ConfigError` for a role that the group doesn't have, and
        `LedgerUnavailable` if the ledger does not answer in time."""
        if role is not None:
            self._requests.check_known(role)
        self._view.check("pause")
        self._requests.perform(PauseFor(seconds_to_ms("seconds", seconds, 0.001, MAX_PAUSE_MS / 1000), role))

    def resume(self, role: str | None = None) -> None:
        """Ends the pauses of `role` (None: those of the whole group)."""
        self._view.check("resume")
        self._requests.perform(ResumeNow(role))

    def mark(self, term: Term, mark: int) -> None:
        """Writes down how far the work of this term has come (R15): with the next beat, and when the term is given up."""
        self._requests.check_usable()
        self._view.check("mark")
        self._loop.request(Marked((term.role, term.seat), term.token, whole("mark", mark, 0, 2**53 - 1)))

    # Work ------------------------------------------------------------------------------------------------------------

    def only(
        self, role: str, *, give_up_on_error: bool = False, stuck_after: float | None = None
    ) -> Callable[[Callable[P, R]], Callable[P, R | None]]:
        """Decorator: the function runs only while this member leads `role` and its barrier has returned from `Acquired`; it
        returns None otherwise.

        With `give_up_on_error` an exception in it (`SystemExit` too) ends the term; so does a call that takes longer than
        `stuck_after` seconds: somebody else leads when that call has come to its end or `barrier_timeout` is over. While it
        hangs, this member keeps no later term of the role either, and `health()` says so.

        Raises `ConfigError` for a role that this member never leads; with "neli", "nele" and "fast-neli", whose members lead
        whatever role the group has, for one that it has not: here, or, while that isn't known yet, from a call of the function.
        """
        self._requests.check_eligible(role)
        return only_while(self, self._barriers, self._waits, role, give_up_on_error, stuck_after)

    def background(
        self,
        task: Callable[[], object],
        role: str,
        every: float | None = None,
        *,
        give_up_on_error: bool = False,
        stuck_after: float | None = None,
    ) -> Background:
        """Runs `task()` again and again on a thread of its own while this member leads `role`, until the member is closed or
        the returned handle's `stop()` is called. An exception (`SystemExit` too) is logged, and the task runs again after a
        moment. `give_up_on_error`, `stuck_after`: as in `only`.

        `every`: seconds from the beginning of one run to that of the next (a run that takes longer is followed at once). With
        None the next run follows at once too; but a task that returns at once is held to 100 runs a second, with one warning.
        The handle's `wait(timeout)` waits for its end, and its `error` is what the member failed by.

        Raises `ConfigError` for a task that can't be called, and for a role that this member never leads; with "neli" and
        "fast-neli", whose members lead whatever role the group has, for one that it has not. While this member is still joining
        that isn't known: then it is logged as soon as it is, and the task waits for the role to be added.
        """
        self._requests.check_eligible(role)
        self._requests.check_there(role)
        more = (give_up_on_error, stuck_after, self._life.beliefs, self._host)
        return Background(self, self._barriers, task, role, every, *more)

    def events(self) -> Iterator[told.Event]:
        """What happens to this member and its group from this call on. Ends when the member is closed; when it has failed, the
        iteration ends by raising what it failed by (`ForkedError`, `CapabilityError` or another `ParesError`)."""
        self._requests.check_process()
        return self._life.journal.events()

    # Health and the end ----------------------------------------------------------------------------------------------

    def health(self) -> Health:
        """How this member is: for probes and metrics. Never waits, and tells the truth also when the member's own thread is
        gone or stands still. In a forked child: failed."""
        return look(self.name, self.group, self.session, self._life, self._loop, self._view, self._now)

    def close(self, timeout: float | None = None) -> None:
        """Hands everything over and leaves. May be called twice, and from any thread.

        Waits for barriers and bodies, at most `timeout` seconds (None: `barrier_timeout` and two sessions more). If the ledger
        is out of reach until then, the member ends without having left: nothing is believed any more, and others take its
        seats when its session, or the proof of its death, says so.
        """
        if self._life.forked:
            return
        wait = self._barrier_timeout + 2 * self.session + self._view.linger + 1.0 if timeout is None else timeout
        self._requests.leave(wait, self.session)
        self._barriers.watch.close()
        if self._medium is not None:
            self._medium.close()
        self._host.end(self)

    def __repr__(self) -> str:
        leads = sorted(term.role for term in list(self._life.beliefs.terms.values()) if term)
        return f"<Member {self.id} of {self.group!r}: {self._life.state}, leads {leads}>"

    def _give_up(self, role: str, why: str) -> None:
        """The barrier has initialised nothing: somebody else may try."""
        self._loop.request(StepDown(role, why))

    def _die_in_child(self) -> None:
        """In a forked child, before anything else runs there."""
        self._life.die_in_child()
        self._loop.close_in_child()


def check_arguments(*args: object, **settings: Any) -> dict[str, Any]:
    """Raises for arguments that `Member` has not, where they are written: `TypeError`, or `ConfigError` for one that moved.
    Returns all that it has, with what those are that were not given."""
    check_moved(settings)
    bound = inspect.signature(Member).bind(*args, **settings)
    bound.apply_defaults()
    return bound.arguments
