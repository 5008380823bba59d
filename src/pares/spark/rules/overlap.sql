-- R3, R4: at no instant do two members believe that they hold one seat.
SELECT g, CASE WHEN certain THEN 'certain' ELSE 'possible' END AS verdict, role, seat, token_a, token_b, member_a, member_b,
       from_ms, to_ms, offsets,
       concat(member_a, ' and ', member_b, ' may both have believed for ', to_ms - from_ms, ' ms') AS evidence
FROM {overlaps} WHERE NOT expected
