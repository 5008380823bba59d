-- What counts of those who are steady, with `next`, of what a claim names: the place of the next record of that member that counts.
-- Within a run it is the one with the next number.
WITH followed AS (
  SELECT g, offset, after AS next, until FROM {asked} WHERE offset = high
  UNION ALL
  SELECT /*+ {few_named} */ n.g, n.offset, r.offset, n.until FROM {records} r
  JOIN (SELECT * FROM {asked} WHERE offset < high) n ON n.g = r.g AND n.member = r.member AND n.in_force = r.base AND r.n = n.n + 1)
SELECT t.g, t.offset, t.at_ms, t.member, t.n, t.cause, t.role, t.seat, t.token, t.other, t.ref, t.why, t.in_force, f.next
FROM {told} t LEFT JOIN followed f ON f.g = t.g AND f.offset = t.offset AND f.next <= f.until
