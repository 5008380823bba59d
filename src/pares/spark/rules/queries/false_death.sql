-- R7: only a member that is dead is declared dead. What it says later does not count, and is evidence all the same: a word of what
-- it believed after that is certain, another record may have been on its way.
WITH d AS (SELECT g, other AS dead, member AS author, min(offset) AS offset, min(at_ms) AS at_ms
           FROM {words} WHERE cause = 'obituary' AND counted GROUP BY g, other, member),
 words AS (SELECT /*+ {few_dead} */ r.* FROM {records} r LEFT SEMI JOIN {spoke} p ON p.g = r.g AND p.member = r.member),
 s AS (SELECT d.*, r.offset AS word, coalesce(r.clock_ms, r.at_ms) AS said_ms, r.cause = 'did' AS told
       FROM d JOIN words r ON r.g = d.g AND r.member = d.dead AND r.offset > d.offset
       JOIN {groups} w ON w.g = d.g
       WHERE CASE WHEN r.cause = 'did' THEN r.clock_ms > d.at_ms + 2 * {error} + {resolution} + w.step_ms
                  ELSE r.at_ms > d.at_ms + {append} + w.step_ms END)
SELECT g, CASE WHEN bool_or(told) THEN 'certain' ELSE 'possible' END AS verdict, CAST(NULL AS STRING) AS role, CAST(NULL AS INT) AS seat,
       CAST(NULL AS BIGINT) AS token_a, CAST(NULL AS BIGINT) AS token_b, dead AS member_a, author AS member_b,
       at_ms AS from_ms, max(said_ms) AS to_ms, array(offset, max(word)) AS offsets,
       concat(author, ' declared ', dead, ' dead at ', offset, ', and ', dead, ' wrote ', count(*), ' records after that') AS evidence
FROM s GROUP BY g, dead, author, offset, at_ms
