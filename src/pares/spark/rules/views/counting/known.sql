-- From where to where the records of a member count (R2), worked out from the records themselves: it has joined and is not gone, and
-- the base that it names is in force. Of the fold nothing is taken but which genesis began a world and which members it declared dead;
-- of a log without its beginning there is no such opinion. `steady`: within these bounds each of its records counts, the join first,
-- as its numbers only rise.
WITH bases AS (
  SELECT g, offset AS low, token AS base, coalesce(lead(offset) OVER (PARTITION BY g ORDER BY offset), 9223372036854775807) - 1 AS high
  FROM {words} WHERE cause = 'genesis' AND counted),
 came AS (SELECT g, member, base, min(offset) AS joined FROM {words} WHERE cause = 'join' GROUP BY g, member, base),
 ends AS (
  SELECT g, member, base, offset FROM {words} WHERE cause = 'leave'
  UNION ALL
  SELECT d.g, d.other, b.base, d.offset FROM {words} d JOIN bases b ON b.g = d.g AND d.offset BETWEEN b.low AND b.high
  WHERE d.cause IN ('obituary', 'forget') AND d.counted),
 -- Of a member that has not joined yet neither means anything.
 went AS (
  SELECT c.g, c.member, c.base, min(e.offset) AS gone FROM came c
  JOIN ends e ON e.g = c.g AND e.member = c.member AND e.base = c.base AND e.offset > c.joined GROUP BY c.g, c.member, c.base),
 bounds AS (
  SELECT c.g, c.member, c.base, c.joined, greatest(c.joined, b.low) AS since, least(b.high, w.gone) AS until,
         count(*) OVER (PARTITION BY c.g, c.member, c.base) AS times
  FROM came c JOIN bases b ON b.g = c.g AND b.base = c.base LEFT JOIN went w ON w.g = c.g AND w.member = c.member AND w.base = c.base)
SELECT k.g, k.member, k.base, k.joined, k.since, k.until, s.many, s.rising AND k.times = 1 AND k.since = k.joined AS steady
FROM bounds k JOIN {series} s ON s.g = k.g AND s.member = k.member AND s.base = k.base WHERE k.since <= k.until
