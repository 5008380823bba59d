"""A witness: it writes the obituaries of members of its host that are gone, so that others take over at once (R22)."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pares.core.errors import ConfigError
from pares.core.wire.records import check_name
from pares.ledger import Ledger
from pares.runtime.claims.witnessing import WitnessKit
from pares.runtime.config.protocols import ProtocolName
from pares.runtime.config.settings import Connect
from pares.runtime.death.incarnation import default_name
from pares.runtime.driver.kit import Kit
from pares.runtime.here import here
from pares.runtime.member import Member
from pares.runtime.views import Health
from pares.runtime.work.closing import Closing

log: Final = logging.getLogger("pares.witness")

SESSION: Final = 5.0
"""Seconds between two beats of a witness, which may be long: no member waits for a witness."""


@dataclass(frozen=True, slots=True)
class WitnessHealth:
    """How a witness is, and what it sees. Never waits."""

    ok: bool
    """Whether its threads run, and have read the ledger lately or know why not."""
    ready: bool
    """Whether it is in all its groups, and the ledger is in reach: the death of a watched member would be written at once."""
    why: str
    """Why it is not ok, or not ready; "" while it is both."""
    watched: tuple[str, ...]
    """The members whose death it would see."""
    unseen: tuple[str, ...]
    """Members of this host whose lock it does not find in its folder, or may not open: it runs as another user, or they have
    another `lock_folder`. It does not see their deaths."""
    deaths: int
    """How many deaths it has proven."""
    groups: Mapping[str, Health]
    """By group: the health of its member there, which is an administrator and holds nothing."""


class Witness(Closing):
    """Watches the locks of all members of its host, and writes into the log when a member's process is gone.

    Promised: while it runs and reaches the ledger, the end of a member's process stands in the log as soon as the system has
    ended the process and one append is made, whatever ended it. So members of other hosts, too, take over within milliseconds,
    and not after a session. It writes only what is true: it has taken the member's own lock, on this host and in this boot. So
    a process that stands still is not dead, and a lock file that was removed or replaced proves nothing (R7). Not promised:
    that it sees a death at all. A host that loses power takes its witness with it, and a witness that is gone, frozen or cut
    off writes nothing: then silence decides, as without one. Any number of witnesses do no harm.

    `ledger`: a URL or an opened ledger. `group`: a group, or several, whose members it watches (of the claims protocol; for a
    group of the NELI family whose partitions claims share out, `GROUP/partitions`). `lock_folder`: where the members of this
    host keep their locks: give the same as to them, or leave it out for all. It runs as the same user as the members, or as
    root: only the owner of a lock file may open it. `name`: shown in the log (default: "witness-" and host, process id and
    time). `session`: seconds between two of its beats, its only load. `on_death`: called with the group and the id of each
    member that is proven dead, on a thread of its own. `connect`: "now", or "background" for a ledger that may be away when it
    starts. `options`: for the ledger, when it is given as a URL.

    Give it a process of its own (`pares witness`): it must outlive the processes that it watches. Close it, or use it in a
    `with`. Raises `ConfigError`, `CapabilityError` (a ledger whose members have no locks; a folder that hosts share, where no
    lock proves anything) and `LedgerUnavailable`; with "background", `health` gives the error instead.
    """

    def __init__(
        self,
        ledger: str | Ledger,
        *,
        group: str | Iterable[str],
        lock_folder: str | os.PathLike[str] | None = None,
        name: str | None = None,
        session: float = SESSION,
        on_death: Callable[[str, str], object] | None = None,
        connect: Connect = "now",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        groups = tuple(dict.fromkeys([group] if isinstance(group, str) else group))
        if not groups:
            raise ConfigError("group is empty: give a witness the groups whose members it is to watch")
        for each in groups:
            check_name("group", each)
        self._host = host = here()
        self._on_death = on_death
        name = f"witness-{default_name(host)}" if name is None else name
        self._deaths: dict[str, int] = dict.fromkeys(groups, 0)
        self._kits = {each: WitnessKit(lambda member, each=each: self._died(each, member)) for each in groups}
        self._members: dict[str, Member] = {}
        self._own = host.open(ledger, **(options or {})) if isinstance(ledger, str) and connect == "now" else None
        more: dict[str, Any] = {"name": name, "session": session, "lock_folder": lock_folder, "connect": connect}
        more |= {"options": options} if self._own is None else {}
        try:
            for each, kit in self._kits.items():
                self._members[each] = _Watcher(kit, self._own or ledger, group=each, **more)
        except BaseException:
            self.close(0.0)
            raise

    def _died(self, group: str, member: str) -> None:
        self._deaths[group] += 1
        log.info("%s of group %r is dead, as its lock shows: its obituary is written", member, group)
        if self._on_death is not None:
            self._host.spawn(lambda: self._tell(group, member), "pares: on_death")

    def _tell(self, group: str, member: str) -> None:
        try:
            if self._on_death is not None:
                self._on_death(group, member)
        except Exception:
            log.exception("on_death raised")

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(self._members)

    def health(self) -> WitnessHealth:
        """How it is, and which members it watches. Never waits; may be called from any thread."""
        found = {group: member.health() for group, member in self._members.items()}
        bindings = [kit.binding for kit in self._kits.values() if kit.binding is not None]
        why = [f"{group}: {reason}" for group, health in found.items() if (reason := _why_not(health))]
        return WitnessHealth(
            ok=all(health.ok for health in found.values()),
            ready=all(health.ready for health in found.values()),
            why="; ".join(why),
            watched=tuple(sorted(member for binding in bindings for member in binding.provable)),
            unseen=tuple(sorted(member for binding in bindings for member in binding.unseen)),
            deaths=sum(self._deaths.values()),
            groups=found,
        )

    def close(self, timeout: float | None = None) -> None:
        """Leaves its groups. May be called twice, and from any thread; waits `timeout` seconds at most, or as long as a member
        would."""
        for member in self._members.values():
            member.close(timeout)
        if self._own is not None:
            self._own.close()

    def __repr__(self) -> str:
        return f"<Witness of {', '.join(map(repr, self._members))}: {len(self.health().watched)} watched>"


class _Watcher(Member):
    """The member by which a witness is in one group."""

    def __init__(self, kit: WitnessKit, ledger: str | Ledger, **settings: Any) -> None:
        def kit_of(protocol: ProtocolName) -> Kit:
            return kit

        self._kit_of = kit_of
        super().__init__(ledger, **settings)


def _why_not(health: Health) -> str:
    if health.why or health.failure:
        return health.why or str(health.failure)
    return "" if health.ready else health.unreachable or f"it is {health.state}"
