"""Time on a seat as intervals: who believed when, when two did, when nobody did, and how long a takeover took.

Intervals are half open, [a, b): an end that touches the next beginning is neither an overlap nor a gap. All that is here is
native Spark SQL over rows that carry seat and token, in O(n log n) per seat however often a seat changed hands:

* `SEGMENTS` sweeps over beginnings and ends, netted per instant, and finds stretches with nobody (gaps) and with two or more
  (time in violation). Whatever lies before the first term or after the last would escape a sweep, so the seat's own life
  takes part in it as a window.
* `PAIRS` says *who* overlapped with whom. A self join would be quadratic on a busy seat; so terms are first cut into
  clusters at every instant at which nobody of the earlier ones is left, and joined only within clusters of two or more.
  The summed length of pairs is more than the time in violation as soon as three overlap: the two are never mixed.

What a member said of its belief (its `did` records) is exact by its own clock. What it did not live to say is bounded, and
every bound is kept apart from what is known: a belief begins between `a_early` and `a_late` and ends between `b_early` and
`b_late`. An overlap is *certain* only if it remains when both are taken at their shortest, and is longer than twice the
error of the clocks and the millisecond that readings are rounded to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pares.core import reasons
from pares.spark.rules.base import RESOLUTION_MS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

UNDER_WAY_MS: Final = 100
"""What a member still says after the time that was noted for a fault: records that were on their way."""
GROUPS: Final = """
WITH -- Counted apart: a count of different things takes each row again for each of them, and those here are few.
 there AS (
  SELECT g, count(DISTINCT member) FILTER (WHERE kind = 'member' AND coalesce(cause, '') <> 'administrator') AS members,
         count(DISTINCT member) FILTER (WHERE kind = 'member' AND cause = 'administrator') AS administrators,
         count(DISTINCT role) FILTER (WHERE kind = 'opened') AS roles,
         count(DISTINCT struct(role, seat)) FILTER (WHERE kind = 'opened') AS seats
  FROM {facts} WHERE kind IN ('member', 'opened') GROUP BY g),
 sums AS (
  SELECT g, min(at_ms) FILTER (WHERE kind = 'first') AS first_ms, max(at_ms) FILTER (WHERE kind = 'last') AS last_ms,
         min(offset) FILTER (WHERE kind = 'first') AS first_offset, max(offset) FILTER (WHERE kind = 'last') AS last_offset,
         coalesce(max(token) FILTER (WHERE kind = 'first'), 0) AS floor, count(*) FILTER (WHERE kind = 'defect') AS defects,
         coalesce(max(sign_ms) FILTER (WHERE kind = 'last'), 0) AS step_ms,
         coalesce(bool_or(kind = 'last' AND cause IN ('induced', 'allcall')), false) AS induced,
         coalesce(bool_or(kind = 'last' AND cause = 'allcall'), false) AS split,
         max(cause) FILTER (WHERE kind = 'newer') AS newer, max(overlap_ms) AS overlap_ms
  FROM {facts} WHERE g IS NOT NULL AND kind NOT IN ('record', 'bad') GROUP BY g)
SELECT s.*, coalesce(members, 0) AS members, coalesce(administrators, 0) AS administrators, coalesce(roles, 0) AS roles,
       coalesce(seats, 0) AS seats
FROM sums s LEFT JOIN there t ON t.g = s.g
"""
"""One row a group: from when to when the log tells of it, what it is made of, and by how much stamps went back (`step_ms`).
`induced`: its log does not say who may lead. `split`: two of its members may lead that don't hear each other (ALLCALL)."""

_MEMBERS: Final = """
SELECT g, member, min(offset) FILTER (WHERE kind = 'member') AS joined, max(name) AS name, max(host) AS host,
       max(session_ms) FILTER (WHERE kind = 'member') AS session_ms, max(drift) AS drift, max(overlap_ms) AS overlap_ms,
       coalesce(bool_or(kind = 'member' AND cause = 'administrator'), false) AS administrator,
       min(at_ms) FILTER (WHERE kind = 'member') AS joined_ms, max(at_ms) FILTER (WHERE kind = 'gone') AS gone_ms,
       max(offset) FILTER (WHERE kind = 'seen') AS seen_offset, max(clock_ms) FILTER (WHERE kind = 'seen') AS seen_ms,
       max(eligible) AS eligible
FROM {facts} WHERE kind IN ('member', 'gone', 'seen') GROUP BY g, member
"""

# What was done to a member is told by its id or by its name.
_STRUCK: Final = """
SELECT m.g, m.member, f.at_ms, f.fault FROM {faults} f JOIN {members} m ON f.member = m.member
WHERE f.fault IN ('crash', 'freeze', 'cut')
UNION
SELECT m.g, m.member, f.at_ms, f.fault FROM {faults} f JOIN {members} m ON f.member = m.name
WHERE f.fault IN ('crash', 'freeze', 'cut')
"""

# One row a term. A belief in a seat that the log did not give to that member is a row as well, without `from_offset`.
_TERMS: Final = """
WITH t AS (
  SELECT g, role, seat, token, member,
         min(offset) FILTER (WHERE kind = 'gained') AS from_offset,
         min(at_ms) FILTER (WHERE kind = 'gained') AS gained_ms,
         min(cause) FILTER (WHERE kind = 'gained') AS began,
         min(offset) FILTER (WHERE kind = 'lost') AS to_offset,
         min(at_ms) FILTER (WHERE kind = 'lost') AS lost_ms,
         min(clock_ms) FILTER (WHERE kind IN ('lost', 'held')) AS sign_ms,
         min(until_ms) FILTER (WHERE kind IN ('lost', 'held')) AS until_ms,
         min(cause) FILTER (WHERE kind = 'lost') AS ended,
         min(other) FILTER (WHERE kind = 'lost') AS ended_by,
         min(why) FILTER (WHERE kind = 'lost') AS ended_why,
         min(name) FILTER (WHERE kind = 'lost') AS heir,
         min(clock_ms) FILTER (WHERE kind = 'lead') AS lead_ms,
         max_by(clock_ms, offset) FILTER (WHERE kind = 'stop') AS said_ms,
         max_by(why, offset) FILTER (WHERE kind = 'stop') AS said_why,
         max_by(sign_ms, offset) FILTER (WHERE kind = 'stop') AS rest_ms,
         min(offset) FILTER (WHERE kind = 'stop') AS first_stop,
         max(offset) FILTER (WHERE kind = 'stop') AS last_stop,
         max(offset) FILTER (WHERE kind = 'lead') AS last_lead,
         min_by(clock_ms, offset) FILTER (WHERE kind = 'stop') AS first_stop_at,
         min_by(clock_ms, offset) FILTER (WHERE kind = 'lead') AS first_lead_at,
         max_by(clock_ms, offset) FILTER (WHERE kind = 'lead') AS last_lead_at
  FROM {facts} WHERE kind IN ('gained', 'lost', 'lead', 'stop', 'held')
  GROUP BY g, role, seat, token, member),
 r AS (
  -- A member says a word again, or late, if it never heard whether it was appended: that word names the same beginning, or one
  -- before the end.
  SELECT *,
         first_stop < last_lead
           AND (NOT first_lead_at <=> last_lead_at OR coalesce(last_lead_at > first_stop_at, true)) AS revived
  FROM t),
 j AS (
  SELECT t.*, m.name, m.host, coalesce(m.overlap_ms, 0) AS overlap_ms, m.session_ms, m.drift, m.seen_offset, m.seen_ms,
  n.joined AS heir_joined,
         -- NELI's announcements state the least time after which the group gives a silent member's partitions away: the group's
         -- session by its fastest stopwatch. A takeover may wait for it by the slowest.
         CAST(ceil(m.session_ms * CASE WHEN until_ms IS NULL THEN 1 ELSE 1 + m.drift END / (1 - m.drift)) AS BIGINT)
           AS limit_ms, w.first_ms, w.last_ms, w.step_ms, w.split,
         -- A belief that began again after its end is open again.
         CASE WHEN last_stop IS NOT NULL AND NOT (coalesce(revived, false) AND last_stop < last_lead) THEN said_ms
           END AS stop_ms,
         coalesce(sign_ms, m.seen_ms) AS alive_ms,
         -- NELI's log bounds each belief by itself; with claims it is the lease that says how long one may last.
         coalesce(until_ms, coalesce(sign_ms, m.seen_ms) + CAST(floor(m.session_ms * (1 - m.drift) / (1 + m.drift)) AS BIGINT)
           + m.overlap_ms) AS bound_ms
  FROM r t JOIN {groups} w ON w.g = t.g
  LEFT JOIN {members} m ON m.g = t.g AND m.member = t.member LEFT JOIN {members} n ON n.g = t.g AND n.member = t.heir),
 k AS (
  SELECT *,
         CASE WHEN stop_ms IS NOT NULL THEN stop_ms
              WHEN to_offset IS NULL THEN bound_ms
              WHEN ended_by = member THEN least(lost_ms, until_ms)
              WHEN ended = 'obituary' THEN least(bound_ms, lost_ms)
              ELSE coalesce(bound_ms, lost_ms) END AS b_late
  FROM j),
 f AS (
  SELECT k.g, k.role, k.seat, k.token, k.member, max_by(fault, at_ms) AS fault, max(at_ms) AS fault_ms
  FROM k JOIN {struck} f ON f.g = k.g AND f.member = k.member
   AND f.at_ms >= coalesce(k.lead_ms, k.gained_ms, k.first_ms)
   AND f.at_ms <= coalesce(greatest(k.b_late, k.lost_ms), k.last_ms)
  WHERE (k.to_offset IS NULL OR k.ended IN ('claim', 'obituary', 'superseded')
     OR k.ended_why IN ({lapsed}) OR k.said_why IN ({lapsed})
     -- In the NELE mode an owner that was cut off says, when it is back, that another leads. The fault is the reason if the
     -- owner has said nothing of this term since.
     OR k.ended = 'transfer' AND startswith(k.ended_why, '{superseded}') AND k.sign_ms <= f.at_ms + {under_way})
  GROUP BY k.g, k.role, k.seat, k.token, k.member),
 g AS (
  SELECT k.*, f.fault, f.fault_ms,
         -- A death that somebody saw ends a belief; a freeze does not: what is frozen still believes when it thaws.
         CASE WHEN stop_ms IS NULL AND fault = 'crash' THEN least(fault_ms, b_late) END AS death_ms
  FROM k LEFT JOIN f USING (g, role, seat, token, member)),
 h AS (
  SELECT *,
         CASE WHEN to_offset IS NULL AND stop_ms IS NULL AND death_ms IS NULL AND coalesce(b_late >= last_ms, true)
              THEN NULL ELSE coalesce(stop_ms, death_ms, b_late) END AS to_ms
  FROM g)
SELECT g, role, seat, token, member, name, host, from_offset, to_offset, lead_ms AS from_ms, to_ms,
       coalesce(nullif(said_why, ''), nullif(ended_why, ''), ended) AS why, began, {cause} AS cause,
       to_ms IS NULL OR stop_ms IS NOT NULL AS measured, began <=> 'snapshot' AS truncated,
       overlap_ms, session_ms, drift, step_ms, split, rest_ms, ended, ended_by, gained_ms, lost_ms, alive_ms, stop_ms, b_late,
       fault, fault_ms,
       coalesce(fault_ms, stop_ms, CASE WHEN ended_by = member THEN lost_ms END, alive_ms, lost_ms) AS since_ms,
       fault_ms IS NOT NULL OR stop_ms IS NOT NULL OR ended_by <=> member AS since_measured,
       revived, limit_ms, first_ms, last_ms
FROM h
"""

# How a term ended, in one word. What was done to the holder says more than how the group noticed it; after that come the
# kernel's own reasons. A surplus that is handed over to a member that came during the term is that member's joining.
CAUSES: Final = {
    reasons.LEASE_RAN_OUT: "lapse",
    reasons.FENCED: "lapse",
    reasons.BARRIER_TIMED_OUT: "slow barrier",
    reasons.DRAINED: "drain",
    reasons.NOT_READY: "drain",
    reasons.SLOW: "slow leader",
    reasons.BEHIND: "slow leader",
    reasons.STUCK: "slow leader",
    reasons.CLOSED: "leave",
    reasons.LEFT: "leave",
    reasons.PAUSED: "pause",
    reasons.ASKED: "handover",
    reasons.HANDED_OVER: "handover",
    reasons.STEPPED_DOWN: "step down",
    reasons.BARRIER_RAISED: "step down",
    reasons.BARRIER_LATE: "step down",
    reasons.ROLE_REMOVED: "removed",
    reasons.BALANCE: "balance",
    reasons.REVOKED: "balance",
    reasons.LOST: "lapse",
}
"""The audit's word for each of the members'."""
_WORDS: Final = "\n          ".join(
    f"WHEN '{why}' THEN "
    + (
        f"CASE WHEN heir_joined > from_offset THEN 'join' ELSE '{cause}' END"
        if why == reasons.BALANCE
        else f"'{cause}'"
    )
    for why, cause in CAUSES.items()
)
_CAUSE: Final = """
CASE WHEN to_offset IS NULL AND to_ms IS NULL THEN NULL
     WHEN fault IS NOT NULL THEN fault
     WHEN ended = 'obituary' THEN 'crash'
     WHEN ended = 'claim' THEN CASE WHEN coalesce(seen_offset > to_offset, seen_ms > lost_ms) THEN 'freeze' ELSE 'crash' END
     WHEN ended = 'leave' THEN 'leave'
     WHEN ended = 'genesis' THEN 'reset'
     WHEN ended IS NULL AND stop_ms IS NULL THEN 'crash'
     -- In the NELE mode nobody is asked to hand over: the group gives a partition to another, and who had it stops after that.
     WHEN ended = 'transfer' AND startswith(ended_why, '{superseded}') THEN 'balance'
     ELSE CASE coalesce(nullif(ended_why, ''), said_why)
          {words}
          ELSE CASE ended WHEN 'transfer' THEN 'handover' WHEN 'release' THEN 'release' ELSE 'lapse' END END END
""".replace("{words}", _WORDS).replace("{superseded}", reasons.SUPERSEDED)

_BELIEVED: Final = """
SELECT g, role, seat, token, member, cause, since_ms, since_measured, overlap_ms, limit_ms, from_offset, to_offset,
       from_offset IS NOT NULL OR truncated AS given,
       CASE WHEN ended_by <=> member THEN greatest(since_ms, lost_ms) ELSE since_ms END AS free_ms,
       a_late AS a, coalesce(to_ms, last_ms) AS b, a_early, a_late, b_early, coalesce(b_late, last_ms) AS b_late
FROM (SELECT *, coalesce(from_ms, CASE WHEN truncated THEN first_ms END) AS a_late,
             coalesce(from_ms, gained_ms, first_ms) AS a_early,
             CASE WHEN stop_ms IS NOT NULL THEN stop_ms
                  WHEN fault = 'crash' THEN least(fault_ms, b_late)
                  -- What rests on a stamp is known no better than stamps are: they may have gone back.
                  WHEN alive_ms IS NOT NULL THEN least(alive_ms - step_ms, b_late) END AS b_early
      FROM {terms} WHERE role IS NOT NULL)
"""

_WINDOWS: Final = """
WITH o AS (SELECT g, role, seat, at_ms AS a,
                  row_number() OVER (PARTITION BY g, role, seat ORDER BY offset NULLS FIRST) AS n
           FROM {facts} WHERE kind = 'opened'),
     s AS (SELECT g, role, seat, at_ms AS b, row_number() OVER (PARTITION BY g, role, seat ORDER BY offset) AS n
           FROM {facts} WHERE kind = 'shut')
SELECT o.g, o.role, o.seat, coalesce(o.a, w.first_ms) AS a, coalesce(s.b, w.last_ms) AS b
FROM o JOIN {groups} w ON w.g = o.g LEFT JOIN s ON s.g = o.g AND s.role = o.role AND s.seat = o.seat AND s.n = o.n
"""

SEGMENTS: Final = """
WITH e AS (SELECT g, role, seat, x.ts, x.d, 0 AS w, 0 AS touch FROM {intervals}
           LATERAL VIEW inline(array(struct(a AS ts, 1 AS d), struct(b AS ts, -1 AS d))) x AS ts, d WHERE b > a
           UNION ALL
           -- A belief of less than a millisecond: the seat was led there, and what lies around it are two gaps.
           SELECT g, role, seat, a, 0, 0, 1 FROM {intervals} WHERE b = a
           UNION ALL
           SELECT g, role, seat, x.ts, 0 AS d, x.w, 0 FROM {windows}
           LATERAL VIEW inline(array(struct(a AS ts, 1 AS w), struct(b AS ts, -1 AS w))) x AS ts, w WHERE b > a),
 net AS (SELECT g, role, seat, ts, sum(d) AS d, sum(w) AS w, max(touch) AS touch FROM e GROUP BY g, role, seat, ts),
 runs AS (SELECT g, role, seat, ts, touch, sum(d) OVER earlier AS depth, sum(w) OVER earlier AS inside,
                 lead(ts) OVER (PARTITION BY g, role, seat ORDER BY ts) AS b
          FROM net WINDOW earlier AS (PARTITION BY g, role, seat ORDER BY ts ROWS UNBOUNDED PRECEDING)),
 kinds AS (SELECT g, role, seat, ts AS a, b, touch, CASE WHEN depth > 1 THEN 'double' ELSE 'none' END AS what
           FROM runs WHERE b IS NOT NULL AND (depth > 1 OR depth = 0 AND inside > 0)),
 -- Neighbours of one kind (depth 2, then 3, then 2) are one stretch.
 cuts AS (SELECT *, CASE WHEN lag(b) OVER s <=> a AND (touch = 0 OR what = 'double') THEN 0 ELSE 1 END AS cut
          FROM kinds WINDOW s AS (PARTITION BY g, role, seat, what ORDER BY a)),
 whole AS (SELECT *, sum(cut) OVER (PARTITION BY g, role, seat, what ORDER BY a ROWS UNBOUNDED PRECEDING) AS n FROM cuts)
SELECT g, role, seat, what, min(a) AS a, max(b) AS b FROM whole GROUP BY g, role, seat, what, n
"""

PAIRS: Final = """
WITH i AS (SELECT * FROM {intervals} WHERE b_late > a_early),
 m AS (SELECT *, max(b_late) OVER (PARTITION BY g, role, seat ORDER BY a_early, token, member
                                   ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS reach FROM i),
 c AS (SELECT *, sum(CASE WHEN reach IS NULL OR a_early >= reach THEN 1 ELSE 0 END)
                   OVER (PARTITION BY g, role, seat ORDER BY a_early, token, member ROWS UNBOUNDED PRECEDING) AS cluster
                   FROM m),
 k AS (SELECT *, count(*) OVER (PARTITION BY g, role, seat, cluster) AS size FROM c),
 p AS (SELECT x.g, x.role, x.seat, x.token AS token_a, y.token AS token_b, x.member AS member_a, y.member AS member_b,
              greatest(x.a_early, y.a_early) AS from_ms, least(x.b_late, y.b_late) AS to_ms,
              -- Not known means not sure; greatest and least would pass over it.
              CASE WHEN x.a_late IS NOT NULL AND y.a_late IS NOT NULL AND x.b_early IS NOT NULL AND y.b_early IS NOT NULL
                   THEN least(x.b_early, y.b_early) - greatest(x.a_late, y.a_late) END AS sure_ms, x.overlap_ms,
              array(x.from_offset, y.from_offset) AS offsets
       FROM k x JOIN k y ON x.g = y.g AND x.role = y.role AND x.seat = y.seat AND x.cluster = y.cluster
        AND x.size > 1 AND y.size > 1 AND (x.token < y.token OR x.token = y.token AND x.member < y.member)
        AND x.member <> y.member
        AND x.a_early < y.b_late AND y.a_early < x.b_late)
SELECT g, role, seat, token_a, token_b, from_ms, to_ms, offsets,
       coalesce(sure_ms > 2 * {error} + {resolution}, false) AS certain, member_a, member_b,
       coalesce(overlap_ms > 0 AND sure_ms <= overlap_ms + {slack} + 2 * {error}, false) AS expected
FROM p
"""

# The leader that came next. A holder that never believed has not led, and is passed over; a belief in a term that the
# log gave to nobody, or to another, is no succession. `free_ms`: from when on nobody but the group kept the seat from being
# led.
_TAKEOVERS: Final = """
WITH t AS (SELECT *, row_number() OVER (PARTITION BY g, role, seat ORDER BY token) AS place FROM {believed} WHERE given),
 l AS (SELECT *, lag(struct(member, cause, since_ms, since_measured, limit_ms, free_ms, token, to_offset, place))
             OVER (PARTITION BY g, role, seat ORDER BY token) AS before FROM t WHERE a IS NOT NULL)
SELECT g, role, seat, before.member AS from_member, member AS to_member, coalesce(before.cause, 'unknown') AS cause,
       greatest(a - before.since_ms, 0) AS ms, token, a AS at_ms, before.since_measured AS measured,
       before.limit_ms, greatest(a - before.free_ms - before.limit_ms, 0) AS late_ms, before.free_ms, before.token AS
       from_token,
       from_offset, before.to_offset, place - before.place - 1 AS passed
FROM l WHERE before IS NOT NULL
"""

_GAPS: Final = """
WITH n AS (SELECT g, role, seat, a AS at_ms, max_by(struct(token, member, from_offset), token) AS next
           FROM {believed} WHERE a IS NOT NULL AND given GROUP BY g, role, seat, a),
 p AS (SELECT g, role, seat, b AS at_ms, max_by(cause, token) AS cause, max(free_ms) FILTER (WHERE given) AS free_ms,
              max_by(struct(token, member, to_offset), token) FILTER (WHERE given) AS prior
       FROM {believed} WHERE a IS NOT NULL GROUP BY g, role, seat, b)
SELECT s.g, s.role, s.seat, s.a AS from_ms, s.b AS to_ms, coalesce(p.cause, 'start') AS cause,
       p.prior.token AS token_a, n.next.token AS token_b, p.prior.member AS member_a, n.next.member AS member_b,
       p.prior.to_offset AS lost_at, n.next.from_offset AS gained_at, greatest(s.a, p.free_ms) AS free_ms
FROM {segments} s
LEFT JOIN p ON p.g = s.g AND p.role = s.role AND p.seat = s.seat AND p.at_ms = s.a
LEFT JOIN n ON n.g = s.g AND n.role = s.role AND n.seat = s.seat AND n.at_ms = s.b
WHERE s.what = 'none'
"""

_MOVES: Final = """
SELECT g, offset, at_ms, role, seat, lag(member) OVER (PARTITION BY g, role, seat ORDER BY offset) AS from_member,
       member AS to_member, token, cause, why
FROM {facts} WHERE kind = 'gained'
"""

_BALANCE: Final = """
WITH e AS (SELECT g, member, x.ts, x.d FROM {believed}
           LATERAL VIEW inline(array(struct(a AS ts, 1 AS d), struct(b AS ts, -1 AS d))) x AS ts, d WHERE b > a),
 net AS (SELECT g, member, ts, sum(d) AS d FROM e GROUP BY g, member, ts),
 depth AS (SELECT g, member, sum(d) OVER (PARTITION BY g, member ORDER BY ts ROWS UNBOUNDED PRECEDING) AS depth FROM net),
 most AS (SELECT g, member, max(depth) AS most_seats FROM depth GROUP BY g, member),
 led AS (SELECT g, member, count(*) AS terms, sum(greatest(b - a, 0)) AS led_ms FROM {believed} WHERE a IS NOT NULL
         GROUP BY g, member)
SELECT m.g, m.member, m.name, m.host, m.joined_ms AS from_ms, m.gone_ms AS to_ms, coalesce(l.terms, 0) AS terms,
       coalesce(l.led_ms, 0) AS led_ms, coalesce(x.most_seats, 0) AS most_seats,
       coalesce(l.led_ms / nullif(sum(l.led_ms) OVER (PARTITION BY m.g), 0), 0.0D) AS share, m.administrator
FROM {members} m LEFT JOIN led l ON l.g = m.g AND l.member = m.member
LEFT JOIN most x ON x.g = m.g AND x.member = m.member
"""


def groups(facts: DataFrame) -> DataFrame:
    """One row a group; see `GROUPS`."""
    return facts.sparkSession.sql(GROUPS, facts=facts)


def members(facts: DataFrame) -> DataFrame:
    """One row a member: what its join said, when it came and went, its last sign of life."""
    return facts.sparkSession.sql(_MEMBERS, facts=facts)


def terms(facts: DataFrame, groups: DataFrame, members: DataFrame, faults: DataFrame) -> DataFrame:
    """One row a term, with what is known and what bounds the rest; `faults` is (at_ms, member, fault)."""
    lapsed = f"'{reasons.FENCED}', '{reasons.LEASE_RAN_OUT}', '{reasons.LOST}'"
    query = _TERMS.replace("{cause}", _CAUSE).replace("{lapsed}", lapsed).replace("{superseded}", reasons.SUPERSEDED)
    spark = facts.sparkSession
    return spark.sql(
        query.replace("{under_way}", str(UNDER_WAY_MS)),
        facts=facts,
        groups=groups,
        members=members,
        struck=spark.sql(_STRUCK, faults=faults, members=members),
    )


def believed(terms: DataFrame) -> DataFrame:
    """The terms as intervals of belief: (a, b) as best known, and (a_early, a_late, b_early, b_late) as bounds.

    `a` is NULL for a holder that never told of a belief: it has perhaps not led.
    """
    return terms.sparkSession.sql(_BELIEVED, terms=terms)


def windows(facts: DataFrame, groups: DataFrame) -> DataFrame:
    """From when to when each seat was there to be held: (g, role, seat, a, b)."""
    return facts.sparkSession.sql(_WINDOWS, facts=facts, groups=groups)


def segments(intervals: DataFrame, windows: DataFrame) -> DataFrame:
    """Stretches (g, role, seat, what, a, b) with nobody (`none`, inside the windows) or several (`double`).

    `intervals` has (g, role, seat, a, b); those of which an end is NULL take no part. One that is empty (a = b) fills nothing,
    and divides the stretch without anybody in which it lies.
    """
    return intervals.sparkSession.sql(SEGMENTS, intervals=intervals, windows=windows)


def pairs(intervals: DataFrame, clock_error_ms: int = 0, slack_ms: int = 0) -> DataFrame:
    """Terms that overlap, by the bounds of `believed`. Two terms of one member are no two leaders.

    `expected`: the group is non-exclusive, and what is sure of the overlap is no longer than the earlier holder's
    `overlap_ms` plus `slack_ms` (milliseconds).
    """
    return intervals.sparkSession.sql(
        PAIRS, intervals=intervals, error=clock_error_ms, slack=slack_ms, resolution=RESOLUTION_MS
    )


def takeovers(believed: DataFrame) -> DataFrame:
    """From the end of one belief, or the death of who had it, to the next belief, in milliseconds.

    If the end is unknown (`measured` false) the last sign of life stands for it, so that `ms` is an upper bound.
    """
    return believed.sparkSession.sql(_TAKEOVERS, believed=believed)


def gaps(segments: DataFrame, believed: DataFrame) -> DataFrame:
    """Stretches in which nobody believed, with how the belief before ended; `start`: there was none before."""
    return believed.sparkSession.sql(_GAPS, segments=segments, believed=believed)


def moves(facts: DataFrame) -> DataFrame:
    """Every change of a holder as the log decided it, in its order."""
    return facts.sparkSession.sql(_MOVES, facts=facts)


def balance(members: DataFrame, believed: DataFrame) -> DataFrame:
    """How much each member led: terms, time, most seats at once, share of all time led."""
    return members.sparkSession.sql(_BALANCE, members=members, believed=believed)
