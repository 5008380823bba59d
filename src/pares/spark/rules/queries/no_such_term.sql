-- R4 (a): nobody believes in a term that the log has not given to it.
SELECT t.g, 'certain' AS verdict, t.role, t.seat, t.token AS token_a, CAST(NULL AS BIGINT) AS token_b, t.member AS member_a,
       CAST(NULL AS STRING) AS member_b, t.from_ms, coalesce(t.to_ms, t.alive_ms) AS to_ms, CAST(array() AS ARRAY<BIGINT>) AS offsets,
       concat(t.member, ' says that it led by token ', t.token, ', which the log did not give to it for this seat') AS evidence
FROM {terms} t JOIN {groups} w ON w.g = t.g
WHERE t.from_offset IS NULL AND t.from_ms IS NOT NULL AND t.token >= w.floor
