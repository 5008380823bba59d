"""What a fold would say that breaks a rule of the kernel: each story a sound log, and facts of it that are not sound.

No log can show this, as the fold of the kernel does not do it. So the story says by itself what such a fold would have made of
the log, and the second opinion, which stands on the records alone, must tell each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from histories import granted
from scribe import Scribe, Truth

from pares.core.wire import records as r
from pares.spark.facts.base import Fact
from pares.spark.facts.claims import history

Fold = Callable[[Scribe], list[Fact]]


def _group(log: Scribe) -> tuple[Truth, str, str]:
    """`a` leads `r`; `b` and `c` could."""
    log.role("r")
    term = log.claim(log.join("a"), "r")
    log.lead(term)
    log.sleep(200)
    return term, log.join("b"), log.join("c")


def _granted(log: Scribe, member: str, over: tuple[str, int]) -> list[Fact]:
    """The member claims `r` over that; the kernel refuses, and this fold does not."""
    offset = log.put(r.Claim, member, seat=("r", 0), over=over)
    facts = history(log.group, log.entries)
    assert not [fact for fact in facts if fact.kind == "gained" and fact.offset == offset]
    (claim,) = [fact for fact in facts if fact.kind == "record" and fact.offset == offset]
    return granted(claim, facts)


def over_a_holder_that_has_written_since(log: Scribe) -> list[Fact]:
    """R3: no record of the holder may have counted since the one that the claim names."""
    term, b, _ = _group(log)
    read = log.put(r.Beat, term.member)
    log.stop(term)
    return _granted(log, b, (term.member, read))


def over_another_than_the_holder(log: Scribe) -> list[Fact]:
    """R3: the holder must be the one that the claim names."""
    term, b, c = _group(log)
    log.stop(term)
    return _granted(log, b, (c, log.put(r.Beat, c)))


def over_a_record_of_another(log: Scribe) -> list[Fact]:
    """R3: what the claim names must be a record of the holder's."""
    term, b, c = _group(log)
    log.stop(term)
    return _granted(log, b, (term.member, log.put(r.Beat, c)))


def over_a_holder_of_a_free_seat(log: Scribe) -> list[Fact]:
    """R3: of a free seat a claim names nobody."""
    term, b, _ = _group(log)
    log.stop(term)
    read = log.put(r.Beat, term.member)
    log.release(term, "drained", "drain")
    return _granted(log, b, (term.member, read))


def transferred_to_another(log: Scribe) -> list[Fact]:
    """R6: the new holder is the one that the record names."""
    term, b, c = _group(log)
    log.stop(term)
    log.transfer(term, b, "asked", "handover")
    facts = history(log.group, log.entries)
    return [fact._replace(member=c) if fact.kind == "gained" and fact.member == b else fact for fact in facts]


def ended_by_a_beat(log: Scribe) -> list[Fact]:
    """R3a: nothing but a release, transfer, leave, claim or proof of death ends a term."""
    term, _, _ = _group(log)
    log.stop(term)
    offset = log.put(r.Beat, term.member)
    lost = Fact("lost", offset, log.now, "r", 0, term.token, term.member, term.member, cause="release")
    return [*history(log.group, log.entries), lost]


def _kept_past(log: Scribe, offset: int) -> list[Fact]:
    """Of what that record ends the fold has seen nothing."""
    facts = history(log.group, log.entries)
    assert [fact.kind for fact in facts if fact.offset == offset and fact.kind == "lost"]
    return [fact for fact in facts if fact.offset != offset or fact.kind != "lost"]


def kept_past_a_release(log: Scribe) -> list[Fact]:
    """R5: a release by its holder ends a term; one of another term of the same holder does not."""
    log.role("s")
    term, _, _ = _group(log)
    other = log.claim(term.member, "s")
    log.lead(other)
    for one in (other, term):
        log.stop(one)
        log.release(one, "drained", "drain")
    return _kept_past(log, log.entries[-1][0])


def kept_past_a_leave(log: Scribe) -> list[Fact]:
    """R9: whoever leaves has nothing left."""
    term, _, _ = _group(log)
    log.stop(term, "left")
    return _kept_past(log, log.put(r.Leave, term.member))


FOLDS: Final[tuple[Fold, ...]] = (
    over_a_holder_that_has_written_since,
    over_another_than_the_holder,
    over_a_record_of_another,
    over_a_holder_of_a_free_seat,
    transferred_to_another,
    ended_by_a_beat,
    kept_past_a_release,
    kept_past_a_leave,
)
"""Each must be found by the second opinion, and by no other rule."""
