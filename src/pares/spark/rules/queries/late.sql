-- Promise 2: a seat without a leader has one within session / (1 - drift), and an append with its read-back, if a member that may lead
-- it lives. Late by more than that is possible: an append can take longer than is allowed here. Late by a session more is certain.
SELECT g, CASE WHEN fit_long > 0 AND NOT induced AND passed = 0 THEN 'certain' ELSE 'possible' END AS verdict, role, seat,
       token_a, token_b, member_a, member_b, from_ms, to_ms, offsets,
       concat(to_ms - from_ms, ' ms without a leader, ', limit_ms, ' ms promised and ', {append}, ' ms allowed for an append; ',
              CASE WHEN induced THEN 'who could lead is not known' ELSE concat(fit, ' others could lead') END) AS evidence
FROM {waits} WHERE (induced OR fit > 0) AND to_ms - from_ms > limit_ms + {append} + 2 * {error}
