-- Where the numbers of a member's records do not go on one by one: those that counted leave some out (`gap`), or a record, whether it
-- counts or not, has no higher number than all before it (`again`). One pass over the log; a lawful one leaves next to nothing.
SELECT * FROM (
  SELECT g, member, base, n, offset, counted, again, known.n AS before, known.offset AS before_at,
         coalesce(counted, false) AND coalesce(n > known.n + 1, false) AS gap FROM (
    SELECT g, member, base, n, offset, counted, coalesce(coalesce(n, -1) <= max(coalesce(n, -1)) OVER earlier, false) AS again,
           last(CASE WHEN counted THEN struct(n, offset) END, true) OVER earlier AS known
    FROM (SELECT /*+ {sorted} */ g, member, base, n, offset, counted FROM {records})
    WINDOW earlier AS (PARTITION BY g, member, base ORDER BY offset ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)))
WHERE again OR gap
