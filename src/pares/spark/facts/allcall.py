"""The facts of a group that runs ALLCALL: the same rows that `claims` makes, from the calls on its bus.

Nothing decides here but each member for itself, so nothing in such a log proves who was the leader. What it proves is what
each member said: a holder says its claim before it believes, and goes on saying it until it gives it up, says so, or falls
silent. So a term is one holder's claims of one number:

- it begins when its holder first says it, by the holder's clock, and is believed in from then on;
- it is over when its holder says that it is released, and at the latest when the last claim that it said ends (`expires`).
  While a barrier runs the holder still says the claim and no longer believes: of an end only the latest moment is known;
- another's claim that comes when this one has ended supersedes it; one that comes before that does not: two sides have led.

A bus over a log keeps a minute of calls; a bus on core NATS keeps nothing.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from pares.core.allcall.messages import Bad, Call, Claim, decode, token
from pares.core.reasons import OUTBID
from pares.spark.facts.base import Fact
from pares.spark.facts.claims import KEPT_PAYLOAD, EntryLike

ALLCALL: Final = "allcall"
CLAIM, RELEASE, RELAY = "claim", "release", "relay"
"""Kinds of rows beside `ping` and `reply`: what a holder says of its claim, and that somebody passes on what was new."""
_LOST_BEATS: Final = 3.5
"""Beats of a takeover's limit: a call's way, and those in which a better ranked member that died as well is waited for."""


class _Caller(Struct):
    """A member, by its calls."""

    id: str
    host: str
    first: int
    first_ms: int
    heartbeat_ms: int = 0
    lease_ms: int = 0
    skew_ms: int = 0
    roles: frozenset[str] = frozenset()
    offset: int = 0
    last_ms: int = 0


class _Term(Struct):
    """One holder's claims of one number."""

    role: str
    holder: str
    number: int
    first: int
    whole: bool
    """Its first claim is here, and not lost with the log's beginning."""
    said_ms: int = 0
    """When its holder said for the last time that it has it, by its own clock."""
    until_ms: int = 0
    over: bool = False

    @property
    def token(self) -> int:
        return token(self.number, self.holder)


class CallHistory:
    """Turns the entries of one bus into the facts of one group. A function of the entries alone."""

    def __init__(self, group: str, start: int = 0) -> None:
        self._group, self._head = group, group.encode() + b"\n"
        self._start = start
        self._facts: list[Fact] = []
        self._callers: dict[str, _Caller] = {}
        self._gone: set[str] = set()
        self._terms: dict[str, dict[tuple[int, str], _Term]] = {}
        self._relayed: dict[tuple[str, str, str], tuple[int, int]] = {}
        self._first: tuple[int, int] | None = None
        self._last: tuple[int, int] | None = None
        self._top, self._dropped = 0, 0

    def feed(self, entries: Iterable[EntryLike]) -> list[Fact]:
        """The facts that follow from `entries`, which come right after those fed before."""
        for entry in entries:
            if not entry[2].startswith(self._head):
                continue
            payload = entry[2][len(self._head) :]
            call = decode(payload)
            if isinstance(call, Bad):
                self._facts.append(Fact("bad", entry[0], entry[1], cause=call.reason, payload=payload[:KEPT_PAYLOAD]))
            elif call.g == self._group:  # members drop others, too
                self._hear(call, entry[0], entry[1], payload)
        return self._drain()

    def finish(self) -> list[Fact]:
        """What can be said only at the end of the log, as it is now; feeding may go on afterwards."""
        terms = [term for of_role in self._terms.values() for term in of_role.values()]
        for term in terms:
            if not term.over:
                self._facts.append(self._of("held", term, clock_ms=term.said_ms, until_ms=term.until_ms))
        for caller in self._callers.values():
            self._facts.append(_member(caller))
            self._facts.append(Fact("seen", caller.offset, member=caller.id, clock_ms=caller.last_ms))
        if self._first is not None and self._last is not None:
            floor = 0
            if self._start:
                known = [term.token for term in terms if term.whole]
                floor = min(known) if known else max((term.token + 1 for term in terms), default=0)
            self._facts.append(Fact("first", *self._first, token=floor))
            self._facts.append(Fact("last", *self._last, cause=ALLCALL, sign_ms=self._dropped))
        return self._drain()

    def _drain(self) -> list[Fact]:
        facts, self._facts = self._facts, []
        return facts

    def _hear(self, call: Call, offset: int, at_ms: int, payload: bytes) -> None:
        self._dropped, self._top = max(self._dropped, self._top - at_ms), max(self._top, at_ms)
        first = self._first or (offset, at_ms)
        self._first, self._last = (first[0], min(first[1], at_ms)), (offset, max(self._top, at_ms))
        caller = self._callers.get(call.m)
        if caller is None:
            caller = self._callers[call.m] = _Caller(call.m, call.h, offset, at_ms)
        caller.offset, caller.last_ms = offset, at_ms
        if len(call.t) == 3:
            caller.heartbeat_ms, caller.lease_ms, caller.skew_ms = call.t
        caller.roles |= {*call.e}
        row = Fact(
            "record", offset, at_ms, member=call.m, clock_ms=call.s, cause=call.k, n=call.n, base=0, counted=True
        )
        row = row._replace(due_ms=caller.heartbeat_ms, hash=zlib.crc32(payload), bytes=len(payload))
        self._facts.append(row)
        for role in call.e:
            self._role(role, offset, at_ms)
        for claim in call.c:
            self._role(claim.role, offset, at_ms)
            if claim.holder == call.m:
                self._say(claim, call.s, row)
            else:
                self._pass_on(claim, row)
        if call.p == "gone" and call.m not in self._gone:
            self._gone.add(call.m)
            self._facts.append(Fact("gone", offset, at_ms, member=call.m, name=_name(call.m), cause="gone"))

    def _role(self, role: str, offset: int, at_ms: int) -> None:
        if role not in self._terms:
            self._terms[role] = {}
            self._facts.append(Fact("opened", offset, at_ms, role, 0))

    def _say(self, claim: Claim, said_ms: int, row: Fact) -> None:
        """A holder's own word."""
        assert row.offset is not None
        cause = CLAIM if claim.ttl else RELEASE
        self._row(claim, row, cause)
        terms, key = self._terms[claim.role], (claim.term, claim.holder)
        term = terms.get(key)
        if term is None:
            term = terms[key] = _Term(claim.role, claim.holder, claim.term, row.offset, claim.seq == 1)
            term.said_ms = term.until_ms = said_ms
            if claim.ttl:
                self._supersede(term, row.offset, said_ms)
            began = "announce" if term.whole else "snapshot"
            self._facts.append(self._of("gained", term, row.offset, said_ms if term.whole else row.at_ms, cause=began))
            if term.whole and claim.ttl:
                self._facts.append(self._of("lead", term, row.offset, row.at_ms, clock_ms=said_ms))
        if claim.ttl:
            term.said_ms, term.until_ms = said_ms, max(term.until_ms, claim.expires)
        elif not term.over:
            self._over(term, row.offset, said_ms, RELEASE, claim.holder, "")

    def _supersede(self, new: _Term, offset: int, said_ms: int) -> None:
        """What had ended without a word is over now; what had not goes on beside this."""
        for term in self._terms[new.role].values():
            if term is new or term.over:
                continue
            if term.holder == new.holder:
                self._over(term, offset, said_ms, RELEASE, new.holder, OUTBID)
            elif term.until_ms <= said_ms:
                self._over(term, offset, said_ms, CLAIM, new.holder, "")

    def _over(self, term: _Term, offset: int, said_ms: int, cause: str, by: str, why: str) -> None:
        term.over = True
        until = min(term.until_ms, said_ms)
        lost = self._of("lost", term, offset, said_ms, clock_ms=term.said_ms, until_ms=until, cause=cause)
        self._facts.append(lost._replace(other=by, why=why, name=by if by != term.holder else None))

    def _pass_on(self, claim: Claim, row: Fact) -> None:
        """What a member has heard of another's claim: told once for each that is new to it."""
        assert row.member is not None
        key, news = (row.member, claim.role, claim.holder), (claim.term, claim.seq)
        if self._relayed.get(key, (0, 0)) < news:
            self._relayed[key] = news
            self._row(claim, row, RELAY)

    def _row(self, claim: Claim, row: Fact, cause: str) -> None:
        said = row._replace(cause=cause, role=claim.role, seat=0, token=token(claim.term, claim.holder), ref=claim.seq)
        self._facts.append(said._replace(other=claim.holder))

    def _of(self, kind: str, term: _Term, offset: int | None = None, at_ms: int | None = None, **other: Any) -> Fact:
        fact = Fact(kind, offset, at_ms, term.role, 0, term.token, term.holder, term.holder)
        return fact._replace(**other)


def _name(member: str) -> str:
    return member.rpartition("~")[0] or member


def _member(caller: _Caller) -> Fact:
    """Its session is how long a group may be without a leader after a crash; its overlap, for how long two may lead that hear
    each other: a beat, and a call's way."""
    fact = Fact("member", caller.first, caller.first_ms, member=caller.id, name=_name(caller.id), host=caller.host)
    limit = caller.lease_ms + caller.skew_ms + int(_LOST_BEATS * caller.heartbeat_ms)
    return fact._replace(
        session_ms=limit or None,
        drift=0.0,
        overlap_ms=caller.heartbeat_ms + caller.skew_ms,
        eligible=json.dumps(sorted(caller.roles)),
    )


def history(group: str, entries: Iterable[EntryLike], start: int = 0) -> list[Fact]:
    """All facts of `entries`, which begin at `start`, in plain Python: what Spark runs, without Spark."""
    folding = CallHistory(group, start)
    return [*folding.feed(entries), *folding.finish()]
