"""What is a record and what is not (R11): the same bytes, the same answer, whoever asks and from wherever."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import msgspec
import pytest
from core_authors import raw
from hypothesis import given
from hypothesis import strategies as st

from pares.core.errors import ConfigError
from pares.core.nesting import MAX_DEPTH
from pares.core.wire import records as R
from pares.core.wire.records import BadRecord, decode, encode

ENVELOPE: dict[str, Any] = {"v": 1, "g": "g", "m": "a~1", "n": 1, "b": 1, "s": 250}
SEAT = ["A", 0]
BIG = R.MAX_INT - 1

integers = st.integers(0, BIG)
bases = st.integers(0, R.MAX_BASE - 1)
text = st.text(max_size=20)
names = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=20)
ids = st.text(min_size=1, max_size=30)
seats = st.tuples(names, st.integers(0, R.MAX_SEATS - 1))
weights = st.floats(0.001, 1_000_000)
marks = st.none() | st.lists(st.tuples(names, st.integers(0, 99), integers, integers), max_size=3).map(tuple)
locks = st.builds(R.Lock, boot=text, device=text, inode=text, file=text, pid=integers)
FIELDS: dict[type[R.Record], dict[str, st.SearchStrategy[Any]]] = {
    R.Genesis: {"base": bases, "over": st.none() | integers},
    R.Join: {
        "name": names,
        "session": st.integers(R.MIN_SESSION_MS, R.MAX_SESSION_MS),
        "host": text,
        "zone": text,
        "labels": st.dictionaries(text, text, max_size=3),
        "rank": integers,
        "weight": weights,
        "eligible": st.none() | st.lists(names, max_size=3).map(tuple),
        "drift": st.floats(0, 0.5),
        "overlap": integers,
        "reads": st.integers(1, 1_000_000),
        "lock": st.none() | locks,
        "adrift": st.booleans(),
    },
    R.Beat: {"marks": marks},
    R.Leave: {"marks": marks},
    R.Claim: {"seat": seats, "over": st.none() | st.tuples(ids, integers), "free": st.booleans()},
    R.Release: {
        "seat": seats,
        "token": integers,
        "mark": st.none() | integers,
        "down": st.booleans(),
        "why": text,
    },
    R.Transfer: {
        "seat": seats,
        "token": integers,
        "to": ids,
        "mark": st.none() | integers,
        "pin": st.booleans(),
        "down": st.booleans(),
        "why": text,
    },
    R.Obituary: {"of": ids},
    R.Forget: {"of": ids, "over": integers},
    R.Ready: {"ready": st.booleans(), "why": text},
    R.Ahead: {
        "seat": seats,
        "token": integers,
        "mark": integers,
        "done": st.lists(integers, max_size=6).map(tuple),
        "tries": st.lists(st.tuples(integers, integers), max_size=4).map(tuple),
    },
    R.Range: {
        "seat": seats,
        "token": integers,
        "after": integers,
        "count": st.integers(1, R.MAX_RANGE),
        "over": integers,
        "to": integers,
    },
    R.Asked: {"roles": st.lists(st.tuples(names, st.integers(1, R.MAX_SEATS)), max_size=5).map(tuple)},
    R.Ask: {"seat": st.none() | seats, "to": st.none() | ids, "drain": st.none() | ids},
    R.Role: {
        "name": names,
        "seats": st.integers(1, R.MAX_SEATS),
        "weight": weights,
        "spread": st.sampled_from(["host", "zone", "none"]),
        "removed": st.booleans(),
    },
    R.Pause: {"ms": st.integers(1, R.MAX_PAUSE_MS), "scope": st.none() | names},
    R.Resume: {"pause": integers},
    R.Take: {"seat": seats, "token": integers, "first": integers, "last": integers},
    R.Done: {"seat": seats, "token": integers, "first": integers, "last": integers},
    R.Rewind: {"marks": st.lists(st.tuples(names, st.integers(0, 99), integers), max_size=3).map(tuple)},
    R.Did: {"seat": seats, "token": integers, "what": st.text(max_size=40), "at": integers, "why": text},
    R.Snapshot: {
        "upto": integers,
        "id": text,
        "part": st.integers(0, 1023),
        "parts": st.integers(1, R.MAX_PARTS),
        "world": text,
    },
}


@st.composite
def any_record(draw: st.DrawFn) -> R.Record:
    kind = draw(st.sampled_from(list(FIELDS)))
    envelope = {"v": integers, "g": st.text(max_size=20), "m": ids, "n": integers, "b": bases}
    envelope["s"] = st.integers(0, R.MAX_DUE_MS)
    return kind(**{name: draw(strategy) for name, strategy in (envelope | FIELDS[kind]).items()})


def judged(payload: bytes) -> object:
    """What `decode` says: the record, or the reason why there is none."""
    try:
        return decode(payload)
    except BadRecord as bad:
        return bad.reason


def a_record(kind: str, **fields: Any) -> bytes:
    return raw(k=kind, **{**ENVELOPE, **fields})


def test_every_kind_is_tried() -> None:
    assert {kind.__struct_config__.tag for kind in FIELDS} == R.KINDS


@given(any_record())
def test_what_is_encoded_is_decoded(record: R.AnyRecord) -> None:
    assert decode(encode(record)) == record


LIMITS: list[tuple[str, dict[str, Any], str, Any, Any]] = [
    ("beat", {}, "n", BIG, R.MAX_INT),
    ("beat", {}, "n", 0, -1),
    ("beat", {}, "v", BIG, R.MAX_INT),
    ("beat", {}, "m", "x" * 240, "x" * 241),
    ("beat", {}, "m", "x", ""),
    ("beat", {}, "g", "x" * 200, "x" * 201),
    ("beat", {}, "s", 0, -1),
    ("beat", {}, "s", R.MAX_DUE_MS, R.MAX_DUE_MS + 1),
    ("beat", {}, "b", R.MAX_BASE - 1, R.MAX_BASE),
    ("genesis", {}, "base", R.MAX_BASE - 1, R.MAX_BASE),
    ("beat", {}, "marks", [["A", 99, 0, BIG]], [["A", 100, 0, 0]]),
    ("beat", {}, "marks", [["A", 0, BIG, 0]], [["A", 0, R.MAX_INT, 0]]),
    ("beat", {}, "marks", [], [["A", 0, 0, 0, 0]]),
    ("join", {"session": 100}, "name", "x" * 200, "x" * 201),
    ("join", {"session": 100}, "name", "x/y \N{GREEK SMALL LETTER ALPHA}", "x\ny"),
    ("join", {"session": 100}, "name", "x", ""),
    ("join", {"session": 100}, "name", "\N{NO-BREAK SPACE}", "\x85"),
    ("join", {"name": "a"}, "session", 20, 19),
    ("join", {"name": "a"}, "session", 60_000, 60_001),
    ("join", {"name": "a", "session": 100}, "drift", 0.5, 0.51),
    ("join", {"name": "a", "session": 100}, "drift", 0, -0.1),
    ("join", {"name": "a", "session": 100}, "weight", 0.001, 0),
    ("join", {"name": "a", "session": 100}, "weight", 1_000_000, 1_000_001),
    ("join", {"name": "a", "session": 100}, "reads", 1, 0),
    ("join", {"name": "a", "session": 100}, "host", "x" * 1000, "x" * 1001),
    ("join", {"name": "a", "session": 100}, "eligible", ["A"], ["A", ""]),
    ("join", {"name": "a", "session": 100}, "labels", {"x": "y"}, {"x": 1}),
    ("claim", {}, "seat", ["A", 99], ["A", 100]),
    ("claim", {}, "seat", ["x" * 200, 0], ["x" * 201, 0]),
    ("claim", {"seat": SEAT}, "over", ["b~1", BIG], ["b~1", R.MAX_INT]),
    ("claim", {"seat": SEAT}, "over", None, ["b~1"]),
    ("release", {"seat": SEAT}, "token", BIG, R.MAX_INT),
    ("release", {"seat": SEAT, "token": 1}, "why", "x" * 1000, "x" * 1001),
    ("transfer", {"seat": SEAT, "token": 1}, "to", "x" * 240, "x" * 241),
    ("role", {}, "name", "A", "A\0"),
    ("role", {"name": "A"}, "seats", R.MAX_SEATS, R.MAX_SEATS + 1),
    ("role", {"name": "A"}, "seats", 1, 0),
    ("role", {"name": "A"}, "spread", "zone", "rack"),
    ("pause", {}, "ms", R.MAX_PAUSE_MS, R.MAX_PAUSE_MS + 1),
    ("pause", {}, "ms", 1, 0),
    ("rewind", {}, "marks", [["A", 0, BIG]], [["A", 0, -1]]),
    ("did", {"seat": SEAT, "token": 1, "at": 0}, "what", "x" * 40, "x" * 41),
    ("snapshot", {"upto": 1, "id": "", "part": 0, "world": ""}, "parts", R.MAX_PARTS, R.MAX_PARTS + 1),
    ("snapshot", {"upto": 1, "id": "", "part": 0, "parts": 1}, "world", "", 0),
]


@pytest.mark.parametrize(("kind", "others", "field", "within", "beyond"), LIMITS)
def test_each_limit_from_both_sides(kind: str, others: dict[str, Any], field: str, within: Any, beyond: Any) -> None:
    assert isinstance(judged(a_record(kind, **{**others, field: within})), R.Record)
    assert judged(a_record(kind, **{**others, field: beyond})) in ("bad field", "not a record")


@pytest.mark.parametrize("kind", sorted(R.KINDS))
def test_a_known_kind_without_its_fields_or_with_another_one_is_bad_or_of_another_form(kind: str) -> None:
    struct = next(k for k in FIELDS if k.__struct_config__.tag == kind)
    required = {f.name for f in msgspec.structs.fields(struct) if f.required} - ENVELOPE.keys()
    full: dict[str, Any] = {
        "base": 1, "name": "A", "session": 100, "seat": SEAT, "token": 1, "to": "b", "of": "b", "ms": 1, "pause": 1, "over": 1,
        "first": 1, "last": 1, "marks": [], "what": "", "at": 0, "upto": 1, "id": "", "part": 0, "parts": 1, "world": "",
        "ready": False, "roles": [["A", 2]], "mark": 1, "after": 1, "count": 1,
    }  # fmt: skip
    fields = {name: full[name] for name in required}
    for version in (0, 1, 2):
        if version < R.SINCE.get(kind, 0):
            continue
        fields["v"] = version
        assert isinstance(judged(a_record(kind, **fields)), struct)
        wrong = [a_record(kind, **fields, extra=1)]
        wrong += [a_record(kind, **{k: v for k, v in fields.items() if k != name}) for name in required]
        for payload in wrong:
            found = judged(payload)
            if version <= R.FIRST:
                assert found == "bad field"
            else:  # a reader of version 1 can't tell it from a form that came later: it is a sign of life for all (R11)
                assert isinstance(found, R.Unknown)
                assert R.misshapen(found)


def test_r11_a_kind_of_version_2_in_a_record_of_version_1_is_a_kind_that_nobody_knows() -> None:
    """As release 0.1 reads it, whatever its fields: a sign of life, with no effect."""
    assert isinstance(decode(a_record("ready", extra=1)), R.Unknown)
    assert isinstance(decode(a_record("ready")), R.Unknown)
    assert isinstance(decode(a_record("ready", v=0, extra=1)), R.Unknown)


def test_what_would_be_of_no_form_that_is_known_is_not_written() -> None:
    for version in (1, 2):
        with pytest.raises(ConfigError, match="this ready can't be written"):
            encode(R.Ready(v=version, g="g", m="a~1", n=1, b=1, s=1, ready=True, why="x" * 1001))


def test_another_form_of_a_known_kind_in_a_later_version_is_a_sign_of_life() -> None:
    later = decode(a_record("beat", v=3, extra={"deep": [1, 2]}))
    assert isinstance(later, R.Unknown)
    assert (later.v, later.k, later.m) == (3, "beat", "a~1")


def test_an_unknown_kind_with_a_readable_envelope() -> None:
    unknown = decode(a_record("poem", verses=[["of", {"any": "form"}]]))
    assert isinstance(unknown, R.Unknown)
    assert (unknown.k, unknown.n, unknown.b, unknown.s) == ("poem", 1, 1, 250)
    for field in ENVELOPE:
        broken: Any = {name: value for name, value in ENVELOPE.items() if name != field}
        assert judged(raw(k="poem", **broken)) == "not a record"
        assert judged(raw(k="poem", **broken, **{field: [1]})) == "not a record"
    assert judged(a_record("p" * 41)) == "not a record"


def nested(depth: int, opening: bytes = b"[", closing: bytes = b"]", kind: bytes = b"poem") -> bytes:
    """An unknown field `depth` levels deep, in a record that is one level itself."""
    inner = opening * depth + b"1" + closing * depth
    return b'{"x":' + inner + b',"k":"' + kind + b'","v":1,"g":"g","m":"a~1","n":1,"b":1,"s":250}'


DEEP = MAX_DEPTH - 1


HOSTILE: list[tuple[bytes, str]] = [
    (b"", "not a record"),
    (b"null", "not a record"),
    (b"[]", "not a record"),
    (b"{}", "not a record"),
    (b'"beat"', "not a record"),
    (b"\x00\xff\xfe", "not a record"),
    (b"\xef\xbb\xbf" + a_record("beat"), "not a record"),
    (a_record("beat") + b"x", "not a record"),
    (a_record("beat")[:-1], "not a record"),
    (a_record("beat").replace(b'"n":1', b'"n":NaN'), "not a record"),
    (a_record("beat").replace(b'"n":1', b'"n":Infinity'), "not a record"),
    (a_record("beat").replace(b'"n":1', b'"n":1.0'), "not a record"),
    (a_record("beat").replace(b'"n":1', b'"n":"1"'), "not a record"),
    (a_record("beat").replace(b'"n":1', b'"n":true'), "not a record"),
    (a_record("beat").replace(b'"n":1', b'"n":9007199254740992'), "not a record"),
    (a_record("beat").replace(b'"n":1', b'"n":' + b"9" * 5000), "not a record"),
    (a_record("beat").replace(b'"n":1', b'"n":1e400'), "not a record"),
    (a_record("beat").replace(b"a~1", b"\xff\xfe"), "not a record"),
    (a_record("beat").replace(b"a~1", b"\\ud800"), "not a record"),
    (a_record("join", name="a", session=100).replace(b'"name":"a"', b'"name":"\\udc00\\ud800"'), "not a record"),
    (a_record("join", name="a", session=100, weight=1).replace(b'"weight":1', b'"weight":1e999'), "bad field"),
    (a_record("join", name="a", session=100, weight=1).replace(b'"weight":1', b'"weight":NaN'), "not a record"),
    (a_record("join", name="a", session=1e300), "bad field"),
    (b'{"k":"beat","k":"leave",' + raw(**ENVELOPE)[1:], "bad field"),
    (nested(DEEP, kind=b"beat"), "bad field"),
    (nested(2 * MAX_DEPTH), "nested too deep"),
    (nested(2 * MAX_DEPTH, b'{"y":', b"}"), "nested too deep"),
    (nested(MAX_DEPTH, b'[{"y":', b"}]"), "nested too deep"),
    (nested(30_000), "nested too deep"),
    (nested(30_000, kind=b"beat"), "nested too deep"),
    (b"[" * 60_000, "nested too deep"),
    (b'{"x":' * 12_000, "nested too deep"),
    (a_record("beat", pad="x" * R.MAX_RECORD), "not a record"),
    (a_record("poem", pad="x" * R.MAX_RECORD), "not a record"),
    (a_record("release", seat=SEAT, token=1, why="").replace(b"}", b" " * R.MAX_RECORD + b"}"), "too large"),
    (a_record("snapshot", upto=1, id="", part=0, parts=1, world="x" * R.MAX_SNAPSHOT), "too large"),
    (b"[" * (R.MAX_SNAPSHOT - 1), "not a record"),
]


@pytest.mark.parametrize(("payload", "reason"), HOSTILE, ids=[f"{i}: {why}" for i, (_, why) in enumerate(HOSTILE)])
def test_hostile_payloads_are_bad_records_and_nothing_else(payload: bytes, reason: str) -> None:
    assert judged(payload) == reason


def test_only_snapshots_may_be_large() -> None:
    whole = a_record("snapshot", upto=1, id="", part=0, parts=1, world="x" * (R.MAX_SNAPSHOT - 200))
    assert R.MAX_RECORD < len(whole) <= R.MAX_SNAPSHOT
    assert isinstance(decode(whole), R.Snapshot)
    exact = a_record("beat").replace(b"}", b" " * (R.MAX_RECORD - len(a_record("beat"))) + b"}")
    assert len(exact) == R.MAX_RECORD
    assert isinstance(decode(exact), R.Beat)
    assert judged(exact.replace(b"}", b" }")) == "too large"


def test_a_key_that_stands_twice_is_read_the_same_way_each_time() -> None:
    twice = b'{"n":7,' + a_record("beat")[1:]
    assert judged(twice) == judged(bytes(bytearray(twice)))
    assert isinstance(judged(twice), R.Beat | str)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_record_or_a_bad_record(payload: bytes) -> None:
    judged(payload)


@given(any_record(), st.data())
def test_any_damage_to_a_record_leaves_a_record_or_a_bad_record(record: R.AnyRecord, data: st.DataObject) -> None:
    payload = bytearray(encode(record))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(payload) - 1))
        what = data.draw(st.sampled_from(["change", "cut", "double", "drop"]))
        if what == "change":
            payload[at] = data.draw(st.sampled_from(b'{}[]":,0919eE-+.truefalsn\\u\x00\xff '))
        elif what == "cut":
            payload = payload[: at + 1]
        elif what == "double":
            payload[at:at] = payload[: at + 1]
        elif len(payload) > 1:
            del payload[at]
    judged(bytes(payload))


def _from_depth(depth: int, payload: bytes) -> object:
    return judged(payload) if depth == 0 else _from_depth(depth - 1, payload)


def test_what_may_be_nested_is_counted_in_levels_not_in_brackets() -> None:
    assert isinstance(judged(nested(DEEP)), R.Unknown)
    assert isinstance(judged(nested(DEEP, b'{"y":', b"}")), R.Unknown)
    wide = b'{"x":[' + b"[]," * 10_000 + b'{}],"y":"' + b"[{" * 100 + b'\\"[[",' + a_record("poem")[1:]
    assert isinstance(judged(wide), R.Unknown)


@pytest.mark.parametrize(
    "payload",
    [
        b'{"x":' + b"[" * 20 + b'"' + b'\\"' * 31_000,
        b"[" * 20 + b'\\"' * 30_000,
        b"[" * 20 + b'"a' * 20_000,
        b"[" * 20 + b'"' + b"\\" * 60_000,
        b'{"x":' * 100 + b'"\\' * 20_000,
        b"[]" * 30_000,
        b"[{" * 30_000,
        b"[" * 32_000 + b"]" * 32_000,
    ],
    ids=[
        "escapes in a string without an end",
        "escapes without a string",
        "quotes that pair wrongly",
        "backslashes",
        "both",
        "pairs",
        "brackets that never close",
        "one deep nest",
    ],
)
def test_no_payload_takes_long_to_judge(payload: bytes) -> None:
    """A record that stalls every reader for a session fences a whole group. The bound is generous: milliseconds are usual."""
    before = time.process_time()
    assert isinstance(judged(payload), str)
    assert time.process_time() - before < 2


@pytest.mark.parametrize(
    "payload", [nested(DEEP), nested(2 * MAX_DEPTH), nested(10, kind=b"beat"), nested(200), a_record("beat")]
)
def test_the_answer_does_not_depend_on_how_deep_the_readers_stack_is(payload: bytes) -> None:
    """R11: a limit on recursion would put readers that call from different depths into different worlds."""
    usual = judged(payload)
    seen: set[str] = set()

    def from_everywhere() -> None:
        for depth in range(sys.getrecursionlimit() - 20):
            try:
                seen.add(repr(_from_depth(depth, payload)))
            except RecursionError:
                break  # this deep nothing can be called: that says so, and nothing about the record

    thread = threading.Thread(target=from_everywhere)
    thread.start()
    thread.join()
    assert seen == {repr(usual)}


def test_r23_the_same_list_of_roles_is_read_once() -> None:
    """Hundreds state it, and each reader reads all of them."""
    names = tuple(f"r{n}" for n in range(1000))
    said: dict[str, Any] = {"name": "a", "session": 100, "eligible": names}
    one, two = (decode(encode(R.Join(**ENVELOPE | {"m": m}, **said))) for m in ("a~1", "b~1"))
    assert isinstance(one, R.Join)
    assert isinstance(two, R.Join)
    assert one.eligible == names
    assert one.eligible is two.eligible
    assert encode(one) == encode(R.Join(**ENVELOPE, **said))


def test_encode_refuses_what_nobody_would_count() -> None:
    with pytest.raises(ConfigError, match="shorten or correct"):
        encode(R.Join(**ENVELOPE, name="a", session=5))
    with pytest.raises(ConfigError, match="too large"):
        encode(R.Join(**ENVELOPE, name="a", session=100, eligible=tuple(f"{n:0>100}" for n in range(700))))


@pytest.mark.parametrize("good", ["a", "x" * 200, "topic/3", "größer", " "])
def test_names_that_can_be_used(good: str) -> None:
    assert R.check_name("role", good) == good


@pytest.mark.parametrize("wrong", ["", "x" * 201, "a\nb", "a\x7f", "\x85", "a\n", "\ud800", 5, None, b"a"])
def test_names_that_can_not(wrong: object) -> None:
    with pytest.raises(ConfigError, match="role"):
        R.check_name("role", wrong)


@given(st.text(st.characters(exclude_categories=[]), max_size=3) | st.integers(190, 210).map("x".__mul__))
def test_what_can_be_a_name_is_what_records_take_for_one(name: str) -> None:
    def taken() -> bool:
        try:
            name.encode()
            return msgspec.convert(name, R.Name) == name
        except (UnicodeEncodeError, msgspec.ValidationError):
            return False

    def named() -> bool:
        try:
            return R.check_name("role", name) == name
        except ConfigError:
            return False

    assert named() == taken()
