-- There more than once: same role, key and number. `count`: how many too many.
SELECT role, min(held) AS seat, min(token) AS token, max(token) AS seen, CAST(NULL AS STRING) AS member, key, seq,
       min(at_ms) AS at_ms, max(position) AS position, count(*) - 1 AS count
FROM {seated} WHERE seq IS NOT NULL OR key IS NOT NULL GROUP BY role, key, seq HAVING count(*) > 1
