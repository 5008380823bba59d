"""From tables to verdicts: which promises the log and the sink show to be kept, and which not.

There are two kinds of verdict, and each promise says on which it stands. What *the log decided* follows from offsets alone
and is exact. What *physically happened* is known from members' own clocks, with an error: there a promise counts as broken
only where no reading of the clocks within that error would save it, and what can't be excluded is said to be unsure, never
passed off as kept. Only `broken` makes the audit fail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from pares.core.errors import ConfigError
from pares.spark.rules.base import Allowed, Row

Verdict: TypeAlias = Literal["kept", "broken", "unsure", "slow", "expected", "missing", "not checked"]
FAILS: Final = ("unsure", "slow", "missing")
"""Verdicts that make an audit fail only where that is asked for."""


def check_failing(verdicts: Iterable[str]) -> None:
    """Raises `ConfigError` for a verdict that an audit can't be made to fail on."""
    if strange := set(verdicts) - set(FAILS):
        raise ConfigError(f"{', '.join(sorted(strange))} can't be failed on: give some of {', '.join(FAILS)}")


class Promise(NamedTuple):
    """What was promised, in plain words, whether it was kept, and by what that is known."""

    promise: str
    verdict: Verdict
    evidence: str


@dataclass(frozen=True, slots=True)
class Case:
    """All that is judged: sums over the tables, and of each rule the worst that it found."""

    terms: int = 0
    beliefs: int = 0
    found: Sequence[Row] = ()
    """rule, verdict, count, longest_ms, worst: one row for each rule and verdict."""
    overlaps: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """expected, longest_expected."""
    sudden: Mapping[str, Any] | None = None
    """count, p50_ms, max_ms, least_limit, most_limit, beyond, most_beyond of takeovers after a crash or a freeze."""
    sink: Mapping[str, Row] | None = None
    """rule: count, rows and first of what was found at the sink; None: no writes were given."""
    writes: int = 0
    overlap_ms: int = 0
    """The longest overlap that a member of the group asked for; 0: the group is exclusive."""
    split: bool = False
    """Whether two members may lead while they don't hear each other (ALLCALL)."""
    allowed: Allowed = field(default_factory=Allowed)


_BY_RULES: Final[tuple[tuple[str, tuple[str, ...], str], ...]] = (
    ("The log never gave one seat to two members at once.", ("two_holders", "second_opinion", "prolonged"), "term"),
    ("Tokens only ever grew, seat by seat.", ("token_fell",), "term"),
    (
        "Nobody believed that it led before the log said so, or without the log saying so.",
        ("no_such_term", "before_the_log"),
        "belief",
    ),
    ("A term once given up was never believed in again.", ("believed_again",), "term"),
    ("No belief outlasted its lease, nor a pause.", ("past_lease", "through_pause"), "belief"),
    ("No member that lived was declared dead.", ("false_death",), "term"),
)
"""Promises that rest on rules alone: the promise, its rules, and what was looked at."""


def judge(case: Case) -> list[Promise]:
    """The promises, one by one, in the order in which a reader wants to know."""
    looked = {"term": _count(case.terms, "term"), "belief": _count(case.beliefs, "belief")}
    promises = [_together(case)]
    promises += [_ruled(promise, case, rules, looked[what]) for promise, rules, what in _BY_RULES]
    return [*promises, _worlds(case), _in_time(case), *_at_sink(case)]


def _of(case: Case, verdict: str, *rules: str) -> list[Row]:
    return [row for row in case.found if row["verdict"] == verdict and row["rule"] in rules]


def _together(case: Case) -> Promise:
    certain, possible = _of(case, "certain", "overlap"), _of(case, "possible", "overlap")
    if case.split:
        promise = "No two members that heard each other led one role for longer than a beat and a call's way "
        promise += f"({case.overlap_ms} ms)."
        expected, longest = case.overlaps.get("expected", 0), case.overlaps.get("longest_expected") or 0
        kept = f"{_count(expected, 'overlap')}, at most {longest} ms, as ALLCALL allows"
    elif case.overlap_ms:
        promise = f"No two members believed that they led one role for longer than the {case.overlap_ms} ms asked for."
        expected, longest = case.overlaps.get("expected", 0), case.overlaps.get("longest_expected") or 0
        kept = f"{_count(expected, 'overlap')}, at most {longest} ms, as the non-exclusive mode allows"
        if expected:
            kept += f" (with {case.allowed.slack_ms} ms allowed for timers)"
    else:
        promise = "At no instant did two members believe that they led one role."
        kept = f"{_count(case.terms, 'term')}, none of which met another"
    if certain:
        (row,), worst = certain, certain[0]["worst"]
        return Promise(
            promise,
            "broken",
            f"{_count(row['count'], 'overlap')}; the longest is {row['longest_ms']} ms, {_seat(worst)}, "
            f"by {worst['member_a']} and {worst['member_b']}",
        )
    if possible:
        (row,) = possible
        return Promise(
            promise,
            "unsure",
            f"{_count(row['count'], 'overlap')} can't be excluded, of at most {row['longest_ms']} ms: "
            + (
                "whether they heard each other is not known"
                if case.split
                else "an end was not told by its holder, or is nearer to the next beginning than the clocks can tell "
                f"(error {case.allowed.error_ms} ms)"
            ),
        )
    return Promise(promise, "kept", kept)


def _ruled(promise: str, case: Case, rules: tuple[str, ...], looked: str) -> Promise:
    for verdict, said in (("certain", "broken"), ("possible", "unsure")):
        rows = _of(case, verdict, *rules)
        if rows:
            count = sum(row["count"] for row in rows)
            first = rows[0]["worst"]
            where = (
                f"{_seat(first)}, {first['member_a']}, token {first['token_a']}: " if first["role"] is not None else ""
            )
            unsure = "" if said == "broken" else " that clocks and late records may explain"
            text = f"{_count(count, 'exception')}{unsure} in {looked}; the worst: {where}{first['evidence']}"
            return Promise(promise, "broken" if said == "broken" else "unsure", text)
    return Promise(promise, "kept", f"{looked}, no exception")


def _worlds(case: Case) -> Promise:
    defects = sum(row["count"] for row in _of(case, "certain", "worlds_differ"))
    return Promise(
        "All readers of the log saw the same world.",
        "broken" if defects else "kept",
        f"{_count(defects, 'snapshot')} unlike what its place in the log decides"
        if defects
        else "every snapshot in the log agrees with its place",
    )


def _in_time(case: Case) -> Promise:
    promise = "After a crash or a freeze the next leader was there within the session (and an append)."
    numbers = _times(case)
    for verdict, said in (("certain", "broken"), ("possible", "slow")):
        rows = _of(case, verdict, "late")
        if rows:
            (row,) = rows
            worst = row["worst"]
            text = f"{_count(row['count'], 'time')} a seat was without a leader for too long though another could lead"
            if said == "slow":
                text += " (or who could is not known), by less than a session more"
            text += f"; the longest: {_seat(worst)}: {worst['evidence']}"
            return Promise(promise, "broken" if said == "broken" else "slow", f"{text}. {numbers}" if numbers else text)
    if not numbers:
        return Promise(promise, "not checked", "nobody crashed or froze while it led")
    return Promise(promise, "kept", numbers)


def _times(case: Case) -> str:
    sudden = case.sudden
    if not sudden or not sudden["count"]:
        return ""
    low, high = sudden["least_limit"], sudden["most_limit"]
    limit = _told(high) if low == high else f"{_told(low)} to {_told(high)}"
    numbers = (
        f"{_count(sudden['count'], 'takeover')}, p50 {_told(sudden['p50_ms'])}, longest {_told(sudden['max_ms'])}."
    )
    numbers += f" Promised: {limit}"
    if not sudden["beyond"]:
        return numbers
    allowed = f"{numbers}, and an append with its read-back, for which this audit allows {case.allowed.append_ms} ms"
    return f"{allowed}. {sudden['beyond']} took longer than the session, by {_told(sudden['most_beyond'])} at most"


def _at_sink(case: Case) -> list[Promise]:
    stale = "The sink took no write under a token lower than one that it had already seen."
    if case.sink is None:
        return [Promise(stale, "not checked", "no writes were given")]
    looked = _count(case.writes, "write")
    return [
        _sink(case, stale, ("stale",), f"{looked}, none out of order"),
        _sink(case, "Every write carried a token that the log had given out.", ("unknown",), looked),
        _sink(
            case, "Every write was made by its token's holder, for its seat, in its term.",
            ("wrong_member", "wrong_seat", "early", "late"), looked,
        ),
        _sink(case, "Every numbered write is there, and once.", ("missing", "duplicate", "unreadable"), looked),
    ]  # fmt: skip


_MILD: Final[dict[str, Verdict]] = {
    "late": "unsure",
    "missing": "missing",
    "duplicate": "missing",
    "unreadable": "missing",
}
"""What breaks no promise of pares by itself: what was checked in time may land after it, and what a sink lacks may never
have been written."""


def _sink(case: Case, promise: str, rules: tuple[str, ...], kept: str) -> Promise:
    assert case.sink is not None
    found = [(rule, case.sink[rule]) for rule in rules if rule in case.sink]
    if not found:
        return Promise(promise, "kept", kept)
    rule, row = found[0]
    first = row["first"]
    told = ", ".join(f"{other['count']} {name.replace('_', ' ')}" for name, other in found)
    evidence = f"{told} of {_count(case.writes, 'write')}; the first: role {first['role']}, token {first['token']}"
    if rule == "stale":
        evidence += f" after {first['seen']}"
        if case.overlap_ms:
            return Promise(promise, "expected", f"{evidence}: without a fence, while two lead, that is how it is")
    return Promise(promise, _MILD.get(rule, "broken"), evidence)


def by_cause(sums: Iterable[Row]) -> dict[str, dict[str, int]]:
    """count, p50, max and sum of milliseconds for each cause, the most frequent first."""
    names = ("count", "p50_ms", "max_ms", "sum_ms")
    ordered = sorted(sums, key=lambda row: (-row["count"], row["cause"]))
    return {row["cause"]: {name: row[name] for name in names} for row in ordered}


def case_of(head: Row, sums: Mapping[str, list[Row]], sink: Mapping[str, Row] | None, allowed: Allowed) -> Case:
    """What is judged: of one group its row of `groups`, its sums (see `sums`), and what was found at its sink."""
    counts = _tallies(sums)
    return Case(
        terms=counts.get("terms", 0),
        beliefs=counts.get("beliefs", 0),
        found=sums["found"],
        overlaps=next(iter(sums["overlaps"]), {}),
        sudden=next(iter(sums["sudden"]), None),
        sink=sink,
        writes=0 if sink is None else sink["writes"]["count"],
        overlap_ms=head["overlap_ms"] or 0,
        split=head["split"],
        allowed=allowed,
    )


def _tallies(sums: Mapping[str, list[Row]]) -> dict[str, int]:
    counts = Counter[str]()
    for row in sums["counts"]:
        counts[row["what"]] += row["count"]
    return counts


def summary(head: Row, sums: Mapping[str, list[Row]], case: Case) -> dict[str, Any]:
    """The audit of one group in numbers."""
    counts = _tallies(sums)
    overlaps = case.overlaps
    found: dict[str, Any] = {
        "from_ms": head["first_ms"],
        "to_ms": head["last_ms"],
        "log_from": head["log_from"],
        "records_from": head["first_offset"],
        "records_to": head["last_offset"],
        "members": head["members"],
        "administrators": head["administrators"],
        "roles": head["roles"],
        "seats": head["seats"],
        "exclusive": not head["overlap_ms"],
        "overlap_ms": head["overlap_ms"] or 0,
        "terms": case.terms,
        "moves": counts.get("moves", 0),
        "takeovers": by_cause(sums["takeovers"]),
        "gaps": by_cause(sums["gaps"]),
        "overlaps": {
            **{name: overlaps.get(name, 0) for name in ("certain", "unsure", "expected")},
            "double_ms": counts.get("double_ms", 0),
        },
        "violations": {f"{row['rule']} {row['verdict']}": row["count"] for row in case.found},
        "anomalies": {what[8:]: count for what, count in sorted(counts.items()) if what.startswith("anomaly ")},
        "allowances": asdict(case.allowed),
        "clock_step_ms": head["step_ms"],
        "bad_records": counts.get("bad_records", 0),
    }
    if case.sink is not None:
        rules = {rule: row["count"] for rule, row in case.sink.items() if rule != "writes"}
        names = ("unreadable", "late", "early", "stale", "unknown", "wrong_member", "wrong_seat")
        found["writes"] = {
            "count": case.writes,
            **{name: rules.get(name, 0) for name in names},
            "duplicates": rules.get("duplicate", 0),
            "missing": rules.get("missing", 0),
        }
    return found


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _told(ms: int) -> str:
    return f"{ms} ms" if ms < 10_000 else f"{ms / 1000:.1f} s"


def _seat(row: Mapping[str, Any]) -> str:
    return f"role {row['role']}, seat {row['seat']}"
