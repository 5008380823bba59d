-- A token lower than one that the sink had already taken for that seat. A token that nobody was given makes no other stale.
SELECT role, seat_of AS seat, token, seen, coalesce(member, holder) AS member, key, seq, at_ms, position, 1 AS count
FROM (SELECT *, coalesce(seat, held, 0) AS seat_of,
             max(CASE WHEN NOT unknown THEN token END) OVER (PARTITION BY role, coalesce(seat, held, 0) ORDER BY ord
                                 ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS seen FROM {seated})
WHERE token < seen
