-- A row without a role, a token or a time that can be read.
SELECT role, seat, token, CAST(NULL AS BIGINT) AS seen, member, key, seq, at_ms, position, 1 AS count
FROM {seated} WHERE role IS NULL OR token IS NULL OR at_ms IS NULL
