-- R3, R3a, R5, R6, R7, R9: what the fold made of claims and tokens, against the records themselves.
-- Of what stands before the first record that counts there is no opinion: the log's beginning is gone.
WITH begun AS (SELECT g, min(offset) AS low FROM {counting} GROUP BY g),
 gained AS (
  SELECT /*+ BROADCAST(b) */ f.g, f.offset, f.at_ms, f.role, f.seat, f.token, f.member, f.cause FROM {facts} f
  JOIN begun b ON b.g = f.g AND f.offset >= b.low
  WHERE f.kind = 'gained' AND f.cause IN ('claim', 'transfer')),
 lost AS (
  SELECT /*+ BROADCAST(b) */ f.g, f.offset, f.at_ms, f.role, f.seat, f.token, f.member, f.cause FROM {facts} f
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
 -- Of each term: where the fold ends it (`until`), and the first record that does so by its name. The frame goes backwards, as
 -- one of what follows is gone through anew for each row.
 seats AS (
  SELECT g, role, seat, token, member, at_ms, offset, 'gained' AS what, cause FROM gained
  UNION ALL SELECT g, role, seat, token, member, at_ms, offset, 'lost', cause FROM lost
  UNION ALL SELECT g, role, seat, token, member, at_ms, offset, 'ends', cause FROM {counting} WHERE cause IN ('release', 'transfer')),
 held AS (
  SELECT *, min(CASE WHEN what = 'lost' THEN offset END) OVER (PARTITION BY g, role, seat, token) AS until,
         min(CASE WHEN what = 'ends' THEN struct(offset, at_ms, cause) END)
           OVER (PARTITION BY g, role, seat, token, member ORDER BY offset DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
           AS ends
  FROM seats),
 -- A leave and an obituary end all that their member holds. [all ends looked up by the holder: each term of a member met the ends
 -- of all its other terms]
 gone AS (
  SELECT g, member, array_sort(collect_list(place)) AS places
  FROM (SELECT g, member, struct(offset, at_ms, cause) AS place FROM {counting} WHERE cause = 'leave'
        UNION ALL SELECT g, other, struct(offset, at_ms, cause) FROM {counting} WHERE cause = 'obituary')
  GROUP BY g, member),
 ended_by AS (
  SELECT /*+ {few_gone} */ h.*, least(h.ends, get(filter(o.places, place -> place.offset > h.offset), 0)) AS first_end
  FROM held h LEFT JOIN gone o ON o.g = h.g AND o.member = h.member WHERE h.what = 'gained'),
 kept AS (
  SELECT g, role, seat, token AS token_a, member AS member_a, CAST(NULL AS STRING) AS member_b, first_end.at_ms, first_end.offset,
         concat('its ', first_end.cause, ' should have ended its term') AS wrong
  FROM ended_by WHERE until IS NULL OR until > first_end.offset)
SELECT g, 'certain' AS verdict, role, seat, token_a, CAST(NULL AS BIGINT) AS token_b, member_a, member_b, at_ms AS from_ms,
       at_ms AS to_ms, array(offset) AS offsets, concat('at ', offset, ': ', wrong) AS evidence
FROM (SELECT * FROM claims UNION ALL SELECT * FROM moved UNION ALL SELECT * FROM tokens UNION ALL SELECT * FROM ended
      UNION ALL SELECT * FROM kept)
WHERE wrong IS NOT NULL
