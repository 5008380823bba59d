-- R3, R3a, R5, R6, R7, R9: what the fold made of claims and tokens, against the records themselves.
-- Of what stands before the first record that counts there is no opinion: the log's beginning is gone.
WITH begun AS (SELECT g, min(offset) AS low FROM {counting} GROUP BY g),
 gained AS (
  SELECT f.g, f.offset, f.at_ms, f.role, f.seat, f.token, f.member, f.cause FROM {facts} f
  JOIN begun b ON b.g = f.g AND f.offset >= b.low
  WHERE f.kind = 'gained' AND f.cause IN ('claim', 'transfer')),
 lost AS (
  SELECT f.g, f.offset, f.at_ms, f.role, f.seat, f.token, f.member, f.cause FROM {facts} f
  JOIN begun b ON b.g = f.g AND f.offset >= b.low WHERE f.kind = 'lost'),
 -- A claim stands if what it supersedes is still so at its place.
 claims AS (
  SELECT k.g, k.role, k.seat, k.token AS token_a, k.member AS member_a, l.member AS member_b, k.at_ms, k.offset,
         CASE WHEN c.offset IS NULL THEN 'no claim of its new holder that counts stands there'
              WHEN l.member IS NULL AND c.other IS NOT NULL THEN 'the claim names a holder of a free seat'
              WHEN l.member IS NOT NULL AND NOT (c.other <=> l.member) THEN 'the claim does not name the holder'
              WHEN l.member IS NOT NULL AND s.offset IS NULL THEN 'the record that the claim names is none of the holder that counts'
              WHEN l.member IS NOT NULL AND s.next < k.offset THEN 'the holder has written since' END AS wrong
  FROM gained k
  LEFT JOIN lost l ON l.g = k.g AND l.role = k.role AND l.seat = k.seat AND l.offset = k.offset
  LEFT JOIN {counting} c ON c.g = k.g AND c.offset = k.offset AND c.cause = 'claim' AND c.member = k.member AND c.role = k.role
   AND c.seat = k.seat
  LEFT JOIN {counting} s ON s.g = k.g AND s.member = c.other AND s.offset = c.ref
  WHERE k.cause = 'claim'),
 moved AS (
  SELECT k.g, k.role, k.seat, k.token AS token_a, k.member AS member_a, CAST(NULL AS STRING) AS member_b, k.at_ms, k.offset,
         'no transfer to its new holder that counts stands there' AS wrong
  FROM gained k LEFT ANTI JOIN {counting} c ON c.g = k.g AND c.offset = k.offset AND c.cause = 'transfer' AND c.other = k.member
   AND c.role = k.role AND c.seat = k.seat
  WHERE k.cause = 'transfer'),
 tokens AS (
  SELECT k.g, k.role, k.seat, k.token AS token_a, k.member AS member_a, CAST(NULL AS STRING) AS member_b, k.at_ms, k.offset,
         concat('its token should be ', c.in_force + k.offset) AS wrong
  FROM gained k JOIN {counting} c ON c.g = k.g AND c.offset = k.offset WHERE k.token <> c.in_force + k.offset),
 ended AS (
  SELECT l.g, l.role, l.seat, l.token AS token_a, l.member AS member_a, CAST(NULL AS STRING) AS member_b, l.at_ms, l.offset,
         concat('no ', l.cause, ' that could end its term stands there') AS wrong
  FROM lost l LEFT ANTI JOIN {counting} c ON c.g = l.g AND c.offset = l.offset AND c.cause = l.cause AND CASE
     WHEN l.cause IN ('release', 'transfer') THEN c.member = l.member AND c.role = l.role AND c.seat = l.seat AND c.token = l.token
     WHEN l.cause = 'claim' THEN c.other = l.member AND c.role = l.role AND c.seat = l.seat
     WHEN l.cause = 'obituary' THEN c.other = l.member
     WHEN l.cause = 'leave' THEN c.member = l.member END
  WHERE l.cause <> 'genesis'),
 held AS (
  SELECT k.g, k.role, k.seat, k.token, k.member, k.at_ms, k.offset, min(l.offset) AS until
  FROM gained k LEFT JOIN lost l ON l.g = k.g AND l.role = k.role AND l.seat = k.seat AND l.token = k.token
  GROUP BY k.g, k.role, k.seat, k.token, k.member, k.at_ms, k.offset),
 kept AS (
  SELECT h.g, h.role, h.seat, h.token AS token_a, h.member AS member_a, CAST(NULL AS STRING) AS member_b, min(c.at_ms) AS at_ms,
         min(c.offset) AS offset, concat('its ', min_by(c.cause, c.offset), ' should have ended its term') AS wrong
  FROM held h JOIN (
     SELECT g, member AS holder, cause, offset, at_ms, role, seat, token FROM {counting} WHERE cause IN ('release', 'transfer', 'leave')
     UNION ALL SELECT g, other, cause, offset, at_ms, role, seat, token FROM {counting} WHERE cause = 'obituary') c
   ON c.g = h.g AND c.holder = h.member AND c.offset > h.offset AND (h.until IS NULL OR h.until > c.offset)
   AND (c.cause IN ('leave', 'obituary') OR c.role = h.role AND c.seat = h.seat AND c.token = h.token)
  GROUP BY h.g, h.role, h.seat, h.token, h.member, h.offset)
SELECT g, 'certain' AS verdict, role, seat, token_a, CAST(NULL AS BIGINT) AS token_b, member_a, member_b, at_ms AS from_ms,
       at_ms AS to_ms, array(offset) AS offsets, concat('at ', offset, ': ', wrong) AS evidence
FROM (SELECT * FROM claims UNION ALL SELECT * FROM moved UNION ALL SELECT * FROM tokens UNION ALL SELECT * FROM ended
      UNION ALL SELECT * FROM kept)
WHERE wrong IS NOT NULL
