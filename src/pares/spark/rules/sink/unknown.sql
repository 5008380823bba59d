-- A token that the log never gave out.
SELECT role, seat, token, CAST(NULL AS BIGINT) AS seen, member, key, seq, at_ms, position, 1 AS count FROM {seated} WHERE unknown
