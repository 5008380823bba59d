-- R4 (c): a term once given up is never believed in again.
SELECT g, 'certain' AS verdict, role, seat, token AS token_a, CAST(NULL AS BIGINT) AS token_b, member AS member_a,
       CAST(NULL AS STRING) AS member_b, from_ms, coalesce(to_ms, alive_ms) AS to_ms, array(from_offset) AS offsets,
       concat(member, ' says that it led by token ', token, ' again, after it had said that it no longer did') AS evidence
FROM {terms} WHERE revived
