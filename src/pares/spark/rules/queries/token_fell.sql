-- R9: the tokens of a seat only grow. In ALLCALL a member that has not heard of a term may begin one below it.
SELECT t.g, CASE WHEN w.split THEN 'possible' ELSE 'certain' END AS verdict, role, seat, before AS token_a, token AS token_b,
       before_member AS member_a, member AS member_b, before_ms AS from_ms, at_ms AS to_ms, array(before_offset, offset) AS offsets,
       concat('token ', token, ' at ', offset, ' came after token ', before, ' at ', before_offset) AS evidence
FROM (SELECT g, role, seat, token, to_member AS member, at_ms, offset,
             lag(token) OVER s AS before, lag(to_member) OVER s AS before_member, lag(at_ms) OVER s AS before_ms,
             lag(offset) OVER s AS before_offset
      FROM {moves} WINDOW s AS (PARTITION BY g, role, seat ORDER BY offset)) t
JOIN {groups} w ON w.g = t.g
WHERE token <= before
