-- H1: only its holder makes or prolongs a claim of ALLCALL; others pass on what they heard. On one bus a holder's word stands before
-- whatever is said of it. Of a claim whose holder's words are lost with the log's beginning nothing is known.
WITH s AS (
  SELECT g, role, seat, token, member, other, at_ms, offset, cause, ref,
         max(CASE WHEN cause IN ('claim', 'release') THEN ref END)
           OVER (PARTITION BY g, role, token, other ORDER BY offset ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS said
  FROM {words} WHERE cause IN ('claim', 'release', 'relay'))
SELECT s.g, 'certain' AS verdict, role, seat, token AS token_a, CAST(NULL AS BIGINT) AS token_b, other AS member_a, member AS member_b,
       at_ms AS from_ms, at_ms AS to_ms, array(offset) AS offsets,
       concat(member, ' says claim ', ref, ' of ', other, ' at ', offset, ', which had said ', coalesce(said, 0), ' of this term')
         AS evidence
FROM s JOIN {groups} w ON w.g = s.g
WHERE w.split AND cause = 'relay' AND CASE WHEN w.first_offset = 0 THEN ref > coalesce(said, 0) ELSE ref > said END
