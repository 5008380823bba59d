-- Written after its term can have been believed in.
SELECT role, held AS seat, token, CAST(NULL AS BIGINT) AS seen, coalesce(member, holder) AS member, key, seq, at_ms, position, 1 AS count
FROM {seated} WHERE at_ms > b_late + 2 * {error} + {resolution}
