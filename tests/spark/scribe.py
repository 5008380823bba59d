"""Writes logs as a group would have written them, by the kernel's own records, at times that the test decides.

It also keeps the truth (who believed from when to when, by what it ended), so that what the audit finds can be compared
with what happened and not with a second reading of the log.
"""

from __future__ import annotations

import random
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pares.core.wire import records as r
from pares.core.wire.reader import Reader
from pares.core.wire.snapshots import Taken
from pares.dev import Kafka
from pares.ledger import open as open_ledger

BASE = 1_000_000
Entries = list[tuple[int, int, bytes]]


@dataclass
class Truth:
    """One term as it was. `end` None: it goes on; `told`: the member lived to say when it ended."""

    role: str
    token: int
    member: str
    start: int | None = None
    end: int | None = None
    told: bool = True
    cause: str | None = None


@dataclass
class Scribe:
    """A log in the making. Every method appends one record at `now` (ms), unless it says otherwise."""

    group: str = "g"
    now: int = 1_700_000_000_000
    session: int = 1000
    drift: float = 0.1
    overlap: int = 0
    entries: Entries = field(default_factory=list)
    truths: list[Truth] = field(default_factory=list)
    hosts: int = 2
    places: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._n: dict[str, int] = {}
        self._last: dict[str, int] = {}
        self._holder: dict[str, Truth] = {}
        self.put(r.Genesis, "admin~0", base=BASE, b=BASE)
        self.join("admin", eligible=())

    @property
    def lease(self) -> int:
        """L without its margin, in ms: how long a belief may outlive the last sign of life, at most."""
        return int(self.session * (1 - self.drift) / (1 + self.drift)) + self.overlap

    def raw(self, payload: bytes) -> int:
        self.entries.append((len(self.entries), self.now, payload))
        return len(self.entries) - 1

    def put(self, kind: Any, member: str, *, b: int = BASE, **fields: Any) -> int:
        self._n[member] = self._n.get(member, 0) + 1
        offset = self.raw(r.encode(kind(v=1, g=self.group, m=member, n=self._n[member], b=b, s=250, **fields)))
        self._last[member] = offset
        return offset

    def twin(self, member: str) -> int:
        """Another process that has the member's id writes a record of its own, under a number that was given."""
        beat = r.Beat(v=1, g=self.group, m=member, n=self._n[member], b=BASE, s=99)
        return self.raw(r.encode(beat))

    def skip(self, member: str, numbers: int) -> None:
        """Records of the member that the log has lost."""
        self._n[member] += numbers

    def sleep(self, ms: int) -> None:
        self.now += ms

    def join(self, name: str, eligible: tuple[str, ...] | None = None) -> str:
        member = f"{name}~0"
        host = f"h{len(self._n) % self.hosts}"
        lock = r.Lock(boot="b", device="d", inode=name, file=f"/locks/{name}")
        self.put(
            r.Join, member, name=name, session=self.session, drift=self.drift, overlap=self.overlap, host=host,
            eligible=eligible, lock=lock,
        )  # fmt: skip
        return member

    def role(self, *names: str, seats: int = 1) -> None:
        for name in names:
            self.put_role(name, seats=seats)

    def put_role(self, name: str, *, seats: int = 1, removed: bool = False) -> None:
        self.put(r.Role, "admin~0", name=name, seats=seats, removed=removed)

    def beat(self, member: str) -> None:
        self.put(r.Beat, member)

    def silent(self, member: str) -> int:
        """For how long the member has written nothing."""
        return self.now - self.entries[self._last[member]][1]

    def holder(self, role: str) -> Truth | None:
        return self._holder.get(role)

    def claim(self, member: str, role: str, *, cause: str = "crash") -> Truth:
        """Over whoever holds it, or over nobody; the belief of a silent holder, if it has not said so, ended untold."""
        before = self._holder.get(role)
        over = None if before is None else (before.member, self._last[before.member])
        token = BASE + self.put(r.Claim, member, seat=(role, 0), over=over)
        if before is not None:
            self._end(before, cause)
        return self._gain(role, token, member)

    def lead(self, term: Truth, *, at: int | None = None) -> None:
        """Says that the belief begins now, or began `at`."""
        term.start = self.now if at is None else at
        self.put(r.Did, term.member, seat=(term.role, 0), token=term.token, what="lead", at=term.start)

    def stop(self, term: Truth, why: str = "", *, at: int | None = None) -> None:
        term.end = self.now if at is None else at
        self.put(r.Did, term.member, seat=(term.role, 0), token=term.token, what="stop", at=term.end, why=why)

    def release(self, term: Truth, why: str, cause: str) -> None:
        self.put(r.Release, term.member, seat=(term.role, 0), token=term.token, why=why)
        self._end(term, cause)
        del self._holder[term.role]

    def transfer(self, term: Truth, to: str, why: str, cause: str) -> Truth:
        token = BASE + self.put(r.Transfer, term.member, seat=(term.role, 0), token=term.token, to=to, why=why)
        self._end(term, cause)
        return self._gain(term.role, token, to)

    def obituary(self, member: str, of: str) -> None:
        self.put(r.Obituary, member, of=of)
        for role, term in list(self._holder.items()):
            if term.member == of:
                self._end(term, "crash", least=self.now)
                del self._holder[role]

    def pause(self, role: str | None, ms: int) -> int:
        return self.put(r.Pause, "admin~0", ms=ms, scope=role)

    def resume(self, pause: int) -> None:
        self.put(r.Resume, "admin~0", pause=pause)

    def snapshot(self, member: str, *, wrong: bool = False) -> None:
        """A snapshot of the world at the newest place there is, as a member would have written it.

        `wrong`: it tells of a mark that nobody ever set.
        """
        found = self._newest_place()
        while found is None:
            self.beat(member)
            found = self._newest_place()
        upto, text = found.upto, found.text
        if wrong:
            text = text.replace('"mark":0', '"mark":7', 1)
        self.places.append(upto)
        self.put(r.Snapshot, member, upto=upto, id=f"s{upto}-{len(self.places)}", part=0, parts=1, world=text)

    def _newest_place(self) -> Taken | None:
        reader, found = Reader(self.group), None
        reader.attach(0, 0)
        for entry in self.entries:
            reader.wanted = True
            reader.feed([entry])
            found, reader.taken = reader.taken or found, None
        return found

    def _gain(self, role: str, token: int, member: str) -> Truth:
        term = self._holder[role] = Truth(role, token, member)
        self.truths.append(term)
        return term

    def _end(self, term: Truth, cause: str, least: int | None = None) -> None:
        term.cause = cause
        if term.end is None:
            bound = self.entries[self._last[term.member]][1] + self.lease
            term.end, term.told = (bound if least is None else min(bound, least)), False

    def save(self, path: Path) -> str:
        """Puts the log into a SQLite ledger, with its times; returns the URL."""
        url = f"sqlite:///{path}"
        ledger = open_ledger(url)
        for at in range(0, len(self.entries), 5000):
            ledger.append_many([payload for _, _, payload in self.entries[at : at + 5000]])
        ledger.close()
        with sqlite3.connect(path) as connection:
            keys = [row[0] for row in connection.execute("SELECT id FROM entries ORDER BY id")]
            times = [(at_ms, key) for key, (_, at_ms, _) in zip(keys, self.entries, strict=True)]
            connection.executemany("UPDATE entries SET timestamp_ms = ? WHERE id = ?", times)
        connection.close()
        return url

    def save_kafka(self, kafka: Kafka, **options: str) -> str:
        """Puts the log into a topic of its own, with its times, by a plain client; returns the URL."""
        from kafka_tools import new_topic, write

        topic = new_topic(kafka, settings={"message.timestamp.type": "CreateTime", "retention.ms": "-1"})
        offsets = write(
            kafka, topic, [payload for _, _, payload in self.entries], times=[at for _, at, _ in self.entries]
        )
        assert offsets == [offset for offset, _, _ in self.entries]
        return kafka.topic_url(topic, **options)


def story(seed: int, roles: int = 20, members: int = 6, steps: int = 400) -> Scribe:
    """A random but lawful history: crashes with and without proof, freezes, handovers, drains, lapses, pauses, joins.

    Members whose name ends in `x` were killed, so they write no more.
    """
    dice = random.Random(seed)
    log = Scribe()
    names = [f"r{i:03}" for i in range(roles)]
    log.role(*names)
    live = [log.join(f"m{i}") for i in range(members)]
    number = members
    free = dict.fromkeys(names, log.now)
    for _ in range(steps):
        log.sleep(dice.randrange(1, 30))
        _succeed(log, dice, live, free)
        role = dice.choice(names)
        term = log.holder(role)
        if term is not None and term.member not in live:
            term = None if _silent_claim(log, dice, live, role) else term
            continue
        if term is None:
            term = log.claim(dice.choice(live), role)
            if dice.random() < 0.95:
                log.sleep(dice.randrange(3))
                log.lead(term)
            continue
        if term.start is None:
            log.lead(term)
            continue
        match dice.choice(["beat", "beat", "handover", "drain", "lapse", "freeze", "kill", "die", "pause", "join"]):
            case "beat":
                for member in live:
                    log.beat(member)
            case "handover":
                log.stop(term, "asked")
                log.sleep(dice.randrange(3))
                other = dice.choice([m for m in live if m != term.member])
                after = log.transfer(term, other, "asked", "handover")
                log.sleep(dice.randrange(3))
                log.lead(after)
            case "drain":
                log.stop(term, "drained")
                log.release(term, "drained", "drain")
            case "lapse":
                log.stop(term, "lease ran out")
                log.release(term, "fenced", "lapse")
            case "freeze":
                _freeze(log, dice, live, term)
            case "kill" if len(live) > 3:
                live.remove(term.member)
            case "die" if len(live) > 3:
                live.remove(term.member)
                log.obituary(dice.choice(live), term.member)
            case "pause":
                pause = log.pause(role, 1000)
                log.stop(term, "paused")
                log.release(term, "paused", "pause")
                log.sleep(dice.randrange(50))
                log.resume(pause)
            case "join" if len(live) < members + 3:
                live.append(log.join(f"m{number}"))
                number += 1
            case _:
                pass
    return log


def _succeed(log: Scribe, dice: random.Random, live: list[str], free: dict[str, int]) -> None:
    """All that live beat in time (R16), and no seat is without a leader for much longer than is promised, as long as somebody
    lives."""
    for member in live:
        if log.silent(member) > log.session // 4:
            log.beat(member)
    for role, since in free.items():
        term = log.holder(role)
        if term is not None and term.member in live:
            if term.start is None and log.now > since + 600:
                log.lead(term)
            free[role] = since if term.start is None else log.now
        elif (term is None and log.now > since + 600) or (
            term is not None and log.silent(term.member) > log.session + 10
        ):
            log.lead(log.claim(dice.choice(live), role))
            free[role] = log.now


def _silent_claim(log: Scribe, dice: random.Random, live: list[str], role: str) -> bool:
    """Its holder is dead: after a session, in which all others beat, somebody claims over it."""
    if dice.random() < 0.5:
        return False
    log.sleep(log.session + dice.randrange(20))
    for member in live:
        log.beat(member)
    log.lead(log.claim(dice.choice(live), role))
    return True


def _freeze(log: Scribe, dice: random.Random, live: list[str], term: Truth) -> None:
    """The holder stands still for more than a session; it is succeeded, thaws, and tells when its lease had run out."""
    others = [m for m in live if m != term.member]
    lease_end = log.now - log.silent(term.member) + log.lease - dice.randrange(1, 200)
    log.sleep(log.session + dice.randrange(50))
    for member in others:
        log.beat(member)
    after = log.claim(dice.choice(others), term.role, cause="freeze")
    log.lead(after)
    log.sleep(dice.randrange(100))
    term.told = True
    log.stop(term, "lease ran out", at=lease_end)
