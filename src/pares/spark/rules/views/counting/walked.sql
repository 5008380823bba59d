-- What counts of those who are not steady: their records in the order of their places, each with a number above all that counted before.
-- Of beats those alone that are asked for by name, or with which a member begins. What is sorted is as narrow as can be; the rest is
-- looked up.
WITH placed AS (
  SELECT /*+ {placed} */ k.g, k.joined, r.offset, r.n, r.cause = 'beat' AS beat
  FROM {records} r JOIN {known} k ON k.g = r.g AND k.member = r.member AND k.base = r.base AND r.offset BETWEEN k.since AND k.until
  WHERE NOT k.steady),
 own AS (
  SELECT *, max(n) OVER (PARTITION BY joined, g ORDER BY offset ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM placed),
 counts AS (
  SELECT joined, g, offset, beat, before, lead(offset) OVER (PARTITION BY joined, g ORDER BY offset) AS next FROM own WHERE before IS NULL OR n > before),
 wanted AS (
  SELECT k.g, k.member, k.base AS in_force, c.offset, CASE WHEN n.claimed THEN c.next END AS next
  FROM counts c JOIN (SELECT DISTINCT g, member, base, joined FROM {known}) k ON k.joined = c.joined AND k.g = c.g
  LEFT JOIN {named} n ON n.g = c.g AND n.offset = c.offset
  WHERE NOT c.beat OR c.before IS NULL OR n.offset IS NOT NULL)
SELECT /*+ {wanted} */ r.g, r.offset, r.at_ms, r.member, r.n, r.cause, r.role, r.seat, r.token, r.other, r.ref, r.why, w.in_force, w.next
FROM {records} r JOIN wanted w ON w.g = r.g AND w.offset = r.offset AND w.member = r.member AND w.in_force = r.base
