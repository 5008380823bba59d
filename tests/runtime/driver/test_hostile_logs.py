"""Garbage and hostile records in the log while members run (R11): they do not count, are counted, and stop nobody."""

from __future__ import annotations

import json
from typing import Any

import pytest
from runtime_tools import CALM, PATIENCE, Crew, binding, ids, until

import pares
from pares.core.errors import CapabilityError
from pares.core.wire.records import MAX_INT, MAX_RECORD, READS

HUGE = "9" * 5000


def record(**fields: Any) -> bytes:
    whole = {"v": 1, "k": "beat", "g": "g", "m": "x~1", "n": 1, "b": 1, "s": 100} | fields
    return json.dumps({name: value for name, value in whole.items() if value is not None}).encode()


GARBAGE: dict[str, bytes] = {
    "nothing": b"",
    "no text": bytes(range(256)),
    "no JSON": b"these are notes",
    "half a record": record()[:-5],
    "a list": b"[1,2,3]",
    "null": b"null",
    "no envelope": b'{"k":"beat"}',
    "deep nesting": b'{"v":1,"k":"x","g":"g","m":"x","n":1,"b":1,"s":1,"z":' + b"[" * 30_000 + b"]" * 30_000 + b"}",
    "deep nesting without an end": b"[" * 60_000,
    "deep objects": b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    "a huge number": b'{"v":1,"k":"beat","g":"g","m":"x","n":' + HUGE.encode() + b',"b":1,"s":1}',
    "a number at the limit": record(n=MAX_INT),
    "a negative number": record(n=-1),
    "half a number": record(n=1.5),
    "NaN": b'{"v":1,"k":"beat","g":"g","m":"x","n":NaN,"b":1,"s":1}',
    "infinity": b'{"v":1,"k":"role","g":"g","m":"x","n":1,"b":1,"s":1,"name":"r","weight":1e999}',
    "wrong types": record(m=["x"]),
    "a number as text": record(n="1"),
    "an unknown field": record(colour="red"),
    "a session above a minute": record(k="join", name="x", session=60_001),
    "a session below 20 ms": record(k="join", name="x", session=19),
    "a control character in a name": record(k="join", name="a\nb", session=1000),
    "a name without end": record(k="join", name="n" * 300, session=1000),
    "a seat that is none": record(k="claim", seat=["A"]),
    "a seat of no index": record(k="claim", seat=["A", -1]),
    "a seat beyond all": record(k="claim", seat=["A", 10**9]),
    "too large": record(k="did", seat=["A", 0], token=1, what="x", at=1, why="w" * MAX_RECORD),
    "half a character": b'{"v":1,"k":"beat","g":"g","m":"\\ud800","n":1,"b":1,"s":1}',
}


def injected(url: str, *payloads: bytes) -> int:
    """Appends them; where the log ends then."""
    ledger = pares.open(url)
    ledger.append_many(list(payloads))
    end = ledger.end()
    ledger.close()
    return end


def has_read(member: pares.Member, end: int) -> bool:
    return binding(member).core.position >= end  # pyright: ignore[reportPrivateUsage]


def base_of(member: pares.Member) -> int:
    return binding(member).core.reader.world.base  # pyright: ignore[reportPrivateUsage]


def test_garbage_is_counted_and_stops_nobody(any_crew: Crew) -> None:
    roles = ["A", "B"]
    members = [any_crew.member(name, roles) for name in "ab"]
    until(lambda: [sum(m.holds(r) for r in roles) for m in members] == [1, 1], "each leads one")
    terms = [term for m in members for r in roles if (term := m.term(r))]
    assert isinstance(any_crew.ledger, str)
    end = injected(any_crew.ledger, *GARBAGE.values())
    for member in members:
        until(lambda member=member: has_read(member, end), "it has read them")
        assert member.health().bad_records == len(GARBAGE)
        assert member.health().ok
        assert member.health().problems == ()
    assert all(terms)
    newcomer = any_crew.standby("n", roles)
    assert newcomer.health().bad_records == len(GARBAGE)
    with pares.Observer(any_crew.ledger, group="g") as observer:
        assert observer.leader("A") is not None


@pytest.mark.parametrize("what", GARBAGE)
def test_each_piece_of_garbage_by_itself(memory: str, what: str) -> None:
    """In an empty log, before anybody: whoever comes reads past it."""
    injected(memory, GARBAGE[what])
    with pares.Member(memory, group="g", roles=["A"], session=CALM) as me:
        assert me.wait("A", PATIENCE)
        assert me.health().bad_records == 1


def test_strangers_that_speak_for_members_change_nothing(crew: Crew, memory: str) -> None:
    """Well-formed records of somebody who is not in the group, or who forges a member that is: their base, number or member
    does not fit, so they don't count."""
    me, other = crew.leader("a"), crew.standby("b")
    term, base = me.term("A"), base_of(me)
    assert term is not None
    seat: dict[str, Any] = {"seat": ["A", 0]}
    forged = [
        record(k="leave", m=me.id, n=0, b=base),
        record(k="release", m=me.id, n=0, b=base, token=term.token, **seat),
        record(k="release", m=me.id, n=99, b=base + 1, token=term.token, **seat),
        record(k="release", m=me.id, n=99, b=0, token=term.token, **seat),
        record(k="transfer", m="stranger~1", b=base, token=term.token, to=other.id, **seat),
        record(k="claim", m="stranger~1", b=base, **seat),
        record(k="obituary", m="stranger~1", b=base, of=me.id),
        record(k="pause", m="stranger~1", b=base, ms=600_000),
        record(k="role", m="stranger~1", b=base, name="A", removed=True),
        record(k="genesis", m="stranger~1", base=1),
        record(k="genesis", m="stranger~1", base=base, b=base),
        record(k="genesis", m="stranger~1", base=MAX_INT - 1, b=MAX_INT - 1),
        record(k="snapshot", m="stranger~1", b=base, upto=0, id="x", part=0, parts=1, world="{}"),
        record(k="snapshot", m="stranger~1", b=base, upto=MAX_INT - 1, id="y", part=7, parts=8, world="x" * 1000),
        record(k="snapshot", m="stranger~1", b=base, upto=0, id="z", part=5, parts=2, world="x"),
        record(k="beat", m=me.id, n=99, v=READS + 1, b=base),
        record(k="join", m="stranger~1", name="stranger", session=1000, b=base + 7),
        record(k="join", m="stranger~1", name="stranger", session=1000, b=base, v=READS + 1),
    ]
    end = injected(memory, *forged)
    until(lambda: has_read(me, end) and has_read(other, end), "both have read them")
    assert term
    assert ids(me) == ids(other) == {me.id, other.id}
    for member in (me, other):
        assert member.health().uncounted_records >= len(forged) - 4
        assert member.health().restarts == 0
    assert me.roles() == {"A": 1}
    me.hand_over("A", to="b")
    assert other.wait("A", PATIENCE)


def test_a_record_that_this_member_never_wrote(crew: Crew, memory: str) -> None:
    """A copy of this process (forked, cloned) writes under its id: it is fenced, and says why (R8)."""
    me, other = crew.leader("a", session=0.5), crew.standby("b", session=0.5)
    term = me.term("A")
    assert term is not None
    injected(memory, record(m=me.id, n=1_000_000, b=base_of(me)))
    assert term.wait_lost(PATIENCE)
    until(lambda: me.state == "failed", "it stops")
    with pytest.raises(pares.ForkedError, match="cloned"):
        me.wait("A", 1)
    assert other.wait("A", PATIENCE)


def test_a_log_of_a_newer_format_is_not_entered(memory: str) -> None:
    """What it says is beyond this version: upgrade first."""
    base = 1_000_000
    injected(
        memory,
        record(k="genesis", m="x~1", n=1, base=base, b=base),
        record(k="join", m="x~1", n=2, b=base, name="x", session=1000, reads=READS + 1),
        record(k="beat", m="x~1", n=3, b=base, v=READS + 1),
    )
    me = pares.Member(memory, group="g", roles=["A"], session=0.3)
    with pytest.raises(CapabilityError, match="upgrade pares here first"):
        me.wait("A", PATIENCE)
    assert me.state == "failed"
    assert not me.health().ok
    me.close()
    with pytest.raises(CapabilityError, match="upgrade pares here first"), pares.Admin(memory, group="g") as admin:
        admin.roles()


def test_an_observer_says_so_when_the_group_moves_on_to_what_it_cannot_read(memory: str) -> None:
    """What it would say from then on might be wrong; what it said before stays said."""
    base = 1_000_000
    new: dict[str, Any] = {"m": "x~1", "b": base}
    injected(
        memory,
        record(k="genesis", n=1, base=base, **new),
        record(k="join", n=2, name="x", session=1000, reads=READS + 1, **new),
        record(k="role", n=3, name="A", **new),
        record(k="claim", n=4, seat=["A", 0], **new),
    )
    with pares.Observer(memory, group="g") as observer:
        assert (holder := observer.leader("A")) is not None
        assert holder.member == "x~1"
        injected(memory, record(k="abdicate", n=5, v=READS + 1, seat=["A", 0], **new))
        for _ in range(2):
            with pytest.raises(CapabilityError, match="upgrade pares here first"):
                observer.leader("A")
        with pytest.raises(CapabilityError, match="upgrade pares here first"):
            next(observer.events(timeout=5))


def test_records_of_a_newer_format_do_not_count_while_older_members_live(crew: Crew, memory: str) -> None:
    me = crew.leader("a")
    term = me.term("A")
    seat: dict[str, Any] = {"seat": ["A", 0]}
    end = injected(
        memory,
        record(k="hocus", m=me.id, n=1_000_000, b=base_of(me), v=READS + 1),
        record(k="release", m=me.id, n=1_000_001, b=base_of(me), v=READS + 1, token=0, **seat),
    )
    until(lambda: has_read(me, end), "it has read them")
    assert term
    assert me.health().ok


def test_kinds_of_later_versions_are_signs_of_life(crew: Crew, memory: str) -> None:
    me = crew.leader("a")
    base = base_of(me)
    end = injected(
        memory,
        record(k="join", m="n~1", n=1, b=base, name="n", session=60_000, s=60_000, reads=READS),
        record(k="hocus", m="n~1", n=2, b=base, pocus=[1, {"a": None}], s=60_000),
        record(k="release", m="n~1", n=1, b=base, seat=["A", 0], token=0),  # its number is used up
    )
    until(lambda: has_read(me, end), "it has read them")
    world = binding(me).core.reader.world  # pyright: ignore[reportPrivateUsage]
    assert world.members["n~1"].n == 2
    assert me.holds("A")


def test_a_flood_of_records_of_an_unknown_kind(memory: str) -> None:
    """They may cost a leader its lease while it reads them. It does not fail, in the end it leads, and a newcomer comes in."""
    crew = Crew(memory)
    me = crew.leader("a", session=1.0)
    ledger = pares.open(memory)
    flood = [record(k="hocus", pocus=[1, {"a": None}])] * 10_000
    for _ in range(25):
        ledger.append_many(flood)
    end = ledger.end()
    until(lambda: has_read(me, end), "it has read all of them", within=120)
    assert me.wait("A", PATIENCE)
    newcomer = crew.member("n", session=1.0)
    until(lambda: newcomer.state == "live", "a newcomer comes in", within=120)
    for member in (me, newcomer):
        assert member.health().ok
        assert member.health().restarts == 0
    assert me.health().uncounted_records == 250_000
    ledger.close()
