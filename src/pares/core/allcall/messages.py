"""What ALLCALL's members say to each other: one kind of message, a call to all or an answer to all, with the claims known.

    v  format version   m  member id                      r  rank, lower is preferred
    k  ping or reply    n  sender's own number            p  init, ping or gone
    g  group            s  wall clock, ms, at sending     e  roles that the sender may lead
                                                          c  claims, one a role: the best one known
    h  host             t  heartbeat, lease, skew; ms     o  order, lease or rank: h, t and o are for people

Only its holder makes or prolongs a claim (H1); other members pass it on. It says

    term, seq   which claim of which term; a later one of the same holder replaces an earlier one, whatever its ttl (H7)
    ttl         milliseconds that are left of it at sending; 0: released. Judged on the receiver's stopwatch (H3)
    expires     the holder's wall clock at its end: the same number for all members; it serves to order claims, no more (H3)

As with records (R11), what does not decode, is too large or impossible is counted and dropped, and stops no reader.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from pares.core.wire.records import Int, MemberId, Name

VERSION: Final = 1
MAX_CALL: Final = 64 * 1024
MAX_TTL_MS: Final = 600_000
MAX_ROLES: Final = 200
MAX_TERM: Final = 2**31
MAX_RANK: Final = 2**256
"""A rank is any integer between minus this and this, so that it may be a long random number that no other member draws."""
_TIE_BITS: Final = 22
TERM_ORIGIN_S: Final = 1_577_836_800
"""The first term of a group is the number of seconds since 2020, so that terms go on growing when all members were
restarted."""

Ttl: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_TTL_MS)]
Term: TypeAlias = Annotated[int, Meta(ge=1, lt=MAX_TERM)]
Phase: TypeAlias = Literal["init", "ping", "gone"]


def _check_rank(rank: int) -> None:
    if not -MAX_RANK < rank < MAX_RANK:
        raise ValueError("a rank beyond 256 bits")


class Claim(Struct, frozen=True, gc=False):
    role: Name
    holder: MemberId
    rank: int
    term: Term
    seq: Annotated[int, Meta(ge=1, lt=2**53)]
    ttl: Ttl
    expires: Int

    def __post_init__(self) -> None:
        _check_rank(self.rank)


class Call(Struct, frozen=True):
    v: int
    k: Literal["ping", "reply"]
    g: Name
    m: MemberId
    n: Int
    s: Int
    r: int
    p: Phase
    e: Annotated[list[Name], Meta(max_length=MAX_ROLES)]
    c: Annotated[list[Claim], Meta(max_length=2 * MAX_ROLES)]
    h: Annotated[str, Meta(max_length=1000)] = ""
    t: Annotated[list[Int], Meta(max_length=3)] = []
    o: Annotated[str, Meta(max_length=10)] = ""

    def __post_init__(self) -> None:
        _check_rank(self.r)


class Bad(Struct, frozen=True):
    """A message that is no call."""

    reason: str


_decoder: Final = msgspec.json.Decoder(Call)


def encode(call: Call) -> bytes:
    return msgspec.json.encode(call)


def decode(payload: bytes) -> Call | Bad:
    if len(payload) > MAX_CALL:
        return Bad("too large")
    try:
        call = _decoder.decode(payload)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        return Bad(str(error))
    return call if call.v == VERSION else Bad(f"version {call.v}, and {VERSION} is read here")


@lru_cache(1024)
def token(term: int, holder: str) -> int:
    """The fencing token of a term: it grows with the term, and differs between two holders of one term, but for one pair in
    four million. (22 bits of it are a hash of the holder; the term takes the other 31 of the 53 that JSON's numbers have.)

    So on one side of a split tokens are in order. Leaders on both sides may write meanwhile, and which of them has the higher
    token means nothing; when they hear each other, the leader that remains takes a token above both (H18).
    """
    tie = int.from_bytes(hashlib.blake2s(holder.encode(), digest_size=4).digest()) >> (32 - _TIE_BITS)
    return (term << _TIE_BITS) + tie
