"""What stands in the log: one JSON object a record, typed, bounded, and judged the same by every reader (R11).

Every record opens with the same envelope, which never changes, in any version of the format:

    v  format version          g  group              n  the member's own sequence number
    k  kind                    m  member id          b  the base that the record was written under
                                                     s  milliseconds until the sender's next record is due

Two readers that disagree on whether a record is well formed would live in different worlds from then on. So `decode`
depends on nothing but the bytes: the limits below are constants of the format and never options, fields that a known kind
does not have make a record bad, and the nesting of what is skipped has a limit of its own, because a limit on recursion would
depend on how deep the reader's own stack happens to be.

A record of a kind that this version does not know, with a readable envelope, decodes to `Unknown`: it counts as a sign of
life of its sender (R2) and has no effect.

Version 2 added five kinds, `ready` (R19), `forget` (R20), `asked` (R11), `ahead` (C9) and `range` (C11), and a field of
`join`, `ready`. In a record of version 1 they are what they are to a reader of version 1: the kinds are unknown, the field
makes the join bad. In a record above version 1 that has the wrong form, whatever its kind, every reader sees the envelope and
no more: it counts as an unknown kind does, because a reader of version 1 cannot tell it from a form that came later. So
releases 0.1 and 0.2 read a mixed log alike; and what else version 2 changes is in force only from the place on at which a
record of version 2 has counted (`World.in_force`)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, TypeAlias, cast, get_args

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from pares.core.errors import ConfigError
from pares.core.nesting import MAX_DEPTH, shallow

VERSION: Final = 2
"""The format version that this code writes."""
FIRST: Final = 1
"""The first format version, the only one in which a wrong form makes a record bad: all readers know that form."""
READS: Final = 2
"""The newest format version that this code can read; stated in every `join`."""

MAX_RECORD: Final = 64 * 1024
MAX_SNAPSHOT: Final = 1024 * 1024
MAX_PARTS: Final = 1024
MAX_INT: Final = 2**53
MAX_BASE: Final = 2**52
"""A base and an offset below it make a token that a record can carry; in microseconds it is reached in 2112."""
MAX_DUE_MS: Final = 600_000
AT_ONCE: Final = 1
"""What a record says of when the next one is due (in milliseconds), if its sender is to be given nothing: it does not know, by
a round trip of its own, that it could lead. A quarter of the shortest session is more."""
MIN_SESSION_MS: Final = 20
MAX_SESSION_MS: Final = 60_000
MAX_PAUSE_MS: Final = 7 * 24 * 3600 * 1000
MAX_SEATS: Final = 100
MAX_ROLES: Final = 10_000
MAX_MEMBERS: Final = 10_000
MAX_PAUSES: Final = 1000
MAX_NAME: Final = 200
MAX_RUNS: Final = 500
"""Runs of what is done above a position (C9)."""
MAX_TRIES: Final = 500
"""Records of a partition of which it is kept how often they were given out (C10)."""
MAX_RANGE: Final = 1_000_000
"""Offsets of one range (C11)."""

Int: TypeAlias = Annotated[int, Meta(ge=0, lt=MAX_INT)]
Base: TypeAlias = Annotated[int, Meta(ge=0, lt=MAX_BASE)]
Due: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_DUE_MS)]
Index: TypeAlias = Annotated[int, Meta(ge=0, lt=MAX_SEATS)]
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MAX_NAME, pattern=r"^[^\x00-\x1f\x7f-\x9f]+\Z")]
_is_name: Final = re.compile(rf"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{{1,{MAX_NAME}}}\Z").match
MemberId: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MAX_NAME + 40)]
Text: TypeAlias = Annotated[str, Meta(max_length=1000)]
Weight: TypeAlias = Annotated[float, Meta(ge=0.001, le=1_000_000)]
Seat: TypeAlias = tuple[str, int]
"""`(role, index)`: what is held, claimed and handed over."""
_Seat: TypeAlias = tuple[Annotated[str, Meta(min_length=1, max_length=MAX_NAME)], Index]


class Record(Struct, tag_field="k", forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """The envelope. Records are values: nothing changes one after it was made."""

    urgent: ClassVar[bool] = True
    """Whether somebody may have to act on one now: it must survive a power cut."""

    v: Int
    g: Annotated[str, Meta(max_length=MAX_NAME)]
    m: MemberId
    n: Int
    b: Base
    s: Due


class Lock(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Which file's lock proves this member alive (R7); `pid` only says where to look first, and proves nothing."""

    boot: Text
    device: Text
    inode: Text
    file: Text
    pid: Int = 0


class Genesis(Record, tag="genesis"):
    """A log begins, or begins anew over the group's last record (R9)."""

    base: Base
    over: Int | None = None


_read_names = msgspec.json.Decoder(tuple[Name, ...] | None).decode


@lru_cache(maxsize=64)
def names(stated: bytes) -> tuple[str, ...] | None:
    """What a member is eligible for, as JSON: the same value for the same bytes. Raises `msgspec.ValidationError`."""
    try:
        return _read_names(stated)
    except msgspec.ValidationError as error:
        raise msgspec.ValidationError(f"eligible: {error}") from None


class Join(Record, tag="join"):
    """A member makes itself known (R4, R7, R11). `eligible` None: every role; empty: none (administrators, observers)."""

    name: Name
    session: Annotated[int, Meta(ge=MIN_SESSION_MS, le=MAX_SESSION_MS)]
    host: Text = ""
    zone: Text = ""
    labels: dict[Text, Text] = {}
    rank: Int = 0
    weight: Weight = 1.0
    if TYPE_CHECKING:
        eligible: tuple[Name, ...] | None = None
    else:
        eligible: msgspec.Raw = None  # a list that was read before is not read again
    drift: Annotated[float, Meta(ge=0, le=0.5)] = 0.1
    overlap: Int = 0
    protocol: Text = "claims"
    reads: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    lock: Lock | None = None
    adrift: bool = False
    """The joiner found no way into the log and asks for a snapshot (R10, R12)."""
    ready: bool | UnsetType = UNSET
    """Whether it may be given seats from the first (R19); not said: it may. Since version 2."""

    def __post_init__(self) -> None:
        """Hundreds that declare the same roles state one and the same list of hundreds: it is read and checked once (R23). [on
        a machine that all of a large group share, reading one another's joins is most of what its start costs]"""
        stated = cast("object", self.eligible)
        if isinstance(stated, msgspec.Raw):
            msgspec.structs.force_setattr(self, "eligible", names(bytes(stated)))


class Beat(Record, tag="beat"):
    """I live. `marks`: (role, index, token, mark) of seats that the sender holds (R15)."""

    urgent: ClassVar[bool] = False
    marks: tuple[tuple[str, Index, Int, Int], ...] | None = None


class Leave(Record, tag="leave"):
    """The member is gone for ever, its seats are free."""

    marks: tuple[tuple[str, Index, Int, Int], ...] | None = None


class Claim(Record, tag="claim"):
    """Compare and claim (R3): `over` is the holder and the offset of its last counted record, or None for a free seat."""

    seat: _Seat
    over: tuple[MemberId, Int] | None = None
    free: bool = False


class Release(Record, tag="release"):
    """The holder gives its term up (R5). `down`: it steps down, the seat is not to fall back to it (R13); `why` is for
    people, and nothing is decided by it."""

    seat: _Seat
    token: Int
    mark: Int | None = None
    down: bool = False
    why: Text = ""


class Transfer(Record, tag="transfer"):
    """A handover in one record (R6); `down` as in `release`, for when it acts as one."""

    seat: _Seat
    token: Int
    to: MemberId
    mark: Int | None = None
    pin: bool = False
    down: bool = False
    why: Text = ""


class Obituary(Record, tag="obituary"):
    """Written only with proof (R7): the member `of` is dead, its seats are free, its id never returns."""

    of: MemberId


class Forget(Record, tag="forget"):
    """The member `of` holds nothing and has been silent since its last counted record, at `over`: its id never returns (R20).
    Since version 2."""

    of: MemberId
    over: Int


class Ask(Record, tag="ask"):
    """A request that only holders act upon (R13): hand `seat` over (to `to`), or drain the member `drain`."""

    seat: _Seat | None = None
    to: MemberId | None = None
    drain: MemberId | None = None


class Role(Record, tag="role"):
    """A role is added, changed or removed for the whole group (R3a). Marks of seats that a role no longer has are forgotten."""

    name: Name
    seats: Annotated[int, Meta(ge=1, le=MAX_SEATS)] = 1
    weight: Weight = 1.0
    spread: Annotated[str, Meta(pattern=r"^(host|zone|none)\Z")] = "host"
    removed: bool = False


class Ready(Record, tag="ready"):
    """From here on the sender may be given seats, or may not (R19); `why` is for people. Since version 2."""

    ready: bool
    why: Text = ""


class Asked(Record, tag="asked"):
    """The sender was made with other seats of these roles than the group has: (role, seats). Nothing follows from it, it is
    there for people. Since version 2."""

    roles: tuple[tuple[Name, Annotated[int, Meta(ge=1, le=MAX_SEATS)]], ...]


class Pause(Record, tag="pause"):
    """Holders release and claims fail (R14), in one role or, with `scope` None, in the whole group."""

    ms: Annotated[int, Meta(ge=1, le=MAX_PAUSE_MS)]
    scope: Name | None = None


class Resume(Record, tag="resume"):
    pause: Int


class Take(Record, tag="take"):
    """At-most-once: from now on nobody else is given `first`..`last` of this seat's source."""

    seat: _Seat
    token: Int
    first: Int
    last: Int


class Done(Record, tag="done"):
    """`first`..`last` of this seat's source are processed: the mark rises to `last` + 1."""

    seat: _Seat
    token: Int
    first: Int
    last: Int


class Ahead(Record, tag="ahead"):
    """What is done of this seat's source above the position `mark`, which rises to it: `done` has how many offsets are not done
    from there, how many are done then, and so on (C9). `tries`: (offset above `mark`, times) that records which are not done
    were given out (C10). Since version 2."""

    urgent: ClassVar[bool] = False
    seat: _Seat
    token: Int
    mark: Int
    done: Annotated[tuple[Int, ...], Meta(max_length=2 * MAX_RUNS)] = ()
    tries: Annotated[tuple[tuple[Int, Int], ...], Meta(max_length=MAX_TRIES)] = ()


class Range(Record, tag="range"):
    """The next `count` offsets of its partition belong to this slot (C11). `after`: where the slot's last range ends, 0 if it
    has none. If the partition's ranges end at `over`, they go on from `to`, if that is above. Since version 2."""

    seat: _Seat
    token: Int
    after: Int
    count: Annotated[int, Meta(ge=1, le=MAX_RANGE)]
    over: Int = 0
    to: Int = 0


class Rewind(Record, tag="rewind"):
    """An administrator moves marks, also backwards: only of free seats under a pause (R15)."""

    marks: tuple[tuple[str, Index, Int], ...]


class Did(Record, tag="did"):
    """History for people and for the audit (R17): `what` is "lead" or "stop", `at` the writer's wall clock in ms."""

    urgent: ClassVar[bool] = False
    seat: _Seat
    token: Int
    what: Annotated[str, Meta(max_length=40)]
    at: Int
    why: Text = ""


class Snapshot(Record, tag="snapshot"):
    """Part `part` of `parts` of the world after folding everything before `upto` (R10)."""

    upto: Int
    id: Text
    part: Int
    parts: Annotated[int, Meta(ge=1, le=MAX_PARTS)]
    world: str


class Unknown(Struct, gc=False):
    """A record of a kind that this version does not know: only its envelope is read."""

    v: Int
    k: Annotated[str, Meta(max_length=40)]
    g: Annotated[str, Meta(max_length=MAX_NAME)]
    m: MemberId
    n: Int
    b: Base
    s: Due


AnyRecord: TypeAlias = (
    Genesis
    | Join
    | Beat
    | Leave
    | Claim
    | Release
    | Transfer
    | Obituary
    | Ask
    | Role
    | Pause
    | Resume
    | Take
    | Done
    | Rewind
    | Did
    | Snapshot
    | Ready
    | Forget
    | Asked
    | Ahead
    | Range
)

KINDS: Final = frozenset(str(kind.__struct_config__.tag) for kind in get_args(AnyRecord))
"""The kinds that this version knows."""
SINCE: Final = {"ready": 2, "forget": 2, "asked": 2, "ahead": 2, "range": 2}
"""Kinds that came after version 1: in a record of a version before, they are unknown."""


class BadRecord(Exception):
    """The payload is no record: it counts for no reader. `reason` is one of a few fixed words."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason


_typed = msgspec.json.Decoder(AnyRecord)
decode_fast = _typed.decode
"""What `decode` tries first, for loops that do so a million times a second and turn to `decode` for whatever it raises."""
_envelope = msgspec.json.Decoder(Unknown)
_encoder = msgspec.json.Encoder()


def decode(payload: bytes) -> AnyRecord | Unknown:
    """The record in `payload`, or `BadRecord`. Promised: the answer depends on the bytes alone, and nothing else is raised."""
    if len(payload) > MAX_RECORD:
        return _decode_large(payload)
    try:
        return _typed.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return _decode_envelope(payload, str(error))


def _decode_large(payload: bytes) -> AnyRecord:
    if len(payload) > MAX_SNAPSHOT:
        raise BadRecord("too large", f"{len(payload)} bytes, a record has at most {MAX_SNAPSHOT}")
    try:
        record = _typed.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadRecord("not a record", str(error)) from None
    if not isinstance(record, Snapshot):
        raise BadRecord("too large", f"{len(payload)} bytes, only a snapshot may have more than {MAX_RECORD}")
    return record


def _decode_envelope(payload: bytes, error: str) -> Unknown:
    """Only what a later version may have added gets through here: another kind, or another form of a known one."""
    if not shallow(payload):
        raise BadRecord("nested too deep", f"more than {MAX_DEPTH} levels, or brackets that don't match")
    try:
        record = _envelope.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError) as second:
        raise BadRecord("not a record", str(second)) from None
    if record.k in KINDS and SINCE.get(record.k, 0) <= record.v <= FIRST:
        raise BadRecord("bad field", error)
    return record


def misshapen(record: Unknown) -> bool:
    """Whether it is of a kind and a version that this code knows, and not of their form. It counts like an unknown kind, and
    people should hear of it."""
    return record.k in KINDS and SINCE.get(record.k, 1) <= record.v <= READS


def encode(record: AnyRecord) -> bytes:
    """The bytes of `record`. Raises `ConfigError` for one that no reader would count: it must never reach a log."""
    try:
        payload = _encoder.encode(record)
        if isinstance(decode(payload), Unknown):
            _typed.decode(payload)
    except (BadRecord, UnicodeEncodeError, msgspec.MsgspecError) as bad:
        kind = type(record).__name__.lower()
        raise ConfigError(f"this {kind} can't be written: {bad}; shorten or correct that value") from None
    return payload


def check_name(what: str, name: object) -> str:
    """`name` if it can name a group, a role or a member: a `Name` that is text. [a member may be made with ten thousand]"""
    if not isinstance(name, str):
        raise ConfigError(f"{what} must be a string, not {type(name).__name__} ({name!r})")
    if _is_name(name):
        return name
    shown = name if len(name) <= 60 else name[:57] + "..."
    raise ConfigError(
        f"{what} {shown!r} ({len(name)} characters) can't be used: "
        f"give 1 to {MAX_NAME} characters, no control characters and no lone surrogates"
    )
