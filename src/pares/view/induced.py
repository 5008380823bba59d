"""What is wrong with a group that runs NELI, NELE or Fast NELI, or would be: for `pares doctor` (see `checkup`).

Such a group is in all partitions of a log, and knows neither joins nor seats: what is to be seen are tenures, and how long
their owners say that they may believe. Above all it looks at the sum that exclusive NELI rests on,

    T + clock_error  <  the group's session (its reassignment bound)

of the members that are there, of the settings that are asked about, and with the clock error that was measured in place of the
one that was promised.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec.structs import replace

from pares.core.errors import CapabilityError, ConfigError
from pares.core.lease import lease_ns
from pares.core.neli.budget import BUDGET
from pares.core.neli.classic import BEACONS, check_threshold
from pares.core.neli.config import Config
from pares.core.neli.fast import check_interval
from pares.core.neli.partition_log import Tenure, Track
from pares.core.neli.protocols import LOOSE, MODES, USUAL, Mode
from pares.core.neli.role_mapping import partition_of_number, seat_of_partition
from pares.core.wire.neli_records import Foreign, decode
from pares.core.wire.records import BadRecord
from pares.ledger import Log
from pares.runtime.config.protocols import FastNeli, Nele, Neli
from pares.runtime.neli.claims_group import SUFFIX
from pares.runtime.neli.idle import uneven
from pares.runtime.neli.settings import config as config_of
from pares.runtime.neli.settings import one_clock
from pares.view.clock_error import ClockError
from pares.view.scan import entries
from pares.view.story import Story, url_of

if TYPE_CHECKING:
    from pares.ledger import Ledger

GOOD, NOTE, WARNING, PROBLEM = "good", "note", "warning", "problem"
USUAL_SESSION: Final = 1.0
DRIFT: Final = 0.1
UNUSUAL: Final = Mode("")
"""What a protocol of the family is taken for that this release does not know."""
LATELY_MS: Final = 10_000
"""Over how long records are counted, up to the newest one."""
SILENCES: Final = 2
"""Sessions, or thresholds if they are longer, after which a leader that says nothing is reported."""
AMPLE: Final = 2
"""`clock_error` should be this many times what was measured: clocks do not stay where they are."""

Looks = Iterator[tuple[str, str, str]]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked about, beside what the log shows. Seconds; None: what a member takes by itself."""

    protocol: str | None = None
    T: float | None = None
    clock_error: float | None = None
    overlap: float = 0.0
    session: float | None = None
    """The group's: after how long a silence it may give partitions away."""


@dataclass(slots=True)
class Induction:
    """A group's partitions, read to their ends."""

    log: Log
    group: str
    plan: Plan
    now_ms: int
    tracks: list[Track] = field(default_factory=list[Track])
    heard: int = 0
    """Records of the group that counted."""
    lately: int = 0
    """Records of this family, of all groups, in the last `LATELY_MS`."""
    mode: str = ""
    bound: float = 0.0
    """Seconds: the group's reassignment bound."""
    bound_from: str = ""
    config: Config | None = None
    refused: str = ""
    clock: ClockError | None = None

    @property
    def open(self) -> list[tuple[int, Tenure]]:
        """The tenures that stand open, by partition."""
        return [
            (n, t) for n, track in enumerate(self.tracks) for t in sorted(track.open.values(), key=lambda t: t.token)
        ]

    @property
    def law(self) -> Mode:
        """What the group runs: one of the family that a later release may have is looked at like the usual one."""
        return MODES.get(self.mode, UNUSUAL)

    @property
    def measurable(self) -> bool:
        """Whether it rests on clocks (exclusive NELI), of which the error is to be measured."""
        return self.law.by_clocks and not self.refused

    def facts(self) -> dict[str, Any]:
        """The figures behind the findings."""
        facts: dict[str, Any] = {
            "protocol": self.mode,
            "partitions": len(self.tracks),
            "session_ms": round(self.bound * 1000),
            "session_from": self.bound_from,
            "records_per_second": self.lately * 1000 / LATELY_MS,
            "refused": self.refused or None,
            "tenures": [
                {"partition": n, "member": t.member, "token": t.token, "within_ms": t.within_ms, "leads": t.leads}
                for n, t in self.open
            ],
        }
        if self.config is not None:
            t, e = self.config.threshold_ms, self.config.error_ms
            facts |= {"T_ms": t, "clock_error_ms": e, "sum_ms": t + e, "interval_ms": self.config.interval_ms}
        if self.clock is not None:
            c = self.clock
            measured = {"low_ms": c.low_us / 1000, "high_ms": c.high_us / 1000, "bound_ms": c.bound_us / 1000}
            measured |= {"round_trip_ms": c.round_trip_us / 1000, "appends": c.appends, "moved": c.moved}
            facts["measured"] = measured
        return facts


def look(log: Log, group: str, plan: Plan, now_ms: int) -> Induction | None:
    """What the log has of such a group, and the settings asked about; None if it has nothing and nothing was asked about.

    Reads all partitions from their starts. `now_ms`: the wall clock, by which silence is told.
    """
    found = Induction(log, group, plan, now_ms)
    for partition in range(log.partitions):
        _read(found, partition)
    if plan.protocol is None and not found.heard:
        return None
    said = [tenure.protocol for _, tenure in found.open if tenure.protocol]
    found.mode = plan.protocol or (said[-1] if said else USUAL.name)
    if found.law.by_clocks and plan.overlap:
        found.mode = LOOSE.name
    found.bound, found.bound_from = _bound(log, group, plan)
    try:
        found.config = _config(found)
    except (ConfigError, CapabilityError) as error:
        found.refused = str(error)
    return found


def _read(found: Induction, partition: int) -> None:
    track, times = Track(found.group), deque[int]()
    for entry in entries(found.log, partition):
        found.heard += track.feed(entry, 0) is not None
        if _of_the_family(entry.payload):
            times.append(entry.timestamp_ms)
            while times[0] < entry.timestamp_ms - LATELY_MS:
                times.popleft()
    found.tracks.append(track)
    found.lately += len(times)


def _of_the_family(payload: bytes) -> bool:
    try:
        return not isinstance(decode(payload), Foreign)
    except BadRecord:
        return False


def _bound(log: Log, group: str, plan: Plan) -> tuple[float, str]:
    """The group's reassignment bound in seconds, and how it is known."""
    if plan.session is not None:
        return plan.session, "--session"
    native = log.capabilities.reassignment_bound
    if native is not None:
        return native, "session.timeout.ms"
    story = Story(log, group + SUFFIX)
    story.catch_up()
    members = [m for m in story.world.members.values() if not m.administrator]
    if members:
        return min(m.session_ms / 1000 / (1 + m.drift) for m in members), f"the members of {story.group!r}"
    return USUAL_SESSION / (1 + DRIFT), f"a member's usual session of {USUAL_SESSION:g} s"


def _config(found: Induction) -> Config:
    """What a member would be made with. Raises `ConfigError` and `CapabilityError` as it would."""
    plan = found.plan
    overlap = plan.overlap
    if not found.law.exclusive:
        overlap = plan.overlap or found.bound if plan.T is None else 0.0  # which T says by itself
    checked: dict[str, Any] = {"group": found.group, "name": "doctor", "host": "", "roles": (), "barrier_ms": 0}
    checked |= {"drift": DRIFT, "overlap_ms": round(overlap * 1000), "seats": 1}
    if found.law.by_own_beats:
        own = FastNeli(heartbeat_timeout=plan.T)
    elif not found.law.exclusive:
        own = Nele(T=plan.T)
    else:
        own = Neli(T=plan.T, clock_error=plan.clock_error)
    config = config_of(own, checked, cast("Ledger", found.log), found.bound)
    said = [tenure.within_ms for _, tenure in found.open]
    if plan.protocol is None and said:
        # What its members say counts, not what others would take.
        t = max(1, max(said) - config.error_ms)
        return replace(config, threshold_ms=t, interval_ms=max(1, min(config.interval_ms, t // (2 * BEACONS))))
    return config


# Findings ------------------------------------------------------------------------------------------------------------


def findings(found: Induction) -> Looks:
    """(level, check, text) of everything that was looked at."""
    yield from _there(found)
    if found.heard:
        yield from _shares(found)
    yield from _threshold(found)
    yield from _tenures(found)
    if found.measurable:
        yield from _clock(found)
    yield from _records(found)


def _there(found: Induction) -> Looks:
    log, count = found.log, len(found.tracks)
    yield NOTE, "log", f"{url_of(log)}, {count} partitions, all of them the group's; it runs {found.mode!r}"
    if not found.heard:
        yield NOTE, "members", f"the log has nothing of group {found.group!r}: what follows is about settings only"
    widest = max((track.width for track in found.tracks), default=0)
    if widest > count:
        yield (
            PROBLEM,
            "partitions",
            f"the group shares out {widest} partitions, and the log has {count}: open the one it had",
        )
    for track in found.tracks:
        claims = track.others.known()
        if claims is not None:
            text = f"{claims.member} runs the claims protocol under this group's name: give one of them another name"
            yield PROBLEM, "protocol", text
            break
    others = sorted({t.protocol for _, t in found.open if t.protocol} - {found.mode})
    if others:
        yield (
            PROBLEM,
            "protocol",
            f"members run {', '.join(others)} beside {found.mode}: waits are reckoned for one protocol",
        )
    asked = {tenure.member: tenure.seats for _, tenure in found.open if tenure.seats}
    if len(set(asked.values())) > 1:
        told = ", ".join(f"{member} {seats}" for member, seats in sorted(asked.items()))
        yield (
            PROBLEM,
            "seats",
            f"members were made with different seats= ({told}), and divide the partitions differently: give all the same",
        )


def _shares(found: Induction) -> Looks:
    """What stands in which partition, also in none, and who must idle for it."""
    seats = max((t.seats for _, t in found.open), default=1) or 1
    roles: set[str] = set()
    for number, track in enumerate(found.tracks):
        here = sorted(role for role, j in track.roles.items() if _here(j, number, len(found.tracks), seats))
        roles.update(here)
        yield (
            NOTE,
            "partition",
            f"partition {number}: {', '.join(here[:20]) or 'no role'}{' ...' if len(here) > 20 else ''}",
        )
    older = next((track.hashed for track in found.tracks if track.hashed), "")
    if older:
        text = (
            f"roles go by the hash of their names, as {older} knows no numbers (release 0.1): two may share a partition while "
            "another carries none; whole upgraded, give the group another name"
        )
        yield NOTE, "partitions", text
    members = len({member for track in found.tracks for group, member in track.around if group == found.group})
    for kind, text in uneven(len(found.tracks), seats, len(roles), members):
        yield WARNING, kind, text


def _here(number: int, partition: int, partitions: int, seats: int) -> bool:
    index = seat_of_partition(partition, partitions, seats) if partitions >= seats else seats
    return index < seats and partition_of_number(number, partitions, seats, index) == partition


def _threshold(found: Induction) -> Looks:
    """The settings asked about, or those that a member takes by itself."""
    if found.refused:
        yield PROBLEM, "refused", found.refused
        return
    config = found.config
    assert config is not None
    session = f"the group's session of {config.session_ms} ms (by {found.bound_from})"
    try:
        if found.law.by_own_beats:
            check_interval(config, lease_ns(config.threshold_ms, config.drift))
        else:
            check_threshold(config)
    except ConfigError as error:
        yield PROBLEM, "threshold", str(error)
        return
    t, e = config.threshold_ms, config.error_ms
    if found.law.by_clocks:
        yield GOOD, "threshold", f"T + clock_error = {t} ms + {e} ms = {t + e} ms, below {session}"
    elif not found.law.exclusive:
        text = (
            f"T = {t} ms, above {session}: two may lead for {t - config.session_ms} ms at most when an owner is cut off"
        )
        yield GOOD, "threshold", text
    elif t > config.session_ms:
        text = f"the deadline of {t} ms is above {session}: a takeover after a crash waits for the deadline, not for the group"
        yield WARNING, "threshold", text
    else:
        yield GOOD, "threshold", f"the deadline of {t} ms is below {session}"


def _tenures(found: Induction) -> Looks:
    """What the owners that stand in the log have said of themselves."""
    session_ms = int(found.bound * 1000)
    said = {t.member: t.within_ms for _, t in found.open}
    for member, within in sorted(said.items()):
        if found.law.by_clocks and within >= session_ms:
            text = (
                f"{member} believes for T + clock_error = {within} ms, not below the group's session of {session_ms} ms: a "
                "takeover waits longer than for the group; use a smaller T"
            )
            yield PROBLEM, "tenures", text
    wrong = 0
    for number, track in enumerate(found.tracks if found.heard else ()):
        leader = track.leader()
        if leader is None:
            wrong += 1
            yield WARNING, "leaders", f"nobody leads partition {number}, as far as its log says"
        elif found.now_ms > leader.stamp_ms + SILENCES * max(leader.within_ms, session_ms):
            wrong += 1
            ago = (found.now_ms - leader.stamp_ms) / 1000
            text = f"{leader.member} leads partition {number} in the log, and was last heard of {ago:.1f} s ago (by wall clock)"
            yield PROBLEM, "leaders", text
    if said and not wrong:
        text = f"each of {len(found.tracks)} partitions has a leader that writes in time; {len(said)} members lead"
        yield GOOD, "leaders", text


def _clock(found: Induction) -> Looks:
    clock, config = found.clock, found.config
    assert config is not None
    if clock is None:
        yield NOTE, "clock-error", "the clock error was not measured: that takes appending to the log"
        return
    error, session = config.error_ms, config.session_ms
    trip, within = clock.round_trip_us / 1000, clock.bound_us / 1000
    measured = (
        f"the log's clock less this host's is {clock} ({clock.appends} appends to {clock.partitions} partitions, shortest "
        f"round trip {trip:.2f} ms), so they are within {within:.2f} ms"
    )
    if clock.moved:
        yield WARNING, "clock-error", "a clock was set while it was measured: look again, and find out what sets it"
    need = math.ceil(clock.bound_us / 1000)
    if one_clock(found.log.capabilities.scope) and not clock.above(error):
        yield (
            GOOD,
            "clock-error",
            f"{measured}; the log's times are by this host's own clock, clock_error is {error} ms",
        )
    elif clock.above(error):
        yield (
            PROBLEM,
            "clock-error",
            f"{measured}: above clock_error = {error} ms. Synchronise the clocks, or state more",
        )
    elif not clock.within(error):
        yield WARNING, "clock-error", f"{measured}, which does not show that clock_error = {error} ms holds"
    elif AMPLE * clock.bound_us > error * 1000:
        yield (
            WARNING,
            "clock-error",
            f"{measured}: clock_error = {error} ms has little to spare; state {AMPLE * need} ms",
        )
    else:
        yield GOOD, "clock-error", f"{measured}: clock_error = {error} ms holds"
    t = config.threshold_ms
    text = f"T + what was measured = {t} ms + {need} ms = {t + need} ms"
    if t + within >= session:
        advice = "use a smaller T, better clocks or a longer session"
        yield PROBLEM, "measured", f"{text}, and the group's session is {session} ms: {advice}"
    else:
        yield GOOD, "measured", f"{text}, below the group's session of {session} ms"


def _records(found: Induction) -> Looks:
    bad = Counter[str]()
    for track in found.tracks:
        bad += track.bad
    for reason, count in bad.most_common():
        yield (
            WARNING,
            "records",
            f"{count} records can't be read ({reason}); they count for nobody. Find out who writes them",
        )
    if not bad:
        yield GOOD, "records", "every record can be read"
    if found.heard:
        rate = found.lately * 1000 / LATELY_MS
        level = GOOD if rate <= BUDGET * 1.25 else WARNING
        text = f"{rate:.0f} records a second of this family on the topic lately, of all groups; the budget is {BUDGET}"
        yield level, "rate", text
