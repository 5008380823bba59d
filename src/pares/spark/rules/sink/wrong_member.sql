-- Written by another than the holder of its token.
SELECT role, held AS seat, token, CAST(NULL AS BIGINT) AS seen, member, key, seq, at_ms, position, 1 AS count
FROM {seated} WHERE member IS NOT NULL AND holder IS NOT NULL AND member <> holder AND NOT (member <=> holder_name)
