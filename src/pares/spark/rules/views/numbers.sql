-- Where the numbers of a member's records do not go on one by one: those that counted leave some out (`gap`), or a record, whether it
-- counts or not, has no higher number than all before it (`again`). Only series are walked through that are not even: those of a lawful
-- log are.
SELECT * FROM (
  SELECT g, member, base, n, offset, counted, again, known.n AS before, known.offset AS before_at,
         coalesce(counted, false) AND coalesce(n > known.n + 1, false) AS gap FROM (
    SELECT g, member, base, n, offset, counted, coalesce(coalesce(n, -1) <= max(coalesce(n, -1)) OVER earlier, false) AS again,
           last(CASE WHEN counted THEN struct(n, offset) END, true) OVER earlier AS known
    FROM (SELECT /*+ {sorted} */ r.g, r.member, r.base, r.n, r.offset, r.counted FROM {records} r
          LEFT SEMI JOIN (SELECT * FROM {series} WHERE NOT even) s ON s.g <=> r.g AND s.member <=> r.member AND s.base <=> r.base)
    WINDOW earlier AS (PARTITION BY g, member, base ORDER BY offset ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)))
WHERE again OR gap
