"""The oracle of bytes: records of every kind and what readers make of them, a world as snapshots carry it.

Two examples of each kind: with nothing but what it must say, and with all that it can. For any values, and for damaged
bytes, see tests/core/wire/test_core_records.py; for what release 0.1 makes of the same log,
tests/core/rules/test_core_first_release.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, get_args

import msgspec
from tests.core.core_authors import BASE, Paper, Pen

from pares.core.allcall import messages
from pares.core.wire import fold, neli_records, records
from pares.core.wire.world import World

SEAT: Final = ("feed", 1)
NON_ASCII: Final = 'ünï/\N{GREEK SMALL LETTER ALPHA} "q"'
TOKEN: Final = BASE + 7
ENVELOPE: Final[dict[str, Any]] = {"g": "g", "m": "ann~1", "n": 3, "b": BASE, "s": 250}
LOCK: Final = records.Lock(boot="b-1", device="8:1", inode="42", file="/run/ann", pid=7)

Fields = Mapping[str, Any]
CLAIMS: Final[dict[str, tuple[Fields, Fields]]] = {
    "genesis": ({"base": BASE}, {"over": 5}),
    "join": (
        {"name": "ann", "session": 1000},
        {
            "host": "h1",
            "zone": "z1",
            "labels": {"app": NON_ASCII},
            "rank": 2,
            "weight": 0.5,
            "eligible": ("feed", NON_ASCII),
            "drift": 0.2,
            "overlap": 400,
            "protocol": "neli",
            "reads": 2,
            "lock": LOCK,
            "adrift": True,
            "ready": False,
        },
    ),
    "beat": ({}, {"marks": ((*SEAT, TOKEN, 9),)}),
    "leave": ({}, {"marks": ((*SEAT, TOKEN, 9),)}),
    "claim": ({"seat": SEAT}, {"over": ("bob~1", 4), "free": True}),
    "release": ({"seat": SEAT, "token": TOKEN}, {"mark": 9, "down": True, "why": NON_ASCII}),
    "transfer": (
        {"seat": SEAT, "token": TOKEN, "to": "bob~1"},
        {"mark": 9, "pin": True, "down": True, "why": "balance"},
    ),
    "obituary": ({"of": "bob~1"}, {}),
    "forget": ({"of": "bob~1", "over": 4}, {}),
    "asked": ({"roles": (("feed", 2), (NON_ASCII, 1))}, {}),
    "ahead": ({"seat": SEAT, "token": 1004, "mark": 5}, {"done": (2, 3, 1, 1), "tries": ((0, 2), (1, 1))}),
    "range": ({"seat": SEAT, "token": 1004, "after": 5, "count": 16}, {"over": 40, "to": 60}),
    "ask": ({}, {"seat": SEAT, "to": "bob~1", "drain": "cyd~1"}),
    "role": ({"name": "feed"}, {"seats": 2, "weight": 2.5, "spread": "zone", "removed": True}),
    "ready": ({"ready": False}, {"why": "warming up"}),
    "pause": ({"ms": 60_000}, {"scope": "feed"}),
    "resume": ({"pause": 5}, {}),
    "take": ({"seat": SEAT, "token": TOKEN, "first": 1, "last": 9}, {}),
    "done": ({"seat": SEAT, "token": TOKEN, "first": 1, "last": 9}, {}),
    "rewind": ({"marks": ((*SEAT, 4),)}, {}),
    "did": ({"seat": SEAT, "token": TOKEN, "what": "lead", "at": 1_700_000_000_000}, {"why": "free"}),
    "snapshot": ({"upto": 4, "id": "4.1", "part": 0, "parts": 2, "world": '{"base":1}'}, {}),
}
"""By kind: what it must say, and what it may say beside that."""
NELI: Final[dict[str, tuple[Fields, Fields]]] = {
    "width": ({"of": 4, "at": 1}, {"roles": ("feed", NON_ASCII), "seats": 2}),
    "work": ({"at": 1}, {"add": ("feed",), "drop": ("idle",)}),
    "share": ({"of": 4, "at": 1}, {"seats": 2}),
    "number": ({"at": 1, "names": ("feed",)}, {"numbers": (3,), "whole": 9}),
    "place": ({"at": 1, "roles": ("feed", "7"), "numbers": (3, -1)}, {}),
    "announce": (
        {"name": "ann", "within": 300, "drift": 0.1, "of": 4, "at": 1},
        {"host": "h1", "protocol": "fast-neli+numbers", "session": 1000, "seats": 2},
    ),
    "pulse": ({"term": TOKEN, "within": 300, "at": 1}, {"lead": True}),
    "beacon": ({"within": 300, "at": 1}, {"term": TOKEN, "lead": True}),
    "yield": ({"term": TOKEN, "at": 1}, {"led": True, "why": "closing", "began": 2, "ended": 3}),
}
CLAIM: Final[dict[str, Any]] = {
    "role": "feed", "holder": "ann~1", "rank": -5, "term": 7, "seq": 2, "ttl": 900, "expires": 1_700_000_000_000,
}  # fmt: skip
CALLS: Final[dict[str, dict[str, Any]]] = {
    "ping": {"k": "ping", "p": "init", "e": [], "c": []},
    "ping, full": {
        "k": "ping",
        "p": "ping",
        "e": ["feed", NON_ASCII],
        "c": [CLAIM, {**CLAIM, "role": "idle", "rank": 2**255, "ttl": 0}],
        "h": "h1",
        "t": [1000, 10_000, 500],
        "o": "rank",
    },
    "reply": {"k": "reply", "p": "ping", "e": ["feed"], "c": []},
    "reply, gone": {"k": "reply", "p": "gone", "e": [], "c": [CLAIM]},
}


def kinds(union: Any) -> dict[str, Any]:
    return {str(kind.__struct_config__.tag): kind for kind in get_args(union)}


def _examples(
    union: Any,
    table: Mapping[str, tuple[Fields, Fields]],
    encode: Callable[[Any], bytes],
    decode: Callable[[bytes], Any],
) -> Iterator[str]:
    made = kinds(union)
    assert made.keys() == table.keys(), "an example of each kind"
    for name, (least, more) in table.items():
        kind = made[name]
        said = {field.name for field in msgspec.structs.fields(kind)}
        assert said == {"v", *ENVELOPE, *least, *more}, f"every field of {name} stands in an example"
        for fields in (least, {**least, **more}) if more else (least,):
            for version in (1, 2):
                record = kind(v=version, **ENVELOPE, **fields)
                try:
                    payload = encode(record)
                except Exception as error:
                    yield f"{name}: not written in version {version}: {error}"
                    continue
                read = decode(payload)
                yield payload.decode()
                if read != record:
                    yield f"  read as: {read!r}"


def _calls() -> Iterator[str]:
    fields = {"g": "g", "m": "ann~1", "n": 3, "s": 1_700_000_000_000, "r": 2}
    for said in CALLS.values():
        for version in (1, 2):
            claims = [messages.Claim(**claim) for claim in said["c"]]
            call = messages.Call(v=version, **fields, **{**said, "c": claims})
            payload = messages.encode(call)
            read = messages.decode(payload)
            yield payload.decode()
            if read != call:
                yield f"  read as: {read!r}"
    for term, holder in ((7, "ann~1"), (7, "bob~1"), (2**31 - 1, NON_ASCII)):
        yield f"token of term {term} of {holder}: {messages.token(term, holder)}"


def _history(version: int) -> Paper:
    """All that a world can carry: members of several kinds, seats held, asked for, pinned and given up, marks, pauses, and
    departures."""
    paper = Paper()
    paper.genesis()
    reads: dict[str, Any] = {"reads": version}
    ann = Pen(paper, "ann~1", host="h1", zone="z1", labels={"app": NON_ASCII}, lock=LOCK, **reads).join()
    bob = Pen(paper, "bob~1", rank=1, weight=2.0, eligible=("feed", "idle", "old"), overlap=400, **reads).join()
    admin = Pen(paper, "chief~1", eligible=(), **reads).join()
    dead = Pen(paper, "dead~1", lock=LOCK, **reads).join()
    gone = Pen(paper, "gone~1", **reads).join()
    paper.hole(3)
    for name, fields in {
        "feed": {"seats": 2, "spread": "zone"},
        "idle": {"weight": 2.5},
        "old": {},
        "last": {},
    }.items():
        admin.role(name, **fields)
    token = BASE + ann.claim("feed")
    ann.beat(marks=(("feed", 0, token, 9),))
    ann.write(records.Take, seat=("feed", 0), token=token, first=10, last=19)
    given = BASE + bob.claim("feed", index=1)
    bob.transfer("feed", given, "ann~1", index=1, why="refused: it has one already", down=True)
    old = BASE + bob.claim("old")
    admin.role("old", removed=True)
    idle = BASE + dead.claim("idle")
    moved = dead.transfer("idle", idle, "bob~1", pin=True, why="balance")
    dead.claim("last")
    ann.obituary("dead~1")
    admin.write(records.Ask, seat=("idle", 0), to="ann~1")
    admin.write(records.Ask, drain="gone~1")
    admin.pause(ms=5000)
    admin.resume(admin.pause("idle", ms=5000))
    gone.leave()
    bob.write(records.Did, seat=("idle", 0), token=BASE + moved, what="lead", at=1, why="handover")
    ann.write(records.Release, seat=("feed", 0), token=BASE, why="of another term: no effect")
    bob.write(records.Release, seat=("old", 0), token=old, mark=5)
    if version == 2:
        ann.write(records.Ready, v=2, ready=False, why="warming up")
        ann.write(records.Ready, v=2, ready=True)
        bob.write(records.Ready, v=2, ready=False, why="slow")
        bob.write(records.Asked, v=2, roles=(("idle", 3),))
        silent = Pen(paper, "silent~1", **reads)
        silent.join(v=2)
        for _ in range(4):
            ann.beat(v=2)
        ann.write(records.Forget, v=2, of="silent~1", over=paper.end - 5)
        ann.write(records.Forget, v=2, of="bob~1", over=1)
        Pen(paper, "bob~2", ready=True, v=2, **reads).join(v=2)
        Pen(paper, "cyd~1", ready=False, v=2, **reads).join(v=2)
        for _ in range(12):
            ann.beat(v=2)
            bob.beat(v=2)
    return paper


def _world(version: int) -> Iterator[str]:
    world = World()
    yield f"\n# A group's log in format version {version}. A line that begins with - did not count."
    for offset, _, payload in _history(version).entries:
        record = records.decode(payload)
        counted = fold.fold(world, offset, record, [])
        place = counted and fold.at_place(world, offset, record, [])
        yield f"{' ' if counted else '-'} {offset:3}{' a place for snapshots' if place else ''} {payload.decode()}"
    text = world.dump()
    assert World.load(text).dump() == text, "what is loaded is what was written"
    yield f"\n# The world after it, as snapshots carry it: {len(text)} characters, in one line."
    yield text.replace("},{", "},\n{")
    parts = [text[:1000], text[1000:]]
    yield "\n# The records of that snapshot, in two parts."
    for part, piece in enumerate(parts):
        fields: dict[str, Any] = {"upto": 60, "id": "60.1", "part": part, "parts": len(parts), "world": piece}
        yield records.encode(records.Snapshot(v=version, **ENVELOPE, **fields)).decode()


def wire() -> str:
    lines = [
        "# The bytes of records. Written by `python -m tests.oracles --record`. Each is read as what was written, if not said."
    ]
    lines += ["", "# claims, in format versions 1 and 2; the least that each kind says, and all"]
    lines += _examples(records.AnyRecord, CLAIMS, records.encode, records.decode)
    lines += ["", "# the NELI family"]
    lines += _examples(neli_records.InductionRecord, NELI, neli_records.encode, neli_records.decode)
    lines += ["", "# ALLCALL, which has one version"]
    lines += _calls()
    lines += [line for version in (1, 2) for line in _world(version)]
    return "\n".join(lines) + "\n"
