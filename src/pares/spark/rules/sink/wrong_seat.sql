-- Written for another seat than its token's.
SELECT role, seat, token, CAST(NULL AS BIGINT) AS seen, coalesce(member, holder) AS member, key, seq, at_ms, position, 1 AS count
FROM {seated} WHERE seat IS NOT NULL AND held IS NOT NULL AND seat <> held
