-- Of what a claim names: where its run ends (`high`), and where the next one begins (`after`).
SELECT g, member, in_force, offset, n, until, run.high, run.after FROM (
  SELECT *, last(found, true) OVER (PARTITION BY g, member, in_force ORDER BY offset, claimed ROWS UNBOUNDED PRECEDING) AS run FROM (
    SELECT g, member, in_force, offset, n, until, true AS claimed, CAST(NULL AS STRUCT<high: BIGINT, after: BIGINT>) AS found
    FROM {told} WHERE claimed
    UNION ALL
    SELECT g, member, base, low, NULL, NULL, false, struct(high, after) FROM {runs}))
WHERE claimed
