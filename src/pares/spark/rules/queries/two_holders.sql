-- R3a: the log gives a seat to nobody as long as it has a holder. (ALLCALL's log gives nothing.)
SELECT g, 'certain' AS verdict, role, seat, token AS token_a, next.token AS token_b, member AS member_a, next.member AS member_b,
       gained_ms AS from_ms, next.gained_ms AS to_ms, array(from_offset, next.from_offset) AS offsets,
       concat('the seat was given to ', next.member, ' at ', next.from_offset, ' while ', member, ' held it since ', from_offset)
         AS evidence
FROM (SELECT *, lead(struct(token, member, from_offset, gained_ms)) OVER (PARTITION BY g, role, seat ORDER BY from_offset, token)
               AS next
      FROM {terms} WHERE from_offset IS NOT NULL AND NOT split)
WHERE next.from_offset < coalesce(to_offset, next.from_offset + 1)
