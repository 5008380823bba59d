-- R10: all readers of one prefix have the same world.
SELECT g, 'certain' AS verdict, CAST(NULL AS STRING) AS role, CAST(NULL AS INT) AS seat, CAST(NULL AS BIGINT) AS token_a,
       CAST(NULL AS BIGINT) AS token_b, other AS member_a, CAST(NULL AS STRING) AS member_b, CAST(NULL AS BIGINT) AS from_ms,
       CAST(NULL AS BIGINT) AS to_ms, array(offset) AS offsets,
       concat('the snapshot of ', other, ' at ', offset, ' is unlike what its place in the log decides') AS evidence
FROM {facts} WHERE kind = 'defect'
