"""What members of the NELI family write: kinds of their own, in the envelope that all records have (`records`).

    width      the sender shares out so many partitions: it says so in each of them before anything else, and which roles of its
               own belong there
    work       roles come to this partition, or go: for the whole group
    share      as `width`, by a member that numbers roles by the log (`numbering`)
    number     names of roles get their numbers, in partition 0
    place      roles come to this partition, each with its number
    announce   a tenure of one partition begins: its owner says so, to its predecessor above all
    pulse      Fast NELI: the owner's beat
    beacon     NELI: everybody's beat, on every partition; `term` is the sender's own tenure of this one, if it has one
    yield      a tenure is over: the work of it is done, or will never be begun

A record speaks of the partition that it stands in; `n` counts the sender's records in that partition. The claims protocol takes
these kinds for unknown ones of senders that it does not know: they change nothing in its worlds, so groups of both kinds may
share a log. What a reader can't decode does not count and stops nobody (R11).
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, TypeAlias, get_args

import msgspec
from msgspec import Meta

from pares.core.errors import ConfigError
from pares.core.wire.records import (
    MAX_RECORD,
    MAX_SEATS,
    MAX_SESSION_MS,
    AnyRecord,
    BadRecord,
    Int,
    Name,
    Record,
    Text,
    Unknown,
)
from pares.core.wire.records import decode as decode_any

MAX_THRESHOLD_MS: Final = 2 * MAX_SESSION_MS
"""The longest time that a belief may last after the record that it rests on: a limit of the format."""

NAMES: Final = 64
"""Names of roles that are written into one record at the most: so many of the longest fit."""

Threshold: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_THRESHOLD_MS)]
RoleNumber: TypeAlias = Annotated[int, Meta(ge=-1, lt=2**31)]
NUMBERED: Final = "+numbers"
"""Stands behind the protocol in the announcements of members that go by the log's numbers: those that know the hash only find
another protocol there, and refuse to begin beside it."""


class PartitionCount(Record, tag="width"):
    """The sender shares out `of` partitions. A member that shares out fewer reads this before anything it does next here
    counts, and stops."""

    of: Annotated[int, Meta(ge=1)]
    at: Int
    roles: tuple[Name, ...] = ()
    """Roles of this partition that the sender brings along: the group has them from here on."""
    seats: Annotated[int, Meta(ge=1, le=MAX_SEATS)] = 1


class RolesChanged(Record, tag="work"):
    """From here on the group has the roles `add`, and has `drop` no more. The owner of this partition leads them."""

    at: Int
    add: tuple[Name, ...] = ()
    drop: tuple[Name, ...] = ()


class Share(Record, tag="share"):
    """The sender shares out `of` partitions, and goes by the numbers that the log gives to names. Kinds of its own for that
    (and `place` for `work`): members that know the hash only take them for unknown, and see who numbers by its announcement."""

    of: Annotated[int, Meta(ge=1)]
    at: Int
    seats: Annotated[int, Meta(ge=1, le=MAX_SEATS)] = 1


class Number(Record, tag="number"):
    """In partition 0: names that the group is to number, in this order (`numbers` empty); or, by a member that knows them all,
    numbers that were given before (`whole` says how many names have one)."""

    at: Int
    names: tuple[Name, ...]
    numbers: tuple[RoleNumber, ...] = ()
    whole: Annotated[int, Meta(ge=0, lt=2**31)] = 0

    def __post_init__(self) -> None:
        if len(self.numbers) not in (0, len(self.names)):
            raise ValueError("as many numbers as names, or none")


class Place(Record, tag="place"):
    """From here on the group has these roles; their numbers say that they belong to this partition."""

    at: Int
    roles: tuple[Name, ...]
    numbers: tuple[RoleNumber, ...]
    """-1 for a name that is its own number."""

    def __post_init__(self) -> None:
        if len(self.numbers) != len(self.roles):
            raise ValueError("as many numbers as roles")


class Announce(Record, tag="announce"):
    """A tenure begins; its token is `b` + offset. `within`: for how many milliseconds after a record of its own its owner may
    believe, by a clock as bad as `drift`, without reading another."""

    name: Name
    within: Threshold
    drift: Annotated[float, Meta(ge=0, le=0.5)]
    of: Annotated[int, Meta(ge=1)]
    """How many partitions the sender shares out: roles belong to partitions by it."""
    at: Int
    """The sender's wall clock in milliseconds: for people."""
    host: Text = ""
    protocol: Text = ""
    session: Int = 0
    """The group's, in milliseconds; 0: not said."""
    seats: Annotated[int, Meta(ge=1, le=MAX_SEATS)] = 1
    """By how many members each role is led: partitions are shared out in as many equal blocks."""


class Pulse(Record, tag="pulse"):
    """The owner of tenure `term` lives. `lead`: as it writes this, it leads. `at` is the sender's wall clock in milliseconds,
    for people and for the audit: the time of writing; until a record that says `lead` was read back, the time at which it
    began to lead."""

    urgent: ClassVar[bool] = False
    term: Int
    within: Threshold
    at: Int
    lead: bool = False


class Beacon(Record, tag="beacon"):
    """The sender lives; `term` 0: it owns nothing here. `lead`, `at`: as in `Pulse`."""

    urgent: ClassVar[bool] = False
    within: Threshold
    at: Int
    term: Int = 0
    lead: bool = False


class Yield(Record, tag="yield"):
    """Tenure `term` is over, for good. `led`: it had come to lead, so every tenure before it was over already; then `began` and
    `ended` say from when to when, by its owner's wall clock in milliseconds."""

    term: Int
    at: Int
    led: bool = False
    why: Text = ""
    began: Int = 0
    ended: Int = 0


InductionRecord: TypeAlias = PartitionCount | RolesChanged | Share | Number | Place | Announce | Pulse | Beacon | Yield
KINDS: Final = frozenset(str(kind.__struct_config__.tag) for kind in get_args(InductionRecord))

_decoder = msgspec.json.Decoder(InductionRecord)
_encoder = msgspec.json.Encoder()


class Foreign(msgspec.Struct, frozen=True, gc=False):
    """A record of another protocol."""

    g: str
    record: AnyRecord | Unknown

    @property
    def m(self) -> str:
        return self.record.m


def decode(payload: bytes) -> InductionRecord | Foreign:
    """The record in `payload`; `BadRecord` for what is none. The answer depends on the bytes alone."""
    if len(payload) <= MAX_RECORD:
        try:
            return _decoder.decode(payload)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            pass
    other = decode_any(payload)
    if getattr(other, "k", None) in KINDS and other.v <= 1:
        raise BadRecord("bad field", "a record of a known kind with a field that can't be")
    return Foreign(other.g, other)


def encode(record: InductionRecord) -> bytes:
    """The bytes of `record`. Raises `ConfigError` for one that no reader would count."""
    try:
        payload = _encoder.encode(record)
        if len(payload) > MAX_RECORD:
            raise BadRecord("too large", f"{len(payload)} bytes")
        _decoder.decode(payload)
    except (BadRecord, msgspec.MsgspecError, UnicodeEncodeError) as bad:
        kind = record.__struct_config__.tag
        raise ConfigError(f"this {kind} can't be written: {bad}; shorten or correct that value") from None
    return payload
