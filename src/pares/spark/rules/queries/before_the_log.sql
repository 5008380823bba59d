-- R4 (a): a belief begins after the record that made the holder is in the log.
SELECT g, CASE WHEN from_ms + 2 * {error} + {resolution} + step_ms < gained_ms THEN 'certain' ELSE 'possible' END AS verdict,
       role, seat, token AS token_a, CAST(NULL AS BIGINT) AS token_b, member AS member_a, CAST(NULL AS STRING) AS member_b,
       from_ms, gained_ms AS to_ms, array(from_offset) AS offsets,
       concat(member, ' says that it led ', gained_ms - from_ms, ' ms before the log gave it the seat') AS evidence
FROM {terms} WHERE from_ms + 2 * {error} + {resolution} < gained_ms
