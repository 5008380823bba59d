-- What counts (R2), worked out from the records themselves: the sender has joined and is not gone, its number is above all that
-- counted before, and its base is the one in force. Of the fold nothing is taken but which genesis began a world and which members it
-- declared dead; of a log without its beginning there is no such opinion. Of beats those alone that a claim names, by which a term
-- would have begun, or with which a member begins: nineteen of twenty records are beats, and nobody asks for the others. What is
-- sorted, all records, is as narrow as can be; the rest is looked up.
WITH bases AS (
  SELECT g, offset AS low, token AS base, coalesce(lead(offset) OVER (PARTITION BY g ORDER BY offset), 9223372036854775807) AS high
  FROM {records} WHERE cause = 'genesis' AND counted),
 came AS (SELECT g, member, base, min(offset) AS joined FROM {records} WHERE cause = 'join' GROUP BY g, member, base),
 went AS (SELECT g, member, min(offset) AS gone FROM (
            SELECT r.g, r.member, r.offset FROM {records} r JOIN came c ON c.g = r.g AND c.member = r.member AND c.base = r.base
            WHERE r.cause = 'leave' AND r.offset > c.joined
            UNION ALL
            SELECT g, other, offset FROM {records} WHERE cause IN ('obituary', 'forget') AND counted) GROUP BY g, member),
 placed AS (
  SELECT /*+ {placed} */ c.joined, c.g, r.offset, r.n, r.cause = 'beat' AS beat
  FROM {records} r JOIN bases b ON b.g = r.g AND r.offset >= b.low AND r.offset < b.high AND r.base = b.base
  JOIN came c ON c.g = r.g AND c.member = r.member AND c.base = b.base AND r.offset >= c.joined
  LEFT JOIN went w ON w.g = r.g AND w.member = r.member WHERE w.gone IS NULL OR r.offset <= w.gone OR w.gone < c.joined),
 own AS (
  SELECT *, max(n) OVER (PARTITION BY joined, g ORDER BY offset ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM placed),
 counts AS (
  SELECT joined, g, offset, beat, before, lead(offset) OVER (PARTITION BY joined, g ORDER BY offset) AS next FROM own WHERE before IS NULL OR n > before),
 named AS (SELECT g, ref FROM {records} WHERE cause = 'claim' AND ref IS NOT NULL UNION SELECT g, offset FROM {facts} WHERE kind = 'gained'),
 wanted AS (
  SELECT c.g, c.member, c.base AS in_force, o.offset, o.next
  FROM counts o JOIN came c ON c.joined = o.joined AND c.g = o.g LEFT JOIN named k ON k.g = c.g AND k.ref = o.offset
  WHERE NOT o.beat OR o.before IS NULL OR k.ref IS NOT NULL)
SELECT /*+ {wanted} */ r.g, r.offset, r.at_ms, r.member, r.n, r.cause, r.role, r.seat, r.token, r.other, r.ref, r.why, w.in_force, w.next
FROM {records} r JOIN wanted w ON w.g = r.g AND w.offset = r.offset AND w.member = r.member AND w.in_force = r.base
