-- What counts of those who are steady. Of beats those alone that are asked for by name: nineteen of twenty records are beats.
WITH said AS (
  SELECT r.*, coalesce(n.claimed, false) AS claimed FROM {words} r LEFT JOIN {named} n ON n.g = r.g AND n.offset = r.offset
  UNION ALL
  SELECT /*+ {few_named} */ r.*, n.claimed FROM {records} r JOIN (SELECT * FROM {named} WHERE beat) n ON n.g = r.g AND n.offset = r.offset)
SELECT /*+ {few_known} */ r.g, r.offset, r.at_ms, r.member, r.n, r.cause, r.role, r.seat, r.token, r.other, r.ref, r.why, r.base AS in_force, k.until,
       r.claimed
FROM said r JOIN {known} k ON k.g = r.g AND k.member = r.member AND k.base = r.base AND r.offset BETWEEN k.since AND k.until
WHERE k.steady
