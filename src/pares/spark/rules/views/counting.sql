-- What counts (R2), worked out from the records themselves: the sender has joined and is not gone, its number is above all that
-- counted before, and its base is the one in force. Of the fold nothing is taken but which genesis began a world and which members it
-- declared dead; of a log without its beginning there is no such opinion.
WITH bases AS (
  SELECT g, offset AS low, token AS base, coalesce(lead(offset) OVER (PARTITION BY g ORDER BY offset), 9223372036854775807) AS high
  FROM {records} WHERE cause = 'genesis' AND counted),
 came AS (SELECT g, member, base, min(offset) AS joined FROM {records} WHERE cause = 'join' GROUP BY g, member, base),
 went AS (SELECT g, member, min(offset) AS gone FROM (
            SELECT r.g, r.member, r.offset FROM {records} r JOIN came c ON c.g = r.g AND c.member = r.member AND c.base = r.base
            WHERE r.cause = 'leave' AND r.offset > c.joined
            UNION ALL
            SELECT g, other, offset FROM {records} WHERE cause IN ('obituary', 'forget') AND counted) GROUP BY g, member),
 own AS (
  SELECT r.*, b.base AS in_force,
         max(r.n) OVER (PARTITION BY r.g, r.member, b.base ORDER BY r.offset ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
  FROM {records} r JOIN bases b ON b.g = r.g AND r.offset >= b.low AND r.offset < b.high AND r.base = b.base
  JOIN came c ON c.g = r.g AND c.member = r.member AND c.base = b.base AND r.offset >= c.joined
  LEFT JOIN went w ON w.g = r.g AND w.member = r.member WHERE w.gone IS NULL OR r.offset <= w.gone OR w.gone < c.joined)
SELECT g, offset, at_ms, member, n, cause, role, seat, token, other, ref, why, in_force,
       lead(offset) OVER (PARTITION BY g, member, in_force ORDER BY offset) AS next
FROM own WHERE before IS NULL OR n > before
