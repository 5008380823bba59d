-- Numbers that are not there: `count` of them after `seq`.
WITH s AS (SELECT role, key, seq, min(at_ms) AS at_ms FROM {seated} WHERE seq IS NOT NULL GROUP BY role, key, seq),
     n AS (SELECT *, lead(seq) OVER (PARTITION BY role, key ORDER BY seq) AS next FROM s)
SELECT role, CAST(NULL AS INT) AS seat, CAST(NULL AS BIGINT) AS token, CAST(NULL AS BIGINT) AS seen, CAST(NULL AS STRING) AS member,
       key, seq, at_ms, CAST(NULL AS BIGINT) AS position, next - seq - 1 AS count
FROM n WHERE next > seq + 1
