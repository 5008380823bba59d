-- R3, R4: at no instant do two members believe that they hold one seat. ALLCALL allows it to those that do not hear each other, and
-- its log does not show who hears whom.
SELECT o.g, CASE WHEN o.certain AND NOT w.split THEN 'certain' ELSE 'possible' END AS verdict, o.role, o.seat, o.token_a, o.token_b,
       o.member_a, o.member_b, o.from_ms, o.to_ms, o.offsets,
       concat(o.member_a, ' and ', o.member_b, ' may both have believed for ', o.to_ms - o.from_ms, ' ms') AS evidence
FROM {overlaps} o JOIN {groups} w ON w.g = o.g WHERE NOT expected
