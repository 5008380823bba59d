"""What is wrong with a group, its log, its members and their settings, in sentences.

A finding is a problem (something does not work, or a promise stands on sand), a warning (it works now, and will not in a
case that can be named), a note, or good. What is judged by wall clocks says so: members trust stopwatches only.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pares.core.wire.records import READS
from pares.core.wire.states import MemberState
from pares.ledger import Checked, Group, Log, ManyAtOnce, Stamping, is_local
from pares.ledger.base import Scope
from pares.runtime.kits import ways
from pares.view import induced
from pares.view.clock_error import measure
from pares.view.induced import GOOD, NOTE, PROBLEM, WARNING
from pares.view.scan import Scan, scan
from pares.view.state import health
from pares.view.story import Story, url_of

RETENTION_SESSIONS: Final = 10
"""Retention must hold at least so many of the longest sessions (R10)."""
SLEWED: Final = 0.083
"""How fast chrony may slew a clock: a `drift` below that promises what the machine may not keep (A2)."""
CLOCK_MS: Final = 500
SHORT_SESSION_MS: Final = 100
EVIDENCE: Final = 400
SHOWN_GROUPS: Final = 10
SHOWN_ROLES: Final = 20
SHOWN_MEMBERS: Final = 5
WITHOUT_GROUP: Final = frozenset({"log", "ledger", "records", "locks"})
"""The checks that look at the log and not at a group."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    level: str
    check: str
    text: str


def verdict(findings: Sequence[Finding]) -> str:
    """The last word, in one sentence."""
    count = Counter(finding.level for finding in findings)
    if count[PROBLEM]:
        also = f" and {_number(count[WARNING], 'warning')}" if count[WARNING] else ""
        return f"{_number(count[PROBLEM], 'problem')}{also}: see to {'it' if count[PROBLEM] == 1 else 'them'} first"
    if count[WARNING]:
        return f"no problem, {_number(count[WARNING], 'warning')}: look at {'it' if count[WARNING] == 1 else 'them'}"
    return "sound: no problem and no warning"


def _number(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


@dataclass(frozen=True, slots=True)
class Checkup:
    """Everything that was found, and the counts behind it."""

    findings: list[Finding]
    scan: Scan
    story: Story
    induction: induced.Induction | None = None
    """Of a group that runs NELI, NELE or Fast NELI: then this is what it was looked at by."""

    @property
    def sound(self) -> bool:
        """Whether there is no problem; warnings don't count."""
        return all(finding.level != PROBLEM for finding in self.findings)


@dataclass(frozen=True, slots=True)
class Case:
    """A group in a log, as it is examined."""

    log: Log
    partition: int
    story: Story
    scan: Scan
    now_ms: int

    @property
    def members(self) -> list[MemberState]:
        return sorted((m for m in self.story.world.members.values() if not m.administrator), key=lambda m: m.name)


def examine(log: Log, group: str, partition: int, now_ms: int, plan: induced.Plan | None = None) -> Checkup:
    """Reads the whole log, twice (raw, and folded), and looks at everything there is to look at. `plan`: settings of NELI or
    Fast NELI that are asked about; a group that runs them is known by its log without it."""
    story = Story(log, group, partition=partition)
    story.catch_up()
    case = Case(log, partition, story, scan(log, group, partition), now_ms)
    plan = plan or induced.Plan()
    found = (look(case, plan) for look in ways("doctor", on_log=True))
    return next(checkup for checkup in found if checkup is not None)


def examine_induction(case: Case, plan: induced.Plan) -> Checkup | None:
    """A group of NELI's family; None if it is none, and no settings of the family are asked about."""
    found = induced.look(case.log, case.story.group, plan, case.now_ms)
    return None if found is None else _of_induction(case, found)


def examine_claims(case: Case, plan: induced.Plan) -> Checkup:
    """Any other group, one that is not there too."""
    story, findings = case.story, list[Finding]()
    # Of a group that is not there nothing is to be said but that.
    unknown = story.unheard and not story.adrift
    for check, look in CHECKS:
        if unknown and check not in WITHOUT_GROUP:
            continue
        findings += [Finding(level, check, text) for level, text in look(case)]
    return Checkup(findings, case.scan, story)


def measured(checkup: Checkup, log: Log, now_ms: int) -> Checkup:
    """The same with the clock error, where the group rests on one: appends some records of no group to `log`."""
    found = checkup.induction
    if found is None or not found.measurable:
        return checkup
    found.clock = measure(log)
    return _of_induction(Case(log, 0, checkup.story, checkup.scan, now_ms), found)


def _of_induction(case: Case, found: induced.Induction) -> Checkup:
    findings = [Finding(level, check, text) for level, check, text in induced.findings(found)]
    findings[1:1] = [Finding(level, "ledger", text) for level, text in _ledger(case)]
    return Checkup(findings, case.scan, case.story, found)


Looks = Iterator[tuple[str, str]]


def _log(case: Case) -> Looks:
    log, start, end = case.log, case.log.start(case.partition), case.log.end(case.partition)
    yield NOTE, f"{url_of(log)}, partition {case.partition}: offsets {start} to {end}, {case.scan.entries} entries"
    if case.story.adrift:
        yield (
            PROBLEM,
            "the beginning of the log is gone and no snapshot of the group is left in it: nobody can know who leads; "
            "the next member that starts will begin the group anew, after it has waited a session",
        )
    elif case.story.unheard:
        yield PROBLEM, f"there is no group {case.story.group!r} in it. {_groups(case)}"
    for jump in case.story.jumps:
        yield PROBLEM, f"the log jumped while it was read: {jump}"


def _groups(case: Case) -> str:
    """Which groups somebody who has named a wrong one can choose among."""
    there = [f"{name} ({count} records)" for name, count in case.scan.groups.most_common(SHOWN_GROUPS)]
    if not there:
        return "It has no records of any group: look at --ledger, or start a member first"
    more = len(case.scan.groups) - len(there)
    return f"Groups in it: {', '.join(there)}{f' and {more} more' if more else ''}. Choose one by --group"


_SCOPES: Final[dict[Scope, str]] = {
    "process": "no other process reaches it",
    "host": "all its members are on one host, whose clock its times are by",
    "network": "members on any host reach it",
}


def _abilities(log: Log) -> str:
    """What this ledger can do beyond keeping records (`pares.ledger.Capabilities`, and what else is there to be called)."""
    can, said = log.capabilities, [_SCOPES[log.capabilities.scope]]
    if log.place is not None:
        said.append(f"locks that prove deaths are in {log.place}")
    if can.one_bell:
        said.append("one bell rings for all partitions")
    if isinstance(log, ManyAtOnce):
        said.append("appends to several partitions cost one call")
    if isinstance(log, Group):
        bound = "" if can.reassignment_bound is None else f", after {can.reassignment_bound:g} s of silence"
        said.append(f"its service shares out partitions by itself{bound}")
    if isinstance(log, Stamping):
        said.append(f"its times are by {'its service' if log.broker_time() else 'its writers'}")
    return f"{log.kind}: {'; '.join(said)}"


def _ledger(case: Case) -> Looks:
    """What the ledger can do, and what it has to say of itself: the settings of a service, which no reader of records sees."""
    yield NOTE, _abilities(case.log)
    if isinstance(case.log, Checked):
        yield from case.log.checks()


def _records(case: Case) -> Looks:
    if not case.scan.bad:
        yield GOOD, "every record can be read"
    for reason, count in case.scan.bad.most_common():
        yield WARNING, f"{count} records can't be read ({reason}); they count for nobody. Find out who writes them"
    if case.story.reader.uncounted:
        yield (
            NOTE,
            f"{case.story.reader.uncounted} records of the group did not count "
            "(late or doubled copies, or written by who had left)",
        )


def _snapshots(case: Case) -> Looks:
    for defect in case.story.reader.defects:
        yield (
            PROBLEM,
            f"the snapshot at {defect.offset} by {defect.author} differs from what the records before {defect.upto} say: "
            f"a defect of pares, or of a disk. Keep the log and report it (hash {defect.mine}, snapshot "
            f"{defect.theirs[:EVIDENCE]})",
        )
    if not case.story.reader.defects and case.scan.kinds["snapshot"]:
        yield GOOD, f"no snapshot contradicts the records ({case.scan.kinds['snapshot']} parts)"


def _retention(case: Case) -> Looks:
    keep, longest = case.log.retention, max((m.session_ms for m in case.members), default=0)
    if keep is None:
        yield GOOD, "the ledger keeps everything"
    elif keep * 1000 < RETENTION_SESSIONS * longest:
        yield (
            PROBLEM,
            f"the ledger keeps {keep:g} s, less than {RETENTION_SESSIONS} of the longest session ({longest / 1000:g} s): "
            "a joiner may find no snapshot. Raise its retention",
        )
    else:
        told = f"; the longest session is {longest / 1000:g} s" if longest else ""
        yield GOOD, f"the ledger keeps {keep:g} s{told}"


def _versions(case: Case) -> Looks:
    world = case.story.world
    if case.story.reader.too_new:
        yield (
            PROBLEM,
            f"the group writes format {world.highest}, this pares reads up to {READS}: upgrade it before joining",
        )
    elif case.scan.newer:
        yield (
            WARNING,
            f"{case.scan.newer} records have a format version (up to {case.scan.highest}) that not every member "
            "reads; they count for nobody",
        )
    reads = sorted({m.reads for m in world.members.values()})
    if len(reads) > 1:
        yield NOTE, f"members read different format versions ({reads}): an upgrade is under way"
    elif not case.scan.newer:
        yield GOOD, f"one format version (written {case.scan.highest}, read here up to {READS})"


def _members(case: Case) -> Looks:
    if not case.members:
        yield WARNING, "the group has no members"
        return
    states = {m.id: health(case.story, m, case.now_ms) for m in case.members}
    late = [m for m in case.members if states[m.id] in ("overdue", "silent")]
    for m in late:
        heard = case.story.heard.get(m.id)
        ago = "" if heard is None else f", last heard of {(case.now_ms - heard) / 1000:.1f} s ago"
        holds = len(case.story.world.held.get(m.id, ()))
        yield (
            (PROBLEM if holds else WARNING),
            f"{m.id} is {states[m.id]}{ago} (by wall clock) and holds {_number(holds, 'seat')}",
        )
    if not late:
        yield GOOD, f"{_number(len(case.members), 'member')}, all of which write in time"


def _names(case: Case) -> Looks:
    live = [m for m in case.members if health(case.story, m, case.now_ms) != "silent"]
    twice = {name: n for name, n in Counter(m.name for m in live).items() if n > 1}
    for name, count in sorted(twice.items()):
        yield PROBLEM, f"{count} live members are called {name!r}: give each process a name of its own"
    if not twice and live:
        yield GOOD, "no two live members share a name"


def _by_value(given: dict[str, str]) -> str:
    """The members by what they were made with."""
    of = {
        value: sorted(member for member, its in given.items() if its == value) for value in sorted(set(given.values()))
    }
    shown = {value: members[:SHOWN_MEMBERS] for value, members in of.items()}
    more = {value: len(members) - len(shown[value]) for value, members in of.items()}
    return "; ".join(
        f"{value} ({', '.join(shown[value])}{f' and {more[value]} more' if more[value] else ''})" for value in of
    )


def _settings(case: Case) -> Looks:
    members, before = case.members, 0
    for m in members:
        if m.drift < SLEWED:
            before += 1
            yield WARNING, f"{m.id} runs with drift {m.drift:g}: chrony may slew a clock by {SLEWED:.1%}, so give 0.1"
        if m.session_ms < SHORT_SESSION_MS:
            before += 1
            yield (
                WARNING,
                f"{m.id} has a session of {m.session_ms} ms: a busy machine loses it now and then without need",
            )
    overlaps = sorted({m.overlap_ms for m in members})
    if len(overlaps) > 1:
        before += 1
        listed = ", ".join(f"{ms / 1000:g} s" for ms in overlaps)
        yield PROBLEM, f"members disagree on overlap ({listed}): the group is exclusive only if all say 0"
    elif overlaps and overlaps[0]:
        yield NOTE, f"non-exclusive by choice: members go on believing for {overlaps[0] / 1000:g} s after their lease"
    for what, given in (
        ("sessions", {m.id: f"{m.session_ms / 1000:g} s" for m in members}),
        ("drift", {m.id: f"{m.drift:g}" for m in members}),
    ):
        if len(set(given.values())) > 1:
            yield NOTE, f"members were made with different {what}: {_by_value(given)}. Each goes by its own"
    protocols = sorted({m.protocol for m in members})
    if len(protocols) > 1:
        before += 1
        yield PROBLEM, f"members run different protocols in one group: {', '.join(protocols)}"
    for option, value, text in (
        ("synchronous", "normal", "a power cut may lose acknowledged records, and their offsets are then used again"),
        ("replication", "1", "a broker that is lost takes the log with it"),
    ):
        if f"{option}={value}" in case.log.url:
            before += 1
            yield WARNING, f"the ledger's URL says {option}={value}: {text}"
    if members and not before:
        yield GOOD, "drift, sessions, overlap and protocol go together"


def _seats(case: Case) -> Looks:
    world, free = case.story.world, 0
    anybody = any(health(case.story, m, case.now_ms) == "live" for m in case.members)
    for key in sorted(world.seats):
        seat = world.seats[key]
        if seat.holder is not None or world.paused(seat.role):
            continue
        able = [
            m for m in case.members if world.may_hold(m, seat.role) and health(case.story, m, case.now_ms) == "live"
        ]
        free += 1
        if not anybody:
            yield NOTE, f"nobody leads {seat.role}[{seat.index}]: no member of the group is running"
        elif not able:
            yield (
                PROBLEM,
                f"nobody leads {seat.role}[{seat.index}], and no live member is eligible for it: start one with this role, "
                "or remove the role (pares roles remove)",
            )
        elif len(able) < world.roles[seat.role].seats:
            yield WARNING, f"nobody leads {seat.role}[{seat.index}]: it has more seats than live members may take"
        else:
            yield WARNING, f"nobody leads {seat.role}[{seat.index}] at this moment"
    if world.seats and not free:
        yield GOOD, f"{_number(len(world.seats), 'seat')}, all of them held or paused"
    for pause in world.pauses.values():
        scope = "the group" if pause.scope is None else f"role {pause.scope}"
        yield NOTE, f"{scope} is paused for {pause.ms / 1000:g} s, by {pause.by}"


def _roles(case: Case) -> Looks:
    """The log counts; a member that was made with other seats has written that down."""
    for m in case.members:
        for role, seats in sorted(case.scan.asked.get(m.id, {}).items()):
            there = case.story.world.roles.get(role)
            if there is not None and not there.removed and there.seats != seats:
                yield (
                    WARNING,
                    f"{m.id} was made with seats={seats} for role {role!r}, which has {there.seats} by the log, and the log "
                    f"counts: make it with seats={there.seats}, or change it for all by pares roles add {role} --seats {seats}",
                )
    there = [
        f"{role.name} {role.seats}"
        for role in sorted(case.story.world.roles.values(), key=lambda r: r.name)
        if not role.removed
    ]
    if there:
        shown = ", ".join(there[:SHOWN_ROLES]) + (
            f" and {len(there) - SHOWN_ROLES} more" if there[SHOWN_ROLES:] else ""
        )
        yield (
            NOTE,
            f"seats by the log: {shown}. A member's seats= counts for roles that are new: for others use pares roles add",
        )


def _clocks(case: Case) -> Looks:
    off = {member: skew for member, skew in case.scan.skews.items() if abs(skew) > CLOCK_MS}
    for member, skew in sorted(off.items()):
        yield (
            WARNING,
            f"{member}'s clock is at least {abs(skew)} ms {'behind' if skew > 0 else 'ahead of'} the ledger's. Safe (no rule "
            "looks at clocks), but the audit's times are off by that",
        )
    if case.scan.fell:
        yield (
            NOTE,
            f"{case.scan.fell} entries bear an earlier time than the one before, by up to {case.scan.fell_ms} ms",
        )
    if not off and case.scan.skews:
        yield GOOD, f"members' clocks agree with the ledger's within {CLOCK_MS} ms"


def _locks(case: Case) -> Looks:
    place = case.log.place
    if place is None:
        yield NOTE, "the ledger has no folder for members' locks on this host"
    elif not place.exists():
        yield NOTE, f"{place} is not there: no member has taken a lock yet"
    elif not is_local(place):
        yield WARNING, f"{place} is not surely on a local file system: locks prove nothing there, only silence decides"
    elif not os.access(place, os.R_OK | os.X_OK):
        yield NOTE, f"{place} belongs to another user: what it holds can't be looked at from here"
    else:
        yield GOOD, f"{place} is on a local file system"
    without = [m.name for m in case.members if m.lock is None]
    if without:
        yield NOTE, f"without a lock, so their death can't be proven and only silence decides: {', '.join(without)}"


CHECKS: Final[tuple[tuple[str, Callable[[Case], Looks]], ...]] = (
    ("log", _log),
    ("ledger", _ledger),
    ("records", _records),
    ("snapshots", _snapshots),
    ("retention", _retention),
    ("versions", _versions),
    ("members", _members),
    ("names", _names),
    ("settings", _settings),
    ("roles", _roles),
    ("seats", _seats),
    ("clocks", _clocks),
    ("locks", _locks),
)
