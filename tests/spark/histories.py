"""Random histories, most of them unlawful: each a group of its own, so that one query judges hundreds of them.

What no log can show, as the fold does not let it through (two holders, tokens that fall), is planted in the facts themselves.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from scribe import BASE, Scribe, Truth

from pares.core.wire import records as r
from pares.spark.facts.base import Fact, arrow_schema, batches
from pares.spark.facts.claims import history

ACTS = (
    *(
        "beat",
        "beat",
        "beat",
        "take",
        "take",
        "take",
        "stop",
        "late stop",
        "again",
        "early",
        "phantom",
        "silence",
        "silence",
    ),
    *(
        "obituary",
        "ghost",
        "pause",
        "resume",
        "twin",
        "lost",
        "copy",
        "world",
        "step",
        "stranger",
        "leave",
        "join",
        "hand over",
    ),
    *("unready", "second", "refused", "wait", "wait", "hand over", "not ready", "ready"),
)


def broken(seed: int, *, acts: Sequence[str] = ACTS, length: int | None = None) -> Scribe:
    """A history of some forty acts, or of `length`, each lawful or not, out of `acts`."""
    dice = random.Random(seed)
    log = Scribe(group=f"h{seed:04}", overlap=dice.choice([0, 0, 0, 300]))
    roles = [f"r{i}" for i in range(dice.choice([1, 2, 3]))]
    log.role(*roles, seats=dice.choice([1, 1, 1, 2]))
    play = _Play(log, dice, roles)
    for _ in range(3):
        play.members.append(log.join(f"m{play.number()}"))
    # Each history has some sorts of acts only, so that there are some in which stamps never go back, and the like.
    some = [*dice.sample(acts, 12), "beat", "take", "take"]
    for _ in range(dice.randrange(15, 45) if length is None else length):
        log.sleep(dice.choice([1, 5, 40, 150, 400]))
        play.act(dice.choice(some))
    return log


class _Play:
    def __init__(self, log: Scribe, dice: random.Random, roles: list[str]) -> None:
        self.log, self.dice, self.roles = log, dice, roles
        self.members: list[str] = []
        self.pauses: list[int] = []
        self.dead: list[str] = []
        self._number = 0

    def number(self) -> int:
        self._number += 1
        return self._number

    def act(self, act: str) -> None:
        log, dice = self.log, self.dice
        role = dice.choice(self.roles)
        term = log.holder(role)
        member = dice.choice(self.members)
        match act:
            case "beat":
                for one in self.members:
                    log.beat(one)
            case "take":
                self._take(role, member)
            case "silence":
                log.sleep(dice.choice([900, 1400, 2700, 5200]))
                for one in self.members:
                    if dice.random() < 0.8:
                        log.beat(one)
            case "wait":
                # The living beat, and nobody claims anything.
                for _ in range(dice.randrange(2, 9)):
                    log.sleep(400)
                    for one in dice.sample(self.members, max(1, len(self.members) - 1)):
                        log.beat(one)
            case "phantom":
                log.lead(Truth(role, BASE + dice.randrange(len(log.entries) + 3), member))
            case "pause":
                self.pauses.append(log.pause(dice.choice([role, None]), 1000))
            case "resume" if self.pauses:
                log.resume(self.pauses.pop())
            case "twin":
                log.twin(member)
            case "lost":
                log.skip(member, dice.randrange(1, 4))
            case "copy":
                log.raw(dice.choice(log.entries)[2])
            case "step":
                log.now -= dice.choice([5, 120, 2000])
            case "world":
                log.put(r.Genesis, "stranger~0", base=BASE - 5, b=BASE - 5)
                log.put(r.Join, "stranger~0", b=BASE - 5, name="stranger", session=1000)
            case "stranger":
                log.put(r.Did, member, b=BASE - 5, seat=(role, 0), token=BASE + 1, what="lead", at=log.now)
            case "leave" if len(self.members) > 2:
                self.members.remove(member)
                log.put(r.Leave, member)
            case "join" if len(self.members) < 5:
                number = self.number()
                if number % 3 == 0:
                    log.put(r.Obituary, member, of=f"m{number}~0")  # of somebody who is not there yet
                self.members.append(log.join(f"m{number}", dice.choice([None, tuple(self.roles[:1])])))
            case "unready":
                log.put(r.Ask, "admin~0", drain=member)
            case "not ready" | "ready":
                log.put(r.Ready, member, ready=act == "ready")
            case "refused":
                log.put(
                    r.Claim, member, seat=(role, 0), over=(dice.choice(self.members), dice.randrange(len(log.entries)))
                )
            case "second":
                log.put(r.Claim, member, seat=(role, 1))
            case "obituary" if len(self.members) > 2:
                self._bury(member)
            case "ghost" if self.dead:
                ghost = dice.choice(self.dead)
                token = BASE + dice.randrange(len(log.entries))
                log.put(r.Did, ghost, seat=(role, 0), token=token, what=dice.choice(["lead", "stop"]), at=log.now)
                if token % 2:
                    log.put(r.Obituary, ghost, of=member)
            case _ if term is not None and term.member in self.members:
                self._of_term(act, term)
            case _:
                pass

    def _take(self, role: str, member: str) -> None:
        term = self.log.claim(member, role)
        if self.dice.random() < 0.9:
            self.log.sleep(self.dice.choice([0, 1, 3]))
            self.log.lead(term, at=self.log.now - self.dice.choice([0, 0, 0, 2, 30]))

    def _bury(self, member: str) -> None:
        others = [one for one in self.members if one != member]
        self.log.obituary(self.dice.choice(others), member)
        self.members.remove(member)
        self.dead.append(member)

    def _of_term(self, act: str, term: Truth) -> None:
        log, dice = self.log, self.dice
        match act:
            case "stop":
                log.stop(term, "drained")
                if dice.random() < 0.8:
                    log.release(term, "drained", "drain")
            case "late stop":
                log.sleep(dice.choice([700, 1100, 3000]))
                log.stop(term, at=log.now - dice.choice([0, 1, 300]))
            case "again" | "early":
                log.lead(term, at=log.now - dice.choice([0, 100]))
            case "hand over":
                log.stop(term)
                others = [one for one in self.members if one != term.member]
                log.lead(log.transfer(term, dice.choice(others), "asked", "handover"))
            case _:
                pass


def facts_of(seed: int) -> list[Fact]:
    """The facts of one of them; in some, what the fold never says is said."""
    log, dice = broken(seed), random.Random(seed)
    facts = history(log.group, log.entries)
    if dice.random() < 0.4:
        for claim in [fact for fact in facts if refused(fact, facts) and dice.random() < 0.5]:
            facts = granted(claim, facts)
        facts = [bent for fact in facts if fact.kind != "lost" or dice.random() < 0.8 for bent in _bent(fact, dice)]
    return facts if seed % 4 else _uncounted(facts)


def _uncounted(facts: list[Fact]) -> list[Fact]:
    """What a fold would have said that lets two beats of one member pass, and counts those before and after."""
    beats = [fact for fact in facts if fact.kind == "record" and fact.cause == "beat" and fact.counted]
    least = Counter(beat.member for beat in beats).most_common(1)
    unheard = [id(beat) for beat in beats if beat.member == least[0][0]][1:3] if least else []
    return [fact._replace(counted=False) if id(fact) in unheard else fact for fact in facts]


def refused(fact: Fact, facts: list[Fact]) -> bool:
    """Whether it is a claim that counted and was not granted."""
    claim = fact.kind == "record" and fact.cause == "claim" and fact.counted
    return bool(claim) and not any(other.kind == "gained" and other.offset == fact.offset for other in facts)


def granted(claim: Fact, facts: list[Fact]) -> list[Fact]:
    """What a fold would have said that lets this refused claim pass: it takes the seat from its holder there."""
    assert claim.offset is not None
    place = (claim.offset, claim.at_ms, claim.role, claim.seat)
    token = BASE + claim.offset
    ours = [fact for fact in facts if fact.kind in ("gained", "lost") and fact[3:5] == place[2:]]
    before = [fact for fact in ours if fact.offset is not None and fact.offset < claim.offset]
    added = [Fact("gained", *place, token, claim.member, claim.member, cause="claim")]
    holder = max((fact for fact in before if fact.kind == "gained"), key=_offset, default=None)
    if holder is None or any(fact.kind == "lost" and fact.token == holder.token for fact in before):
        return [*facts, *added]
    added.insert(0, Fact("lost", *place, holder.token, holder.member, claim.member, cause="claim", name=claim.member))
    # What the holder loses later is the new holder's to lose.
    theirs = {id(fact) for fact in ours if fact.kind == "lost" and fact.token == holder.token and fact not in before}
    moved = [fact._replace(token=token, member=claim.member) if id(fact) in theirs else fact for fact in facts]
    return [*moved, *added]


def _offset(fact: Fact) -> int:
    assert fact.offset is not None
    return fact.offset


def _bent(fact: Fact, dice: random.Random) -> list[Fact]:
    if fact.kind == "gained" and fact.token is not None and dice.random() < 0.2:
        return [fact._replace(token=fact.token - dice.choice([1, 40]))]
    if fact.kind == "gained" and dice.random() < 0.1:
        return [fact._replace(member="m1~0")]
    if fact.kind == "lost" and dice.random() < 0.1:
        return [fact._replace(cause=dice.choice(["release", "obituary", "leave"]))]
    if fact.kind == "lost" and dice.random() < 0.1:
        return [fact, fact._replace(offset=_offset(fact) + 3, cause="release")]  # lost twice
    if fact.kind == "lost" and dice.random() < 0.1:
        return [fact._replace(member=None)]  # lost by nobody
    return [fact]


def table_of(seeds: Iterable[int]) -> pa.Table:
    """All their facts, as Spark gets them."""
    found = [batch for seed in seeds for batch in batches(f"h{seed:04}", facts_of(seed))]
    return pa.Table.from_batches(found, arrow_schema())


def key(row: dict[str, Any], *without: str) -> str:
    """A row as text: to be compared, whatever is NULL in it."""
    return repr(sorted((name, value) for name, value in row.items() if name not in without))
